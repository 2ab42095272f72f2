"""A table of used nonces in SQLite or PostgreSQL, with the key of challenges.

- One statement decides about an addition. On PostgreSQL it is a transaction in one round trip.
- ``slot`` bounds the table: slots are unique, from 0 to the capacity. An addition takes the slot that expired first, by
  the index on ``until``. It takes a fresh slot only when none has expired.
- ``forgotten`` is the previous digest of a slot, because a clock that is ahead may overwrite a digest too early.
- The key is the row in slot -1, so emptying the table removes it. ``made_in`` identifies the state of the database in
  which the key was drawn. In another state, the next process draws a new key, and earlier challenges become unknown.
- On PostgreSQL the state is the start of the server, the database and the transaction that wrote the row. It changes
  with a restored base backup, a promoted standby, a crash, a copied database and a loaded dump.
- On SQLite the state is the file ``…-generation`` beside the database, which every addition changes.
"""

import asyncio
import math
import os
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import (
    URL,
    BigInteger,
    Column,
    Connection,
    Double,
    LargeBinary,
    MetaData,
    Sequence,
    String,
    Table,
    TextualSelect,
    bindparam,
    func,
    inspect,
    select,
    text,
)
from sqlalchemy.types import TypeEngine

from sdcard.errors import Part, Refused, Where
from sdcard.instants import Instant
from sdcard.io.database import Database
from sdcard.io.lookups import Lookup, Rows
from sdcard.io.sqlite import file_of
from sdcard.io.statements import Statement
from sdcard.nonces import new_key
from sdcard.rules import Rule
from sdcard.salts import SaltSource

T = TypeVar("T")

CLOCK_DIFFERENCE = 900
"""Seconds that the clocks of two processes may differ. Rows are kept for so much longer."""
CAPACITY = 1_000_000

_GENERATION_BYTES = 16
_BETWEEN_LOOKS = 1
"""Seconds between two reads of the key. Invented nonces of an attacker cause no more reads."""
_LOCK = 0x5D_0CE6
"""PostgreSQL's advisory lock under which processes draw a missing key."""
_NONCE = Where(Part.KB_JWT, ("nonce",))
_UNIQUE_VIOLATION = "23505"

_ADD = """
INSERT INTO {table} (slot, digest, until)
SELECT picked.slot, :digest, :until FROM (
  SELECT coalesce(
    (SELECT slot FROM {table} WHERE digest = :digest),
    (SELECT slot FROM {table} WHERE slot >= 0 AND until < :old ORDER BY until LIMIT 1 {skip_locked}),
    {fresh}
  ) AS slot
  WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE forgotten = :digest) AND {is_current}
) AS picked WHERE picked.slot IS NOT NULL
ON CONFLICT (slot) DO UPDATE SET digest = excluded.digest, until = excluded.until, forgotten = {table}.digest
WHERE {table}.until < CASE WHEN {table}.digest = excluded.digest THEN :now ELSE :old END
RETURNING slot
"""
_EXPLAIN = """
SELECT {is_current} AS is_current, EXISTS (SELECT 1 FROM {table} WHERE digest = :digest AND until >= :now)
  OR EXISTS (SELECT 1 FROM {table} WHERE forgotten = :digest) AS is_used
"""
_KEY = "SELECT digest FROM {table} AS k WHERE k.slot = -1 AND k.made_in = {made_in}"
_DRAW = "INSERT INTO {table} (slot, digest, until, made_in) VALUES (-1, :key, :never, {made_now})"

_SERVER = (
    "CAST(extract(epoch FROM pg_postmaster_start_time()) * 1000000 AS bigint), '/', "
    "(SELECT oid FROM pg_database WHERE datname = current_database()), '/', "
)
_DIALECTS: Mapping[str, Mapping[str, str]] = {
    "postgresql": {
        "skip_locked": "FOR UPDATE SKIP LOCKED",
        "fresh": "nextval('{table}_slots') % CAST(:capacity AS bigint)",
        "made_in": f"concat({_SERVER}k.xmin)",
        "made_now": f"concat({_SERVER}txid_current() & 4294967295)",
    },
    "sqlite": {
        "skip_locked": "",
        "fresh": "(SELECT slot FROM (SELECT coalesce(max(slot), -1) + 1 AS slot FROM {table}) WHERE slot < :capacity)",
        "made_in": ":made_in",
        "made_now": ":made_in",
    },
}
_TYPES: Mapping[str, TypeEngine[Any]] = {
    "digest": LargeBinary(),
    "key": LargeBinary(),
    "until": Double(),
    "old": Double(),
    "now": Double(),
    "never": Double(),
    "capacity": BigInteger(),
    "made_in": String(),
}


class KeyChanged(Exception):
    """The key of a recognized challenge is not the table's present key."""


def used_nonces_table(name: str, metadata: MetaData) -> Table:
    """Declare a table of used nonces, and on PostgreSQL the sequence of its slots."""
    Sequence(f"{name}_slots", metadata=metadata)
    return Table(
        name,
        metadata,
        Column("digest", LargeBinary(32), primary_key=True),
        Column("until", Double, nullable=False, index=True),
        Column("slot", BigInteger, unique=True),
        Column("forgotten", LargeBinary(32), index=True),
        Column("made_in", String(128)),
    )


