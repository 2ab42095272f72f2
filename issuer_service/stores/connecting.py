"""``Database``: connections to SQLite or PostgreSQL, transactions in turn, and what it means that neither is to be had.

A file that is deleted or replaced under a running registry lives on, without a name, for as long as a connection has it
open, and what is written to it is lost. So a connection is used only while the name still leads to its file, and only
the migrations make a new one.
"""

import asyncio
import logging
import os
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiosqlite
from sqlalchemy import URL, AsyncAdaptedQueuePool, event, exc, make_url
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.rules import Rule

_log = logging.getLogger(__name__)

_WRITERS = 10
"""Of the 15 connections of a pool; the others are for readers alone. SQLite has one writer, whatever we do."""

_OUR_FAULT = (exc.IntegrityError, exc.DataError, exc.ProgrammingError, exc.NotSupportedError)


class Database:
    """Where rows are. ``patience``: how many seconds a writer waits for its turn."""

    def __init__(self, engine: AsyncEngine, patience: float) -> None:
        self.engine = engine
        self._patience = patience
        self._turns = asyncio.Semaphore(1 if engine.dialect.name == "sqlite" else _WRITERS)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A connection to read from.

        Raises:
            Refused: ``store.unavailable``.
        """
        with reachable():
            async with self.engine.connect() as connection:
                yield connection

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """A transaction, whole or not at all. Who waits to write waits here, taking no connection from readers.

        Raises:
            Refused: ``store.unavailable``; then nothing was written.
        """
        with reachable():
            async with asyncio.timeout(self._patience):
                await self._turns.acquire()
            try:
                async with self.engine.begin() as connection:
                    yield connection
            finally:
                self._turns.release()

    async def close(self) -> None:
        """Close all connections."""
        await self.engine.dispose()


def open_database(url: str, patience: float = 10.0) -> Database:
    """A database that ``migrations.upgrade`` has prepared. Connects when first asked.

    Args:
        url: of SQLAlchemy, with an asynchronous driver.
        patience: how many seconds a writer waits for others: once for those of this store, once for strangers.

    Raises:
        Misuse: when the URL is not one, or its driver is not at hand.
    """
    try:
        parsed = make_url(url)
        file = file_of(parsed)
        engine = create_async_engine(
            parsed,
            hide_parameters=True,
            poolclass=AsyncAdaptedQueuePool,
            pool_timeout=patience,
            **({"async_creator": _opener(file, patience)} if file else {}),
        )
    except (exc.ArgumentError, exc.InvalidRequestError, ImportError, ValueError):
        raise Misuse("the database URL is one of SQLAlchemy with an asynchronous driver") from None
    if engine.dialect.name == "sqlite":
        event.listen(engine.sync_engine, "connect", _prepare_sqlite)
        event.listen(engine.sync_engine, "checkout", _check_file)
        logging.getLogger("aiosqlite").setLevel(logging.WARNING)  # below that it logs the values of every row
    return Database(engine, patience)


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


@contextmanager
def reachable() -> Iterator[None]:
    """Refuse when the database cannot be reached, read or written. A wrong statement is our bug and stays one."""
    try:
        yield
    except _OUR_FAULT:
        raise
    except (exc.DBAPIError, exc.TimeoutError, OSError) as error:
        cause = getattr(error, "orig", None) or error
        code = getattr(cause, "sqlite_errorname", None) or getattr(cause, "sqlstate", None)
        _log.error("the database is not available: %s %s", type(cause).__name__, code or "")
        raise Refused(Rule.STORE_UNAVAILABLE, Where(Part.REQUEST)) from None
