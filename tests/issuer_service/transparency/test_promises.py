"""Promises of a registry: a registration's answer says by when the log has its SD-Cards, and the log keeps it."""

import hashlib
from pathlib import Path
from typing import Any

from sdcard import TrustedIssuers
from sdcard.instants import Instant
from sdcard.io.registry_answers import read_registered
from sdcard.transparency.notes import NoteKey
from sdcard.transparency.openings import parse_openings
from sdcard.transparency.promises import LogPromise, find_broken, verify_log_promise
from sdcard.transparency.tree import MerkleTree, leaf_hash
from tests.issuer_service.desk import Desk, OpenDesk, jwk, on_both_databases, request
from tests.issuer_service.transparency.logs import begin, checkpoint, grow, terms_with, trust, witnesses
from tests.issuer_service.transparency.test_service import entries
from tests.postgres import query
from tests.world import ISSUER, key

pytestmark = on_both_databases
AGENT = "ai-assistant-v2"


def promised(desk: Desk, answer: Any) -> LogPromise:
    """The verified promise of an answer, for exactly its SD-Cards."""
    trusted = TrustedIssuers.of(ISSUER, desk.signer.public_key)
    promise = verify_log_promise(answer["log_promise"], trusted, desk.clock.now())
    cards = [one["sd_card"].partition("~")[0] for one in answer["cards"]]
    assert read_registered(answer).log_promise == answer["log_promise"]
    assert [*promise.entries] == [hashlib.sha256(one.encode()).hexdigest() for one in cards]
    return promise


def broken(registry: OpenDesk, desk: Desk, promise: LogPromise, now: Instant, *keys: NoteKey) -> list[str]:
    """Return what the Holder's monitor finds at an instant."""
    seen = trust(*keys).verify(checkpoint(registry), desk.clock.now()).checkpoint
    tree = MerkleTree(map(leaf_hash, entries(registry, seen.size)))
    opened = parse_openings(registry.done("GET", f"/agents/{AGENT}/log-proofs")["openings"])
    return [str(one.rule) for one in find_broken(promise, "x", opened, tree, seen, now)]


def test_a_registration_and_a_renewal_are_promised_and_the_log_keeps_it(desk: Desk, tmp_path: Path) -> None:
    begin(desk)
    with witnesses(tmp_path, desk, 2) as running:
        terms, keys = terms_with(running), [one.key for one in running]
        with desk.open(log=terms) as registry:
            begun = desk.clock.now()
            first = promised(desk, registry.register(request()))
            second = promised(desk, registry.done("POST", f"/agents/{AGENT}/renew", {"supersedes": "run_out"}))
            assert (first.log, first.issuer, first.issued_at) == (f"{ISSUER[8:]}/log", ISSUER, begun)
            assert begun + 60 < first.by <= begun + 60 + 2 * 60 + 30
            grow(desk, terms)
            for promise in (first, second):
                assert broken(registry, desk, promise, promise.by + 1, *keys) == []
            assert set(first.entries.values()) | set(second.entries.values()) < set(entries(registry, 16))


def test_a_promise_counts_the_leaves_that_wait_and_is_kept_in_time(desk: Desk, tmp_path: Path) -> None:
    begin(desk)
    with witnesses(tmp_path, desk, 1) as running:
        terms = terms_with(running, batch=16)
        with desk.open(log=terms) as registry:
            for number in range(20):
                registry.register(request(f"before-{number}", public_key=jwk(key(200 + number))))
            promise = promised(desk, registry.register(request()))
            for _ in range(6):
                grow(desk, terms)
            assert broken(registry, desk, promise, promise.by + 1, running[0].key) == [], "85 leaves are six batches"
            spare = promise.by - desk.clock.now()
            assert 60 < spare <= 3 * 60 + 30, "one checkpoint may lack its witnesses"


def test_a_registry_that_removes_the_leaf_or_does_not_log_it_in_time_is_proved_to_have_lied(
    desk: Desk, tmp_path: Path
) -> None:
    begin(desk)
    with witnesses(tmp_path, desk, 1) as running:
        terms = terms_with(running)
        with desk.open(log=terms) as registry:
            grow(desk, terms)
            promise = promised(desk, registry.register(request()))
            late = broken(registry, desk, promise, promise.by + 1, running[0].key)
            assert set(late) == {"log.promise-broken"}, "its time has come, and no batch has it"
            assert broken(registry, desk, promise, promise.by, running[0].key) == []
            query(desk.url, "DELETE FROM log_leaves WHERE card IS NOT NULL")
            grow(desk, terms)
            assert set(broken(registry, desk, promise, promise.by + 1, running[0].key)) == {"log.promise-broken"}


def test_a_retry_gets_the_same_promise(desk: Desk, tmp_path: Path) -> None:
    begin(desk)
    with witnesses(tmp_path, desk, 1) as running, desk.open(log=terms_with(running)) as registry:
        once = {"idempotency_key": "a-key-of-the-client-0001"}
        answers = [registry.ask("POST", "/agents/register", request(), **once).json() for _ in range(2)]
    assert answers[0] == answers[1]
    assert promised(desk, answers[0]).entries


def test_without_a_log_or_witnesses_nothing_is_promised(desk: Desk, tmp_path: Path) -> None:
    with witnesses(tmp_path, desk, 1) as running, desk.open(log=terms_with(running)) as registry:
        assert registry.register(request())["log_promise"] is None, "the log has not begun"
    begin(desk)
    with desk.open() as registry:
        renewed = registry.done("POST", f"/agents/{AGENT}/renew", {"supersedes": "run_out"})
    assert renewed["log_promise"] is None, "this process knows no witnesses"
