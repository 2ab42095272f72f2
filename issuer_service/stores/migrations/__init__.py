"""Alembic migrations of the registry's database, inside the package so that an installed registry has them."""

import asyncio
import contextlib
import os
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, make_url

from issuer_service.stores.sql import open_store


def upgrade(url: str) -> None:
    """Bring the database to the present schema, creating it where there is none. Not for a running event loop."""
    _create_private_file(url)
    asyncio.run(_upgrade(url))


def _create_private_file(url: str) -> None:
    """A new SQLite file holds whole cards, so only its owner reads it. One that is there keeps its mode."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite" and parsed.database and not parsed.database.startswith((":", "file:")):
        with contextlib.suppress(FileExistsError):
            os.close(os.open(parsed.database, os.O_CREAT | os.O_EXCL, 0o600))


async def _upgrade(url: str) -> None:
    store = open_store(url)
    try:
        async with store.engine.begin() as connection:
            await connection.run_sync(migrate)
    finally:
        await store.close()


def migrate(connection: Connection) -> None:
    """Apply what is missing, on a connection that is open already."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
