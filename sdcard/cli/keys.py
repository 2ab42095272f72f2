"""``sdcard keys``: private keys in files, and the registry's own."""

from pathlib import Path
from typing import Annotated

import typer

from sdcard.cli import completion, key_ring
from sdcard.cli.output import AsJson, print_json, print_lines
from sdcard.errors import Misuse
from sdcard.jose.algorithms import SignatureAlgorithm

app = typer.Typer(no_args_is_help=True)
for name, command in (
    ("list", key_ring.list_keys),
    ("published", key_ring.published),
    ("add", key_ring.add),
    ("import", key_ring.import_),
    ("rotate", key_ring.rotate),
    ("reseal", key_ring.reseal),
):
    app.command(name)(command)
# One thumbprint in 64 begins with `-`, and is no option; without short options it is read as what it is.
_KID_FIRST = {"ignore_unknown_options": True, "help_option_names": ["--help"]}
app.command("remove", context_settings=_KID_FIRST)(key_ring.remove)


@app.callback()
def group() -> None:
    """Make keys in files; list, add, rotate and remove the registry's own."""


@app.command("new")
def new(
    file: Annotated[Path, typer.Argument(help="Where to write the private JWK; it must not exist.")],
    algorithm: Annotated[
        str, typer.Option(autocompletion=completion.algorithms, help=f"One of {', '.join(SignatureAlgorithm)}.")
    ] = "ES256",
    as_json: AsJson = False,
) -> None:
    """Make a private key in a file that only you can read. Example: sdcard keys new agent.jwk"""
    from sdcard.edge.key_files import create_key_file

    if algorithm not in SignatureAlgorithm._value2member_map_:
        raise Misuse(f"--algorithm is one of {', '.join(SignatureAlgorithm)}")
    key = create_key_file(file, SignatureAlgorithm(algorithm)).public_key
    if as_json:
        print_json({"file": str(file), "thumbprint": key.thumbprint, "public_key": key.to_jwk()})
    else:
        print_lines(f"{file}: {algorithm}, thumbprint {key.thumbprint}")


@app.command("public")
def public(files: Annotated[list[Path], typer.Argument(help="Files with private JWKs.")]) -> None:
    """Print the public halves as a JWKS. Example: sdcard keys public issuer.jwk next.jwk > issuer.jwks"""
    from sdcard.edge.key_files import load_signer, public_jwks

    print_json(public_jwks(*(load_signer(file).public_key for file in files)))
