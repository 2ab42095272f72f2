"""The state of the tables as digests, and its replay from the audit chain."""

import base64
import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from json.encoder import encode_basestring_ascii
from operator import itemgetter
from typing import Any

from sqlalchemy import Table

from issuer_service.audit.records import FOUND, AuditEvent, Row, Supersedes, WrittenRows
from issuer_service.db import tables
from issuer_service.status.records import EXPIRED_LATELY, STATUS_CHANGES
from sdcard.encoding import encode_base64url

# -- Tables that are compared with the audit chain, and digests of their rows -----------------------------------------
# A record names a row and keeps a digest of each of its columns, so a difference is found with its column. The
# digests are keyed: a record that is exported, or kept after an agent was deleted, does not show or confirm a value
# to a reader who does not have the database.

SIZE = 16
"""Bytes of a digest. An attacker without the key cannot search for two values with one digest."""
KEY_BYTES = 32
ADOPTS, GONE, KEYS, PUBLIC, ROWS, RUNS = "adopts", "gone", "keys", "public_at", "rows", "runs"
"""Members of the JSON text in ``audit.state``."""

NAME_LENGTH = 16
"""Of a name that is the beginning of a digest."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A table whose rows are compared, all columns of them.

    Attributes:
        name: row → its name in audit records. Rows with the same name are compared together.
        order: the columns that sort the rows of a name.
        apart: columns that are compared in another way → that way.
        columns: the columns whose digests are in audit records, in order.
    """

    table: Table
    name: Callable[[bytes, Row], str]
    order: tuple[str, ...]
    apart: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        columns = tuple(column.name for column in self.table.c if column.name not in self.apart)
        object.__setattr__(self, "columns", columns)


def hidden_name(key: bytes, table: str, value: object) -> str:
    """Replace a row's name that would link an SD-Card to an agent."""
    digest = hashlib.blake2b(f'["name","{table}",{_json(value)}]'.encode(), key=key, digest_size=SIZE).digest()
    return encode_base64url(digest)


def _column(column: str, length: int | None = None) -> Callable[[bytes, Row], str]:
    """Name a row by this column, or by the first characters of it.

    The first characters of a digest are enough for a name, and authenticate nothing.
    """
    return lambda _, row: str(row[column])[:length]


def _card_name(key: bytes, row: Row) -> str:
    """Return the name under which an SD-Card is compared.

    SD-Cards of a registration are compared together, and each SD-Card for discovery alone.
    """
    return hidden_name(key, "cards", row["digest"]) if row["for_discovery"] else str(row["batch_id"])


_PAIRED = "by replaying status changes: audit.state-changed at its row"
COMPARED: Mapping[str, Compared] = {
    one.table.name: one
    for one in (
        Compared(tables.tokens, _column("digest", NAME_LENGTH), ("digest",)),
        Compared(tables.sessions, _column("digest", NAME_LENGTH), ("digest",)),
        Compared(tables.agents, _column("agent_id"), ("agent_id",)),
        Compared(tables.batches, _column("batch_id"), ("batch_id",)),
        Compared(tables.cards, _card_name, ("batch_id", "for_discovery", "digest")),
        Compared(tables.registry_keys, _column("kid"), ("kid",)),
        Compared(tables.discovery_cards, _column("position"), ("position",), {"status": _PAIRED}),
        Compared(tables.status_lists, _column("list_id"), ("list_id",)),
        Compared(tables.grants, _column("grant_id"), ("grant_id",)),
        Compared(tables.delegations, _column("token_id"), ("token_id",)),
        Compared(tables.approvals, _column("approval_id"), ("approval_id",)),
        Compared(tables.remembered, _column("digest", NAME_LENGTH), ("digest",)),
        Compared(tables.reviews, _column("review_id"), ("review_id",)),
        Compared(tables.domain_proofs, _column("agent_id"), ("agent_id",)),
    )
}
"""The tables that records have digests of."""

