"""A witness over HTTP: its state, its answers, and how a log has it cosign."""

import http.client
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path

import pytest

from sdcard import Misuse, Refused
from sdcard.io.egress_policy import EgressPolicy
from sdcard.io.key_files import create_private_file
from sdcard.io.transparency import LogClient, Witness, WitnessServer, WitnessStore
from sdcard.rules import Rule
from sdcard.transparency.notes import Checkpoint, KeyType, NoteKey, parse_checkpoint
from sdcard.transparency.policy import parse_log_policy
from sdcard.transparency.tree import MerkleTree, prove_consistency, root_hash
from sdcard.transparency.watching import Submission
from tests.sdcard.transparency.served_logs import LEAVES, ServedLog, files, serving, submit
from tests.world import MovableClock
from vectors.actors import NOW, Actor
from vectors.logs import LOG_KEY, ORIGIN, POLICY, WITNESS_KEYS, WITNESSES, checkpoint

LOOPBACK = EgressPolicy((ip_network("127.0.0.0/8"),))
LOGS = parse_log_policy(POLICY).logs
NAME, SIGNER, KEY = "w1.example", WITNESSES["w1.example"], WITNESS_KEYS[0]
TREES = [MerkleTree(LEAVES[:size]) for size in range(20)]
FORKS = [MerkleTree([b"\7" * 32, *LEAVES][:size]) for size in range(20)]


class Watched:
    """A signer that sees whether the checkpoint was stored before."""

    def __init__(self, store: WitnessStore) -> None:
        self.public_key, self._store, self.seen = SIGNER.public_key, store, list[int]()

    def sign(self, message: bytes) -> bytes:
        latest = self._store.latest(ORIGIN)
        assert latest is not None
        assert latest.checkpoint.body.encode() in message
        assert f"\ntime {latest.at}\n".encode() in message
        self.seen.append(latest.checkpoint.size)
        return SIGNER.sign(message)


@pytest.fixture
def store(tmp_path: Path) -> WitnessStore:
    return WitnessStore.create(tmp_path / "witness.sqlite", KEY)


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture
def witness(store: WitnessStore, clock: MovableClock) -> Witness:
    return Witness(NAME, Watched(store), LOGS, store, clock)


@pytest.fixture
def address(witness: Witness) -> Iterator[str]:
    with serving(WitnessServer(("127.0.0.1", 0), witness)) as url:
        yield url


def body(old: int, new: int, trees: list[MerkleTree] = TREES) -> bytes:
    proof = prove_consistency(trees[new], old, new) if old <= new else ()
    return str(Submission(old, proof, checkpoint(trees[new]))).encode()


def test_a_witness_stores_durably_before_it_signs(witness: Witness, store: WitnessStore) -> None:
    for old, new in ((0, 3), (3, 8), (8, 8), (8, 15)):
        status, _, line = witness.add(body(old, new))
        assert status == 200
        assert line.startswith(f"— {NAME} ")
    assert witness._signer.seen == [3, 8, 8, 15]  # type: ignore[attr-defined]
    with sqlite3.connect(store._file) as connection:
        assert store._connect().execute("PRAGMA synchronous").fetchone() == (3,)
        assert connection.execute("SELECT count(*) FROM latest").fetchone() == (1,)


