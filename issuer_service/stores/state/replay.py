"""Replay: what the records of the chain say that the tables hold.

The expectation is kept in a temporary SQLite database on the disk, so that memory does not grow with the registry.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from issuer_service.stores.rows.audit import AuditEvent, Supersedes
from issuer_service.stores.rows.state import FOUND
from issuer_service.stores.rows.statuses import EXPIRED_LATELY, STATUS_CHANGES
from issuer_service.stores.state.digests import ADOPTS, GONE, KEYS, PUBLIC, ROWS, RUNS, unpack

_ISSUING = {AuditEvent.AGENT_REGISTERED, AuditEvent.AGENT_RENEWED, AuditEvent.AGENT_KEYS_CHANGED}
_OF_DELETED = ("batches", "cards", "discovery_cards")
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
        """Forget what records before the adoption say."""
        self.adopted = sequence
        for table in ("expected", "bound", "entries"):
            self.kept.execute(f"DELETE FROM {table}")

    def _happen(self, sequence: int, record: Mapping[str, Any], public_at: int | None) -> None:
        """Apply the consequences of the event itself."""
        event, agent = record["event"], record["agent_id"]
        if event in _ISSUING:
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
        """Replay a change of statuses as the registry made it.

        It is of one agent, and of SD-Cards that had not expired long ago.
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
