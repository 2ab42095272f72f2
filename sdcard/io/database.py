"""``Database``: connections to SQLite or PostgreSQL, and transactions in turn.

It refuses when the database is not available.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import (
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
    is_away,
    is_full,
    is_lost_race,
    is_refused,
    reachable,
    refusal_of,
    spill,
)
from sdcard.io.lookups import Lookup, PostgresqlLookups, Rows, SqliteLookups, TooSlow
from sdcard.io.sqlite import file_of, prepare_sqlite, ways_to_open

_T = TypeVar("_T")
_P = ParamSpec("_P")

_DRIVERS = {"sqlite", "sqlite+aiosqlite", "postgresql+asyncpg"}
"""``sqlite+aiosqlite`` is how SQLite was written when another driver served it."""

_CONNECTIONS = 15
"""Of a pool, which SQLAlchemy fills to five and lets grow by ten."""
_WRITERS = 10
"""Maximum number of connections that write; the others only read. SQLite has one writer at a time."""

CONNECTION_SECONDS, BETWEEN_ATTEMPTS = 5.0, 0.05
"""How long a request waits while PostgreSQL has no connection to spare, and how long between two attempts."""

_ATTEMPTS = 3
"""Attempts per transaction: the loser of a race sees the winner's rows, but can lose again."""
_PAUSES = (0.1, 0.3, 1.0)
"""Seconds before the next attempts of a transaction that the server's absence ended before its commit."""

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
            if not (is_full(error) or is_away(error)):
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

        On PostgreSQL it takes one round trip, and ends when its caller has left, as ``change``.

        Raises:
            Refused: ``store.unavailable``; ``store.slow`` after a timeout, and then nothing was written.
        """
        if isinstance(self._lookups, PostgresqlLookups):
            running = asyncio.ensure_future(self._lookups.look_up(statement, values))
            running.add_done_callback(lambda done: done.cancelled() or done.exception())
            try:
                return await asyncio.shield(running)
            except UNREACHABLE as error:
                if not (is_full(error) or is_refused(error)):
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
        call = partial(self._run, lambda c: work(c, *arguments, **named), False, self._longest)
        with reachable():
            return await _retry(call) if self.is_remote else await call()

    async def read_replicated(
        self, work: Callable[Concatenate[Connection, _P], _T], *arguments: _P.args, **named: _P.kwargs
    ) -> _T:
        """Read what a failover to a synchronous standby does not take away.

        Raises:
            Refused: ``store.unavailable``.
        """
        call = self.change if self.is_remote else self.read  # a COMMIT waits, also one that wrote nothing
        return await call(work, *arguments, **named)

    async def change(
        self, work: Callable[Concatenate[Connection, _P], _T], *arguments: _P.args, **named: _P.kwargs
    ) -> _T:
        """Call ``work`` with a connection and these arguments in one transaction.

        Do all of it again when a race was lost: to rows that were not there when it looked, or to a deadlock; and when
        the server was away before the commit. Work that waits to write waits here, without a connection.

        Raises:
            Refused: ``store.unavailable``, also when it lost every time; then nothing was written, unless the
                connection broke during the commit itself: then the outcome is unknown, and the caller has to retry.
        """
        call = partial(self._change, lambda c: work(c, *arguments, **named))
        with reachable():
            return await _retry(call) if self.is_remote else await call()

    async def _change(self, work: Work[_T]) -> _T:
        """Do the work in turn, again for each lost race."""
        for _ in range(_ATTEMPTS):
            try:
                async with asyncio.timeout(self._patience):
                    await self._turns.acquire()
            except TimeoutError:
                raise StoreUnavailable(Reason.LOCKED) from None
            running = asyncio.ensure_future(self._run(work, True, self._longest))
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
            return await _retry(partial(self._run, on_snapshot, False, None))

    async def migrate(self, work: Work[_T]) -> _T:
        """Do the work in one transaction, however long it takes."""
        return await _retry(partial(self._run, work, True, None))

    async def _run(self, work: Work[_T], writes: bool, seconds: float | None) -> _T:
        """Do the work in a transaction, within these seconds."""
        if isinstance(self._engine, Engine):
            return await asyncio.get_running_loop().run_in_executor(self._threads, _run, self._engine, work, writes)
        from sdcard.io.postgresql import closed_after

        connection = None
        try:
            async with asyncio.timeout(seconds):
                connection = await self._connect(self._engine)
                driver = (await connection.get_raw_connection()).driver_connection
            with closed_after(seconds, driver):
                try:
                    if writes:
                        await connection.begin()  # else a driver's cursor would be rolled back
                    found = await connection.run_sync(_run_on, work)
                except UNREACHABLE as error:
                    if is_away(error):  # an error of COMMIT says nothing about the outcome
                        await connection.invalidate()  # or the next attempt meets the same standby
                        raise _Interrupted(error) from None
                    raise
                if writes:
                    await connection.commit()
                return found
        except UNREACHABLE as error:
            if connection is None and is_away(error):
                raise _Interrupted(error) from None
            raise
        finally:
            if connection is not None:
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


class _Interrupted(Exception):
    """The end of a transaction before its commit, with the error: nothing is written."""


async def _retry(attempt: Callable[[], Awaitable[_T]]) -> _T:
    """Make more attempts while the server is away: another one may take over."""
    for seconds in (*_PAUSES, None):
        try:
            return await attempt()
        except _Interrupted as error:
            if seconds is None:
                raise error.args[0] from None
            await asyncio.sleep(seconds)
    raise AssertionError("the last attempt returns or raises")


def _run(engine: Engine, work: Work[_T], writes: bool) -> _T:
    with engine.connect() as connection:
        if not writes:
            return _run_on(connection, work)
        with connection.begin():
            # A transaction that reads first cannot wait for the lock, and its reads may be outdated (WAL mode).
            connection.exec_driver_sql("BEGIN IMMEDIATE")
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
        if parsed.drivername not in _DRIVERS:
            raise ValueError
        engine: Engine | AsyncEngine
        lookups: SqliteLookups | PostgresqlLookups
        if parsed.get_backend_name() == "sqlite":
            sqlite, ways = parsed.set(drivername="sqlite"), {"hide_parameters": True, **ways_to_open(parsed, patience)}
            engine = create_engine(sqlite, poolclass=QueuePool, pool_use_lifo=True, pool_timeout=patience, **ways)
            lookups = SqliteLookups(engine, look_up_seconds)
        else:
            from sdcard.io.postgresql import check_open, ways_to_connect

            parsed, ways = ways_to_connect(parsed, patience)
            ways["hide_parameters"] = True
            engine = create_async_engine(parsed, poolclass=AsyncAdaptedQueuePool, pool_timeout=patience, **ways)
            beside = create_async_engine(parsed, poolclass=NullPool, **ways)  # no request waits there for readers
            event.listen(engine.sync_engine, "checkout", check_open)
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
    return database