def adopt_earlier_rows(connection: Connection, table: Table) -> None:
    """Add columns to a table of an earlier version, and slots to its rows.

    Processes of the earlier version may add rows meanwhile.
    """
    name, there = table.name, inspect(connection)
    if "slot" not in {one["name"] for one in there.get_columns(name)}:
        for one in (table.c.slot, table.c.forgotten, table.c.made_in):
            kind = one.type.compile(connection.dialect)
            connection.execute(text(f"ALTER TABLE {name} ADD COLUMN {one.name} {kind}"))
        connection.execute(text(f"CREATE UNIQUE INDEX {name}_slot_key ON {name} (slot)"))
        connection.execute(text(f"CREATE INDEX ix_{name}_forgotten ON {name} (forgotten)"))
    numbered = "SELECT digest, row_number() OVER () + (SELECT coalesce(max(slot), -1) FROM {0}) AS slot FROM {0}"
    adopting = f"UPDATE {name} SET slot = n.slot FROM ({numbered.format(name)} WHERE slot IS NULL) AS n"
    adopted = connection.execute(text(f"{adopting} WHERE {name}.digest = n.digest")).rowcount
    if adopted and connection.dialect.name == "postgresql":
        connection.execute(text(f"SELECT setval('{name}_slots', (SELECT max(slot) + 1 FROM {name}))"))


class UsedNonces:
    """A bounded table of used nonces."""

    def __init__(self, table: Table, capacity: int = CAPACITY) -> None:
        self._name, self._capacity = table.name, capacity

    async def add(self, database: Database, digest: bytes, until: Instant, now: Instant, key: bytes | None) -> bool:
        """Add a digest until an instant, inclusive; return false if it is used.

        The addition is its own transaction.

        Args:
            digest: 32 bytes that stand for the nonce.
            until: the last instant at which the nonce is valid.
            key: the key that recognized the nonce; None for a nonce that a Holder chose.

        Raises:
            KeyChanged: when the key is not the table's present key.
            Refused: ``kb.record-unavailable`` when the table is full, ``store.unavailable``.
        """
        if database.engine.dialect.name == "sqlite":
            return await database.change(lambda connection: self.add_in(connection, digest, until, now, key))
        values, kind = self._values(digest, until, now, key), (self._name, "postgresql", key is not None)
        try:
            added = await database.change_at_once(_lookup(_ADD, *kind), **values)
        except Exception as error:
            if getattr(error, "sqlstate", None) != _UNIQUE_VIOLATION:
                raise
            return False  # another request added it at the same time
        return bool(added) or _outcome(await database.look_up(_lookup(_EXPLAIN, *kind), **values))

    def add_in(self, connection: Connection, digest: bytes, until: Instant, now: Instant, key: bytes | None) -> bool:
        """Add as ``add``, as the last statement of a caller's transaction.

        Raises:
            IntegrityError: when another transaction added it at the same time.
        """
        generation, kind = (
            generation_file(connection.engine.url),
            (self._name, connection.dialect.name, key is not None),
        )
        values = {**self._values(digest, until, now, key), "made_in": read_generation(generation)}
        if not _statement(_ADD, *kind).read(connection, values):
            return _outcome(_statement(_EXPLAIN, *kind).read(connection, values))
        if generation is not None and key is not None:
            left = text(f"UPDATE {self._name} SET made_in = :made_in WHERE slot = -1")
            connection.execute(left, {"made_in": renew_generation(generation)})
        return True

    def is_used(self, connection: Connection, digest: bytes, until: Instant, now: Instant, key: bytes) -> bool:
        """Whether a nonce is used. Nothing is consumed.

        Raises:
            KeyChanged: when the key is not the table's present key.
        """
        generation = generation_file(connection.engine.url)
        values = {**self._values(digest, until, now, key), "made_in": read_generation(generation)}
        explained = _statement(_EXPLAIN, self._name, connection.dialect.name, True).read(connection, values)
        [(is_current, is_used)] = explained
        if not is_current:
            raise KeyChanged
        return bool(is_used)

    async def key(self, database: Database, salts: SaltSource) -> bytes:
        """Read the key, or draw one if there is none for this state of the database.

        Raises:
            Refused: ``store.unavailable``.
        """
        found = await database.read(self._find_key)
        if found is None:
            return await database.change(lambda connection: self._find_or_draw(connection, salts))
        return found

    def _find_key(self, connection: Connection) -> bytes | None:
        asked = _statement(_KEY, self._name, connection.dialect.name, True)
        found = asked.read(connection, {"made_in": read_generation(generation_file(connection.engine.url))})
        return bytes(found[0][0]) if found else None

    def _find_or_draw(self, connection: Connection, salts: SaltSource) -> bytes:
        if connection.dialect.name == "postgresql":
            connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))
        found = self._find_key(connection)  # another process may have drawn one meanwhile
        if found is not None:
            return found
        connection.execute(text(f"DELETE FROM {self._name} WHERE slot = -1"))
        key, made_in = new_key(salts), renew_generation(generation_file(connection.engine.url))
        drawn = _statement(_DRAW, self._name, connection.dialect.name, True)
        drawn.write(connection, {"key": key, "never": math.inf, "made_in": made_in})
        return key

    def _values(self, digest: bytes, until: Instant, now: Instant, key: bytes | None) -> dict[str, object]:
        return {
            "digest": digest,
            "until": float(until),
            "now": float(now),
            "old": float(now - CLOCK_DIFFERENCE),
            "capacity": self._capacity,
            "key": key,
        }


