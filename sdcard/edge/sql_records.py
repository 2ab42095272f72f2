"""Memory of nonces for several processes: the records of ``edge/records.py`` in a database, SQLite or PostgreSQL.

One statement decides, on a primary key: of all processes that insert a use, or delete a challenge, one does. A row is a
digest and an instant. Whoever cannot be told refuses: when the database is out of reach, and when a record is full.
"""

import asyncio
import hashlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import (
    Column,
    Connection,
    Double,
    Executable,
    LargeBinary,
    MetaData,
    Table,
    delete,
    func,
    literal_column,
    make_url,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite

from sdcard.edge.database_errors import reachable
from sdcard.edge.databases import Database, create_private, file_of, open_database
from sdcard.encoding import JsonValue, encode_json
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.instants import FreshnessWindow, Instant
from sdcard.keybinding.challenge import Challenge, NonceUse, new_challenge
from sdcard.rules import Rule
from sdcard.salts import SaltSource

CLOCK_DIFFERENCE = 900
"""Seconds that the clocks of two processes may differ: rows are kept for so much longer than they matter."""

_LOCK = 0x5D_0CE5
"""Of PostgreSQL's advisory locks: processes that start together make the tables in turn."""
_WHERE = Where(Part.KB_JWT, ("nonce",))
_METADATA = MetaData()


def _table(name: str) -> Table:
    """What stays there until when, inclusive."""
    return Table(
        name,
        _METADATA,
        Column("digest", LargeBinary(32), primary_key=True),
        Column("until", Double, nullable=False, index=True),
    )


_USES, _CHALLENGES = _table("sdcard_nonce_uses"), _table("sdcard_challenges")


async def open_records(url: str) -> Database:
    """The database that records are in, with their tables; makes what is not there. ``close`` it in the end.

    It may be one that holds other things too. It serves the event loop that it is opened in, and no other.

    Args:
        url: ``sqlite:///FILE`` or ``postgresql+asyncpg://USER:PASSWORD@HOST:PORT/DATABASE``.

    Raises:
        Misuse: as ``open_database``, and for a database in memory, which no other process sees.
        Refused: ``kb.record-unavailable``.
    """
    database = open_database(url)
    with _available(), reachable():
        if database.engine.dialect.name == "sqlite":
            create_private(_shared_file(url))
        try:
            await database.migrate(_make_tables)
        except BaseException:
            await database.close()
            raise  # whatever it was: nobody else has the database yet
    return database


def _shared_file(url: str) -> Path:
    file = file_of(make_url(url))
    if file is None:
        raise Misuse("records of several processes are in a file, or on a server")
    return file


def _make_tables(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))
    _METADATA.create_all(connection)


class SqlReplayRecord:
    """An ``AsyncReplayRecord`` that processes share."""

    def __init__(self, database: Database, capacity: int = 1_000_000) -> None:
        self._rows = _Rows(database, _USES, capacity)

    async def first_use(self, use: NonceUse, until: Instant, now: Instant) -> bool:
        """Remember the use; True for exactly one caller, in whichever process.

        Raises:
            Refused: ``kb.record-unavailable``. Then the use may be remembered: nobody can know what became of a commit
                whose connection broke.
        """
        return await self._rows.add(_digest([use.part.value, use.holder, use.audience, use.nonce]), until, now)


class SqlChallengeRecord:
    """Issues challenges for one audience; any process that shares the database lets each be answered once."""

    def __init__(
        self, database: Database, audience: str, salts: SaltSource, lifetime: int = 300, capacity: int = 1_000_000
    ) -> None:
        self._rows = _Rows(database, _CHALLENGES, capacity)
        self._audience, self._salts, self._lifetime = audience, salts, lifetime

    async def issue(
        self, now: Instant, window: FreshnessWindow | None = None, interaction_id: str | None = None
    ) -> Challenge:
        """A fresh challenge, to be answered within the record's lifetime.

        Raises:
            Refused: ``kb.record-unavailable``.
        """
        challenge = new_challenge(self._audience, self._salts, window, interaction_id)
        if not await self._rows.add(_digest_of(challenge), now + self._lifetime, now):
            raise Misuse("the salt source repeats itself")
        return challenge

    async def consume(self, challenge: Challenge, now: Instant) -> bool:
        """Forget the challenge; True for exactly one caller, and only in time.

        Raises:
            Refused: ``kb.record-unavailable``.
        """
        return await self._rows.remove(_digest_of(challenge), now)


