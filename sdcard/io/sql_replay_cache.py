"""Records of used nonces in SQLite or PostgreSQL, for several processes.

They are the records of ``sdcard.io.replay_cache`` in a database. Exactly one process adds a nonce: see ``used_nonces``.
A record refuses when it is full or out of reach.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from sqlalchemy import Connection, MetaData, func, make_url, select

from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.instants import FreshnessWindow, Instant
from sdcard.io.database import Database, open_database
from sdcard.io.database_errors import reachable
from sdcard.io.replay_cache import digest_of_nonce, digest_of_use
from sdcard.io.sqlite import create_private, file_of
from sdcard.io.used_nonces import CAPACITY, KeyChanged, SharedKey, UsedNonces, adopt_earlier_rows, used_nonces_table
from sdcard.key_binding import Challenge, NonceUse, RequestTarget
from sdcard.nonces import ChallengeMaker, NoncePurpose
from sdcard.rules import Rule
from sdcard.salts import SaltSource

_LOCK = 0x5D_0CE5
"""PostgreSQL's advisory lock under which starting processes make the tables."""
_WHERE = Where(Part.KB_JWT, ("nonce",))
_METADATA = MetaData()
_USES = used_nonces_table("sdcard_nonce_uses", _METADATA)
_CHALLENGES = used_nonces_table("sdcard_answered_challenges", _METADATA)


async def open_records(url: str) -> Database:
    """Open the database of the records, and make missing tables.

    The caller must ``close`` it. It may hold other tables. It works only in the event loop in which it is opened.

    Args:
        url: ``sqlite:///FILE`` or ``postgresql+asyncpg://USER:PASSWORD@HOST:PORT/DATABASE``.

    Raises:
        Misuse: as ``open_database``, and for a database in memory, which processes cannot share.
        Refused: ``kb.record-unavailable``.
    """
    database = open_database(url)
    try:
        await _prepare(database, url)
    except BaseException:  # also when the caller leaves: no one else has the database yet
        await database.close()
        raise
    return database


async def _prepare(database: Database, url: str) -> None:
    """Make the file of SQLite, and missing tables."""
    with _available(), reachable():
        if database.engine.dialect.name == "sqlite":
            create_private(_shared_file(url))
        await database.migrate(_make_tables)


def _shared_file(url: str) -> Path:
    file = file_of(make_url(url))
    if file is None:
        raise Misuse("records of several processes are in a file, or on a server")
    return file


def _make_tables(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))
    _METADATA.create_all(connection)
    adopt_earlier_rows(connection, _USES)


class SqlReplayRecord:
    """An ``AsyncReplayRecord`` that processes share."""

    def __init__(self, database: Database, capacity: int = CAPACITY) -> None:
        self._database, self._used = database, UsedNonces(_USES, capacity)

    async def first_use(self, use: NonceUse, until: Instant, now: Instant) -> bool:
        """Store the use; true for exactly one caller of all processes.

        Raises:
            Refused: ``kb.record-unavailable``. The use may be stored then, because the result of a commit is unknown if
                its connection breaks.
        """
        with _available():
            return await self._used.add(self._database, digest_of_use(use), until, now, None)


class SqlChallengeRecord:
    """Makes challenges for one audience, for all processes that share the database.

    Each can be answered once. The key is in the database, beside the answered challenges. A process reads it once, and
    again when the database has another one.

    Args:
        database: from ``open_records``.
        salts: randomness, for a new key and for each challenge.
        lifetime: seconds in which a challenge is valid; the same in every process.
        capacity: the most answered challenges; a full record refuses every answer.
    """

    def __init__(
        self,
        database: Database,
        audience: str,
        salts: SaltSource,
        lifetime: int = 300,
        capacity: int = CAPACITY,
        purpose: NoncePurpose = NoncePurpose.PRESENTATION,
    ) -> None:
        self._maker, self._salts = ChallengeMaker(audience, lifetime, purpose), salts
        self._database, self._used = database, UsedNonces(_CHALLENGES, capacity)
        self._key = SharedKey(database, self._used, salts)

    async def issue(
        self,
        now: Instant,
        window: FreshnessWindow | None = None,
        interaction_id: str | None = None,
        target: RequestTarget | None = None,
    ) -> Challenge:
        """Make a challenge. Nothing is stored.

        Raises:
            Refused: ``kb.record-unavailable`` when the key was never read and cannot be read.
        """
        await self._open()
        with _available():
            key = await self._key.current()
        return self._maker.make(key, self._salts, now, window, interaction_id, target)

    async def check(self, challenge: Challenge, now: Instant) -> None:
        """Refuse a challenge that is too old, or not made so with the present key.

        Raises:
            Refused: as ``ChallengeMaker.check``; ``kb.record-unavailable``.
        """
        await self._open()
        with _available():
            await self._key.recognize(partial(self._maker.check, challenge=challenge, now=now), now)

    async def consume(self, challenge: Challenge, now: Instant) -> bool:
        """Mark the challenge as answered; true for exactly one caller.

        False for a challenge that ``check`` refuses.

        Raises:
            Refused: ``kb.record-unavailable``.
        """
        await self._open()
        with _available():
            try:
                key, until = await self._key.recognize(partial(self._maker.check, challenge=challenge, now=now), now)
            except Refused as refusal:
                if refusal.rule is Rule.STORE_UNAVAILABLE:
                    raise
                return False
            try:
                return await self._used.add(self._database, digest_of_nonce(challenge.nonce), until, now, key)
            except KeyChanged:
                await self._key.read()
                return False

    async def _open(self) -> None:
        """Prepare the database before its first use; ``open_records`` has done it."""


class SharedChallengeRecord(SqlChallengeRecord):
    """A ``SqlChallengeRecord`` that opens its database at its first use.

    So it can be made at import. It works in one event loop.

    Args:
        url: as for ``open_records``.
        salts: randomness, for a new key and for each challenge.

    Raises:
        Misuse: as ``open_records``.
    """

    def __init__(self, url: str, audience: str, salts: SaltSource) -> None:
        database = open_database(url)
        if database.engine.dialect.name == "sqlite":
            _shared_file(url)
        super().__init__(database, audience, salts)
        self._url, self._is_prepared = url, False

    async def close(self) -> None:
        """Close the database."""
        await self._database.close()

    async def _open(self) -> None:
        """Make the tables.

        A second request that comes meanwhile does the same, which changes nothing.
        """
        if not self._is_prepared:
            await _prepare(self._database, self._url)
            self._is_prepared = True


@contextmanager
def _available() -> Iterator[None]:
    try:
        yield
    except Refused as refusal:
        if refusal.rule not in (Rule.STORE_UNAVAILABLE, Rule.STORE_SLOW):
            raise
        raise Refused(Rule.KB_RECORD, _WHERE, "The record is out of reach.") from None
