"""``sdcard keys``: private keys in files."""

from pathlib import Path
from typing import Annotated

import typer

from sdcard.cli.output import AsJson, print_json, print_lines
from sdcard.errors import Misuse
from sdcard.jose.algorithms import SignatureAlgorithm

HELP = "Make keys."
app = typer.Typer(no_args_is_help=True)


@app.callback()
def group() -> None:
    """Make keys."""


@app.command("new")
def new(
    file: Annotated[Path, typer.Argument(help="Where to write the private JWK; it must not exist.")],
    algorithm: Annotated[str, typer.Option(help="ES256 or EdDSA.")] = "ES256",
    as_json: AsJson = False,
) -> None:
    """Make a private key in a file that only you can read. Example: sdcard keys new agent.jwk"""
    from sdcard.edge.key_files import create_key_file

    if algorithm not in ("ES256", "EdDSA"):
        raise Misuse("--algorithm is ES256 or EdDSA")
    key = create_key_file(file, SignatureAlgorithm(algorithm)).public_key
    if as_json:
        print_json({"file": str(file), "thumbprint": key.thumbprint, "public_key": key.to_jwk()})
    else:
        print_lines(f"{file}: {algorithm}, thumbprint {key.thumbprint}")
