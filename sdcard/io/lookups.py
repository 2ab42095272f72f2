"""``Lookups``: short reads of one statement, at low cost and with a timeout.

A look-up first runs on the fast path: for SQLite in the event loop, which costs less than a thread, and for PostgreSQL
on a reserved connection. If it takes longer than a few milliseconds, it is cancelled and started again on the slow
path, which runs few at a time and refuses after ``seconds``. So slow look-ups delay only other slow ones.
"""

import asyncio
import sqlite3
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, TypeAlias

from sqlalchemy import Connection, Engine, SelectBase
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.postgresql import asyncpg
from sqlalchemy.ext.asyncio import AsyncEngine

from sdcard.errors import Part, Refused, Where
from sdcard.io.database_errors import identity_of, is_broken, is_refused
from sdcard.io.statements import Rendered, Statement
from sdcard.rules import Rule

Rows: TypeAlias = Sequence[Sequence[Any]]
"""As the driver gives them: JSON is text."""

AT_ONCE = 0.004
"""Seconds that SQLite may keep the event loop. One look-up takes some 0.05 ms."""
ON_THE_SERVER = 0.05
"""The same for PostgreSQL, where only the connection waits."""
SLOW_AT_ONCE = 2
"""Slow look-ups that run at one time, of one process."""
QUICK_CONNECTIONS = 4
"""Of a process, to PostgreSQL, for look-ups alone; with the slow ones, six."""
WRITING_CONNECTIONS = 2
"""Of a process, for transactions of one statement: while one commits, the next one does all but that."""

_Own: TypeAlias = tuple[sqlite3.Connection, tuple[str, object]]
"""A connection for the event loop, and the file that it was opened on."""
_STEPS = 2_000
"""Of SQLite's machine between two looks at the clock: some 0.05 ms."""
_CACHE_KIB = 65_536
"""Of pages that the event loop's connection keeps: the upper ones of a large index do not fit into SQLite's 2 MiB."""
_ALONG_INDICES = {
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
}
"""A look-up reads a few rows along an index, whatever PostgreSQL thinks of how many there are; planned once."""
_CANCELED = "57014"


class Lookup:
    """A statement that is rendered once, for both databases.

    SQLAlchemy writes it, and the tables check it.
    """

    def __init__(self, statement: SelectBase) -> None:
        self._statement = statement

    def read(self, connection: Connection, values: dict[str, object]) -> Rows:
        """Read the rows on a connection of the caller."""
        return Statement(self._statement).read(connection, values)

    @cached_property
    def for_sqlite(self) -> Rendered:
        """Render the statement for SQLite."""
        return Rendered(self._statement, sqlite.dialect(paramstyle="qmark"))

    @cached_property
    def for_postgresql(self) -> Rendered:
        """Render the statement for asyncpg."""
        return Rendered(self._statement, asyncpg.dialect())  # type: ignore[no-untyped-call]  # has no types


class TooSlow(Refused):
    """A look-up that was broken off."""

    def __init__(self) -> None:
        super().__init__(Rule.STORE_SLOW, Where(Part.REQUEST))


class SqliteLookups:
    """Look-ups in a SQLite file, for one event loop.

    ``seconds``: how long a slow one may wait, and then run.
    """

    def __init__(self, engine: Engine, seconds: float) -> None:
        self._engine, self._seconds = engine, seconds
        self._places = asyncio.Semaphore(SLOW_AT_ONCE)
        self._threads = ThreadPoolExecutor(SLOW_AT_ONCE, "lookups")
        self._own: sqlite3.Connection | None = None
        self._file: tuple[str, object] = ("", None)
        self._ends_at = 0.0

    async def look_up(self, lookup: Lookup, values: dict[str, object]) -> Rows:
        """Return the rows. Raises errors of ``sqlite3``, and ``TooSlow``."""
        rendered = lookup.for_sqlite
        text, arguments = rendered.text, rendered.arguments(values)
        is_open = self._is_open()
        found = self._try(text, arguments) if is_open else None
        if found is not None:
            return found
        await self._take_place()
        if not is_open and self._is_open():  # the first of many has opened it while the others waited
            self._places.release()
            return await self.look_up(lookup, values)
        running = asyncio.get_running_loop().run_in_executor(self._threads, self._run, text, arguments)
        running.add_done_callback(self._end_slow)
        rows, _ = await asyncio.shield(running)
        return rows

    async def _take_place(self) -> None:
        """Wait to be among the slow ones."""
        try:
            async with asyncio.timeout(self._seconds):
                await self._places.acquire()
        except TimeoutError:
            raise TooSlow from None

    def _try(self, text: str, arguments: tuple[object, ...]) -> Rows | None:
        """Read the rows; None on a timeout or a held lock: a thread can wait for both."""
        assert self._own is not None, "it is open"
        self._ends_at = time.monotonic() + AT_ONCE
        try:
            return self._own.execute(text, arguments).fetchall()
        except sqlite3.OperationalError:
            return None

    def _is_open(self) -> bool:
        """Whether the own connection is open and its file still has its name."""
        if self._own is not None and identity_of(self._file[0]) != self._file[1]:
            self._forget()
        return self._own is not None

    def _end_slow(self, running: "asyncio.Future[tuple[Rows, _Own | None]]") -> None:
        """Pass the place to the next look-up, even if its caller has left.

        Nothing waits for a thread.
        """
        self._places.release()
        own = None if running.cancelled() or running.exception() else running.result()[1]
        if own is not None and self._own is None:
            self._own, self._file = own
        elif own is not None:
            own[0].close()

    def _run(self, text: str, arguments: tuple[object, ...]) -> tuple[Rows, _Own | None]:
        """Read the rows in a thread, on a pooled connection.

        Also open a connection for an event loop that has none.
        """
        connection = self._engine.raw_connection()
        try:
            driver = connection.driver_connection
            assert isinstance(driver, sqlite3.Connection)
            ends_at = time.monotonic() + self._seconds
            driver.set_progress_handler(lambda: time.monotonic() > ends_at, 10 * _STEPS)
            try:
                rows = driver.execute(text, arguments).fetchall()
            finally:
                driver.set_progress_handler(None, 0)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname == "SQLITE_INTERRUPT":
                raise TooSlow from None
            raise
        finally:
            connection.close()
        return rows, self._open() if self._own is None else None

    def _open(self) -> _Own:
        """A connection that does not wait for locks, and checks its deadline."""
        connection = self._engine.raw_connection()
        driver, file = connection.driver_connection, connection.info["file"]
        assert isinstance(driver, sqlite3.Connection)
        connection.detach()
        driver.execute("PRAGMA busy_timeout=0")
        driver.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
        driver.set_progress_handler(lambda: time.monotonic() > self._ends_at, _STEPS)
        return driver, file

    async def close(self) -> None:
        """Let go of the connection."""
        self._forget()

    def _forget(self) -> None:
        if self._own is not None:
            self._own.close()
        self._own = None


