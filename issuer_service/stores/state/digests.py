"""Tables that are compared with the audit chain, and digests of their rows.

A record names a row and keeps a digest of each of its columns, so a difference is found with its column. The digests
are keyed: a record that is exported, or kept after an agent was deleted, does not show or confirm a value to a reader
who does not have the database.
"""

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from sqlalchemy import Table

from issuer_service.stores import tables
from issuer_service.stores.rows.state import Row, Written

SIZE = 16
"""Bytes of a digest. Without the key nobody can look for two values with one digest."""
KEY_BYTES = 32
ADOPTS, GONE, KEYS, PUBLIC, ROWS, RUNS = "adopts", "gone", "keys", "public_at", "rows", "runs"
"""Members of the JSON text in ``audit.state``."""

NAME_LENGTH = 16
"""Of a name that is the beginning of a digest."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A table whose rows are compared, all columns of them.

    Attributes:
        table: the table.
        name: row → what records call it. Rows of one name are compared together.
        order: the columns that sort the rows of one name.
        apart: columns that are compared in another way → how.
    """

    table: Table
    name: Callable[[bytes, Row], str]
    order: tuple[str, ...]
    apart: Mapping[str, str] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that records have digests of, in order."""
        return tuple(column.name for column in self.table.c if column.name not in self.apart)


def hidden_name(key: bytes, table: str, value: object) -> str:
    """Name a row whose own name links an SD-Card to an agent."""
    digest = hashlib.blake2b(_encode(["name", table, value]), key=key, digest_size=SIZE).digest()
    return _text(digest)


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
    "discovery_postings": {
        "term": "the terms of the row of discovery_cards",
        "position": "the row of discovery_cards",
    },
}
"""Tables whose rows follow from events, or from other tables that are compared → column → from what."""

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
    "audit": dict.fromkeys(tables.audit.c.keys(), "the chain itself: its digests and the checkpoints protect it"),
    "audit_head": {
        "chain": "a constant",
        "sequence": "the chain itself",
        "digest": "the chain itself",
        "state_key": "the key of the digests: with another one every row differs",
    },
}
"""Tables that are not compared → column → why."""


def pack(key: bytes, compared: Compared, name: str, rows: Sequence[Row]) -> bytes:
    """The digests of the columns of all rows with this name, one after another."""
    if len(rows) > 1:
        rows = sorted(rows, key=itemgetter(*compared.order))
    table = compared.table.name
    digests = (
        hashlib.blake2b(
            _encode([table, column, name, [row[column] for row in rows]]), key=key, digest_size=SIZE
        ).digest()
        for column in compared.columns
    )
    return b"".join(digests)


def differing(compared: Compared, one: bytes, other: bytes) -> list[str]:
    """The columns whose digests differ."""
    places = enumerate(compared.columns)
    return [name for at, name in places if one[at * SIZE : at * SIZE + SIZE] != other[at * SIZE : at * SIZE + SIZE]]


def state_text(key: bytes, written: Written) -> str | None:
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
    return {name: _text(pack(key, compared, name, of_name)) for name, of_name in named.items()}


def unpack(text: str) -> bytes:
    """Text of a record → digests.

    Raises:
        ValueError: when it is not one.
    """
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _encode(value: object) -> bytes:
    """Serialize a value, of any driver.

    A tuple and a list, and all kinds of bytes, are the same.
    """
    return _ENCODER.encode(value).encode()


def _plain(value: object) -> object:
    if isinstance(value, bytes | bytearray | memoryview):
        return ["bytes", bytes(value).hex()]
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_plain)
