"""``Database``: connections to SQLite or PostgreSQL, and transactions in turn.

It refuses when the database is not available.

If a file is deleted or replaced under a running process, its open connections write to a file without a name, and the
writes are lost. So a connection is used only while the name refers to its file. Only preparation creates a new file.
"""

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import (
    URL,
    AsyncAdaptedQueuePool,
    Connection,
    Engine,
    MappingResult,
    NullPool,
    QueuePool,
    Result,
    ScalarResult,
    create_engine,
    event,
    exc,
    make_url,
)
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from sdcard.errors import Misuse
from sdcard.io.database_errors import (
    UNREACHABLE,
    Reason,
    StoreUnavailable,
    allocate_beside,
    check_file,
    check_open,
    is_full,
    is_lost_race,
    make_durable,
    prepare_sqlite,
    reachable,
    refusal_of,
    spill,
)
from sdcard.io.lookups import Lookup, PostgresqlLookups, Rows, SqliteLookups, TooSlow

_T = TypeVar("_T")
_P = ParamSpec("_P")

_DRIVERS = {"sqlite", "sqlite+aiosqlite", "postgresql+asyncpg"}
"""``sqlite+aiosqlite`` is how SQLite was written when another driver served it."""
_OPTIONS = {"host", "port", "ssl", "passfile", "target_session_attrs", "prepared_statement_cache_size"}
"""What the query of a PostgreSQL URL can say. Another one would be found out too late, by a request."""

_CONNECTIONS = 15
"""Of a pool, which SQLAlchemy fills to five and lets grow by ten."""
_WRITERS = 10
"""Maximum number of connections that write; the others only read. SQLite has one writer at a time."""

CONNECTION_SECONDS, BETWEEN_ATTEMPTS = 5.0, 0.05
"""How long a request waits while PostgreSQL has no connection to spare, and how long between two attempts."""

_ATTEMPTS = 3
"""Attempts per transaction: the loser of a race sees the winner's rows, but can lose again."""

Work = Callable[[Connection], _T]
"""Work on a connection, without other effects: it may run in another thread, and again after a conflict."""


