"""Check for free disk space before a transaction.

The check allocates space and frees it at once.

A small write says little about that. It may fit into space that the database took earlier, where a registration does
not. Free space alone does not say it either: a quota may be used up.
"""

import contextlib
import os
import tempfile
from pathlib import Path

from sqlalchemy import Connection, exc, func, select

ROOM = 262_144
"""Bytes. A registration of the draft's example writes 100 kB to a SQLite database."""
_ROWS = 40_000
"""Of ``generate_series``: they fill so much of a temporary file of PostgreSQL."""
_TEMPORARY_FILE_LIMIT = "53400"


def allocate_beside(file: Path | None) -> None:
    """Allocate room beside the file of a database.

    The allocated file has no name, so nothing of it can be left.

    Raises:
        OSError: when there is none.
    """
    if file is not None and hasattr(os, "posix_fallocate"):
        with tempfile.TemporaryFile(dir=file.absolute().parent) as opened:
            os.posix_fallocate(opened.fileno(), 0, ROOM)


def spill(connection: Connection) -> None:
    """Have PostgreSQL write a temporary file beside its tables.

    It holds rows that do not fit into 64 kB of memory.

    A server whose ``temp_file_limit`` forbids that is not asked.

    Raises:
        DBAPIError: when there is no room.
    """
    connection.execute(select(func.set_config("work_mem", "64kB", True)))
    try:
        connection.execute(select(func.count()).select_from(func.generate_series(1, _ROWS).alias())).close()
    except exc.DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) != _TEMPORARY_FILE_LIMIT:
            raise
        with contextlib.suppress(exc.DBAPIError):
            connection.rollback()