class PostgresqlLookups:
    """Look-ups in PostgreSQL, and transactions of one statement, for one event loop.

    ``seconds``: how long a slow one may wait, and then run.
    """

    def __init__(self, engine: AsyncEngine, seconds: float) -> None:
        self._quick = _Lane(engine, QUICK_CONNECTIONS, min(ON_THE_SERVER, seconds))
        self._slow = _Lane(engine, SLOW_AT_ONCE, seconds)
        self._writing = _Lane(engine, WRITING_CONNECTIONS, seconds)
        self._seconds = seconds

    async def look_up(self, lookup: Lookup, values: dict[str, object]) -> Rows:
        """Return the rows. Raises errors of asyncpg, and ``TooSlow``."""
        rendered = lookup.for_postgresql
        arguments = rendered.arguments(values)
        found = await self._quick.look_up(rendered.text, arguments, self._seconds)
        if found is None:
            found = await self._slow.look_up(rendered.text, arguments, self._seconds)
        if found is None:
            raise TooSlow
        return found

    async def write(self, statement: Lookup, values: dict[str, object]) -> Rows:
        """Execute a statement that writes.

        There are no rows when the server did not execute it. Raises what asyncpg raises when a connection breaks. The
        statement goes on when its caller leaves, because asyncpg would cancel the COMMIT.
        """
        rendered = statement.for_postgresql
        asked = self._writing.look_up(rendered.text, rendered.arguments(values), self._seconds)
        running = asyncio.ensure_future(asked)
        running.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            rows = await asyncio.shield(running)
        except TooSlow:
            return ()
        except Exception as error:  # the driver documents no closed set; the server's errors have a code
            if is_broken(error) and not is_refused(error):
                raise
            return ()
        return rows or ()

    async def close(self) -> None:
        """Let go of the connections."""
        for lane in (self._quick, self._slow, self._writing):
            await lane.close()


class _Lane:
    """A bounded set of connections with a time limit for each statement."""

    def __init__(self, engine: AsyncEngine, width: int, seconds: float) -> None:
        self._engine, self._seconds = engine, seconds
        self._places = asyncio.Semaphore(width)
        self._idle: list[Any] = []

    async def look_up(self, text: str, arguments: tuple[object, ...], patience: float) -> Rows | None:
        """Return the rows; None when the server broke the statement off.

        A look-up that waits too long for a connection is refused.
        """
        try:
            if self._places.locked():
                async with asyncio.timeout(patience):
                    await self._places.acquire()
            else:
                await self._places.acquire()
        except TimeoutError:
            raise TooSlow from None
        try:
            return await self._ask(text, arguments, patience)
        finally:
            self._places.release()

    async def _ask(self, text: str, arguments: tuple[object, ...], patience: float) -> Rows | None:
        connection = self._kept() or await self._open()
        ends = asyncio.get_running_loop().call_later(3 * patience, connection.terminate)
        try:
            found: Rows = await connection.fetch(text, *arguments)
        except BaseException as error:
            if is_broken(error):  # or the caller has left: its state is unknown
                connection.terminate()
                raise
            self._idle.append(connection)
            if getattr(error, "sqlstate", None) == _CANCELED:
                return None
            raise
        finally:
            ends.cancel()
        self._idle.append(connection)
        return found

    def _kept(self) -> Any:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return None

    async def _open(self) -> Any:
        try:
            pooled = await self._engine.raw_connection()
        except self._engine.dialect.loaded_dbapi.Error as error:  # SQLAlchemy's own word for what asyncpg says
            raise error.__cause__ or error from None
        connection = pooled.driver_connection
        pooled.detach()
        assert connection is not None
        try:
            settings = {"statement_timeout": str(int(1000 * self._seconds)), **_ALONG_INDICES}
            if hasattr(connection, "settings"):  # a pooler's, which has them for each transaction
                del settings[
                    "jit"
                ]  # asyncpg sets it for the session, when it reads types of the server, and sets it back
                connection.settings |= settings
            else:
                await connection.execute("; ".join(f"SET {name} = {value}" for name, value in settings.items()))
        except BaseException:  # nothing else refers to it
            connection.terminate()
            raise
        return connection

    async def close(self) -> None:
        """Close the unused connections."""
        while self._idle:
            await self._idle.pop().close()