def test_each_fault_has_the_status_of_the_standard(witness: Witness, store: WitnessStore, clock: MovableClock) -> None:
    assert witness.add(body(0, 8))[0] == 200
    other = str(checkpoint(TREES[3], origin="other.example/log"))
    unsigned = body(8, 9).replace("— registry".encode(), "— other".encode())
    answers = {
        "no old line": (body(8, 9)[6:], 400),
        "not UTF-8": (b"\xff", 400),
        "empty": (b"", 400),
        "old larger than new": (body(9, 8), 400),
        "another log": (f"old 0\n\n{other}".encode(), 404),
        "not signed": (unsigned, 403),
        "from another size": (body(3, 9), 409),
        "a fork": (body(8, 9, FORKS), 422),
        "another root": (body(8, 8, FORKS), 422),
        "too large": (b"old 0\n\n" + b"x" * 200_000, 413),
    }
    assert {name: witness.add(data)[0] for name, (data, _) in answers.items()} == {
        name: status for name, (_, status) in answers.items()
    }
    assert witness.add(body(3, 9)) == (409, "text/x.tlog.size", "8\n")
    assert [rule for _, _, rule, _ in store.evidence()] == ["log.consistency", "log.split-view"]
    clock.advance(-1)
    assert witness.add(body(8, 9)) == (503, "text/plain; charset=utf-8", "log.clock\n")
    clock.advance(1)
    assert witness.add(body(8, 9))[0] == 200


def test_evidence_is_bounded(witness: Witness, store: WitnessStore) -> None:
    assert witness.add(body(0, 8))[0] == 200
    for _ in range(105):
        assert witness.add(body(8, 9, FORKS))[0] == 422
    assert len(store.evidence()) == 100


def test_the_latest_checkpoint_is_served_as_it_was_cosigned(witness: Witness, address: str) -> None:
    import hashlib

    from sdcard.io.transparency import fetch_checkpoint

    line = witness.add(body(0, 5))[2]
    path = f"{address}/{hashlib.sha256(ORIGIN.encode()).hexdigest()}/checkpoint"
    text = fetch_checkpoint(path, LOOPBACK)
    assert text == f"{checkpoint(TREES[5])}{line}"
    assert parse_log_policy(f"log {LOG_KEY}\nwitness a {KEY}\nquorum a\n").verify(text, NOW).checkpoint.size == 5
    for absent in ("/checkpoint", f"/{'0' * 64}/checkpoint", "/", "/x"):
        with pytest.raises(Refused):
            fetch_checkpoint(address + absent, LOOPBACK)


def test_a_log_has_a_witness_cosign_wherever_it_begins(address: str, witness: Witness) -> None:
    def cosigned(size: int, old: int, trees: list[MerkleTree] = TREES) -> Checkpoint:
        made = checkpoint(trees[size])
        line = submit(address, made, trees[size], KEY, old, LOOPBACK)
        return parse_checkpoint(f"{made}{line}")

    assert len(cosigned(3, 0).signatures) == 2
    for size, old in ((5, 3), (9, 0), (9, 9), (12, 5), (12, 19)):
        assert cosigned(size, old).size == size
    for size, trees, rule in ((10, TREES, Rule.LOG_ROLLED_BACK), (15, FORKS, Rule.LOG_WITNESSES)):
        with pytest.raises(Refused) as refusal:
            cosigned(size, 0, trees)
        assert refusal.value.rule is rule


def test_another_key_of_a_witness_is_no_cosignature(address: str) -> None:
    other = NoteKey(NAME, KeyType.COSIGNATURE, Actor("another", SIGNER.algorithm).public_key)
    with pytest.raises(Refused) as refusal:
        submit(address, checkpoint(TREES[3]), TREES[3], other, 0, LOOPBACK)
    assert refusal.value.rule is Rule.LOG_WITNESSES


def test_requests_that_are_no_submissions_are_answered(address: str) -> None:
    host = address.removeprefix("http://")
    for method, path, headers, status in [
        ("POST", "/add-checkpoint", {"Content-Length": "x"}, 411),
        ("POST", "/add-checkpoint", {"Transfer-Encoding": "chunked"}, 411),
        ("POST", "/add-checkpoint", {"Content-Length": "99999999"}, 413),
        ("POST", "/other", {"Content-Length": "0"}, 404),
        ("PUT", "/add-checkpoint", {"Content-Length": "0"}, 501),
        ("GET", "/../../checkpoint", {}, 404),
    ]:
        connection = http.client.HTTPConnection(host, timeout=5)
        connection.putrequest(method, path)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        assert connection.getresponse().status == status, (method, path, headers)
        connection.close()


