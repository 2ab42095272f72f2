"""The tree, against the recursive definition of RFC 9162, and its tiles."""

import hashlib
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdcard import Misuse, Refused
from sdcard.rules import Rule
from sdcard.transparency.tree import (
    EMPTY_ROOT,
    MerkleTree,
    Tile,
    TileNodes,
    encode_entries,
    leaf_hash,
    node_hash,
    parse_entries,
    parse_tile_path,
    prove_consistency,
    prove_inclusion,
    root_hash,
    tile_bytes,
    tiles_between,
    verify_consistency,
    verify_inclusion,
)

LEAVES = [leaf_hash(bytes([number])) for number in range(70)]
TREE = MerkleTree(LEAVES)
ROOTS = [root_hash(TREE, size) for size in range(len(LEAVES) + 1)]
SIZES = st.integers(0, len(LEAVES))


def defined_root(leaves: list[bytes]) -> bytes:
    """MTH of RFC 9162 2.1.1, by its recursive definition."""
    if len(leaves) < 2:
        return leaves[0] if leaves else hashlib.sha256().digest()
    half = 1
    while half * 2 < len(leaves):
        half *= 2
    return node_hash(defined_root(leaves[:half]), defined_root(leaves[half:]))


def refused(rule: Rule, verify: object, *arguments: object) -> bool:
    with pytest.raises(Refused) as caught:
        verify(*arguments)  # type: ignore[operator]
    return caught.value.rule is rule


def test_roots_are_those_of_the_definition() -> None:
    assert [defined_root(LEAVES[:size]) for size in range(len(LEAVES) + 1)] == ROOTS
    assert ROOTS[0] == EMPTY_ROOT
    assert EMPTY_ROOT.hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_every_leaf_of_every_tree_has_a_proof() -> None:
    for size in range(1, len(LEAVES) + 1):
        for index in range(size):
            verify_inclusion(LEAVES[index], index, size, prove_inclusion(TREE, index, size), ROOTS[size])


def test_every_pair_of_trees_is_consistent() -> None:
    for new in range(len(LEAVES) + 1):
        for old in range(new + 1):
            verify_consistency(old, new, prove_consistency(TREE, old, new), ROOTS[old], ROOTS[new])


@given(st.data())
def test_a_changed_inclusion_proof_is_refused(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, len(LEAVES)))
    index = data.draw(st.integers(0, size - 1))
    proof = list(prove_inclusion(TREE, index, size))
    at = data.draw(st.integers(0, len(proof)))
    changes = [
        (LEAVES[index], index, size, [*proof[:at], bytes(32), *proof[at:]], ROOTS[size]),
        (bytes(32), index, size, proof, ROOTS[size]),
        (LEAVES[index], index, size, proof, bytes(32)),
        (LEAVES[index], size, size, proof, ROOTS[size]),
        (LEAVES[index], -1, size, proof, ROOTS[size]),
    ]
    if at < len(proof):
        changes.append((LEAVES[index], index, size, [*proof[:at], *proof[at + 1 :]], ROOTS[size]))
        changes.append((LEAVES[index], index, size, [*proof[:at], bytes(32), *proof[at + 1 :]], ROOTS[size]))
    for other in {0, size - 1, index + 1, index ^ 1} - {index}:
        changes.append((LEAVES[index], other, size, proof, ROOTS[size]))
    assert all(refused(Rule.LOG_INCLUSION, verify_inclusion, *change) for change in changes)


@given(st.data())
def test_a_changed_consistency_proof_is_refused(data: st.DataObject) -> None:
    new = data.draw(st.integers(1, len(LEAVES)))
    old = data.draw(st.integers(1, new))
    proof = list(prove_consistency(TREE, old, new))
    at = data.draw(st.integers(0, len(proof)))
    changes = [
        (old, new, [*proof[:at], bytes(32), *proof[at:]], ROOTS[old], ROOTS[new]),
        (old, new, proof, bytes(32), ROOTS[new]),
        (old, new, proof, ROOTS[old], bytes(32)),
        (new + 1, new, proof, ROOTS[old], ROOTS[new]),
        (-1, new, proof, ROOTS[old], ROOTS[new]),
        (0, new, proof, ROOTS[old], ROOTS[new]),
        (0, 0, [], EMPTY_ROOT, ROOTS[new]),
    ]
    if at < len(proof):
        changes.append((old, new, [*proof[:at], *proof[at + 1 :]], ROOTS[old], ROOTS[new]))
        changes.append((old, new, [*proof[:at], bytes(32), *proof[at + 1 :]], ROOTS[old], ROOTS[new]))
    assert all(refused(Rule.LOG_CONSISTENCY, verify_consistency, *change) for change in changes)