class SharedKey:
    """A cache of a table's key in one process.

    For an unknown nonce the key is read again, once a second at most. Concurrent requests share one read and its
    result, so a database that hangs is not asked by one request after another.
    """

    def __init__(self, database: Database, used: UsedNonces, salts: SaltSource) -> None:
        self._database, self._used, self._salts = database, used, salts
        self._lock, self._reads = asyncio.Lock(), 0
        self._key: bytes | None = None
        self._looked_at: Instant = -math.inf

    def forget(self) -> None:
        """Read the key again next time: a transaction found another one."""
        self._key, self._looked_at = None, -math.inf

    async def current(self) -> bytes:
        """Return the key; read it if it was never read.

        Raises:
            Refused: ``store.unavailable``.
        """
        return self._key or await self.read()

    async def read(self) -> bytes:
        """Read the key, or draw one if the table has no current key.

        Raises:
            Refused: ``store.unavailable``.
        """
        reads = self._reads
        async with self._lock:
            if self._reads == reads:
                try:
                    self._key = await self._used.key(self._database, self._salts)
                except Refused:
                    self._key = None
                self._reads += 1
        if self._key is None:
            raise Refused(Rule.STORE_UNAVAILABLE, Where(Part.REQUEST))
        return self._key

    async def recognize(self, check: Callable[[bytes], T], now: Instant) -> tuple[bytes, T]:
        """Return the key that passes a check, and the result of the check.

        If the cached key fails, the present one is read, because another process may have drawn a new one.

        Args:
            check: raises ``Refused`` for a nonce that was not made with its argument.

        Raises:
            Refused: by ``check`` with the present key; ``store.unavailable``.
        """
        key = await self.current()
        try:
            return key, check(key)
        except Refused:
            if abs(now - self._looked_at) < _BETWEEN_LOOKS:
                raise
            self._looked_at = now
            again = await self.read()
            if again == key:
                raise
            return again, check(again)


def _outcome(explained: Rows) -> bool:
    """Explain why nothing was added: false if the nonce is, or may be, used."""
    [(is_current, is_used)] = explained
    if not is_current:
        raise KeyChanged
    if not is_used:
        raise Refused(Rule.KB_RECORD, _NONCE, "The record is full.")
    return False


@lru_cache(64)
def _sql(template: str, table: str, dialect: str, keyed: bool) -> TextualSelect:
    parts = _DIALECTS[dialect]
    is_current = (
        f"EXISTS (SELECT 1 FROM {table} AS k WHERE k.slot = -1 AND k.digest = :key AND k.made_in = {parts['made_in']})"
    )
    fresh = parts["fresh"].format(table=table)
    written = template.format(**{**parts, "fresh": fresh}, table=table, is_current=is_current if keyed else "1 = 1")
    names = {name for name in _TYPES if re.search(rf":{name}\b", written)}
    return text(written).bindparams(*(bindparam(name, type_=_TYPES[name]) for name in names)).columns()


@lru_cache(64)
def _lookup(template: str, table: str, dialect: str, keyed: bool) -> Lookup:
    return Lookup(_sql(template, table, dialect, keyed))


@lru_cache(64)
def _statement(template: str, table: str, dialect: str, keyed: bool) -> Statement:
    return Statement(_sql(template, table, dialect, keyed))


def generation_file(url: URL) -> Path | None:
    """Return the file that tells a restored SQLite database from the previous one."""
    file = file_of(url)
    return None if file is None else file.with_name(f"{file.name}-generation")


def read_generation(file: Path | None) -> str:
    """Read the state of the generation file: content, inode, time of the last change.

    A process cannot set this time.
    """
    if file is None:
        return ""
    try:
        with file.open("rb") as opened:
            return _generation(opened.fileno(), opened.read(_GENERATION_BYTES))
    except FileNotFoundError:
        return "none"


def renew_generation(file: Path | None) -> str:
    """Change or make the generation file. A crash before the commit loses the key."""
    if file is None:
        return ""
    content = os.urandom(_GENERATION_BYTES)
    with open(os.open(file, os.O_RDWR | os.O_CREAT, 0o600), "wb", buffering=0) as opened:
        opened.write(content)
        return _generation(opened.fileno(), content)


def _generation(descriptor: int, content: bytes) -> str:
    found = os.fstat(descriptor)
    return f"{content.hex()}/{found.st_ino}/{found.st_ctime_ns}"