REPLAYED: Mapping[str, Mapping[str, str]] = {
    "holder_keys": {
        "thumbprint": "records list the keys that they bind",
        "agent_id": "the agent of the record that bound the key",
        "bound_at": "the time of the record that bound the key",
    },
    "status_entries": {
        "list_id": "records list the entries that they give to SD-Cards",
        "index": "records list the entries that they give to SD-Cards",
        "status": "follows from the registrations, status changes and deletions of the agent",
        "expires_at": "records tell when each SD-Card expires",
        "shown": "follows from the status changes, and from when they become public",
        "public_at": "not later than records say: a later one would keep a revocation from the list",
    },
    "log_leaves": {
        "entry": "the audit record names the entry of its leaf; each SD-Card of a Batch has one",
        "at": "the time of the record; of the leaf of an SD-Card, only the order of those that wait",
        "place": "the entries of the tree",
        "agent_id": "the agent of the record; of the leaf of an SD-Card, who gets its proof",
        "card": "each SD-Card of a Batch has a leaf",
        "salt": "leads to the entry, with the record or the commitment",
        "structure": "the text of the record",
        "commitment": "leads to the entry, with the record or the salt",
    },
    "log_tiles": dict.fromkeys(tables.log_tiles.c.keys(), "the entries of the tree make all other tiles"),
    "log_head": {
        "size": "the number of entries",
        "root": "the entries of the tree make it",
        "published": "the published checkpoint",
        "checkpoint": "the root of the tree of this size",
    },
    "discovery_postings": {"term": "the terms of the row of discovery_cards", "position": "the row of discovery_cards"},
}
"""Table → column → its source. These rows follow from audit events, or from other rows that are compared."""

NOT_COMPARED: Mapping[str, Mapping[str, str]] = {
    "answers": dict.fromkeys(
        tables.answers.c.keys(),
        "a kept answer: its text is encrypted with the caller's token (decision 0010), so another one does not open; a "
        "row that is deleted makes the request run again, under the same checks",
    ),
    "used_nonces": dict.fromkeys(
        tables.used_nonces.c.keys(),
        "used nonces and their key: a nonce permits nothing without the proof, and an emptied table gets a new key",
    ),
    "secrets": dict.fromkeys(
        tables.secrets.c.keys(),
        "positions and terms of discovery are computed with it; another secret finds no agent, and permits nothing",
    ),
    "heartbeats": dict.fromkeys(
        tables.heartbeats.c.keys(), "the age of replicas: another time refuses public discovery, or hides a lag"
    ),
    "agent_checks": dict.fromkeys(
        tables.agent_checks.c.keys(),
        "times and findings of checks: another row delays or repeats a check; what is proved is in domain_proofs",
    ),
    "log_head": {
        "log": "its number is part of its name, which witnesses and Verifiers know",
        "batch_at": "when the last batch was appended: another time delays or repeats a batch",
    },
    "audit": dict.fromkeys(tables.audit.c.keys(), "the chain itself: its digests and the checkpoints protect it"),
    "audit_waiting": dict.fromkeys(
        tables.audit_waiting.c.keys(), "records that wait for the chain: replayed as those behind its end"
    ),
    "audit_head": {
        "chain": "a constant",
        "sequence": "the chain itself",
        "digest": "the chain itself",
        "state_key": "the key of the digests: with another one every row differs",
        "log_key": "the key of agent digests in the log: another one shows that the log began anew",
    },
}
"""What is not compared: table → column → why."""


def pack(key: bytes, compared: Compared, name: str, rows: Sequence[Row]) -> bytes:
    """The digests of the columns of all rows with this name, one after another."""
    if len(rows) > 1:
        rows = sorted(rows, key=itemgetter(*compared.order))
    table, named = compared.table.name, _json(name)
    digests = [
        hashlib.blake2b(
            f'["{table}","{column}",{named},[{",".join([_json(row[column]) for row in rows])}]]'.encode(),
            key=key,
            digest_size=SIZE,
        ).digest()
        for column in compared.columns
    ]
    return b"".join(digests)


def differing(compared: Compared, one: bytes, other: bytes) -> list[str]:
    """Return the columns whose digests differ."""
    places = enumerate(compared.columns)
    return [name for at, name in places if one[at * SIZE : at * SIZE + SIZE] != other[at * SIZE : at * SIZE + SIZE]]