class Database:
    """A database for one event loop.

    ``patience``: how many seconds a writer waits for its turn. ``is_remote``: each statement is a round trip.

    A transaction is one piece of work for the event loop. SQLite answers at once or waits for the disk, so it has
    threads, and work goes to one of them as a whole; PostgreSQL is waited for. A server may stop answering without a
    word, so there a transaction has an end too: long after the server itself would have ended it.
    """

    def __init__(
        self, engine: Engine | AsyncEngine, patience: float, lookups: SqliteLookups | PostgresqlLookups
    ) -> None:
        self._engine = engine
        self._patience = patience
        self.is_remote = not isinstance(engine, Engine)
        self._turns = asyncio.Semaphore(_WRITERS if self.is_remote else 1)
        self._longest = 3 * patience if self.is_remote else None
        self._threads = None if self.is_remote else ThreadPoolExecutor(_CONNECTIONS, "sqlite")
        self._lookups = lookups

    @property
    def engine(self) -> Engine:
        """Source of connections, for their events, and for separate threads with SQLite."""
        return self._engine if isinstance(self._engine, Engine) else self._engine.sync_engine

    async def look_up(self, lookup: Lookup, **values: object) -> Rows:
        """The rows of a short read.

        Raises:
            Refused: ``store.unavailable``; ``store.slow`` when it is not short.
        """
        try:
            return await self._lookups.look_up(lookup, values)
        except UNREACHABLE as error:
            if not is_full(error):
                raise refusal_of(error) from None
        return await self.read(lambda connection: lookup.read(connection, values))

    async def look_up_to_write(self, lookup: Lookup, **values: object) -> Rows:
        """Begin a writing transaction; wait without a timeout, for a slow look-up too.

        Raises:
            Refused: ``store.unavailable``.
        """
        try:
            return await self.look_up(lookup, **values)
        except TooSlow:
            return await self.read(lambda connection: lookup.read(connection, values))

    async def change_at_once(self, statement: Lookup, **values: object) -> Rows:
        """Execute one short statement as a transaction of its own.

        On PostgreSQL it takes one round trip.

        Raises:
            Refused: ``store.unavailable``; ``store.slow`` after a timeout, and then nothing was written.
        """
        if isinstance(self._lookups, PostgresqlLookups):
            try:
                return await self._lookups.look_up(statement, values)
            except UNREACHABLE as error:
                if not is_full(error):
                    raise refusal_of(error) from None
        return await self.change(lambda connection: statement.read(connection, values))

    async def try_to_change(self, statement: Lookup, values: dict[str, object]) -> Rows:
        """Execute one statement as a transaction of its own.

        There are no rows when the server did not execute it, such as for a lost race. Then nothing was written, and a
        transaction of ``change`` says why.

        Raises:
            Refused: ``store.unavailable``, as ``change`` when the connection broke.
        """
        assert isinstance(self._lookups, PostgresqlLookups), "remote"
        with reachable():
            return await self._lookups.write(statement, values)

    async def read(
        self, work: Callable[Concatenate[Connection, _P], _T], *arguments: _P.args, **named: _P.kwargs
    ) -> _T:
        """Call ``work`` with a connection and these arguments. It only reads.

        Raises:
            Refused: ``store.unavailable``.
        """
        with reachable():
            return await self._run(lambda c: work(c, *arguments, **named), False, self._longest)

    async def change(
        self, work: Callable[Concatenate[Connection, _P], _T], *arguments: _P.args, **named: _P.kwargs
    ) -> _T:
        """Call ``work`` with a connection and these arguments in one transaction.

        Do all of it again when a race was lost: to rows that were not there when it looked, or to a deadlock. Work that
        waits to write waits here, without a connection.

        Raises:
            Refused: ``store.unavailable``, also when it lost every time; then nothing was written, unless the
                connection broke during the commit itself: then the outcome is unknown, and the caller has to retry.
        """
        with reachable():
            for _ in range(_ATTEMPTS):
                try:
                    async with asyncio.timeout(self._patience):
                        await self._turns.acquire()
                except TimeoutError:
                    raise StoreUnavailable(Reason.LOCKED) from None
                running = asyncio.ensure_future(self._run(lambda c: work(c, *arguments, **named), True, self._longest))
                running.add_done_callback(self._end_turn)
                try:
                    return await asyncio.shield(running)
                except exc.DBAPIError as error:
                    if not is_lost_race(error):
                        raise
        raise StoreUnavailable(Reason.LOCKED)

    def _end_turn(self, work: "asyncio.Future[Any]") -> None:
        """Release the write lock.

        If the caller was cancelled, nothing else reads the outcome.
        """
        self._turns.release()
        if not work.cancelled():
            work.exception()

    async def read_long(
        self, work: Callable[Concatenate[Connection, _P], _T], *arguments: _P.args, **named: _P.kwargs
    ) -> _T:
        """Do read-only work on one snapshot of the database, however long it takes.

        Raises:
            Refused: ``store.unavailable``.
        """

        def on_snapshot(connection: Connection) -> _T:
            if connection.dialect.name == "sqlite":
                connection.exec_driver_sql("BEGIN")
            else:
                connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                for name in ("statement_timeout", "idle_in_transaction_session_timeout"):
                    connection.exec_driver_sql(f"SET LOCAL {name} = 0")
            return work(connection, *arguments, **named)

        with reachable():
            return await self._run(on_snapshot, False, None)

    async def migrate(self, work: Work[_T]) -> _T:
        """Do the work in one transaction, once, however long it takes."""
        return await self._run(work, True, None)

    async def _run(self, work: Work[_T], writes: bool, seconds: float | None) -> _T:
        """Do the work in a transaction, within these seconds."""
        if isinstance(self._engine, Engine):
            return await asyncio.get_running_loop().run_in_executor(self._threads, _run, self._engine, work, writes)
        async with asyncio.timeout(seconds):
            connection = await self._connect(self._engine)
            try:
                async with connection.begin() if writes else contextlib.nullcontext():
                    return await connection.run_sync(_run_on, work)
            finally:
                await asyncio.shield(connection.close())

    async def _connect(self, engine: AsyncEngine) -> AsyncConnection:
        """Return a connection of the pool.

        While the server has none to spare, look-ups give theirs back, and so do requests that are done.
        """
        ends_at = asyncio.get_running_loop().time() + min(self._patience, CONNECTION_SECONDS)
        while True:
            try:
                return await engine.connect()
            except UNREACHABLE as error:
                if not is_full(error) or asyncio.get_running_loop().time() >= ends_at:
                    raise
            await self._lookups.close()
            await asyncio.sleep(BETWEEN_ATTEMPTS)

    async def check_room(self) -> None:
        """Check that the disk has room for a transaction. Nothing is stored.

        Raises:
            Refused: ``store.unavailable``.
        """
        with reachable():
            if isinstance(self._engine, Engine):
                file = file_of(self._engine.url)
                await asyncio.get_running_loop().run_in_executor(self._threads, allocate_beside, file)
            else:
                await self._run(spill, False, self._longest)

    def connections_in_use(self) -> int:
        """Count the pool's connections in use."""
        pool = self._engine.pool
        assert isinstance(pool, QueuePool), "open_database makes no other"
        return pool.checkedout()

    async def close(self) -> None:
        """Close all connections."""
        await self._lookups.close()
        if isinstance(self._engine, Engine):
            self._engine.dispose()
        else:
            await self._engine.dispose()


