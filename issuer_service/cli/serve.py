"""``sdcard serve``, ``sdcard config``, and options of all registry commands."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from sdcard.cli.options import AsJson, matching
from sdcard.cli.output import console, print_json, print_lines, printable, table
from sdcard.errors import Misuse

if TYPE_CHECKING:
    from issuer_service.settings import Configuration, Settings
    from sdcard.io.database import Database


# -- Options of the registry's commands; access to its settings and database ------------------------------------------
# Modules of the extra `service` are imported inside functions, so that help and completion need only the extra `cli`.

_T = TypeVar("_T")

ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="A TOML file with settings; else the one that SDCARD_CONFIG names.")
]
DatabaseUrl = Annotated[
    str | None, typer.Option("--database-url", help="The registry's database, as for `sdcard serve`.")
]


def read_settings(config: Path | None = None, /, **options: object) -> "Settings":
    """Read each setting from an option, else the environment, else a TOML file.

    Raises:
        Misuse, OSError: as ``read_configuration``.
    """
    from issuer_service.settings import read_configuration

    configuration = read_configuration(config, os.environ, options)
    warn_of_unknown(configuration)
    return configuration.settings


def warn_of_unknown(configuration: "Configuration") -> None:
    """Name on standard error the variables that look like settings and are none."""
    from issuer_service.settings import nearest

    known = [f"SDCARD_{name.upper()}" for name in configuration.sources]
    for name in configuration.unknown:
        typer.echo(printable(f"{name} is no setting{nearest(name, known)}"), err=True)


def run_on_database(work: "Callable[[Database], Awaitable[_T]]", url: str) -> _T:
    """Upgrade the registry's database, and run ``work`` on it.

    Raises:
        Misuse: when there is none: an empty one, in the wrong folder, would answer for it.
    """
    from issuer_service.db.migrations import read_revision, upgrade

    if read_revision(url) is None:
        raise Misuse(
            f"there is no registry at {name_database(url)}: work in the folder of its database, or name it with "
            "--database-url or SDCARD_DATABASE_URL; `sdcard serve` and `sdcard db upgrade` make a new one"
        )
    upgrade(url)
    return run_as_found(work, url)


def make_missing_database(url: str) -> None:
    """Make the registry's database if there is none, and name it on standard error."""
    from issuer_service.db.migrations import read_revision, upgrade

    if read_revision(url) is None:
        upgrade(url)
        typer.echo(printable(f"A new registry is made at {name_database(url)}."), err=True)


def name_database(url: str) -> str:
    """Name a database by its file, or by its URL without the password."""
    from sqlalchemy import make_url

    from sdcard.io.sqlite import file_of

    parsed = make_url(url)
    file = file_of(parsed)
    return parsed.render_as_string(hide_password=True) if file is None else str(file.absolute())


def run_as_found(work: "Callable[[Database], Awaitable[_T]]", url: str) -> _T:
    """Run ``work`` on a database without migrating it, and close the database."""
    from sdcard.io.database import open_database

    async def run() -> _T:
        database = open_database(url)
        try:
            return await work(database)
        finally:
            await database.close()

    return asyncio.run(run())


def key_uses(incomplete: str) -> list[str]:
    """Complete uses of a registry key."""
    from issuer_service.keys.repository import KeyUse

    return matching(KeyUse, incomplete)


def scopes(incomplete: str) -> list[str]:
    """Complete scopes of a registry token."""
    from issuer_service.access import Scope

    return matching(Scope, incomplete)


# -- ``sdcard serve`` and ``sdcard config`` ---------------------------------------------------------------------------

app = typer.Typer(no_args_is_help=True)


@app.callback()
def group() -> None:
    """Show the settings of the registry."""


@app.command("show")
def show(
    config: ConfigFile = None,
    changed: Annotated[bool, typer.Option(help="Show only settings that differ from their default.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show every setting and its source, but no secret.

    Example: sdcard config show --config /etc/sdcard/sdcard.toml
    """
    from issuer_service.settings import Source, read_configuration, shown_value

    configuration = read_configuration(config, os.environ, {})
    rows = {
        name: (shown_value(configuration.settings, name), source)
        for name, source in configuration.sources.items()
        if not (changed and source is Source.DEFAULT)
    }
    if as_json:
        settings = {name: {"value": value, "source": source.value} for name, (value, source) in rows.items()}
        print_json({"settings": settings, "unknown": list(configuration.unknown)})
        return
    console().print(table("", ("setting", "value", "from"), [(n, v, s.value) for n, (v, s) in rows.items()]))
    warn_of_unknown(configuration)


# -- ``sdcard serve`` -------------------------------------------------------------------------------------------------


def command(
    host: Annotated[str | None, typer.Option(help="The address to listen on; by default 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(help="The port to listen on; by default 8080.")] = None,
    issuer: Annotated[str | None, typer.Option(help="The registry's public https URL, the value of `iss`.")] = None,
    database_url: Annotated[
        str | None, typer.Option(help="The database, as an SQLAlchemy URL; by default SQLite in this folder.")
    ] = None,
    key_encryption_key_file: Annotated[
        Path | None, typer.Option(help="The file with the key-encryption key; created for a new database.")
    ] = None,
    policy: Annotated[Path | None, typer.Option(help="The disclosure policy; the built-in one by default.")] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="The certificate and its chain, PEM: TLS 1.3.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The certificate's private key, PEM, mode 0600.")] = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Run the registry."""
    from issuer_service.server import serve, tls_of
    from issuer_service.settings import check_fit_to_serve

    settings = read_settings(
        config,
        host=host,
        port=port,
        issuer=issuer,
        database_url=database_url,
        key_encryption_key_file=key_encryption_key_file,
        policy=policy,
        tls_cert=tls_cert,
        tls_key=tls_key,
    )
    check_fit_to_serve(settings)
    tls_of(settings)
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
