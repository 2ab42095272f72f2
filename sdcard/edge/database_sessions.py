"""Setup of new database connections, and checks before a pooled one is used again."""

import sqlite3
import time
from typing import Any

from sqlalchemy import exc

from sdcard.edge.lookups import identity_of

_PAGES_OF_WAL = 8_000
"""Of 4 KiB: 32 MB. A registration writes some 100 pages, many of them again and again; SQLite's thousand were copied
to the database every ten registrations, which took a sixth of their time."""

_CACHE_KIB = 16_384
"""Of pages that a connection to SQLite remembers, until another one writes: so whichever worked last works next."""


def prepare_sqlite(patience: float, connection: Any, record: Any) -> None:
    """Readers and a writer side by side, and a commit that survives a loss of power."""
    cursor = connection.cursor()
    try:
        _use_wal(cursor, patience)
        sizes = f"cache_size=-{_CACHE_KIB}", f"wal_autocheckpoint={_PAGES_OF_WAL}"
        for pragma in ("synchronous=FULL", "foreign_keys=ON", *sizes):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.execute("PRAGMA database_list")
        file = cursor.fetchone()[2]
        cursor.close()
    except sqlite3.Error:
        connection.close()  # nobody else knows of it yet
        raise
    record.info["file"] = (file, identity_of(file))


def _use_wal(cursor: Any, patience: float) -> None:
    """Switch to WAL, and retry while other processes that start hold the lock.

    SQLite waits for no lock here, whatever its timeout.
    """
    ends_at = time.monotonic() + patience
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() >= ends_at:
                raise
            time.sleep(0.01)


_DURABLE = """SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit')
WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false)"""


def make_durable(connection: Any, _: object) -> None:
    """Make commits durable, whatever the server, database or role has as its default.

    A default that waits for more, ``remote_apply``, stays.
    """
    try:
        cursor = connection.cursor()
        cursor.execute(_DURABLE)
        cursor.close()
        connection.commit()
    except BaseException:
        connection.terminate()  # nobody else knows of it yet
        raise


def check_file(_: object, record: Any, __: object) -> None:
    """A connection is used only while the name still leads to its file."""
    file, identity = record.info["file"]
    if identity_of(file) != identity:
        raise exc.DisconnectionError


def check_open(_: object, record: Any, __: object) -> None:
    """Reject a connection that the server has closed.

    A server that stopped has closed its connections, and the driver knows. The pool then makes a new one.
    """
    if record.driver_connection.is_closed():
        raise exc.DisconnectionError
