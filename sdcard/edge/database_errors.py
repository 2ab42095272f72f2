"""Errors of databases and drivers that mean: the database is not available.

They say why.

The reason is one of a few (``Reason``). A response says no more than that, since a driver's message may quote values.
"""

import contextlib
import errno
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from sqlalchemy import exc

from sdcard.errors import Part, Refused, Where
from sdcard.rules import Rule

_log = logging.getLogger("sdcard.edge.databases")

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

    A wrong statement is our bug and stays one.
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