def test_there_is_no_proof_of_what_is_not_in_the_tree() -> None:
    for make, arguments in ((prove_inclusion, (3, 3)), (prove_inclusion, (-1, 3)), (prove_consistency, (4, 3))):
        with pytest.raises(Misuse):
            make(TREE, *arguments)


# -- tiles ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tile", "path"),
    [
        (Tile(0, 0), "tile/0/000"),
        (Tile(0, 273, 112), "tile/0/273.p/112"),
        (Tile(1, 1234067), "tile/1/x001/x234/067"),
        (Tile(None, 5, 1), "tile/entries/005.p/1"),
        (Tile(63, 1000), "tile/63/x001/000"),
    ],
)
def test_a_tile_has_the_path_of_the_standard(tile: Tile, path: str) -> None:
    assert tile.path == path
    assert parse_tile_path(path) == tile


WRONG = "tile/64/000 tile/00/000 tile/0/00 tile/0/x000/000 tile/0/1000 tile/0/000.p/256 tile/0/000.p/0 tile/0/000.p/01"


@pytest.mark.parametrize("path", [*WRONG.split(), "tile/0/٠٠٠", "tile/0/000\n", "tile/-1/000", "/tile/0/000", ""])
def test_another_path_is_no_tile(path: str) -> None:
    assert parse_tile_path(path) is None


BIG = MerkleTree(leaf_hash(number.to_bytes(4, "big")) for number in range(70_000))


def test_a_log_publishes_the_tiles_of_the_standards_example() -> None:
    tiles = [tile for tile in tiles_between(0, 70_000) if tile.level is not None]

    assert {tile.path for tile in tiles if tile.width < 256} == {
        "tile/0/273.p/112",
        "tile/1/001.p/17",
        "tile/2/000.p/1",
    }
    assert [sum(tile.level == level for tile in tiles) for level in range(4)] == [274, 2, 1, 0]
    assert [tile.path for tile in tiles_between(0, 256)] == ["tile/entries/000", "tile/0/000", "tile/1/000.p/1"]


def test_proofs_come_from_the_tiles_that_were_published_while_the_log_grew() -> None:
    published: dict[str, bytes] = {}
    sizes = [0, 1, 255, 256, 300, 65_535, 65_536, 66_000, 70_000]
    for old, new in pairwise(sizes):
        for tile in tiles_between(old, new):
            if tile.level is not None:
                published[tile.path] = tile_bytes(BIG, tile)

    for old, new in [*pairwise(sizes), (255, 70_000), (300, 66_000)]:
        nodes = TileNodes(lambda tile: published[tile.path], new)
        proof = prove_consistency(nodes, old, new)
        verify_consistency(old, new, proof, root_hash(BIG, old), root_hash(BIG, new))
        path = prove_inclusion(nodes, old, new)
        verify_inclusion(BIG.node(0, old), old, new, path, root_hash(BIG, new))


def test_a_proof_at_ten_million_leaves_reads_few_tiles() -> None:
    read = list[Tile]()

    def tile(asked: Tile) -> bytes:
        read.append(asked)
        return bytes(32 * asked.width)

    for make, position in ((prove_inclusion, 7_654_321), (prove_consistency, 7_654_321)):
        read.clear()
        assert len(make(TileNodes(tile, 10_000_000), position, 10_000_000)) <= 2 * 24
        assert len(read) <= 7
        assert len(set(read)) == len(read), "each tile is read once"


@pytest.mark.parametrize("data", [b"", bytes(31), bytes(33), bytes(64)])
def test_a_tile_of_another_size_is_refused(data: bytes) -> None:
    assert refused(Rule.LOG_TILE, TileNodes(lambda _: data, 1).node, 0, 0)


@given(st.lists(st.binary(max_size=40), max_size=5))
def test_a_bundle_gives_back_its_entries(entries: list[bytes]) -> None:
    assert parse_entries(encode_entries(entries), len(entries)) == entries


@given(st.binary(max_size=12), st.integers(0, 4))
def test_another_bundle_is_refused(data: bytes, width: int) -> None:
    with suppress(Refused):
        entries = parse_entries(data, width)
        assert len(entries) == width
        assert encode_entries(entries) == data