def state_text(key: bytes, written: WrittenRows) -> str | None:
    """Build the digests of the rows that a transaction wrote; None for none."""
    state: dict[str, object] = {}
    if written.adopts:
        state[ADOPTS] = 1
    if written.gone:
        state[GONE] = {table: list(names) for table, names in written.gone.items()}
    if written.keys:
        state[KEYS] = {
            str(at): [hidden_name(key, "holder_keys", one) for one in thumbprints]
            for at, thumbprints in written.keys.items()
        }
    if written.public_at is not None:
        state[PUBLIC] = written.public_at
    if written.rows:
        state[ROWS] = {table: _digested(key, COMPARED[table], rows) for table, rows in written.rows.items()}
    if written.runs:
        state[RUNS] = [[*run[:-1], *run.indices] for run in written.runs]
    return json.dumps(state, sort_keys=True, separators=(",", ":")) if state else None


def _digested(key: bytes, compared: Compared, rows: Iterable[Row]) -> dict[str, str]:
    named: dict[str, list[Row]] = {}
    for row in rows:
        named.setdefault(compared.name(key, row), []).append(row)
    return {name: encode_base64url(pack(key, compared, name, of_name)) for name, of_name in named.items()}


def unpack(text: str) -> bytes:
    """Text of a record → digests.

    Raises:
        ValueError: when it is not one.
    """
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _json(value: object) -> str:
    """Serialize a value, of any driver.

    A tuple and a list, and all kinds of bytes, are the same. Most values need no encoder.
    """
    if type(value) is str:
        return encode_basestring_ascii(value)
    if type(value) is int:
        return str(value)
    return "null" if value is None else _ENCODER.encode(value)


def _plain(value: object) -> object:
    if isinstance(value, bytes | bytearray | memoryview):
        return ["bytes", bytes(value).hex()]
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_plain)


# -- Replay: what the records of the chain say that the tables hold ---------------------------------------------------
# The expectation is kept in a temporary SQLite database on the disk, so that memory does not grow with the registry.

ISSUING = {AuditEvent.AGENT_REGISTERED, AuditEvent.AGENT_RENEWED, AuditEvent.AGENT_KEYS_CHANGED}
_OF_DELETED = ("batches", "cards", "discovery_cards", "domain_proofs")
_TABLES = """
CREATE TABLE expected (
    tab TEXT, name TEXT, agent TEXT, digests BLOB, sequence INTEGER, PRIMARY KEY (tab, name)
) WITHOUT ROWID;
CREATE INDEX of_agent ON expected (agent, tab);
CREATE TABLE bound (name TEXT PRIMARY KEY, agent TEXT, at INTEGER, sequence INTEGER) WITHOUT ROWID;
CREATE TABLE entries (
    list TEXT, idx INTEGER, agent TEXT, batch TEXT, context TEXT, expires INTEGER, status INTEGER, sequence INTEGER,
    shown INTEGER, public INTEGER, PRIMARY KEY (list, idx)
) WITHOUT ROWID;
CREATE INDEX entries_of_agent ON entries (agent, list);
CREATE TABLE terms (term INTEGER, position INTEGER, PRIMARY KEY (term, position)) WITHOUT ROWID;
"""
_PENDING = "public > :at AND public <= :public"
_CHANGE = f"""
UPDATE entries SET status = :after, sequence = :sequence, shown = iif({_PENDING}, shown, status),
    public = iif({_PENDING}, public, :public)
WHERE agent = :agent AND expires > :at - {EXPIRED_LATELY} AND status IN (:before, :or_before)
"""
"""As ``statuses.change_statuses``: a change that is not public yet, and the next one, become public together."""


class Malformed(ValueError):
    """The state of a record is none that the registry writes."""


