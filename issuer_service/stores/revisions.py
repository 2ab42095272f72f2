"""Schema revisions: of a database, and of this version of the registry."""

import asyncio
from functools import cache
from pathlib import Path

from alembic.script import ScriptDirectory
from sqlalchemy import Connection, column, inspect, make_url, select, table

from issuer_service.stores import migrations
from sdcard.edge.databases import file_of, open_database

_VERSIONS = table("alembic_version", column("version_num"))


@cache
def head() -> str:
    """The revision that this version of the registry needs."""
    found = ScriptDirectory(str(Path(migrations.__file__).parent)).get_current_head()
    assert found is not None, "there are migrations"
    return found


def find_revision(connection: Connection) -> str | None:
    """The revision that the database has; None for one without our tables."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.execute(select(_VERSIONS.c.version_num)).scalar_one_or_none()
    return found


def read_revision(url: str) -> str | None:
    """Read the revision of the database at a URL.

    A missing SQLite file is not created. Not for a running event loop.

    Raises:
        Misuse: as ``open_database``.
        Refused: ``store.unavailable``.
    """
    database = open_database(url)
    file = file_of(make_url(url))
    if file is not None and not file.exists():
        return None

    async def read() -> str | None:
        try:
            return await database.read(find_revision)
        finally:
            await database.close()

    return asyncio.run(read())
