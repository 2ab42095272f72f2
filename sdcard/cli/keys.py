"""``sdcard keys``: keys in files. An entry point adds the registry's keys."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from sdcard.cli.app import JoinedGroup
from sdcard.cli.options import AsJson, completing
from sdcard.cli.output import print_json, print_result
from sdcard.errors import Misuse
from sdcard.jose.algorithms import SignatureAlgorithm

AlgorithmName: TypeAlias = Annotated[
    str,
    typer.Option(
        "--algorithm", autocompletion=completing(SignatureAlgorithm), help=f"One of {', '.join(SignatureAlgorithm)}."
    ),
]
app = typer.Typer(cls=JoinedGroup, no_args_is_help=True)


@app.callback()
def group() -> None:
    """Make keys in files; list, add, rotate and remove the registry's own."""


@app.command("new")
def new(
    file: Annotated[Path, typer.Argument(help="Where to write the private JWK; it must not exist.")],
    algorithm: AlgorithmName = "ES256",
    as_json: AsJson = False,
) -> None:
    """Make a private key in a file that only you can read.

    Example: sdcard keys new agent.jwk
    """
    from sdcard.io.key_files import create_key_file

    key = create_key_file(file, find_algorithm(algorithm)).public_key
    document = {"file": str(file), "thumbprint": key.thumbprint, "public_key": key.to_jwk()}
    print_result(as_json, document, f"{file}: {algorithm}, thumbprint {key.thumbprint}")


@app.command("public")
def public(files: Annotated[list[Path], typer.Argument(help="Files with private JWKs.")]) -> None:
    """Print the public halves as a JWKS.

    Example: sdcard keys public issuer.jwk next.jwk > issuer.jwks
    """
    from sdcard.io.key_files import load_signer, public_jwks

    print_json(public_jwks(*(load_signer(file).public_key for file in files)))


def find_algorithm(name: str) -> SignatureAlgorithm:
    """Return the algorithm of ``--algorithm``."""
    if name not in SignatureAlgorithm._value2member_map_:
        raise Misuse(f"--algorithm is one of {', '.join(SignatureAlgorithm)}")
    return SignatureAlgorithm(name)