_SWEPT_AT_ONCE = 500
_SWEEPS = 4
_BETWEEN_LOOKS = 1_000
"""Rows. A look takes away more than is added between two, so what has expired does not pile up."""


class _Rows:
    """Digests that leave at an instant of their own.

    Counting takes time that grows with the table, so a process looks once in a thousand rows, and once a second while
    there is no room: each of several processes may add a thousand beyond the capacity. What is on its way into the
    table may count twice for that second.
    """

    def __init__(self, database: Database, table: Table, capacity: int) -> None:
        self._database, self._table, self._capacity = database, table, capacity
        self._lock, self._fruitless = asyncio.Lock(), 0
        self._room = self._adding = 0
        self._full_at: Instant = -math.inf

    async def add(self, digest: bytes, until: Instant, now: Instant) -> bool:
        """False when the digest is there already."""
        await self._take_room(now)
        insert = sqlite.insert if self._database.engine.dialect.name == "sqlite" else postgresql.insert
        fresh = insert(self._table).values(digest=digest, until=float(until))
        self._adding += 1
        try:
            added = await self._changed(
                fresh.on_conflict_do_update(
                    index_elements=[self._table.c.digest],
                    set_={"until": fresh.excluded.until},
                    where=self._table.c.until < float(now),
                )
            )
        finally:
            self._adding -= 1
        if not added:
            self._give_room()
        return added == 1

    async def remove(self, digest: bytes, now: Instant) -> bool:
        """False when the digest is not there, or its time has passed."""
        here = self._table.c.digest == digest
        if await self._changed(delete(self._table).where(here, self._table.c.until >= float(now))) != 1:
            return False
        self._give_room()
        return True

    async def _take_room(self, now: Instant) -> None:
        """Whoever waits while a look finds no room shares what came of it: a slow database is not asked in turn."""
        fruitless = self._fruitless
        async with self._lock:
            if self._room <= 0 and self._fruitless == fruitless and abs(now - self._full_at) >= 1:
                try:
                    await self._look(now)
                except Refused:
                    self._fruitless += 1
                    raise
                if self._room <= 0:
                    self._fruitless += 1
            if self._room <= 0:
                raise Refused(Rule.KB_RECORD, _WHERE, "The record is full.")
            self._room -= 1

    def _give_room(self) -> None:
        self._room = min(self._room + 1, _BETWEEN_LOOKS)

    async def _look(self, now: Instant) -> None:
        await self._sweep(now)
        adding = self._adding  # before the count, which may see them and may not
        free = self._capacity - adding - await self._count()
        self._room, self._full_at = max(min(free, _BETWEEN_LOOKS), 0), now if free <= 0 else -math.inf

    async def _sweep(self, now: Instant) -> None:
        """Others may sweep at the same time: each takes rows that nobody else has locked."""
        old = select(self._table.c.digest).where(self._table.c.until < float(now - CLOCK_DIFFERENCE))
        batch = old.order_by(self._table.c.until).limit(_SWEPT_AT_ONCE).with_for_update(skip_locked=True)
        for _ in range(_SWEEPS):
            if await self._changed(delete(self._table).where(self._table.c.digest.in_(batch))) < _SWEPT_AT_ONCE:
                return

    async def _count(self) -> int:
        """As many rows as there are, and no more than the capacity."""
        some = select(literal_column("1")).select_from(self._table).limit(self._capacity).subquery()
        with _available():
            return await self._database.read(
                lambda connection: connection.scalar(select(func.count()).select_from(some)) or 0
            )

    async def _changed(self, statement: Executable) -> int:
        """How many rows the statement changed, once it is committed."""
        with _available():
            return await self._database.change(lambda connection: connection.execute(statement).rowcount)


@contextmanager
def _available() -> Iterator[None]:
    try:
        yield
    except Refused:
        raise Refused(Rule.KB_RECORD, _WHERE, "The record is out of reach.") from None


def _digest_of(challenge: Challenge) -> bytes:
    window = challenge.window
    return _digest([challenge.nonce, challenge.audience, window.past, window.future, challenge.interaction_id])


def _digest(parts: list[JsonValue]) -> bytes:
    """Of the JSON text, so that no two lists run into one another."""
    return hashlib.sha256(encode_json(parts)).digest()