class Replay:
    """State according to the records so far.

    Attributes:
        kept: the temporary database.
        adopted: the record that the state begins with; 0: the first record of the chain.
    """

    def __init__(self, kept: sqlite3.Connection) -> None:
        self.kept = kept
        self.adopted = 0

    def take(self, sequence: int, record: Mapping[str, Any]) -> None:
        """Apply the next record.

        Raises:
            Malformed: when it says something that no record says.
        """
        try:
            state = json.loads(record.get("state", "{}"))
            if state.get(ADOPTS):
                self._begin(sequence)
            self._happen(sequence, record, state.get(PUBLIC))
            self._write(sequence, record, state)
        except (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError, sqlite3.Error) as error:
            raise Malformed from error

    def _begin(self, sequence: int) -> None:
        """Discard the state of records before the adoption."""
        self.adopted = sequence
        for table in ("expected", "bound", "entries"):
            self.kept.execute(f"DELETE FROM {table}")

    def _happen(self, sequence: int, record: Mapping[str, Any], public_at: int | None) -> None:
        """Apply the consequences of the event itself."""
        event, agent = record["event"], record["agent_id"]
        if event in ISSUING:
            self._forget(agent, "discovery_cards")
            if record.get("supersedes") == Supersedes.REVOKE:
                self._change(sequence, AuditEvent.CARDS_REVOKED, agent, record["at"], public_at)
        elif event == AuditEvent.AGENT_DELETED:
            self._forget(agent, *_OF_DELETED)
            self._change(sequence, AuditEvent.CARDS_REVOKED, agent, record["at"], public_at)
        elif event in STATUS_CHANGES:
            narrower = {"batch": record["batch_id"], "context": next(iter(record["disclosed"]), "")}
            self._change(sequence, AuditEvent(event), agent, record["at"], public_at, **narrower)

    def _forget(self, agent: str, *tables: str) -> None:
        for table in tables:
            self.kept.execute("DELETE FROM expected WHERE agent = ? AND tab = ?", (agent, table))
        self.kept.execute("DELETE FROM entries WHERE agent = ? AND list = ?", (agent, FOUND))

    def _change(
        self, sequence: int, event: AuditEvent, agent: str, at: int, public: int | None, **narrower: str
    ) -> None:
        """Replay a change of statuses.

        It affects one agent's SD-Cards that had not expired long before.
        """
        before, after = STATUS_CHANGES[event]
        values = {"sequence": sequence, "agent": agent, "at": at, "public": public, "after": int(after)}
        values |= {"before": int(before[0]), "or_before": int(before[-1]), **narrower}
        narrow = (f" AND {column} = :{column}" for column, value in narrower.items() if value)
        self.kept.execute(_CHANGE + "".join(narrow), values)

    def _write(self, sequence: int, record: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        agent = record["agent_id"]
        for context, list_id, of_batch, expires, status, *indices in state.get(RUNS, ()):
            entry = (agent, of_batch, context, expires, status, sequence, None, None)
            self._add("entries", [(list_id, int(index), *entry) for index in indices])
        for at, names in state.get(KEYS, {}).items():
            self._add("bound", [(str(name), agent, int(at), sequence) for name in names])
        for table, names in state.get(GONE, {}).items():
            for name in names:
                self.kept.execute("DELETE FROM expected WHERE tab = ? AND name = ?", (table, name))
                if table == "status_lists":
                    gone = (name, record["at"] - EXPIRED_LATELY)
                    self.kept.execute("DELETE FROM entries WHERE list = ? AND expires <= ?", gone)
        for table, rows in state.get(ROWS, {}).items():
            self._add("expected", [(table, name, agent, unpack(text), sequence) for name, text in rows.items()])

    def _add(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        if rows:
            values = ", ".join("?" * len(rows[0]))
            self.kept.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({values})", rows)


@contextmanager
def replaying() -> Iterator[Replay]:
    """A replay that has not begun. Its database is gone afterwards."""
    kept = sqlite3.connect("", isolation_level=None)
    try:
        kept.execute("PRAGMA synchronous=OFF")
        kept.execute("PRAGMA journal_mode=OFF")
        kept.execute("PRAGMA cache_size=-65536")
        kept.executescript(_TABLES)
        kept.execute("BEGIN")
        yield Replay(kept)
    finally:
        kept.close()
