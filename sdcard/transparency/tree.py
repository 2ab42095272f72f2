"""The Merkle tree of a transparency log: hashes, proofs and tiles.

- RFC 9162 2.1.1: hashes of leaves and nodes.
- RFC 9162 2.1.3: inclusion proofs. 2.1.4: consistency proofs.
- C2SP tlog-tiles: paths of tiles, partial tiles, and bundles of entries.

A *complete node* is the hash of 2**level leaves that begin at a multiple of 2**level. A log only appends, so a complete
node never changes, and every proof consists of complete nodes and of hashes of them.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from typing import NamedTuple, Protocol

from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.rules import Rule

HASH_BYTES = 32
EMPTY_ROOT = hashlib.sha256(b"").digest()
"""Root of a tree without leaves."""
MOST_LEAVES = 2**63 - 1
MOST_HASHES = 63
"""Hashes of the longest proof."""

_LOG = Where(Part.LOG)


def leaf_hash(entry: bytes) -> bytes:
    """Hash an entry of the log (RFC 9162 2.1.1)."""
    return hashlib.sha256(b"\0" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Hash two subtrees (RFC 9162 2.1.1)."""
    return hashlib.sha256(b"\1" + left + right).digest()


# -- Complete nodes, and the hashes of ranges that they make ----------------------------------------------------------


class Nodes(Protocol):
    """A source of complete nodes."""

    def node(self, level: int, index: int) -> bytes:
        """Return the hash of the leaves from ``index * 2**level`` on."""
        ...


class MerkleTree:
    """A tree in memory."""

    def __init__(self, leaves: Iterable[bytes] = ()) -> None:
        self._levels: list[list[bytes]] = [[]]
        for leaf in leaves:
            self.append(leaf)

    def __len__(self) -> int:
        return len(self._levels[0])

    def append(self, leaf: bytes) -> None:
        """Add a leaf hash, and the nodes that it completes."""
        self._levels[0].append(leaf)
        level = 0
        while len(self._levels[level]) % 2 == 0:
            if level + 1 == len(self._levels):
                self._levels.append([])
            self._levels[level + 1].append(node_hash(*self._levels[level][-2:]))
            level += 1

    def node(self, level: int, index: int) -> bytes:
        """Return a complete node."""
        return self._levels[level][index]


def root_hash(nodes: Nodes, size: int) -> bytes:
    """Compute the root of the first ``size`` leaves."""
    return range_hash(nodes, 0, size) if size else EMPTY_ROOT


def range_hash(nodes: Nodes, start: int, end: int) -> bytes:
    """Compute the root of a subtree: the leaves ``start`` to ``end``."""
    complete = [nodes.node(level, index) for level, index in _complete_nodes(start, end)]
    return reduce(lambda right, left: node_hash(left, right), reversed(complete))


def _complete_nodes(start: int, end: int) -> Iterator[tuple[int, int]]:
    """Split the leaves of a subtree into complete nodes, the largest first."""
    while start < end:
        level = (end - start).bit_length() - 1
        yield level, start >> level
        start += 1 << level


def _split(size: int) -> int:
    """Return the largest power of two below ``size``: the leaves of the left subtree."""
    return int(1 << (size - 1).bit_length() - 1)


# -- Proofs -----------------------------------------------------------------------------------------------------------


def prove_inclusion(nodes: Nodes, index: int, size: int) -> tuple[bytes, ...]:
    """Make an inclusion proof (RFC 9162 2.1.3.1).

    Raises:
        Misuse: when the tree of this size has no such leaf.
    """
    if not 0 <= index < size:
        raise Misuse("the tree has no such leaf")
    start, end, siblings = 0, size, list[tuple[int, int]]()
    while end - start > 1:
        middle = start + _split(end - start)
        siblings.append((middle, end) if index < middle else (start, middle))
        start, end = (start, middle) if index < middle else (middle, end)
    return tuple(range_hash(nodes, *one) for one in reversed(siblings))


def prove_consistency(nodes: Nodes, old: int, new: int) -> tuple[bytes, ...]:
    """Make a consistency proof (RFC 9162 2.1.4.1).

    It is empty for an old tree that is empty or the same.

    Raises:
        Misuse: when the old tree is larger.
    """
    if not 0 <= old <= new:
        raise Misuse("a consistency proof leads from a tree to one that is no smaller")
    if old in (0, new):
        return ()
    start, end, siblings = 0, new, list[tuple[int, int]]()
    while old != end:
        middle = start + _split(end - start)
        siblings.append((middle, end) if old <= middle else (start, middle))
        start, end = (start, middle) if old <= middle else (middle, end)
    own = [(start, end)] if start else []
    return tuple(range_hash(nodes, *one) for one in [*own, *reversed(siblings)])


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> None:
    """Verify an inclusion proof (RFC 9162 2.1.3.2).

    Args:
        leaf: the leaf hash.

    Raises:
        Refused: ``log.inclusion``.
    """
    check_root(root_of_path(leaf, index, size, proof), root)


