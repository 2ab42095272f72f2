"""Our transparency log and those of others: each verifies what the other made.

Go's ``sumdb`` (the module mirror), transparency.dev's libraries, ``aics-tlog`` and ``pymerkle``.
"""

import base64
import hashlib
import json
import shutil
import subprocess
import sys
from functools import cache
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from conformance.environments import NotInstalled, built, install
from sdcard.errors import Refused
from sdcard.io.egress_policy import EgressPolicy
from sdcard.io.transparency import Witness, WitnessServer, WitnessStore, fetch_checkpoint
from sdcard.rules import Rule
from sdcard.transparency.notes import KeyType, NoteKey, parse_checkpoint, verified_lines
from sdcard.transparency.policy import parse_log_policy
from sdcard.transparency.proofs import verify_log_proof
from sdcard.transparency.tree import (
    MerkleTree,
    leaf_hash,
    parse_tile_path,
    prove_consistency,
    prove_inclusion,
    root_hash,
    tiles_between,
    verify_consistency,
    verify_inclusion,
)
from tests.groups import unavailable
from tests.sdcard.transparency.served_logs import serving, submit
from tests.world import MovableClock
from vectors.actors import NOW, Actor
from vectors.logs import CARD, LOG, LOG_KEY, ORIGIN, POLICY, WITNESS_KEYS, WITNESSES, checkpoint, log_with, proof

HERE = Path(__file__).parent / "tlog"
SIZE = 70
ENTRIES = [b"entry %d" % number for number in range(SIZE)]
TREE = MerkleTree(map(leaf_hash, ENTRIES))
ROOTS = [root_hash(TREE, size) for size in range(SIZE + 1)]
LEAVES = [(index, size) for size in (1, 2, 7, 8, 64, SIZE) for index in range(0, size, 3)]
PAIRS = [(old, new) for new in (1, 2, 7, 8, 64, SIZE) for old in range(1, new + 1)]


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def private(name: str, actor: Actor) -> str:
    """A signer in the form of Go's ``note``."""
    key_id = NoteKey(name, KeyType.ED25519, actor.public_key).key_id.hex()
    return f"PRIVATE+KEY+{name}+{key_id}+{text(bytes([1]) + actor.private.private_bytes_raw())}"


