"""Options of the registry's commands; access to its settings and database.

Modules of the extra `service` are imported inside functions, so that help and completion need only the extra `cli`.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from sdcard.cli.options import matching
from sdcard.cli.output import printable

if TYPE_CHECKING:
    from issuer_service.settings import Configuration, Settings
    from sdcard.io.database import Database

_T = TypeVar("_T")

ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="A TOML file with settings; else the one that SDCARD_CONFIG names.")
]
DatabaseUrl = Annotated[str | None, typer.Option("--database-url", help="As for `sdcard serve`.")]


def read_settings(config: Path | None = None, /, **options: object) -> "Settings":
    """Read the settings: from options, else the environment, else a TOML file.

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
    """Upgrade the registry's database, and run ``work`` on it."""
    from issuer_service.db.migrations import upgrade

    upgrade(url)
    return run_as_found(work, url)


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