def check_root(found: bytes, root: bytes) -> None:
    """Check that a path leads to a root.

    Raises:
        Refused: ``log.inclusion``.
    """
    if found != root:
        raise _not_included("")


def root_of_path(leaf: bytes, index: int, size: int, proof: Sequence[bytes]) -> bytes:
    """Compute the root to which a path leads (RFC 9162 2.1.3.2).

    Args:
        leaf: the leaf hash.

    Raises:
        Refused: ``log.inclusion`` when the path has not the length of this leaf.
    """
    if not 0 <= index < size:
        raise Refused(Rule.LOG_INCLUSION, _LOG.within("proof", "index"), "The tree of the checkpoint is too small.")
    position, last, found = index, size - 1, leaf
    for sibling in proof:
        if not last:
            raise _not_included("The proof is too long.")
        if position & 1 or position == last:
            found = node_hash(sibling, found)
            while not position & 1 and position:
                position, last = position >> 1, last >> 1
        else:
            found = node_hash(found, sibling)
        position, last = position >> 1, last >> 1
    if last:
        raise _not_included("The proof is too short.")
    return found


def _not_included(hint: str) -> Refused:
    return Refused(Rule.LOG_INCLUSION, _LOG.within("proof"), hint)


def verify_consistency(old: int, new: int, proof: Sequence[bytes], old_root: bytes, new_root: bytes) -> None:
    """Verify a consistency proof (RFC 9162 2.1.4.2).

    Raises:
        Refused: ``log.consistency``.
    """
    if not 0 <= old <= new:
        raise _inconsistent("The newer tree is smaller.")
    if any(size == 0 and root != EMPTY_ROOT for size, root in ((old, old_root), (new, new_root))):
        raise _inconsistent("An empty tree has another root.")
    if old in (0, new):
        if proof:
            raise _inconsistent("The proof is too long.")
        if old and old_root != new_root:
            raise _inconsistent("There are two trees of this size.")
        return
    if not proof:
        raise _inconsistent("The proof is too short.")
    first, *path = proof if old & (old - 1) else (old_root, *proof)
    position, last = old - 1, new - 1
    while position & 1:
        position, last = position >> 1, last >> 1
    older = newer = first
    for sibling in path:
        if not last:
            raise _inconsistent("The proof is too long.")
        if position & 1 or position == last:
            older, newer = node_hash(sibling, older), node_hash(sibling, newer)
            while not position & 1 and position:
                position, last = position >> 1, last >> 1
        else:
            newer = node_hash(newer, sibling)
        position, last = position >> 1, last >> 1
    if last:
        raise _inconsistent("The proof is too short.")
    if older != old_root or newer != new_root:
        raise _inconsistent("")


def _inconsistent(hint: str) -> Refused:
    return Refused(Rule.LOG_CONSISTENCY, _LOG.within("proof"), hint)


# -- Tiles (C2SP tlog-tiles) ------------------------------------------------------------------------------------------

TILE_WIDTH = 256
_TILE_LEVELS = 8
_PATH = re.compile(
    r"tile/(?P<level>0|[1-5]?[0-9]|6[0-3]|entries)/(?P<number>(?:x[0-9]{3}/){0,6}[0-9]{3})"
    r"(?:\.p/(?P<width>[1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|25[0-5]))?"
)


