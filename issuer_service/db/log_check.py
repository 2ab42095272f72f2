"""Comparison of the transparency log with audit records, and with its tree."""

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from issuer_service.audit.records import AuditEvent, StatusRun
from issuer_service.db.state import ISSUING, RUNS
from issuer_service.db.tables import log_head, log_leaves, log_tiles
from issuer_service.transparency.records import ENTRIES, LOG, make_structure
from sdcard.audit_chain import content_digest
from sdcard.encoding import encode_json
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.rules import Rule
from sdcard.transparency.notes import parse_checkpoint
from sdcard.transparency.proofs import SALT_BYTES, entry_of_signed
from sdcard.transparency.records import LogRecord, Structure, check_opening, padding_entry
from sdcard.transparency.tree import HASH_BYTES, TILE_WIDTH, MerkleTree, TileNodes, leaf_hash, root_hash

Stream: TypeAlias = Callable[..., Iterator[dict[str, Any]]]
Find: TypeAlias = Callable[[Rule, Where, str], None]

_MOST_BATCH = 65_536
"""Leaves of a batch: ``SDCARD_TRANSPARENCY_BATCH`` permits no more."""
_DATABASE = Where(Part.DATABASE)
_LEAVES, _TILES, _HEAD = (_DATABASE.within(table.name) for table in (log_leaves, log_tiles, log_head))
_NOT_OF_LEAF = ("sequence", "previous", "digest", "leaf")
"""Members of an audit record that its leaf does not hash."""
_TABLES = """
CREATE TABLE logged (
    entry BLOB PRIMARY KEY, sequence INTEGER, at INTEGER, agent TEXT, structure TEXT, digest TEXT
) WITHOUT ROWID;
CREATE TABLE logged_batches (batch TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE logged_cards (card TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE issued (card TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE grown (level INTEGER, number INTEGER, digest BLOB, PRIMARY KEY (level, number)) WITHOUT ROWID;
"""


