"""``sdcard serve``: the registry."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdcard.cli.output import AsJson, print_json, print_lines
from sdcard.errors import Misuse

if TYPE_CHECKING:
    from issuer_service.settings import Settings

HELP = (
    "Run the registry. Settings come from SDCARD_… in the environment; options win. A database or key file that is "
    "missing is made. Example: SDCARD_ISSUER=https://registry.example sdcard serve --port 8080"
)


def command(
    host: Annotated[str | None, typer.Option(help="Where to listen; loopback by default.")] = None,
    port: Annotated[int | None, typer.Option(help="Where to listen; 8080 by default.")] = None,
    issuer: Annotated[str | None, typer.Option(help="The public https URL: `iss`.")] = None,
    database_url: Annotated[str | None, typer.Option(help="Of SQLAlchemy; SQLite in this folder by default.")] = None,
    key_encryption_key_file: Annotated[
        Path | None, typer.Option(help="What opens the keys in the database; made for a new one.")
    ] = None,
    policy: Annotated[Path | None, typer.Option(help="The disclosure policy; the built-in one by default.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run the registry."""
    from issuer_service.serving import serve

    settings = read_settings(
        host=host,
        port=port,
        issuer=issuer,
        database_url=database_url,
        key_encryption_key_file=key_encryption_key_file,
        policy=policy,
    )
    issuer_url = settings.issuer_url
    file = None if settings.key_encryption_key is not None else settings.key_encryption_key_file
    made = file is not None and not file.exists()

    def started(address: str) -> None:
        if as_json:
            name = None if file is None else str(file)
            print_json({"issuer": issuer_url, "address": address, "key_encryption_key_file": name, "key_made": made})
        else:
            opened = "the environment" if file is None else f"{file}{' (new; back it up)' if made else ''}"
            print_lines(f"{issuer_url} at {address}, key-encryption key in {opened}")
        sys.stdout.flush()

    serve(settings, started)


def read_settings(**options: object) -> "Settings":
    """The registry's settings: what the options say, else the environment.

    Raises:
        Misuse: for settings that are out of bounds; names them, never their values.
    """
    from pydantic import ValidationError

    from issuer_service.settings import Settings

    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    try:
        return Settings(**given)
    except ValidationError as error:
        faults = [f"SDCARD_{str(one['loc'][0]).upper()}: {one['msg']}" for one in error.errors()]
        raise Misuse("; ".join(faults)) from None
