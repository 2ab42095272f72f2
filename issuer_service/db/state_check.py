"""Comparison of the tables with the audit chain."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

from sqlalchemy import Boolean, Connection, Table, Text, cast, select, type_coerce
from sqlalchemy.types import NullType

from issuer_service.audit.records import FOUND, AuditFound, AuditQuery, StateVerdict
from issuer_service.audit.repository import read_head, read_records, read_waiting
from issuer_service.db.log_check import LogComparison
from issuer_service.db.state import COMPARED, Compared, Replay, differing, hidden_name, pack, replaying
from issuer_service.db.tables import audit_head, discovery_postings, holder_keys, status_entries
from issuer_service.db.values import StoredJson
from issuer_service.discovery.postings_repository import unpack_terms
from sdcard.audit_chain import Head
from sdcard.errors import Finding, Misuse, Part, Where
from sdcard.rules import Rule
from sdcard.status_list import StatusValue

# -- Compare the tables with the audit chain, in one snapshot, row by row ---------------------------------------------

MOST_FINDINGS = 100
_AT_ONCE = 1_000
_DATABASE = Where(Part.DATABASE)


def compare_state(connection: Connection, take: Callable[[AuditFound], None]) -> tuple[Head | None, StateVerdict]:
    """Replay the chain and compare the tables with it.

    Args:
        connection: sees one snapshot.
        take: looks at each record too.

    Raises:
        Misuse: when the database was not adopted.
    """
    key, log_key = connection.execute(select(audit_head.c.state_key, audit_head.c.log_key)).first() or (None, None)
    head = read_head(connection)
    if head is not None and key is None:
        raise Misuse("the audit chain does not cover the rows of this database yet: run `sdcard db upgrade`")
    with replaying() as replay:
        comparison = _Comparison(connection, replay, bytes(key or b""), log_key and bytes(log_key))
        comparison.replay(take)
        comparison.compare()
        return head, comparison.verdict()


class _Comparison:
    """A comparison of expected and stored rows.

    Expected rows that exist are deleted, so that the remaining ones are missing.
    """

    def __init__(self, connection: Connection, replay: Replay, key: bytes, log_key: bytes | None) -> None:
        self._connection, self._replay, self._key = connection, replay, key
        self._kept = replay.kept
        self._log = LogComparison(self._kept, log_key, self._stream, self._find)
        self._rows = self._found = self._last = 0
        self._findings: list[Finding] = []

    def verdict(self) -> StateVerdict:
        """Return the verdict with its differences."""
        unlisted = self._found - len(self._findings)
        return StateVerdict(self._rows, self._replay.adopted, tuple(self._findings), unlisted)

    def replay(self, take: Callable[[AuditFound], None]) -> None:
        """Along the chain, and then the records that wait for it.

        What cannot be read says nothing. In the chain, the walk finds it.
        """
        after: int | None = None
        while page := read_records(self._connection, AuditQuery(after=after, limit=_AT_ONCE)):
            for sequence, record in page:
                take((sequence, record))
                if record is not None:
                    self._replay_one(sequence, record, Where(Part.AUDIT, (sequence,)))
            after = page[-1][0]
        self._last = after or 0
        for sequence, (number, content) in enumerate(read_waiting(self._connection), self._last + 1):
            where = _DATABASE.within("audit_waiting", number)
            if content is None:
                self._find(Rule.AUDIT_RECORD, where, "It waits for the chain, which cannot take it.")
            else:
                self._replay_one(sequence, content, where)

    def _replay_one(self, sequence: int, record: Any, where: Where) -> None:
        try:
            self._replay.take(sequence, record)
            self._log.take(sequence, record)
        except (ValueError, TypeError, KeyError, AttributeError, sqlite3.Error):
            self._find(Rule.AUDIT_RECORD, where, "What it says of the tables cannot be read.")

    def compare(self) -> None:
        """All tables."""
        self._compare_entries()
        self._compare_keys()
        for compared in COMPARED.values():
            self._compare_table(compared)
        self._compare_postings()
        self._log.compare()

    def _compare_table(self, compared: Compared) -> None:
        table = compared.table.name

        def name_of(row: dict[str, Any]) -> str:
            return compared.name(self._key, row)

        for name, of_name in groupby(self._stream(compared.table, *compared.order), name_of):
            rows = list(of_name)
            if table == "discovery_cards":
                self._compare_found(rows[0])
            elif table == "cards":
                self._log.take_cards(name, rows)
            expected = self._take("expected", ("tab", "name"), (table, name), "digests, sequence")
            place = _DATABASE.within(table, name)
            if expected is None:
                self._find_added(place)
                continue
            for column in differing(compared, expected[0], pack(self._key, compared, name, rows)):
                self._find_changed(place.within(column), expected[1])
        for name, sequence in self._kept.execute("SELECT name, sequence FROM expected WHERE tab = ?", (table,)):
            self._find_missing(_DATABASE.within(table, name), sequence)

    def _compare_found(self, row: dict[str, Any]) -> None:
        """Return the status and the terms of a row of ``discovery_cards``.

        The terms are for the comparison of postings.
        """
        position, place = row["position"], _DATABASE.within("discovery_cards", row["position"], "status")
        expected = self._take("entries", ("list", "idx"), (FOUND, position), "status, sequence")
        if expected is not None and expected[0] != row["status"]:
            self._find_status(place, row["status"], *expected)
        terms = row["terms"] if isinstance(row["terms"], bytes) else b""
        values = [(term, position) for term in unpack_terms(terms[: len(terms) // 8 * 8])]
        self._kept.executemany("INSERT OR IGNORE INTO terms VALUES (?, ?)", values)

    def _compare_entries(self) -> None:
        for row in self._stream(status_entries, "list_id", "index"):
            place = _DATABASE.within("status_entries", row["list_id"], row["index"])
            wanted = "status, sequence, expires, shown, public"
            expected = self._take("entries", ("list", "idx"), (row["list_id"], row["index"]), wanted)
            if expected is None:
                self._find_added(place)
                continue
            status, sequence, expires, shown, public = expected
            if status != row["status"]:
                self._find_status(place.within("status"), row["status"], status, sequence)
            right = {
                "expires_at": row["expires_at"] == expires,
                "shown": row["shown"] == shown,
                "public_at": row["public_at"] == public or _is_before(row["public_at"], public),
            }
            for column in (name for name, is_right in right.items() if not is_right):
                self._find_changed(place.within(column), sequence)
        for list_id, index, sequence in self._kept.execute(
            "SELECT list, idx, sequence FROM entries WHERE list <> ?", (FOUND,)
        ):
            self._find_missing(_DATABASE.within("status_entries", list_id, index), sequence)

    def _compare_keys(self) -> None:
        for row in self._stream(holder_keys, "thumbprint"):
            place = _DATABASE.within("holder_keys", row["thumbprint"])
            name = hidden_name(self._key, "holder_keys", row["thumbprint"])
            expected = self._take("bound", ("name",), (name,), "agent, at, sequence")
            if expected is None:
                self._find_added(place)
                continue
            for column, value in zip(("agent_id", "bound_at"), expected, strict=False):
                if row[column] != value:
                    self._find_changed(place.within(column), expected[2])
        for name, sequence in self._kept.execute("SELECT name, sequence FROM bound"):
            self._find_missing(_DATABASE.within("holder_keys", name), sequence)

    def _compare_postings(self) -> None:
        for row in self._stream(discovery_postings, "position", "term"):
            if self._take("terms", ("term", "position"), (row["term"], row["position"]), "1") is None:
                self._find_added(_DATABASE.within("discovery_postings", row["position"], row["term"]))
        for term, position in self._kept.execute("SELECT term, position FROM terms"):
            place = _DATABASE.within("discovery_postings", position, term)
            self._find(Rule.AUDIT_STATE_MISSING, place, "The row of discovery_cards has this term.")

    def _stream(self, table: Table, *order: str) -> Iterator[dict[str, Any]]:
        """All rows as they are stored, whatever is in them."""
        columns = [
            cast(column, Text).label(column.name)
            if isinstance(column.type, StoredJson)
            else type_coerce(column, NullType()).label(column.name)
            for column in table.c
        ]
        asked = select(*columns).order_by(*(table.c[name] for name in order))
        asked = asked.execution_options(stream_results=True, yield_per=_AT_ONCE)
        kinds = [(column.name, column.type) for column in table.c]
        for row in self._connection.execute(asked):
            self._rows += 1
            yield {name: _value(kind, value) for (name, kind), value in zip(kinds, row, strict=True)}

    def _take(self, table: str, names: tuple[str, ...], values: tuple[Any, ...], wanted: str) -> tuple[Any, ...] | None:
        """Remove and return the expected state of a row."""
        these = " AND ".join(f"{name} = ?" for name in names)
        if any(isinstance(value, bytes | float) for value in values):
            return None
        found = self._kept.execute(f"DELETE FROM {table} WHERE {these} RETURNING {wanted}", values).fetchall()
        return found[0] if found else None

    def _find_added(self, place: Where) -> None:
        self._find(Rule.AUDIT_STATE_ADDED, place, "No record wrote it, or a record deleted it.")

    def _find_missing(self, place: Where, sequence: int) -> None:
        self._find(Rule.AUDIT_STATE_MISSING, place, f"{self._cite(sequence)} wrote it, and no record deleted it.")

    def _find_changed(self, place: Where, sequence: int) -> None:
        self._find(Rule.AUDIT_STATE_CHANGED, place, f"{self._cite(sequence)} says otherwise.")

    def _find_status(self, place: Where, status: object, expected: int, sequence: int) -> None:
        hint = f"It is {_status_name(status)}; by {self._cite(sequence).lower()} it is {_status_name(expected)}."
        self._find(Rule.AUDIT_STATE_CHANGED, place, hint)

    def _cite(self, sequence: int) -> str:
        """Name a record by its number, which one that waits does not have yet."""
        return f"Record {sequence}" if sequence <= self._last else "A record that waits for the chain"

    def _find(self, rule: Rule, place: Where, hint: str) -> None:
        self._found += 1
        if len(self._findings) < MOST_FINDINGS:
            self._findings.append(Finding(rule, place, hint))


def _is_before(one: object, other: object) -> bool:
    """Whether a change is public sooner than recorded.

    A change made by a clock that was ahead may be.
    """
    return isinstance(one, int) and isinstance(other, int) and one < other


def _status_name(status: object) -> str:
    return next((known.name.lower() for known in StatusValue if known == status), "no known status")


def _value(kind: object, value: Any) -> Any:
    """Parse a value as the registry writes it.

    An unreadable value equals nothing that it writes.
    """
    if isinstance(kind, StoredJson) and value is not None:
        try:
            return json.loads(value)
        except (ValueError, TypeError, RecursionError):
            return ["unreadable", str(value)]
    if isinstance(kind, Boolean) and value in (0, 1):
        return bool(value)
    return value