def test_a_lost_or_foreign_state_is_misuse_and_no_fresh_start(tmp_path: Path, store: WitnessStore) -> None:
    file = tmp_path / "witness.sqlite"
    with pytest.raises(Misuse, match="--create"):
        WitnessStore(tmp_path / "gone.sqlite", KEY)
    with pytest.raises(Misuse, match="exists"):
        WitnessStore.create(file, KEY)
    with pytest.raises(Misuse, match="another key"):
        WitnessStore(file, WITNESS_KEYS[1])
    assert file.stat().st_mode & 0o777 == 0o600
    assert WitnessStore(file, KEY).latest(ORIGIN) is None


def test_proofs_come_from_fetched_tiles(tmp_path: Path) -> None:
    log = ServedLog(tmp_path)
    log.publish(300)
    log.publish(700)
    (tmp_path / "tile/0/001.p").rename(tmp_path / "gone")  # partial tiles may go when the full tile is there
    with serving(files(tmp_path)) as url:
        client = LogClient(url, LOOPBACK)
        assert parse_checkpoint(client.checkpoint()).size == 700
        old, new = MerkleTree(LEAVES[:300]), MerkleTree(LEAVES)
        assert prove_consistency(client.nodes(700), 300, 700) == prove_consistency(new, 300, 700)
        assert root_hash(client.nodes(300), 300) == root_hash(old, 300)


WITNESS = ["log", "witness", "--name", NAME, "--key", "w.jwk", "--policy", "policy.txt", "--state-file", "w.sqlite"]


def start(folder: Path, *options: str) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "sdcard", *WITNESS, "--port", "0", *options],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    with process.stdout:
        lines = [process.stdout.readline() for _ in range(2)]
    return process, lines[1].rpartition(" ")[2].strip()


@pytest.mark.slow
def test_a_witness_that_is_killed_never_cosigns_two_trees(tmp_path: Path) -> None:
    import json

    from sdcard.encoding import encode_base64url

    jwk = {**SIGNER.jwk, "d": encode_base64url(SIGNER.private.private_bytes_raw())}
    create_private_file(tmp_path / "w.jwk", json.dumps(jwk))
    (tmp_path / "policy.txt").write_text(POLICY, encoding="utf-8")
    cosigned, refused = dict[int, bytes](), list[tuple[bool, Rule]]()
    size = 0
    for round_ in range(8):
        process, url = start(tmp_path, *(["--create"] if round_ == 0 else []))
        ends = time.monotonic() + 0.05 * (round_ + 1)
        try:
            while size < 690 and time.monotonic() < ends:
                for leaves in (LEAVES, [b"\7" * 32, *LEAVES]):
                    tree = MerkleTree(leaves[: size + 1])
                    made = checkpoint(tree)
                    try:
                        submit(url, made, tree, KEY, size, LOOPBACK)
                    except Refused as refusal:
                        refused.append((leaves is LEAVES, refusal.rule))
                    else:
                        assert cosigned.setdefault(made.size, made.root) == made.root
                        assert leaves is LEAVES or size == 0
                size += 1
            os.kill(process.pid, signal.SIGKILL)
        finally:
            process.kill()
            process.wait()
        latest = WitnessStore(tmp_path / "w.sqlite", KEY).latest(ORIGIN)
        assert latest is not None
        assert latest.checkpoint.size >= max(cosigned)
        assert latest.checkpoint.root == root_hash(MerkleTree(LEAVES[: latest.checkpoint.size]), latest.checkpoint.size)
    assert {rule for is_honest, rule in refused if is_honest} <= {Rule.LOG_ROLLED_BACK}
    assert (False, Rule.LOG_WITNESSES) in refused
    process, _ = start(tmp_path)
    process.terminate()
    assert process.wait(10) == 0
