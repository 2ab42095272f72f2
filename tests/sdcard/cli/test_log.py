"""``sdcard log``: each way in which a log can cheat is reported by its name."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sdcard.transparency.promises import issue_log_promise
from sdcard.transparency.tree import leaf_hash
from tests.command_line import Ran, Sdcard
from tests.sdcard.transparency.served_logs import LEAVES, ServedLog, files, serving
from tests.world import ISSUER, World
from vectors.actors import NOW
from vectors.logs import POLICY

WITNESSES = ("w1.example", "w2.example")
FORK = [LEAVES[0], b"\7" * 32, *LEAVES[2:]]
THEN = 1_700_000_000
ALWAYS = ("--policy", "policy.txt", "--state-file", "state.json", "--network", "127.0.0.1", "--max-age", "1000000000")


class Monitored:
    """A served log, and the command that watches it."""

    def __init__(self, log: ServedLog, url: str, sdcard: Sdcard) -> None:
        self.log, self.url, self._sdcard = log, url, sdcard

    def publish(self, size: int, leaves: list[bytes] = LEAVES, witnesses: tuple[str, ...] = WITNESSES) -> str:
        return self.log.publish(size, *witnesses, leaves=leaves, at=THEN)

    def run(self, *options: str) -> Ran:
        return self._sdcard("log", "monitor", self.url, *ALWAYS, "--json", *options)

    def finds(self, rule: str, *options: str) -> None:
        ran = self.run(*options)
        assert (ran.status, ran.json.get("rule")) == (1, rule), ran


@pytest.fixture
def monitored(tmp_path: Path, sdcard: Sdcard) -> Iterator[Monitored]:
    folder = tmp_path / "log"
    folder.mkdir()
    Path("policy.txt").write_text(POLICY, encoding="utf-8")
    with serving(files(folder)) as url:
        found = Monitored(ServedLog(folder), url, sdcard)
        found.publish(300)
        assert found.run().json == {
            "origin": "registry.example/log",
            "size": 300,
            "grown": 0,
            "witnesses": {"one": THEN, "two": THEN},
        }
        yield found


def test_a_broken_promise_in_the_folder_is_reported_with_a_trust_document(monitored: Monitored, world: World) -> None:
    digest, issuer = "ab" * 32, world.issuer.signer
    opening = {"index": 300, "at": THEN, "salt": "00" * 32, "card": digest, "commitment": None, "record": None}
    cards, made = Path("cards"), {"kept": bytes(32), "broken": bytes([1]) * 32}
    cards.mkdir()
    monitored.publish(301, [*LEAVES[:300], leaf_hash(made["kept"])])
    (cards / "log-openings.json").write_text(json.dumps({"openings": [opening]}))
    keys = [dict(issuer.public_key.to_jwk())]
    Path("trust.json").write_text(json.dumps({"issuers": {ISSUER: {"keys": keys}}}))
    watched = ("--cards", "cards", "--known", "300", "--trust", "trust.json")
    for name, entry in made.items():
        promise = issue_log_promise(ISSUER, "registry.example/log", {digest: entry}, issuer, THEN, THEN + 60)
        (cards / f"{name}.log-promise").write_text(promise)
        ran = monitored.run(*watched)
        found = [] if ran.status == 0 else [(one["rule"], one["where"]) for one in ran.json["findings"]]
        assert found == ([] if name == "kept" else [("log.promise-broken", "log/promise/broken.log-promise")])
    assert monitored.run(*watched[:4]).status == 0, "without a trust document, promises are not read"
    (cards / "broken.log-promise").write_text(f"{promise[:-8]}AAAAAAAA")
    monitored.finds("jws.signature", *watched)
    assert monitored.run("--trust", "trust.json").status == 2


def test_a_log_that_only_appends_is_good(monitored: Monitored, sdcard: Sdcard) -> None:
    for size, grown in ((300, 0), (301, 1), (700, 399)):
        monitored.publish(size)
        assert monitored.run().json["grown"] == grown
    shown = sdcard("log", "monitor", monitored.url, *ALWAYS)
    assert "700, 0 of them new" in shown.out
    assert not Path("state.json.evidence").exists()


def test_a_rollback_is_reported(monitored: Monitored) -> None:
    before = json.loads(Path("state.json").read_text())
    monitored.publish(299)
    monitored.finds("log.rolled-back")
    assert json.loads(Path("state.json").read_text()) == before, "the last good checkpoint stays"
    assert Path("state.json.evidence").read_text(encoding="utf-8").count("registry.example/log\n") == 2


def test_a_fork_is_reported(monitored: Monitored) -> None:
    monitored.publish(400, FORK)
    monitored.finds("log.consistency")


def test_a_replaced_leaf_is_reported(monitored: Monitored) -> None:
    monitored.publish(300, FORK)
    monitored.finds("log.split-view")


@pytest.mark.parametrize("size", [200, 300])
def test_a_split_view_is_reported_by_a_checkpoint_of_others(monitored: Monitored, tmp_path: Path, size: int) -> None:
    other = ServedLog(tmp_path / "other")
    Path("theirs.txt").write_text(other.publish(size, leaves=FORK), encoding="utf-8")
    monitored.finds("log.split-view" if size == 300 else "log.consistency", "--compare", "theirs.txt")
    Path("theirs.txt").write_text(other.publish(size), encoding="utf-8")
    assert monitored.run("--compare", "theirs.txt").status == 0
    with serving(files(tmp_path / "other")) as url:
        assert monitored.run("--compare", f"{url}/checkpoint").status == 0


def test_a_stale_view_is_reported_by_a_larger_checkpoint_of_others(monitored: Monitored, tmp_path: Path) -> None:
    Path("theirs.txt").write_text(ServedLog(tmp_path / "other").publish(600), encoding="utf-8")
    monitored.finds("log.rolled-back", "--compare", "theirs.txt")


def test_silence_is_reported(monitored: Monitored) -> None:
    monitored.finds("log.silent", "--max-age", "60")
    assert "grown" in monitored.run().json


def test_a_checkpoint_without_quorum_or_signature_is_refused(monitored: Monitored) -> None:
    monitored.publish(400, witnesses=WITNESSES[:1])
    monitored.finds("log.witnesses")
    file = monitored.log.folder / "checkpoint"
    file.write_text(monitored.publish(400).replace("\n400\n", "\n401\n"), encoding="utf-8")
    monitored.finds("log.signature")


def test_a_checkpoint_of_others_that_the_log_did_not_sign_says_nothing(monitored: Monitored) -> None:
    text = monitored.publish(300).replace("\n300\n", "\n301\n")
    Path("theirs.txt").write_text(text, encoding="utf-8")
    monitored.finds("log.signature", "--compare", "theirs.txt")


def test_missing_and_spoilt_tiles_are_reported(monitored: Monitored) -> None:
    monitored.publish(700)
    tile = monitored.log.folder / "tile/0/002.p/188"
    data = tile.read_bytes()
    tile.write_bytes(data[:-1])
    monitored.finds("log.tile")
    tile.write_bytes(bytes(len(data)))
    monitored.finds("log.consistency")
    tile.unlink()
    monitored.finds("fetch.absent")


@pytest.mark.parametrize("text", ["", "{}", '{"checkpoint": 5, "since": 1}', '{"checkpoint": "x", "since": "y"}'])
def test_a_spoilt_state_is_no_fresh_start(monitored: Monitored, text: str) -> None:
    Path("state.json").write_text(text, encoding="utf-8")
    assert monitored.run().status in (1, 2)
    assert Path("state.json").read_text(encoding="utf-8") == text


def test_a_witness_needs_a_log_and_its_state(sdcard: Sdcard) -> None:
    assert sdcard("keys", "new", "w.jwk", "--algorithm", "EdDSA").status == 0
    Path("policy.txt").write_text("quorum none\n", encoding="utf-8")
    always = ("--name", "w.example", "--key", "w.jwk", "--policy", "policy.txt", "--state-file", "w.sqlite")
    ran = sdcard("log", "witness", *always, "--create")
    assert (ran.status, "no log" in ran.err) == (2, True)
    Path("policy.txt").write_text(POLICY, encoding="utf-8")
    ran = sdcard("log", "witness", *always)
    assert (ran.status, "--create" in ran.err) == (2, True)
    assert NOW
