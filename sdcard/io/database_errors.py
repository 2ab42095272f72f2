"""Database failures as refusals, room on its disk, settings of connections."""

import contextlib
import errno
import logging
import os
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, exc, func, select

from sdcard.errors import Part, Refused, Where
from sdcard.io.lookups import identity_of
from sdcard.rules import Rule

# -- Errors of databases and drivers that mean: the database is not available -----------------------------------------
# They say why.
#
# The reason is one of a few (``Reason``). A response says no more than that, since a driver's message may quote
# values.

_log = logging.getLogger("sdcard.io.database")

UNREACHABLE: tuple[type[Exception], ...] = (exc.SQLAlchemyError, sqlite3.Error, OSError)
if hasattr(exc, "EmulatedDBAPIException"):  # of newer versions of SQLAlchemy
    UNREACHABLE += (exc.EmulatedDBAPIException,)
with contextlib.suppress(ImportError):  # without the extra `postgresql` nothing can raise its driver's errors
    from asyncpg import InterfaceError, InternalClientError, PostgresError

    UNREACHABLE += (
        InterfaceError,
        InternalClientError,
        PostgresError,
    )  # SQLAlchemy lets some pass while a connection is made

_OUR_FAULT = (
    *(exc.IntegrityError, exc.DataError, exc.ProgrammingError, sqlite3.ProgrammingError),
    *(exc.ArgumentError, exc.CompileError),
)
_OUR_CLASSES = ("21", "22", "23", "42")
"""Classes of SQLSTATE: cardinality, data, constraints, syntax. SQLAlchemy does not tell them apart with asyncpg."""
_NOT_PREPARED = ("42501", "42703", "42P01")
"""Privileges, columns and tables that are not there: for the operator to mend."""


class Reason(StrEnum):
    """Reasons why a transaction cannot be committed."""

    AWAY = "The database does not answer."
    READ_ONLY = "The database is read-only."
    NO_ROOM = "The disk is full."
    LOCKED = "A lock is not released in time."
    NO_CONNECTION = "No connection is free."
    NO_PRIVILEGE = "The role lacks a privilege, or tables are missing."


_REASONS = {
    Reason.READ_ONLY: ("25006", "SQLITE_READONLY"),
    Reason.NO_ROOM: ("53100", "SQLITE_FULL"),
    Reason.LOCKED: ("55P03", "57014", "40", "SQLITE_BUSY", "SQLITE_LOCKED"),
    Reason.NO_CONNECTION: ("53300",),
    Reason.NO_PRIVILEGE: _NOT_PREPARED,
}
"""SQLSTATE, or the name of SQLite's error: how they begin."""


class StoreUnavailable(Refused):
    """``store.unavailable``, with the reason.

    ``reason`` is for readiness, which names it. Other responses do not name it.
    """

    def __init__(self, reason: Reason) -> None:
        super().__init__(Rule.STORE_UNAVAILABLE, Where(Part.REQUEST))
        self.reason = reason


@contextmanager
def reachable() -> Iterator[None]:
    """Refuse when the database cannot be reached, read or written.

    Errors of wrong statements are bugs and are not translated.
    """
    try:
        yield
    except UNREACHABLE as error:
        raise refusal_of(error) from None


def refusal_of(error: Exception) -> Exception:
    """Turn an error of the database into a refusal; our own bugs pass unchanged."""
    cause = getattr(error, "orig", None) or error
    sqlstate = getattr(cause, "sqlstate", None)
    if _is_our_fault(error, sqlstate or ""):
        return error
    code = getattr(cause, "sqlite_errorname", None) or sqlstate
    own = cause.__cause__ or cause  # SQLAlchemy calls most of what asyncpg says Error
    _log.error("the database is not available: %s", " ".join(filter(None, (type(own).__name__, code))))
    return StoreUnavailable(_reason_of(cause, code or ""))


def is_full(error: Exception) -> bool:
    """Whether PostgreSQL has no connection to spare."""
    return getattr(getattr(error, "orig", None) or error, "sqlstate", None) == "53300"


def is_lost_race(error: exc.DBAPIError) -> bool:
    """Class 40 of SQLSTATE: the server rolled back for another's sake."""
    sqlstate = getattr(error.orig, "sqlstate", None) or ""
    return isinstance(error, exc.IntegrityError) or sqlstate.startswith("40")


def _reason_of(cause: BaseException, code: str) -> Reason:
    if isinstance(cause, exc.TimeoutError):  # of the pool
        return Reason.NO_CONNECTION
    if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
        return Reason.NO_ROOM
    if isinstance(cause, OSError) and cause.errno == errno.EROFS:
        return Reason.READ_ONLY
    return next((reason for reason, codes in _REASONS.items() if code.startswith(codes)), Reason.AWAY)


def _is_our_fault(error: Exception, sqlstate: str) -> bool:
    ours = isinstance(error, _OUR_FAULT) or sqlstate.startswith(_OUR_CLASSES)
    return ours and sqlstate not in _NOT_PREPARED


# -- Check for free disk space before a transaction -------------------------------------------------------------------
# The check allocates space and frees it at once.
#
# A small write says little about that. It may fit into space that the database took earlier, where a registration
# does not. Free space alone does not say it either: a quota may be used up.

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
    """Make PostgreSQL write a temporary file on the disk of its tables.

    It sorts rows that do not fit into 64 kB of memory. If ``temp_file_limit`` forbids this, nothing is checked.

    Raises:
        DBAPIError: when the disk is full.
    """
    connection.execute(select(func.set_config("work_mem", "64kB", True)))
    try:
        connection.execute(select(func.count()).select_from(func.generate_series(1, _ROWS).alias())).close()
    except exc.DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) != _TEMPORARY_FILE_LIMIT:
            raise
        with contextlib.suppress(exc.DBAPIError):
            connection.rollback()


# -- Setup of new database connections, and checks before a pooled one is used again ----------------------------------

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


_DURABLE = """SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit')
WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false)"""


def make_durable(connection: Any, _: object) -> None:
    """Make commits durable, independent of the defaults of server, database and role.

    The stricter default ``remote_apply`` is kept.
    """
    try:
        cursor = connection.cursor()
        cursor.execute(_DURABLE)
        cursor.close()
        connection.commit()
    except BaseException:
        connection.terminate()  # no other code has it yet
        raise


def check_file(_: object, record: Any, __: object) -> None:
    """A connection is used only while the name still leads to its file."""
    file, identity = record.info["file"]
    if identity_of(file) != identity:
        raise exc.DisconnectionError


def check_open(_: object, record: Any, __: object) -> None:
    """Reject a connection that the server has closed.

    A server that stops closes its connections, and the driver notices. The pool then opens a new one.
    """
    if record.driver_connection.is_closed():
        raise exc.DisconnectionError
