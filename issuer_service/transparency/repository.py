"""The transparency log in the database: its batches, its tree, and proofs."""

import secrets
from collections.abc import Callable
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, bindparam, case, func, insert, select, update

from issuer_service.audit.records import AuditEvent, AuditRow
from issuer_service.audit.repository import append_audit, chain_all, read_head, stop_writers
from issuer_service.db.tables import agents, audit_head, cards, log_head, log_leaves, log_tiles
from issuer_service.transparency.records import ENTRIES, LOG, Growth, Tree
from sdcard.audit_chain import START
from sdcard.transparency.records import padding_entry, take_batch
from sdcard.transparency.tree import (
    EMPTY_ROOT,
    HASH_BYTES,
    Tile,
    TileNodes,
    grown_tiles,
    prove_consistency,
    prove_inclusion,
    root_hash,
)

KEY_BYTES = 32


class CardProof(NamedTuple):
    """An SD-Card, and the proof of its leaf in the published tree.

    ``salt``: None if the card has no leaf, because it is older than the log. ``place``: None while the leaf waits for a
    published checkpoint.
    """

    card: str
    context: str
    thumbprint: str
    salt: bytes | None
    place: int | None
    path: tuple[bytes, ...]


def begin(connection: Connection, at: int) -> None:
    """Begin the log, if there is none yet.

    From now on every audit record and SD-Card gets a leaf. The first one is of a record that names the end of the audit
    chain, so the log tells of a change of any earlier record.
    """
    if connection.execute(select(audit_head.c.log_key)).scalar() is not None:
        return
    stop_writers(connection)
    unkeyed = update(audit_head).where(audit_head.c.log_key.is_(None)).values(log_key=secrets.token_bytes(KEY_BYTES))
    if connection.execute(unkeyed).rowcount:
        empty = {"log": LOG, "size": 0, "root": EMPTY_ROOT, "batch_at": 0, "published": 0, "checkpoint": ""}
        connection.execute(insert(log_head), empty)
        chain_all(connection)
        end = read_head(connection) or START
        disclosed = {"chain": (str(end.sequence), end.digest)}
        append_audit(connection, AuditRow(AuditEvent.LOG_BEGUN, at, "", "", disclosed=disclosed))
        chain_all(connection)


def rename(connection: Connection, at: int) -> int | None:
    """Let the log go on under another name; return its number. None without a log.

    Its tree stays, so it tells nothing that the log before did not tell. It has no checkpoint until the next batch.
    """
    head = connection.execute(select(log_head.c.log).with_for_update()).first()
    if head is None:
        return None
    connection.execute(update(log_head).values(log=head.log + 1, published=0, checkpoint=""))
    disclosed = {"log": (str(head.log + 1),)}
    append_audit(connection, AuditRow(AuditEvent.LOG_RENAMED, at, "", "", disclosed=disclosed))
    return int(head.log) + 1


def read_tree(connection: Connection) -> Tree | None:
    """Return the log as it is stored; None before it begins."""
    row = connection.execute(select(log_head)).first()
    return None if row is None else Tree(row.log, row.size, bytes(row.root), row.batch_at, row.checkpoint)


def read_growth(connection: Connection) -> Growth | None:
    """Return how far the log is; None before it begins."""
    head = connection.execute(select(log_head.c.log, log_head.c.size, log_head.c.published)).first()
    if head is None:
        return None
    asked = select(func.count(), func.min(log_leaves.c.at)).where(log_leaves.c.place.is_(None))
    waiting, oldest = connection.execute(asked).one()
    return Growth(head.log, head.size, head.published, waiting, oldest)


def append_batch(connection: Connection, count: int, seconds: int, instant: int) -> Tree | None:
    """Append one batch of so many leaves; return the new tree.

    None if another process appended the batch of this instant. The head is locked first, so batches follow each other,
    and all rows of a batch are committed together.
    """
    head = connection.execute(select(log_head).with_for_update()).first()
    if head is None or not is_due(head.batch_at, seconds, instant):
        return None
    asked = select(log_leaves.c.entry).where(log_leaves.c.place.is_(None))
    asked = asked.order_by(log_leaves.c.at, log_leaves.c.entry).limit(count)
    waiting = [bytes(entry) for entry in connection.execute(asked).scalars()]
    batch, _ = take_batch(waiting, count, _padding(connection, head.log, head.size, count))
    places = {entry: head.size + number for number, entry in enumerate(batch)}
    if waiting:
        placing = update(log_leaves).where(log_leaves.c.entry == bindparam("this"))
        rows = [{"this": entry, "number": places[entry]} for entry in waiting]
        connection.execute(placing.values(place=bindparam("number")), rows)
    size, read = head.size + count, _reader(connection)
    grown = grown_tiles(read, head.size, batch)
    for tile, hashes in grown.items():
        _write(connection, tile, hashes)
    root = root_hash(TileNodes(read, size), size)
    connection.execute(update(log_head).values(size=size, root=root, batch_at=instant))
    return Tree(head.log, size, root, instant, head.checkpoint)