class LogComparison:
    """A pass over the log: ``take`` records and ``take_cards``, then ``compare``."""

    def __init__(self, kept: sqlite3.Connection, key: bytes | None, stream: Stream, find: Find) -> None:
        """Begin.

        Args:
            kept: a temporary database.
            key: of agent digests and padding; None before the log begins.
            stream: returns all rows of a table, in the order of columns.
            find: takes each difference.
        """
        self._kept, self._key, self._stream, self._find = kept, key or bytes(HASH_BYTES), stream, find
        self._first: int | None = None
        for statement in filter(str.strip, _TABLES.split(";")):
            kept.execute(statement)

    def take(self, sequence: int, record: Mapping[str, Any]) -> None:
        """Keep what the leaf of a record must be.

        Raises:
            ValueError: when the record says something that no record says; also KeyError, TypeError.
        """
        leaf = record.get("leaf")
        if leaf is None:
            if self._first is not None:
                hint = f"The record has no leaf, and the log began before, with record {self._first}."
                self._find(Rule.AUDIT_STATE_MISSING, _LEAVES.within(sequence), hint)
            return
        self._first = self._first or sequence
        told = json.loads(record.get("state", "{}")).get(RUNS, ())
        runs = [StatusRun._make([*run[:5], tuple(run[5:])]) for run in told]
        agent, batch = record["agent_id"], record["batch_id"]
        made = make_structure(self._key, record["event"], record["at"], agent, batch, runs)
        structure = encode_json(made.to_json()).decode()
        digest = content_digest({name: value for name, value in record.items() if name not in _NOT_OF_LEAF})
        row = (bytes.fromhex(leaf), sequence, made.at, agent, structure, digest)
        self._kept.execute("INSERT OR REPLACE INTO logged VALUES (?, ?, ?, ?, ?, ?)", row)
        if record["event"] == AuditEvent.LOG_BEGUN:
            named = [str(sequence - 1), record["previous"]]
            if record["disclosed"]["chain"] != named:
                hint = f"Record {sequence}, whose leaf is the log's first, names another one."
                self._find(Rule.AUDIT_STATE_CHANGED, _DATABASE.within("audit", sequence - 1, "digest"), hint)
        elif record["event"] in ISSUING:
            self._kept.execute("INSERT OR IGNORE INTO logged_batches VALUES (?)", (batch,))

    def take_cards(self, batch_id: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Keep which SD-Cards of a Batch must have a leaf."""
        if self._kept.execute("SELECT 1 FROM logged_batches WHERE batch = ?", (batch_id,)).fetchone():
            issued = [(str(row["digest"]),) for row in rows if not row["for_discovery"]]
            self._kept.executemany("INSERT OR IGNORE INTO issued VALUES (?)", issued)

    def compare(self) -> None:
        """Compare leaves, tiles and head."""
        heads = list(self._stream(log_head, "log"))
        head = heads[0] if heads else None
        for row in heads[1:]:
            self._find(Rule.AUDIT_STATE_ADDED, _HEAD.within(row["log"]), "There is one log.")
        number = head["log"] if head and type(head["log"]) is int else LOG
        tree = _Tree(self._kept, partial(_paddings, self._key, number), self._find)
        published = head and head["published"]
        tiles = self._stream(log_tiles, "level", "number")
        first = tree.grow(tiles, self._placed(), self._check_leaf, published)
        self._compare_missing()
        if not tree.is_broken:
            tree.compare_tiles(first, tiles)
            self._compare_head(head, tree)

    def _placed(self) -> Iterator[dict[str, Any]]:
        """Return the leaves with a place, in its order.

        Those that wait are checked on the way.
        """
        for row in self._stream(log_leaves, "place"):
            if row["place"] is None:
                self._check_leaf(row)
            else:
                yield row

    def _check_leaf(self, row: dict[str, Any]) -> None:
        """Check that a leaf is that of an audit record, or of an SD-Card."""
        entry, salt, commitment = (_bytes(row[name]) for name in ("entry", "salt", "commitment"))
        place = _LEAVES.within(entry.hex())
        columns = "sequence, at, agent, structure, digest"
        found = self._kept.execute(f"DELETE FROM logged WHERE entry = ? RETURNING {columns}", (entry,)).fetchall()
        if found and row["card"] is None:
            sequence, at, agent, structure, digest = found[0]
            for column, value in (("at", at), ("agent_id", agent), ("structure", structure)):
                if row[column] != value:
                    self._find(Rule.AUDIT_STATE_CHANGED, place.within(column), f"Record {sequence} says otherwise.")
            self._check_record(place, entry, (structure, digest), salt, commitment)
        elif found:
            hint = f"It is the leaf of record {found[0][0]}, and of no SD-Card."
            self._find(Rule.AUDIT_STATE_CHANGED, place.within("card"), hint)
        elif row["card"] is None:
            self._find(Rule.AUDIT_STATE_ADDED, place, "No audit record has this leaf.")
        else:
            self._kept.execute("INSERT OR IGNORE INTO logged_cards VALUES (?)", (str(row["card"]),))
            is_erased = row["salt"] is None and row["commitment"] is None
            if not is_erased and (len(salt) != SALT_BYTES or entry_of_signed(salt, commitment) != entry):
                hint = "Salt and commitment do not lead to the entry."
                self._find(Rule.AUDIT_STATE_CHANGED, place.within("salt"), hint)

    def _check_record(
        self, place: Where, entry: bytes, expected: tuple[str, str], salt: bytes, commitment: bytes
    ) -> None:
        made = json.loads(expected[0])
        statuses = tuple((one["uri"], one["idx"]) for one in made.pop("statuses"))
        structure = Structure(**made, statuses=statuses)
        record = LogRecord(structure, commitment, {"record": expected[1]} if salt else None, salt or None)
        try:
            check_opening(record, entry)
        except Refused as refusal:
            column = "salt" if refusal.where.path[-1] == "personal" else "commitment"
            self._find(Rule.AUDIT_STATE_CHANGED, place.within(column), "It and the record do not lead to the entry.")
        except Misuse:
            self._find(Rule.AUDIT_STATE_CHANGED, place.within("salt"), f"A salt has {SALT_BYTES} bytes.")

    def _compare_missing(self) -> None:
        """Find the records and SD-Cards that have no leaf."""
        for entry, sequence in self._kept.execute("SELECT entry, sequence FROM logged"):
            self._find(Rule.AUDIT_STATE_MISSING, _LEAVES.within(entry.hex()), f"It is the leaf of record {sequence}.")
        for (card,) in self._kept.execute("SELECT card FROM issued EXCEPT SELECT card FROM logged_cards"):
            hint = "The SD-Card of this digest has no leaf, and its record has one."
            self._find(Rule.AUDIT_STATE_MISSING, _LEAVES.within(card, "card"), hint)

    def _compare_head(self, head: dict[str, Any] | None, tree: "_Tree") -> None:
        if head is None:
            if self._first is not None:
                self._find(Rule.AUDIT_STATE_MISSING, _HEAD.within(LOG), f"The log began with record {self._first}.")
            return
        place = _HEAD.within(head["log"])
        for column, value in (("size", tree.size), ("root", tree.root)):
            if head[column] != value:
                self._find(Rule.AUDIT_STATE_CHANGED, place.within(column), "The leaves of the tree say otherwise.")
        if head["published"] == 0 and head["checkpoint"] == "":
            return
        if tree.published_root is None:
            self._find(Rule.AUDIT_STATE_CHANGED, place.within("published"), "The tree is smaller.")
            return
        try:
            published = parse_checkpoint(str(head["checkpoint"]))
        except Refused:
            self._find(Rule.AUDIT_STATE_CHANGED, place.within("checkpoint"), "It is no checkpoint.")
            return
        if published.size != head["published"]:
            self._find(Rule.AUDIT_STATE_CHANGED, place.within("published"), f"Its checkpoint has {published.size}.")
        elif published.root != tree.published_root:
            self._find(Rule.AUDIT_STATE_CHANGED, place.within("checkpoint"), "It has another root than the tree had.")


class _Tree:
    """The tree as the entries make it.

    Attributes:
        size: its leaves.
        published_root: the root when the tree was as large as the published checkpoint; None if it never was.
        is_broken: whether entries are missing, so that no root can be computed.
    """

    def __init__(self, kept: sqlite3.Connection, paddings: Callable[[int], list[bytes]], find: Find) -> None:
        self._kept, self._paddings, self._find = kept, paddings, find
        self._right: list[list[bytes]] = []
        """Hashes of the last tile of each level."""
        self._unknown, self._padding = dict[bytes, int](), dict[bytes, int]()
        self.size, self.is_broken = 0, False
        self.published_root: bytes | None = None

    @property
    def root(self) -> bytes:
        """The root."""
        return root_hash(TileNodes(lambda tile: b"".join(self._right[tile.level or 0]), self.size), self.size)

    def grow(
        self,
        tiles: Iterator[dict[str, Any]],
        leaves: Iterator[dict[str, Any]],
        check: Callable[[dict[str, Any]], None],
        published: object,
    ) -> dict[str, Any] | None:
        """Add all entries, and check the leaf of each.

        Returns:
            The first tile of another level.
        """
        leaf, row = next(leaves, None), None
        for row in tiles:
            if row["level"] != ENTRIES:
                break
            hashes, place = _bytes(row["hashes"]), _TILES.within(ENTRIES, row["number"])
            is_whole = len(hashes) % HASH_BYTES == 0 and 0 < len(hashes) <= TILE_WIDTH * HASH_BYTES
            if row["number"] * TILE_WIDTH != self.size or not is_whole:
                self._find(Rule.AUDIT_STATE_CHANGED, place, f"Entries from {self.size} on are expected.")
                self.is_broken = True
                continue
            for at in range(0, len(hashes), HASH_BYTES):
                entry, is_known = hashes[at : at + HASH_BYTES], False
                while leaf is not None and not _is_behind(leaf["place"], self.size):
                    check(leaf)
                    is_here = leaf["place"] == self.size and _bytes(leaf["entry"]) == entry
                    if not is_here:
                        self._find_misplaced(leaf)
                    is_known = is_known or is_here
                    leaf = next(leaves, None)
                self._add_entry(entry, is_known)
                if self.size == published:
                    self.published_root = self.root
        else:
            row = None
        while leaf is not None:
            check(leaf)
            if not self.is_broken:
                self._find_misplaced(leaf)
            leaf = next(leaves, None)
        if not self.is_broken:
            self._find_unknown(self.size)
        return row

    def _find_misplaced(self, leaf: dict[str, Any]) -> None:
        place = _LEAVES.within(_bytes(leaf["entry"]).hex(), "place")
        self._find(Rule.AUDIT_STATE_CHANGED, place, "The tree has another entry there.")

    def _add_entry(self, entry: bytes, is_known: bool) -> None:
        if not is_known and self._padding.pop(entry, None) is None:
            self._unknown[entry] = self.size
        for made in self._paddings(self.size):
            if self._unknown.pop(made, None) is None:
                self._padding[made] = self.size
        if self.size % _MOST_BATCH == 0:
            self._find_unknown(self.size - _MOST_BATCH)
        self._add(0, leaf_hash(entry))
        self.size += 1

    def _add(self, level: int, one: bytes) -> None:
        """Add a hash to the last tile of a level.

        The root of a full one goes to the next level.
        """
        if level == len(self._right):
            self._right.append([])
        elif len(self._right[level]) == TILE_WIDTH:
            self._right[level].clear()
        self._right[level].append(one)
        if len(self._right[level]) == TILE_WIDTH:
            number = self.size >> 8 * (level + 1)
            self._keep(level, number)
            self._add(level + 1, MerkleTree(self._right[level]).node(8, 0))

    def _keep(self, level: int, number: int) -> None:
        digest = hashlib.sha256(b"".join(self._right[level])).digest()
        self._kept.execute("INSERT OR REPLACE INTO grown VALUES (?, ?, ?)", (level, number, digest))

    def _find_unknown(self, end: int) -> None:
        """Find entries before this place that are neither leaves nor padding.

        Padding of before is forgotten.
        """
        for entry, number in [one for one in self._unknown.items() if one[1] < end]:
            hint = f"The tree has it at place {number}, and it is no padding."
            self._find(Rule.AUDIT_STATE_MISSING, _LEAVES.within(entry.hex()), hint)
            del self._unknown[entry]
        self._padding = {entry: number for entry, number in self._padding.items() if number >= end}

    def compare_tiles(self, first: dict[str, Any] | None, tiles: Iterator[dict[str, Any]]) -> None:
        """Compare the tiles of all other levels with those that the entries make."""
        for level, hashes in enumerate(self._right):
            if len(hashes) < TILE_WIDTH:
                self._keep(level, self.size >> 8 * (level + 1))
        rows = tiles if first is None else (row for rows in ([first], tiles) for row in rows)
        for row in rows:
            place, these = _TILES.within(row["level"], row["number"]), (row["level"], row["number"])
            asked = "DELETE FROM grown WHERE level = ? AND number = ? RETURNING digest"
            found = self._kept.execute(asked, these).fetchall()
            if not found:
                self._find(Rule.AUDIT_STATE_ADDED, place, "The tree has no such tile.")
            elif hashlib.sha256(_bytes(row["hashes"])).digest() != found[0][0]:
                self._find(Rule.AUDIT_STATE_CHANGED, place.within("hashes"), "The entries make other hashes.")
        for level, number in self._kept.execute("SELECT level, number FROM grown"):
            self._find(Rule.AUDIT_STATE_MISSING, _TILES.within(level, number), "The tree has this tile.")


def _paddings(key: bytes, log: int, number: int) -> list[bytes]:
    """Return the padding of a number, in this log and under each name before."""
    return [padding_entry(key, one, number) for one in range(LOG, log + 1)]


def _bytes(value: object) -> bytes:
    """Return stored bytes; none for another value."""
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else b""


def _is_behind(place: object, size: int) -> bool:
    return type(place) is int and place > size
