"""SQLite: its files, its connections, its transactions.

Only preparation creates a new file. ``database_errors.check_file`` keeps a connection from a file without a name.
"""

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import URL

from sdcard.io.database_errors import identity_of

_PAGES_OF_WAL = 8_000
"""Of 4 KiB: 32 MB. A registration writes some 100 pages, many of them again and again; SQLite's thousand were copied
to the database every ten registrations, which took a sixth of their time."""

_CACHE_KIB = 16_384
"""Page cache of a SQLite connection. Another connection's write empties it, so the last used connection is used
next."""


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
        connection.close()  # no other code has it yet
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


def ways_to_open(url: URL, patience: float) -> dict[str, Any]:
    """Return arguments for ``create_engine``. ``patience``: see ``open_database``."""
    file = file_of(url)
    return {"creator": _opener(file, patience)} if file else {"connect_args": {"check_same_thread": False}}


def file_of(url: URL) -> Path | None:
    """Return the file of a SQLite database.

    None for one in memory, and for a URI, which says itself how it is opened.
    """
    name = url.database or ":"
    return Path(name) if url.get_backend_name() == "sqlite" and not name.startswith((":", "file:")) else None


def create_private(file: Path) -> None:
    """Create a SQLite file that only its owner can read; keep an existing one."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(file, os.O_CREAT | os.O_EXCL, 0o600))


def _opener(file: Path, patience: float) -> Callable[[], sqlite3.Connection]:
    """Opens the file, and never makes one. Work is done in one thread after the other."""
    uri = f"{file.absolute().as_uri()}?mode=rw"
    return lambda: sqlite3.connect(uri, uri=True, timeout=patience, check_same_thread=False)
