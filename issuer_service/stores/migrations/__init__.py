"""Alembic migrations of the registry's database, inside the package so that an installed registry has them."""

import asyncio
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

from issuer_service.stores.sql import open_store


def upgrade(url: str) -> None:
    """Bring the database to the present schema, creating it where there is none. Not for a running event loop."""
    asyncio.run(_upgrade(url))


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
