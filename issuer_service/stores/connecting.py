"""``Database``: connections to SQLite or PostgreSQL, transactions in turn, and what it means that neither is to be had.

A file that is deleted or replaced under a running registry lives on, without a name, for as long as a connection has it
open, and what is written to it is lost. So a connection is used only while the name still leads to its file, and only
the migrations make a new one.
"""

import asyncio
import contextlib
import logging
import os
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import aiosqlite
from sqlalchemy import URL, AsyncAdaptedQueuePool, event, exc, make_url
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.rules import Rule

_log = logging.getLogger(__name__)

_UNREACHABLE: tuple[type[Exception], ...] = (exc.DBAPIError, exc.TimeoutError, OSError)
with contextlib.suppress(ImportError):  # without the extra `postgresql` nothing can raise its driver's errors
    from asyncpg import InterfaceError, PostgresError

    _UNREACHABLE += (InterfaceError, PostgresError)  # SQLAlchemy lets some pass while a connection is made

_T = TypeVar("_T")

_DRIVERS = {"aiosqlite", "asyncpg"}
_OPTIONS = {"host", "port", "ssl", "passfile", "target_session_attrs", "prepared_statement_cache_size"}
"""What the query of a PostgreSQL URL can say. Another one would be found out too late, by a request."""

_WRITERS = 10
"""Of the 15 connections of a pool; the others are for readers alone. SQLite has one writer, whatever we do."""

_ATTEMPTS = 3
"""Whoever loses a race finds the winner's rows when it looks again; keys can be lost to one winner after another."""

_OUR_FAULT = (exc.IntegrityError, exc.DataError, exc.ProgrammingError)
_OUR_CLASSES = ("21", "22", "42")
"""Classes of SQLSTATE: cardinality, data, syntax. SQLAlchemy gives them no class of their own with asyncpg."""
_NOT_PREPARED = ("42501", "42703", "42P01")
"""Privileges, columns and tables that are not there: for the operator to mend."""


class Database:
    """Where rows are. ``patience``: how many seconds a writer waits for its turn.

    A server may stop answering without a word, so on PostgreSQL a transaction has an end too: long after the server
    itself would have ended it.
    """

    def __init__(self, engine: AsyncEngine, patience: float) -> None:
        self.engine = engine
        self._patience = patience
        is_file = engine.dialect.name == "sqlite"
        self._turns = asyncio.Semaphore(1 if is_file else _WRITERS)
        self._longest = None if is_file else 3 * patience

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A connection to read from.

        Raises:
            Refused: ``store.unavailable``.
        """
        with reachable():
            async with asyncio.timeout(self._longest), self.engine.connect() as connection:
                yield connection

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """A transaction, whole or not at all. Who waits to write waits here, taking no connection from readers.

        Raises:
            Refused: ``store.unavailable``; then nothing was written, unless the connection broke during the commit
                itself: then nobody can know, and whoever asked has to ask again.
        """
        with reachable():
            async with self._transaction() as connection:
                yield connection

    async def change(self, work: Callable[[AsyncConnection], Awaitable[_T]]) -> _T:
        """Do the work in one transaction, and all of it again when a race was lost: to rows that were not there when
        it looked, or to a deadlock.

        Args:
            work: reads and writes on the connection alone, so that doing it again does no harm.

        Raises:
            Refused: as ``writing``; and when it lost every time.
        """
        with reachable():
            for _ in range(_ATTEMPTS):
                try:
                    async with self._transaction() as connection:
                        return await work(connection)
                except exc.DBAPIError as error:
                    if not _is_lost_race(error):
                        raise
        raise Refused(Rule.STORE_UNAVAILABLE, Where(Part.REQUEST))

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[AsyncConnection]:
        async with asyncio.timeout(self._patience):
            await self._turns.acquire()
        try:
            async with asyncio.timeout(self._longest), self.engine.begin() as connection:
                await begin_writing(connection)
                yield connection
        finally:
            self._turns.release()

    def connections_in_use(self) -> int:
        """How many of the pool's connections work at this moment."""
        pool = self.engine.pool
        assert isinstance(pool, AsyncAdaptedQueuePool), "open_database makes no other"
        return pool.checkedout()

    async def close(self) -> None:
        """Close all connections."""
        await self.engine.dispose()


async def begin_writing(connection: AsyncConnection) -> None:
    """Have SQLite lock at once, and wait for it in turn: a transaction that reads first could not wait, and would not
    cover what it read ("WAL"). Tables are made and changed in the transaction too then.
    """
    if connection.dialect.name == "sqlite":
        await connection.exec_driver_sql("BEGIN IMMEDIATE")


