"""Alembic migrations of the registry's database, inside the package so that an installed registry has them."""

import asyncio
import contextlib
import os
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection, make_url

from issuer_service.stores.connecting import Database, file_of, open_database, reachable
from sdcard.errors import Misuse


def upgrade(url: str) -> None:
    """Bring the database to the present schema, creating it where there is none. Not for a running event loop.

    Raises:
        Misuse: as ``open_database``; and for a database of a later version of the registry.
        Refused: ``store.unavailable``.
    """
    database = open_database(url)
    file = file_of(make_url(url))
    with reachable():
        if file:
            _create_private(file)
        try:
            asyncio.run(_upgrade(database))
        except CommandError:
            raise Misuse("the database is of a later version of the registry") from None


def _create_private(file: Path) -> None:
    """A new SQLite file holds whole cards, so only its owner reads it. One that is there keeps its mode."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(file, os.O_CREAT | os.O_EXCL, 0o600))


async def _upgrade(database: Database) -> None:
    try:
        async with database.engine.begin() as connection:
            await connection.run_sync(migrate)
    finally:
        await database.close()


def migrate(connection: Connection) -> None:
    """Apply what is missing, on a connection that is open already."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
