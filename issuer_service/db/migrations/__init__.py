"""Alembic migrations of the registry's database, part of the package.

So an installed registry has them.
"""

import asyncio
from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, column, func, inspect, make_url, select, table

from issuer_service.db.adoption import adopt
from sdcard.errors import Misuse
from sdcard.io.database import Database, open_database
from sdcard.io.database_errors import reachable
from sdcard.io.sqlite import create_private, file_of
from sdcard.io.system import SystemClock

_LOCK = 0x5D_CA4D
"""Of PostgreSQL's advisory locks: registries that start together migrate in turn."""
_LONGEST_WAIT = "60s"
"""For that lock, and for the locks of tables. The work itself takes as long as it takes."""


def upgrade(url: str) -> None:
    """Bring the database to the present schema, creating it where there is none.

    Not for a running event loop.

    Raises:
        Misuse: as ``open_database``; for a database of a later version of the registry, or of one before 0.1; and for
            one of PostgreSQL in another encoding than UTF8.
        Refused: ``store.unavailable``.
    """
    database = open_database(url)
    file = file_of(make_url(url))
    if file is not None and not file.parent.is_dir():
        advice = f"make it first (mkdir -p {file.parent}), or correct --database-url or SDCARD_DATABASE_URL"
        raise Misuse(f"there is no folder {file.parent} for the database: {advice}")
    _check_sqlite(file)
    with reachable():
        if file:
            create_private(file)
        try:
            asyncio.run(_upgrade(database))
        except CommandError:
            raise Misuse("the database is of a later version of the registry, or of one before 0.1") from None


async def _upgrade(database: Database) -> None:
    try:
        await database.migrate(_migrate_in_turn)
    finally:
        await database.close()


def _migrate_in_turn(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        if connection.scalar(select(func.current_setting("server_encoding"))) != "UTF8":
            raise Misuse("the database has the encoding UTF8, since cards hold any character")
        connection.execute(select(func.set_config("statement_timeout", "0", True)))
        connection.execute(select(func.set_config("lock_timeout", _LONGEST_WAIT, True)))
        connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))
    migrate(connection)
    adopt(connection, int(SystemClock().now()))


def migrate(connection: Connection) -> None:
    """Apply what is missing, on a connection that is open already."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


# -- Schema revisions: of a database, and of this version of the registry ---------------------------------------------

_VERSIONS = table("alembic_version", column("version_num"))


@cache
def head() -> str:
    """The revision that this version of the registry needs."""
    found = ScriptDirectory(str(Path(__file__).parent)).get_current_head()
    assert found is not None, "there are migrations"
    return found


def _check_sqlite(file: Path | None) -> None:
    """Refuse a file that is no SQLite database.

    Raises:
        Misuse: for another file.
        OSError: when it cannot be read.
    """
    if file is None or not file.exists():
        return
    start = None
    if file.is_file():
        with file.open("rb") as opened:
            start = opened.read(16)
    if start not in (b"", b"SQLite format 3\0"):
        raise Misuse(f"{file} is no SQLite database: compare --database-url and SDCARD_DATABASE_URL")


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
    _check_sqlite(file)

    async def read() -> str | None:
        try:
            return await database.read(find_revision)
        finally:
            await database.close()

    return asyncio.run(read())
