"""Database failures as refusals, room on its disk, settings of connections."""

import contextlib
import errno
import logging
import os
import socket
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, exc, func, select

from sdcard.errors import Part, Refused, Where
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
_REFUSED = ("25006", "57P03")
"""A server that is read-only, as a standby is, or that starts or ends."""
_BROKEN = ("08", "57P", "40003")


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
    sqlstate = _sqlstate_of(error)
    if _is_our_fault(error, sqlstate):
        return error
    code = getattr(cause, "sqlite_errorname", None) or sqlstate
    _log.error("the database is not available: %s", " ".join(filter(None, (type(_own(error)).__name__, code))))
    return StoreUnavailable(_reason_of(cause, code))


def is_full(error: Exception) -> bool:
    """Whether PostgreSQL has no connection to spare."""
    return _sqlstate_of(error) == "53300"


def is_lost_race(error: exc.DBAPIError) -> bool:
    """Class 40 of SQLSTATE: the server rolled back for another's sake."""
    return isinstance(error, exc.IntegrityError) or (_sqlstate_of(error).startswith("40") and not is_broken(error))


def is_refused(error: BaseException) -> bool:
    """Whether a PostgreSQL server executed nothing.

    It starts, is a standby, or accepts no connection. Another attempt, at another server or later, may succeed.
    """
    return isinstance(_own(error), ConnectionRefusedError | socket.gaierror) or _sqlstate_of(error) in _REFUSED


def is_broken(error: BaseException) -> bool:
    """Whether the connection broke.

    The outcome of its last statement is unknown then. The driver gives class 08 to a connection that was lost while a
    statement ran. In class 57P the server ends.
    """
    sqlstate = _sqlstate_of(error)
    return not sqlstate or sqlstate.startswith(_BROKEN)


def is_away(error: BaseException) -> bool:
    """Whether another attempt may find a server.

    The transaction was not committed. A timeout is none: the next attempt would take as long.
    """
    own = _own(error)
    is_driver = type(own).__module__.startswith("asyncpg.") and not isinstance(own, ValueError)
    is_known = is_refused(error) or isinstance(own, OSError) or (is_driver and is_broken(error))
    return is_known and not isinstance(own, TimeoutError)


def _own(error: BaseException) -> BaseException:
    """Return what the driver said. SQLAlchemy calls most of it Error."""
    cause = getattr(error, "orig", None) or error
    own: BaseException = cause.__cause__ or cause
    return own


def _sqlstate_of(error: BaseException) -> str:
    return getattr(getattr(error, "orig", None) or error, "sqlstate", None) or ""


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


# -- Check that a SQLite file still has its name -----------------------------------------------------------------------
# If a file is deleted or replaced under a running process, its open connections write to a file without a name, and the
# writes are lost. So a connection is used only while the name refers to its file.


def identity_of(file: str) -> tuple[int, int] | None:
    """Resolve a file name; None when it does not exist, or the database is in memory."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def check_file(_: object, record: Any, __: object) -> None:
    """A connection is used only while the name still leads to its file."""
    file, identity = record.info["file"]
    if identity_of(file) != identity:
        raise exc.DisconnectionError
