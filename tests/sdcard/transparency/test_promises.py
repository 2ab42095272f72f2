"""Promises that a log will have the SD-Cards of a Batch."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sdcard import Misuse, Refused, TrustedIssuers
from sdcard.encoding import JsonObject, encode_base64url
from sdcard.io.agent import keep_promise
from sdcard.jose.jws import encode_signing_input, join_signature
from sdcard.rules import Rule
from sdcard.transparency.openings import Opening
from sdcard.transparency.promises import TYP, LogPromise, find_broken, issue_log_promise, verify_log_promise
from sdcard.transparency.proofs import card_entry
from sdcard.transparency.tree import MerkleTree, leaf_hash
from vectors.actors import ISSUER, ISSUER_ID, NOW, STRANGER
from vectors.logs import CARD, ORIGIN, SALT, checkpoint, log_with

TRUSTED = TrustedIssuers.of(ISSUER_ID, ISSUER.public_key)
DIGEST = hashlib.sha256(CARD.encode()).hexdigest()
ENTRY = card_entry(SALT, CARD)
BY = NOW + 90
TEXT = issue_log_promise(ISSUER_ID, ORIGIN, {DIGEST: ENTRY}, ISSUER, NOW, BY)
OPENED = (Opening(5, NOW, SALT, DIGEST, None),)
LISTED: JsonObject = {encode_base64url(bytes.fromhex(DIGEST)): encode_base64url(ENTRY)}
CLAIMS: JsonObject = {"iss": ISSUER_ID, "iat": NOW, "log": ORIGIN, "by": BY, "entries": LISTED}
HEADER: JsonObject = {"alg": "ES256", "typ": TYP, "kid": ISSUER.public_key.thumbprint}


def signed(claims: JsonObject, **header: Any) -> str:
    text = encode_signing_input({**HEADER, **header}, {**CLAIMS, **claims})
    return join_signature(text, ISSUER.sign(text))


def broken(
    tree: MerkleTree, now: float = BY + 1, openings: tuple[Opening, ...] = OPENED, promise: str = TEXT, **changes: Any
) -> list[str]:
    found = find_broken(
        verify_log_promise(promise, TRUSTED, now), "x", openings, tree, checkpoint(tree, **changes), now
    )
    return [f"{one.rule} at {one.where}" for one in found]


def test_a_promise_names_the_log_the_instant_and_the_entries() -> None:
    assert verify_log_promise(TEXT, TRUSTED, NOW) == LogPromise(ISSUER_ID, ORIGIN, NOW, BY, {DIGEST: ENTRY})
    with pytest.raises(Misuse):
        issue_log_promise(ISSUER_ID, ORIGIN, {DIGEST: ENTRY}, ISSUER, NOW, NOW)


REFUSED: dict[str, tuple[Callable[[], str], Rule]] = {
    "another key": (lambda: issue_log_promise(ISSUER_ID, ORIGIN, {DIGEST: ENTRY}, STRANGER, NOW, BY),
                    Rule.ISSUER_KEY_UNKNOWN),
    "another issuer": (lambda: signed({"iss": "https://other.example"}), Rule.ISSUER_UNKNOWN),
    "another type": (lambda: signed({}, typ="statuslist+jwt"), Rule.JWS_TYP),
    "from the future": (lambda: signed({"iat": NOW + 61}), Rule.ISSUED_IN_FUTURE),
    "no instant": (lambda: signed({"by": "soon"}), Rule.CLAIM_TYPE),
    "no entries": (lambda: signed({"entries": {}}), Rule.CLAIM_TYPE),
    "entries in a list": (lambda: signed({"entries": [1]}), Rule.CLAIM_TYPE),
    "a short entry": (lambda: signed({"entries": {next(iter(LISTED)): "AAAA"}}), Rule.CLAIM_VALUE),
    "no text": (lambda: signed({"log": 1}), Rule.CLAIM_TYPE),
    "a changed signature": (lambda: f"{TEXT[:-8]}AAAAAAAA", Rule.JWS_SIGNATURE),
    "no JWS": (lambda: "a.b", Rule.JWS_FORMAT),
    "much": (lambda: "x" * 2_000_000, Rule.LIMIT_BYTES),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_promise_that_the_registry_did_not_make_is_refused(name: str) -> None:
    make, rule = REFUSED[name]
    with pytest.raises(Refused) as refusal:
        verify_log_promise(make(), TRUSTED, NOW)
    assert refusal.value.rule is rule


def test_a_client_keeps_a_promise_that_it_verified_beside_the_sd_cards(tmp_path: Path) -> None:
    keep_promise(tmp_path, None, TRUSTED, NOW)
    with pytest.raises(Refused):
        keep_promise(tmp_path, f"{TEXT[:-8]}AAAAAAAA", TRUSTED, NOW)
    assert [*tmp_path.iterdir()] == []
    keep_promise(tmp_path, TEXT, TRUSTED, NOW)
    (file,) = tmp_path.glob("*.log-promise")
    assert file.read_text(encoding="ascii") == f"{TEXT}\n"


def test_a_promise_is_kept_when_the_log_has_the_entry_in_time() -> None:
    assert broken(log_with(CARD)) == []


def test_a_promise_is_broken_when_the_time_has_come_and_the_log_lacks_the_entry() -> None:
    other = log_with("a.b.c")
    assert broken(other) == ["log.promise-broken at log/promise/x"]
    assert broken(log_with(CARD), openings=()) == ["log.promise-broken at log/promise/x"], "no opening leads to it"
    small = MerkleTree(leaf_hash(bytes([number])) for number in range(5))
    assert broken(small) == ["log.promise-broken at log/promise/x"], "the leaf is not in the tree yet"
    assert broken(other, now=BY) == [], "its time has not come"


def test_a_promise_is_about_its_own_log_under_each_of_its_names() -> None:
    assert broken(log_with(CARD), origin=f"{ORIGIN}/2") == []
    with pytest.raises(Refused) as refusal:
        broken(log_with(CARD), origin="other.example/log")
    assert refusal.value.rule is Rule.LOG_UNKNOWN