def open_database(url: str, patience: float = 10.0) -> Database:
    """A database that ``migrations.upgrade`` has prepared. Connects when first asked.

    Args:
        url: ``sqlite+aiosqlite:///FILE`` or ``postgresql+asyncpg://USER:PASSWORD@HOST:PORT/DATABASE``.
        patience: how many seconds a writer waits for others: once for those of this store, once for strangers. On
            PostgreSQL also for a connection, and for each statement.

    Raises:
        Misuse: when the URL is not one, or its driver is not at hand. The message never quotes it.
    """
    try:
        parsed = make_url(url)
        engine = create_async_engine(
            parsed,
            hide_parameters=True,
            poolclass=AsyncAdaptedQueuePool,
            pool_timeout=patience,
            **_ways_to_connect(parsed, patience),
        )
    except (exc.ArgumentError, exc.InvalidRequestError, ImportError, ValueError):
        raise Misuse(
            "the database URL is one of SQLAlchemy with an asynchronous driver: sqlite+aiosqlite:///FILE, or with the "
            "extra `postgresql` installed postgresql+asyncpg://USER:PASSWORD@HOST/DATABASE"
        ) from None
    if engine.dialect.name == "sqlite":
        event.listen(engine.sync_engine, "connect", _prepare_sqlite)
        event.listen(engine.sync_engine, "checkout", _check_file)
        logging.getLogger("aiosqlite").setLevel(logging.WARNING)  # below that it logs the values of every row
    else:
        event.listen(engine.sync_engine, "checkout", _check_open)
    return Database(engine, patience)


def _ways_to_connect(url: URL, patience: float) -> dict[str, Any]:
    if url.get_dialect().driver not in _DRIVERS:
        raise ValueError
    if url.get_backend_name() == "sqlite":
        file = file_of(url)
        return {"async_creator": _opener(file, patience)} if file else {}
    if not set(url.query) <= _OPTIONS:
        raise ValueError
    milliseconds = int(1000 * patience)
    settings = {
        "application_name": "sdcard",
        "lock_timeout": str(milliseconds),
        "statement_timeout": str(milliseconds),
        "idle_in_transaction_session_timeout": str(3 * milliseconds),
    }
    return {"connect_args": {"timeout": patience, "server_settings": settings}}


def file_of(url: URL) -> Path | None:
    """The file of a SQLite database; None for one in memory, and for a URI, which says itself how it is opened."""
    name = url.database or ":"
    return Path(name) if url.get_backend_name() == "sqlite" and not name.startswith((":", "file:")) else None


def _opener(file: Path, patience: float) -> Callable[[], Awaitable[aiosqlite.Connection]]:
    """Opens the file, and never makes one. Opened once before, since an attempt that fails in aiosqlite's own thread
    answers an event loop that may be gone by then.
    """
    uri = f"{file.absolute().as_uri()}?mode=rw"

    async def connect() -> aiosqlite.Connection:
        sqlite3.connect(uri, uri=True).close()
        return await aiosqlite.connect(uri, uri=True, timeout=patience)

    return connect


def _prepare_sqlite(connection: Any, record: Any) -> None:
    """Readers and a writer side by side, and a commit that survives a loss of power."""
    cursor = connection.cursor()
    try:
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.execute("PRAGMA database_list")
        file = cursor.fetchone()[2]
        cursor.close()
    except sqlite3.Error:
        connection.close()  # nobody else knows of it yet, and its thread would outlive the event loop
        raise
    record.info["file"] = (file, _identity(file))


def _check_file(_: object, record: Any, __: object) -> None:
    file, identity = record.info["file"]
    if _identity(file) != identity:
        raise exc.DisconnectionError


def _identity(file: str) -> tuple[int, int] | None:
    """What the name leads to now; None when that is nothing, or the database is in memory."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _check_open(_: object, record: Any, __: object) -> None:
    """A server that stopped has closed its connections, and the driver knows. The pool makes a new one then."""
    if record.driver_connection.is_closed():
        raise exc.DisconnectionError


@contextmanager
def reachable() -> Iterator[None]:
    """Refuse when the database cannot be reached, read or written. A wrong statement is our bug and stays one."""
    try:
        yield
    except _UNREACHABLE as error:
        cause = getattr(error, "orig", None) or error
        sqlstate = getattr(cause, "sqlstate", None)
        if _is_our_fault(error, sqlstate or ""):
            raise
        code = getattr(cause, "sqlite_errorname", None) or sqlstate
        own = cause.__cause__ or cause  # SQLAlchemy calls most of what asyncpg says Error
        _log.error("the database is not available: %s", " ".join(filter(None, (type(own).__name__, code))))
        raise Refused(Rule.STORE_UNAVAILABLE, Where(Part.REQUEST)) from None


def _is_our_fault(error: Exception, sqlstate: str) -> bool:
    ours = isinstance(error, _OUR_FAULT) or sqlstate.startswith(_OUR_CLASSES)
    return ours and sqlstate not in _NOT_PREPARED


def _is_lost_race(error: exc.DBAPIError) -> bool:
    """Class 40 of SQLSTATE: the server rolled back for another's sake."""
    sqlstate = getattr(error.orig, "sqlstate", None) or ""
    return isinstance(error, exc.IntegrityError) or sqlstate.startswith("40")