def _padding(connection: Connection, log: int, size: int, count: int) -> bytes:
    key = bytes(connection.execute(select(audit_head.c.log_key)).scalar_one())
    return b"".join([padding_entry(key, log, size + number) for number in range(count)])


def is_due(batch_at: int, seconds: int, instant: int) -> bool:
    """Whether the batch of this instant is missing.

    An instant that is a little earlier is of a process whose clock is behind. One that is much earlier follows a clock
    that was ahead.
    """
    return not batch_at - 2 * seconds <= instant <= batch_at


def publish(connection: Connection, tree: Tree, checkpoint: str) -> None:
    """Publish a cosigned checkpoint, unless a larger one is published.

    Nothing is published if the log was renamed.
    """
    later = update(log_head).where(log_head.c.log == tree.log, log_head.c.published < tree.size)
    connection.execute(later.values(published=tree.size, checkpoint=checkpoint))


def read_tile(connection: Connection, tile: Tile) -> bytes | None:
    """Return the hashes of a tile, or the entries of a bundle; None without them."""
    hashes = connection.execute(select(log_tiles.c.hashes).where(_is_tile(tile))).scalar()
    wanted = tile.width * HASH_BYTES
    return None if hashes is None or len(hashes) < wanted else bytes(hashes)[:wanted]


def find_consistency(connection: Connection, old: int, new: int) -> tuple[bytes, ...]:
    """Make a consistency proof. Its reads grow with the logarithm of the size."""
    return prove_consistency(TileNodes(_reader(connection), new), old, new)


def find_proofs(connection: Connection, agent_id: str) -> tuple[str, list[CardProof]]:
    """Return the published checkpoint, and proofs of an agent's last Batch."""
    head = connection.execute(select(log_head.c.published, log_head.c.checkpoint)).first()
    size = head.published if head else 0
    nodes = TileNodes(_reader(connection), size)
    leaf = (log_leaves.c.agent_id == agents.c.agent_id) & (log_leaves.c.card == cards.c.digest)
    asked = (
        select(cards.c.digest, cards.c.context, cards.c.thumbprint, log_leaves.c.salt, log_leaves.c.place)
        .join_from(agents, cards, cards.c.batch_id == agents.c.batch_id)
        .join(log_leaves, leaf, isouter=True)
        .where(agents.c.agent_id == agent_id, ~cards.c.for_discovery)
        .order_by(cards.c.context, cards.c.thumbprint)
    )
    found = list[CardProof]()
    for digest, context, thumbprint, salt, place in connection.execute(asked):
        shown = place if place is not None and place < size else None
        path = () if shown is None else prove_inclusion(nodes, shown, size)
        found.append(CardProof(digest, context, thumbprint, None if salt is None else bytes(salt), shown, path))
    return head.checkpoint if head else "", found


def erase(connection: Connection, agent_id: str) -> None:
    """Delete the salts of an agent's leaves, and what those of SD-Cards hash.

    The leaves stay, and nobody can test what they are about.
    """
    commitment = case((log_leaves.c.card.is_(None), log_leaves.c.commitment), else_=None)
    erased = update(log_leaves).where(log_leaves.c.agent_id == agent_id)
    connection.execute(erased.values(salt=None, commitment=commitment))


def _reader(connection: Connection) -> Callable[[Tile], bytes]:
    def read(tile: Tile) -> bytes:
        return read_tile(connection, tile) or b""

    return read


def _write(connection: Connection, tile: Tile, hashes: bytes) -> None:
    if not connection.execute(update(log_tiles).where(_is_tile(tile)).values(hashes=hashes)).rowcount:
        row = {"level": _level(tile), "number": tile.number, "hashes": hashes}
        connection.execute(insert(log_tiles), row)


def _is_tile(tile: Tile) -> ColumnElement[bool]:
    return and_(log_tiles.c.level == _level(tile), log_tiles.c.number == tile.number)


def _level(tile: Tile) -> int:
    return ENTRIES if tile.level is None else tile.level