@pytest.fixture(scope="module")
def go() -> dict[str, Any]:
    """Verify our proofs with Go, and return its own."""
    if not shutil.which("go"):
        unavailable("needs Go")
    sources = [HERE / name for name in ("main.go", "go.mod", "go.sum")]
    try:
        folder = built("tlog-go", sources, lambda at: install(HERE, "go", "build", "-o", str(at / "tlog"), "."))
    except NotInstalled as reason:
        unavailable(str(reason))
    given = {
        "Entries": [text(one) for one in ENTRIES],
        "Roots": [text(one) for one in ROOTS],
        "Inclusion": [
            {"Index": index, "Size": size, "Path": [text(one) for one in prove_inclusion(TREE, index, size)]}
            for index, size in LEAVES
        ],
        "Consistency": [
            {"Old": old, "New": new, "Path": [text(one) for one in prove_consistency(TREE, old, new)]}
            for old, new in PAIRS
        ],
        "Checkpoint": str(checkpoint(log_with(CARD), *WITNESSES)),
        "Origin": ORIGIN,
        "LogKey": str(LOG_KEY),
        "Witnesses": [str(key) for key in WITNESS_KEYS],
        "Proof": text(str(proof(CARD, *WITNESSES)).encode()),
        "SignAs": private(ORIGIN, LOG),
        "CosignAs": private("w1.example", WITNESSES["w1.example"]),
    }
    ran = subprocess.run([folder / "tlog"], input=json.dumps(given), capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr[:2000]
    made: dict[str, Any] = json.loads(ran.stdout)
    return made


def hashes(listed: list[str] | None) -> list[bytes]:
    return [base64.b64decode(one) for one in listed or []]


def test_go_verifies_our_proofs_and_we_verify_its(go: dict[str, Any]) -> None:
    assert hashes(go["Roots"]) == ROOTS[1:]
    for (index, size), path in zip(LEAVES, go["Inclusion"], strict=True):
        assert tuple(hashes(path)) == prove_inclusion(TREE, index, size)
        verify_inclusion(leaf_hash(ENTRIES[index]), index, size, hashes(path), ROOTS[size])
    for (old, new), path in zip(PAIRS, go["Consistency"], strict=True):
        verify_consistency(old, new, hashes(path), ROOTS[old], ROOTS[new])


def test_go_verifies_our_checkpoints_and_we_verify_its(go: dict[str, Any]) -> None:
    assert go["Signers"] == 1 + len(WITNESSES)
    assert go["Index"] == 5
    theirs = parse_checkpoint(go["Note"])
    assert str(theirs) == go["Note"]
    assert {key for key, _ in verified_lines(theirs, [LOG_KEY, *WITNESS_KEYS])} == {LOG_KEY, WITNESS_KEYS[0]}


def test_go_names_the_same_tiles(go: dict[str, Any]) -> None:
    ours = [one.path for one in tiles_between(1000, 70_000) if one.level is not None]
    theirs = {path.replace("tile/8/", "tile/", 1) for path in go["Tiles"]}
    assert set(ours) == theirs
    assert all(parse_tile_path(path) for path in theirs)


# -- Python -----------------------------------------------------------------------------------------------------------


@cache
def python() -> Path:
    """A folder with the libraries.

    They say that they need Python 3.12, and run with 3.11 too.
    """
    wanted = HERE / "python.txt"
    options = ("--quiet", "--no-deps", "--python-version", "3.13", "--python", sys.executable)
    try:
        return built(
            "tlog-python",
            [wanted],
            lambda at: install(at, "uv", "pip", "install", *options, "--target", str(at), "-r", str(wanted)),
        )
    except NotInstalled as reason:
        unavailable(str(reason))


@pytest.fixture
def aics(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(python()))
    import aics_tlog  # type: ignore[import-not-found]

    return aics_tlog


@pytest.fixture
def pymerkle(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(python()))
    import pymerkle  # type: ignore[import-not-found]

    return pymerkle


def test_aics_verifies_our_proofs_and_we_verify_its(aics: Any) -> None:
    theirs = aics.MerkleTree(ENTRIES)
    for index, size in LEAVES:
        leaf = leaf_hash(ENTRIES[index])
        assert aics.verify_inclusion(leaf, index, size, list(prove_inclusion(TREE, index, size)), ROOTS[size])
        verify_inclusion(leaf, index, size, theirs.inclusion_proof(index, size), theirs.root(size))
    for old, new in PAIRS:
        assert aics.verify_consistency(old, new, ROOTS[old], ROOTS[new], list(prove_consistency(TREE, old, new)))
        verify_consistency(old, new, theirs.consistency_proof(old, new), theirs.root(old), theirs.root(new))


def test_aics_verifies_our_checkpoints_and_we_verify_its(aics: Any) -> None:
    keys = [aics.parse_vkey(str(key)) for key in WITNESS_KEYS]
    ours = aics.parse_note(str(checkpoint(log_with(CARD), *WITNESSES)).encode())
    result = aics.verify_checkpoint(ours, aics.parse_vkey(str(LOG_KEY)), keys, quorum=3)
    assert result.ok
    assert result.timestamps == dict.fromkeys(WITNESSES, NOW)

    tree = log_with(CARD)
    root = root_hash(tree, len(tree))
    signed = aics.sign_checkpoint(aics.Checkpoint(ORIGIN, len(tree), root), LOG.private, ORIGIN)
    lines = [
        aics.sign_cosignature(actor.private, name, NOW, ORIGIN, len(tree), root)[1] for name, actor in WITNESSES.items()
    ]
    theirs = aics.Note(text=signed.text, signatures=(*signed.signatures, *lines)).to_bytes().decode()
    policy = parse_log_policy(POLICY)
    assert [name for name, _ in policy.verify(theirs, NOW).witnesses] == ["one", "three", "two"]
    ours_with_theirs = str(proof(CARD)).partition("\n\n")[0] + "\n\n" + theirs
    assert verify_log_proof(ours_with_theirs, CARD, policy, NOW).size == 9


def test_aics_reads_our_tiles(aics: Any, tmp_path: Path) -> None:
    from sdcard.transparency.tree import encode_entries, tile_bytes

    entries = [b"%d" % number for number in range(600)]
    tree = MerkleTree(map(leaf_hash, entries))
    for old, new in ((0, 255), (255, 256), (256, 600)):
        for tile in tiles_between(old, new):
            first = tile.number * 256
            of = (
                tile_bytes(tree, tile)
                if tile.level is not None
                else encode_entries(entries[first : first + tile.width])
            )
            file = tmp_path / tile.path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(of)
    reader = aics.FileSystemTileReader(tmp_path)
    aics.audit_tiles(reader, 600, root_hash(tree, 600))
    assert tuple(aics.inclusion_proof_from_tiles(reader, 599, 600)) == prove_inclusion(tree, 599, 600)
    assert tuple(aics.consistency_proof_from_tiles(reader, 256, 600)) == prove_consistency(tree, 256, 600)


def test_pymerkle_has_the_same_roots_and_paths(pymerkle: Any) -> None:
    theirs = pymerkle.InmemoryTree(algorithm="sha256")
    for entry in ENTRIES:
        theirs.append_entry(entry)
    for size in range(1, SIZE + 1):
        assert theirs.get_root(size) == ROOTS[size]
    for index, size in LEAVES:
        leaf, path = leaf_hash(ENTRIES[index]), theirs.prove_inclusion(index + 1, size).path
        siblings = [one for one in path if one != leaf] if size > 1 else []
        assert sorted(siblings) == sorted(prove_inclusion(TREE, index, size))


# -- witnesses --------------------------------------------------------------------------------------------------------

NAME = "w1.example"
LOOPBACK = EgressPolicy((ip_network("127.0.0.0/8"),))
TREES = [MerkleTree(map(leaf_hash, ENTRIES[:size])) for size in range(20)]


def test_a_witness_of_aics_cosigns_for_us(aics: Any, tmp_path: Path) -> None:
    from aics_witness.config import LogConfig  # type: ignore[import-not-found]
    from aics_witness.service import Witness as Theirs  # type: ignore[import-not-found]
    from aics_witness.service import make_server
    from aics_witness.store import WitnessStore as TheirStore  # type: ignore[import-not-found]

    logs = [LogConfig(ORIGIN, (aics.parse_vkey(str(LOG_KEY)),))]
    theirs = Theirs(
        NAME, WITNESSES[NAME].private, TheirStore(tmp_path / "t.sqlite", create=True), logs, clock=lambda: NOW
    )
    with serving(make_server(theirs)) as url:
        for size, old in ((3, 0), (8, 3), (8, 8), (15, 0)):
            line = submit(url, checkpoint(TREES[size]), TREES[size], WITNESS_KEYS[0], old, LOOPBACK)
            assert verified_lines(parse_checkpoint(f"{checkpoint(TREES[size])}{line}"), WITNESS_KEYS)
        with pytest.raises(Refused) as refusal:
            submit(url, checkpoint(TREES[7]), TREES[7], WITNESS_KEYS[0], 0, LOOPBACK)
        assert refusal.value.rule is Rule.LOG_ROLLED_BACK
        hashed = hashlib.sha256(ORIGIN.encode()).hexdigest()
        served = parse_checkpoint(fetch_checkpoint(f"{url}/{hashed}/checkpoint", LOOPBACK))
        assert served.size == 15


def test_our_witness_cosigns_for_aics(aics: Any, tmp_path: Path) -> None:
    from aics_witness.feeder import WitnessAhead, WitnessClient, WitnessRejected, merge_cosignatures  # type: ignore[import-not-found]

    store = WitnessStore.create(tmp_path / "w.sqlite", WITNESS_KEYS[0])
    witness = Witness(NAME, WITNESSES[NAME], [LOG_KEY], store, MovableClock())
    with (
        serving(WitnessServer(("127.0.0.1", 0), witness)) as url,
        WitnessClient(url, str(WITNESS_KEYS[0]), clock=lambda: NOW, max_attempts=1) as client,
    ):
        for size in (3, 8, 15):
            note = str(checkpoint(TREES[size])).encode()
            line = client.submit(note, aics.MerkleTree(ENTRIES[:size]).consistency_proof)
            merged = aics.parse_note(merge_cosignatures(note, line))
            keys = [aics.parse_vkey(str(WITNESS_KEYS[0]))]
            assert aics.verify_checkpoint(merged, aics.parse_vkey(str(LOG_KEY)), keys, quorum=1).ok
        with pytest.raises(WitnessAhead):
            client.submit(str(checkpoint(TREES[7])).encode(), aics.MerkleTree(ENTRIES[:7]).consistency_proof)
        forked = [b"other", *ENTRIES[1:16]]
        fork = str(checkpoint(MerkleTree(map(leaf_hash, forked)))).encode()
        with pytest.raises(WitnessRejected):
            client.submit(fork, aics.MerkleTree(forked).consistency_proof)