def _run(engine: Engine, work: Work[_T], writes: bool) -> _T:
    with engine.connect() as connection:
        if not writes:
            return _run_on(connection, work)
        with connection.begin():
            begin_writing(connection)
            return _run_on(connection, work)


def _run_on(connection: Connection, work: Work[_T]) -> _T:
    """Do the work, and leave no open result.

    An open result keeps its snapshot of a SQLite file. The next user of the connection could not write
    (``SQLITE_BUSY_SNAPSHOT``).
    """
    found = work(connection)
    if isinstance(found, Result | MappingResult | ScalarResult):
        found.close()
    return found


def begin_writing(connection: Connection) -> None:
    """Make SQLite lock at the start of a transaction, and wait for the lock.

    A transaction that reads first could not wait for the lock, and its reads could be outdated (WAL mode). With this,
    changes of tables are part of the transaction too.
    """
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def open_database(url: str, patience: float = 10.0, look_up_seconds: float = 2.0) -> Database:
    """Open a database that is prepared: by migrations, or ``open_records``.

    It connects at the first use.

    Args:
        url: ``sqlite:///FILE`` or ``postgresql+asyncpg://USER:PASSWORD@HOST:PORT/DATABASE``.
        patience: most seconds that a writer waits for other writers of this process, and again for other processes.
            On PostgreSQL also for a connection, and for each statement.
        look_up_seconds: for how long a look-up that is slow may wait for its turn, and then run.

    Raises:
        Misuse: when the URL is not one, or its driver is not at hand. The message never quotes it.
    """
    try:
        parsed = make_url(url)
        ways = {"hide_parameters": True, **_ways_to_connect(parsed, patience)}
        engine: Engine | AsyncEngine
        lookups: SqliteLookups | PostgresqlLookups
        if parsed.get_backend_name() == "sqlite":
            sqlite = parsed.set(drivername="sqlite")
            engine = create_engine(sqlite, poolclass=QueuePool, pool_use_lifo=True, pool_timeout=patience, **ways)
            lookups = SqliteLookups(engine, look_up_seconds)
        else:
            engine = create_async_engine(parsed, poolclass=AsyncAdaptedQueuePool, pool_timeout=patience, **ways)
            beside = create_async_engine(parsed, poolclass=NullPool, **ways)  # no request waits there for readers
            event.listen(beside.sync_engine, "connect", make_durable)
            lookups = PostgresqlLookups(beside, look_up_seconds)
    except (exc.ArgumentError, exc.InvalidRequestError, ImportError, ValueError):
        raise Misuse(
            "the database URL is one of SQLAlchemy: sqlite:///FILE, or with the extra `postgresql` installed "
            "postgresql+asyncpg://USER:PASSWORD@HOST/DATABASE"
        ) from None
    database = Database(engine, patience, lookups)
    if isinstance(engine, Engine):
        event.listen(engine, "connect", partial(prepare_sqlite, patience))
        event.listen(engine, "checkout", check_file)
    else:
        event.listen(engine.sync_engine, "connect", make_durable)
        event.listen(engine.sync_engine, "checkout", check_open)
    return database


def _ways_to_connect(url: URL, patience: float) -> dict[str, Any]:
    if url.drivername not in _DRIVERS:
        raise ValueError
    if url.get_backend_name() == "sqlite":
        file = file_of(url)
        return {"creator": _opener(file, patience)} if file else {"connect_args": {"check_same_thread": False}}
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