class Tile(NamedTuple):
    """The name of a tile: 1 to 256 hashes, each of 256**level leaves.

    ``level`` is None for a bundle of entries.
    """

    level: int | None
    number: int
    width: int = TILE_WIDTH

    @property
    def path(self) -> str:
        """The path of the tile below the log's address."""
        digits = f"{self.number:03}"
        digits = digits.zfill(-(-len(digits) // 3) * 3)
        *parents, last = [digits[at : at + 3] for at in range(0, len(digits), 3)]
        partial = "" if self.width == TILE_WIDTH else f".p/{self.width}"
        level = "entries" if self.level is None else str(self.level)
        return f"tile/{level}/{''.join(f'x{one}/' for one in parents)}{last}{partial}"


def parse_tile_path(path: str) -> Tile | None:
    """Parse the path of a tile; None for another text."""
    found = _PATH.fullmatch(path)
    if not found or not path.isascii():
        return None
    level, width = found["level"], found["width"]
    number = int(re.sub("[x/]", "", found["number"]))
    tile = Tile(None if level == "entries" else int(level), number, int(width) if width else TILE_WIDTH)
    return tile if tile.path == path else None


def tiles_between(old: int, new: int) -> Iterator[Tile]:
    """List the tiles and bundles that a log publishes when it grows."""
    for level in (None, *range(_TILE_LEVELS)):
        shift = _TILE_LEVELS * (level or 0)
        before, after = old >> shift, new >> shift
        for index in range(before // TILE_WIDTH, -(-after // TILE_WIDTH)):
            width = min(after - index * TILE_WIDTH, TILE_WIDTH)
            if after > before:
                yield Tile(level, index, width)


def tile_bytes(nodes: Nodes, tile: Tile) -> bytes:
    """Return the hashes of a tile that is no bundle of entries."""
    level, first = _TILE_LEVELS * (tile.level or 0), tile.number * TILE_WIDTH
    return b"".join(nodes.node(level, index) for index in range(first, first + tile.width))


def grown_tiles(read: Callable[[Tile], bytes], size: int, entries: Sequence[bytes]) -> dict[Tile, bytes]:
    """Compute the tiles that change when a log grows, each as wide as it is now.

    Args:
        read: returns the hashes of a tile as it was; a bundle of entries that are hashes too.
        size: the number of leaves before.
        entries: the new ones, of 32 bytes each.
    """
    grown, _ = _joined(read, None, size, entries)
    hashes, level = [leaf_hash(entry) for entry in entries], 0
    while hashes:
        tiles, hashes = _joined(read, level, size >> _TILE_LEVELS * level, hashes)
        grown, level = grown | tiles, level + 1
    return grown


def _joined(
    read: Callable[[Tile], bytes], level: int | None, count: int, added: Sequence[bytes]
) -> tuple[dict[Tile, bytes], list[bytes]]:
    """Add hashes to the tiles of a level.

    Returns: these tiles, and the roots of those that are full now.
    """
    number, width = divmod(count, TILE_WIDTH)
    before = split_tile(read(Tile(level, number, width)), width) if width else []
    hashes, tiles, roots = [*before, *added], dict[Tile, bytes](), list[bytes]()
    for at in range(0, len(hashes), TILE_WIDTH):
        those = hashes[at : at + TILE_WIDTH]
        tiles[Tile(level, number + at // TILE_WIDTH, len(those))] = b"".join(those)
        roots += [MerkleTree(those).node(_TILE_LEVELS, 0)] if len(those) == TILE_WIDTH else []
    return tiles, roots


class TileNodes:
    """Complete nodes of a tree of this size, from tiles.

    Only the result of a verification says that the tiles are the log's: they are not checked here.

    Raises:
        Refused: ``log.tile`` when a tile has another size than its name says.
    """

    def __init__(self, read: Callable[[Tile], bytes], size: int) -> None:
        self._read, self._size = read, size
        self._tiles: dict[tuple[int, int], MerkleTree] = {}

    def node(self, level: int, index: int) -> bytes:
        """Return a complete node."""
        high, low = divmod(level, _TILE_LEVELS)
        tile, within = divmod(index << low, TILE_WIDTH)
        if (high, tile) not in self._tiles:
            width = min((self._size >> high * _TILE_LEVELS) - tile * TILE_WIDTH, TILE_WIDTH)
            self._tiles[high, tile] = MerkleTree(split_tile(self._read(Tile(high, tile, width)), width))
        return self._tiles[high, tile].node(low, within >> low)


def split_tile(data: bytes, width: int) -> list[bytes]:
    """Split a tile into its hashes.

    Raises:
        Refused: ``log.tile``.
    """
    if len(data) != width * HASH_BYTES:
        raise Refused(Rule.LOG_TILE, _LOG.within("tile"), f"{width} hashes are expected.")
    return [data[at : at + HASH_BYTES] for at in range(0, len(data), HASH_BYTES)]


def encode_entries(entries: Iterable[bytes]) -> bytes:
    """Encode a bundle of entries: each after its length, in two bytes."""
    return b"".join(len(entry).to_bytes(2, "big") + entry for entry in entries)


def parse_entries(data: bytes, width: int) -> list[bytes]:
    """Parse a bundle of ``width`` entries.

    Raises:
        Refused: ``log.tile``.
    """
    entries, start = list[bytes](), 0
    while start + 2 <= len(data) and len(entries) < width:
        size = int.from_bytes(data[start : start + 2], "big")
        entries.append(data[start + 2 : start + 2 + size])
        start += 2 + size
    if start != len(data) or len(entries) != width:
        raise Refused(Rule.LOG_TILE, _LOG.within("tile"), f"{width} entries are expected.")
    return entries
