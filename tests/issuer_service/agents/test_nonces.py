"""Proof of possession over HTTP: nonces, and what a registration makes of the proofs that come with it."""

from pathlib import Path
from typing import Any

import pytest

from issuer_service.access import Scope
from issuer_service.agents.repository import USED_NONCES
from issuer_service.db.backups import back_up
from issuer_service.settings import ProofPolicy
from sdcard import InMemorySigner
from sdcard.io.used_nonces import SharedKey
from sdcard.limits import DEFAULT_LIMITS
from sdcard.nonces import NoncePurpose, NonceTerms, make_nonce
from sdcard.possession import prove_possession
from sdcard.sdjwt.model import SdJwt, parse_sd_jwt
from tests.issuer_service.desk import (
    HOLDER,
    Desk,
    OpenDesk,
    ask,
    assert_refused,
    jwk,
    on_both_databases,
    request,
    request_with_card,
)
from tests.postgres import query
from tests.world import ISSUER, NOW, RecordingSalts, at_once, example, key, payload_of

AGENT = "ai-assistant-v2"
SECOND = key(21)


def nonce(registry: OpenDesk, token: str | None = None) -> str:
    return str(registry.done("POST", "/nonces", token=token)["nonce"])


def proof(text: str, signer: InMemorySigner = HOLDER, agent: str = AGENT, at: float = NOW, to: str = ISSUER) -> str:
    return prove_possession(signer, to, agent, text, at)


def possessions(desk: Desk) -> list[Any]:
    return [record["possession"] for record in desk.audit()]


@on_both_databases
def test_a_proof_is_accepted_once_and_the_audit_record_says_so(desk: Desk, registry: OpenDesk) -> None:
    body = request(proofs=[proof(nonce(registry))])

    registry.register(body)
    again = registry.post(body)
    registry.register(request())

    assert_refused(again, 422, ("proof.nonce", "request/proofs"))
    assert possessions(desk) == ["proven", "not-proven"]


def test_a_nonce_is_fresh_each_time_and_not_cached(registry: OpenDesk) -> None:
    first, second = registry.ask("POST", "/nonces"), registry.ask("POST", "/nonces")

    assert first.status_code == 201
    assert first.headers["cache-control"] == "no-store"
    assert first.json()["expires_at"] == NOW + 300
    assert first.json()["nonce"] != second.json()["nonce"]


def test_several_keys_are_proven_over_one_nonce(desk: Desk, registry: OpenDesk) -> None:
    text = nonce(registry)
    keys: dict[str, Any] = {"public_key": None, "public_keys": [jwk(), jwk(SECOND)]}

    registry.register(request(**keys, proofs=[proof(text), proof(text, SECOND)]))

    assert possessions(desk) == ["proven"]


@pytest.mark.parametrize(
    ("proofs", "finding"),
    [
        (lambda n: [proof("never-given")], ("proof.nonce", "request/proofs")),
        (lambda n: [proof("\0")], ("proof.nonce", "request/proofs")),
        (lambda n: [proof(n, agent="another")], ("proof.agent-mismatch", "request/proofs/0/sub")),
        (lambda n: [proof(n, to="https://other.example")], ("proof.audience-mismatch", "request/proofs/0/aud")),
        (lambda n: [proof(n, at=NOW - 301)], ("proof.stale", "request/proofs/0/iat")),
        (lambda n: [proof(n, at=NOW + 61)], ("proof.from-future", "request/proofs/0/iat")),
        (lambda n: [proof(n, SECOND)], ("jws.signature", "request/proofs/0/signature")),
        (lambda n: ["a.b.c"], ("encoding.base64url", "request/proofs/0/header")),
        (lambda n: [proof(n), proof(n)], ("request.malformed", "request/proofs")),
        (lambda n: [], ("request.malformed", "request/proofs")),
        (lambda n: ["x" * 8193], ("request.malformed", "request/proofs/0")),
        (lambda n: [7], ("request.malformed", "request/proofs/0")),
        (lambda n: proof(n), ("request.malformed", "request/proofs")),
    ],
)
def test_a_proof_that_proves_something_else_registers_nothing(
    desk: Desk, registry: OpenDesk, proofs: Any, finding: tuple[str, str]
) -> None:
    asked = proofs(nonce(registry))
    before = desk.rows()

    response = registry.post(request(proofs=asked))

    assert_refused(response, 400 if finding[0].startswith("json") else 422, finding)
    assert desk.rows() == before


def test_every_key_has_its_proof(registry: OpenDesk) -> None:
    text = nonce(registry)
    keys: dict[str, Any] = {"public_key": None, "public_keys": [jwk(), jwk(SECOND)]}

    fewer = registry.post(request(**keys, proofs=[proof(text)]))
    swapped = registry.post(request(**keys, proofs=[proof(text, SECOND), proof(text)]))
    two = registry.post(request(**keys, proofs=[proof(text), proof(nonce(registry), SECOND)]))

    assert_refused(fewer, 422, ("proof.missing", "request/proofs"))
    places = [("jws.signature", f"request/proofs/{n}/signature") for n in range(2)]
    assert_refused(swapped, 422, *places)
    assert_refused(two, 422, ("proof.nonce", "request/proofs"))


def test_a_nonce_is_for_the_caller_that_it_was_given_to(desk: Desk, registry: OpenDesk) -> None:
    bob = desk.new_token("bob")

    stolen = registry.post(request(proofs=[proof(nonce(registry))]), authorization=f"Bearer {bob}")

    assert_refused(stolen, 422, ("proof.nonce", "request/proofs"))


@pytest.mark.parametrize(("seconds", "status"), [(299, 201), (300, 422)])
def test_a_nonce_has_an_end(desk: Desk, registry: OpenDesk, seconds: int, status: int) -> None:
    text = nonce(registry)
    desk.clock.advance(seconds)

    assert registry.post(request(proofs=[proof(text, at=NOW + seconds)])).status_code == status


def test_a_refused_registration_uses_no_nonce_up(desk: Desk, registry: OpenDesk) -> None:
    registry.register(request("other"))
    text = nonce(registry)

    taken = registry.post(request(proofs=[proof(text)]))
    registry.register(request(public_key=jwk(SECOND), proofs=[proof(text, SECOND)]))

    assert_refused(taken, 409, ("key.bound-elsewhere", "request/public_key"))
    assert desk.counts()["used_nonces"] == 2, "the nonce, once it was good for something, and the key"


@on_both_databases
def test_of_those_who_use_one_nonce_at_once_one_registers(desk: Desk, registry: OpenDesk) -> None:
    text = nonce(registry)
    asks = iter([
        request(f"a-{n}", public_key=jwk(key(30 + n)), proofs=[proof(text, key(30 + n), f"a-{n}")]) for n in range(8)
    ])  # fmt: skip

    statuses = at_once(lambda: registry.post(next(asks)).status_code, 8)

    assert sorted(statuses) == [201] + [422] * 7


@on_both_databases
def test_nonces_store_nothing_until_they_are_used(desk: Desk, registry: OpenDesk) -> None:
    first = nonce(registry)
    before = desk.rows()
    for _ in range(100):
        nonce(registry)
        nonce(registry, desk.new_token("eve"))

    assert {**desk.rows(), "tokens": before["tokens"]} == before
    registry.register(request(proofs=[proof(first)]))
    assert desk.counts()["used_nonces"] == 2, "the nonce, and the key"


def test_a_nonce_of_another_registry_of_the_same_database_is_refused(desk: Desk) -> None:
    with desk.open(issuer="https://other.example") as registry:
        text = nonce(registry)
    with desk.open() as registry:
        assert_refused(registry.post(request(proofs=[proof(text)])), 422, ("proof.nonce", "request/proofs"))


def test_a_challenge_of_the_same_key_for_another_purpose_is_refused(desk: Desk, registry: OpenDesk) -> None:
    nonce(registry)
    key_of = ask(desk.url, lambda database: SharedKey(database, USED_NONCES, RecordingSalts()).current())
    for purpose in NoncePurpose:
        terms = NonceTerms(purpose, ISSUER, 300, subject="alice")
        text = make_nonce(key_of, terms, NOW, bytes(16))
        expected = 201 if purpose is NoncePurpose.REGISTRY_PROOF else 422
        assert registry.post(request(proofs=[proof(text)])).status_code == expected, purpose


@on_both_databases
def test_a_registry_that_starts_again_knows_its_nonces_and_those_that_were_used(desk: Desk) -> None:
    with desk.open() as registry:
        used, open_ = nonce(registry), nonce(registry)
        registry.register(request(proofs=[proof(used)]))
    with desk.open() as registry:
        assert_refused(registry.post(request(proofs=[proof(used)])), 422, ("proof.nonce", "request/proofs"))
        registry.register(request(proofs=[proof(open_)]))


def test_a_registry_whose_database_was_restored_refuses_the_nonces_of_before(desk: Desk, tmp_path: Path) -> None:
    file, backup = Path(desk.url.partition("///")[2]), tmp_path / "backup"
    with desk.open() as registry:
        used, open_ = nonce(registry), nonce(registry)
    back_up(desk.url, backup)
    with desk.open() as registry:
        registry.register(request(proofs=[proof(used)]))
    file.write_bytes(backup.read_bytes())
    with desk.open() as registry:
        for text in (used, open_):
            assert_refused(registry.post(request(proofs=[proof(text)])), 422, ("proof.nonce", "request/proofs"))
        registry.register(request(proofs=[proof(nonce(registry))]))


def test_only_who_may_register_gets_a_nonce(desk: Desk, registry: OpenDesk) -> None:
    manager = desk.new_token("alice", (Scope.AGENTS_MANAGE,))
    where = "request/headers/authorization"

    assert_refused(registry.ask("POST", "/nonces", token=manager), 403, ("token.scope", where))
    assert_refused(registry.ask("POST", "/nonces", token="sdcard_x"), 401, ("token.invalid", where))


def test_where_proofs_are_demanded_nothing_is_registered_without(desk: Desk) -> None:
    with desk.open() as registry:
        registry.register(request("of-before", public_key=jwk(SECOND)))
    with desk.open(proofs=ProofPolicy.DEMANDED) as registry:
        missing = ("proof.missing", "request/proofs")
        assert_refused(registry.post(request()), 422, missing)
        assert_refused(registry.ask("POST", "/agents/of-before/renew", {}), 422, missing)
        assert_refused(registry.ask("POST", "/agents/of-before/keys", {"public_key": jwk()}), 422, missing)
        registry.register(request(proofs=[proof(nonce(registry))]))
        registry.done("POST", f"/agents/{AGENT}/renew", {})
        assert registry.done("GET", f"/agents/{AGENT}")["possession"] == "proven"
        new = key(22)
        change = {"public_key": jwk(new), "proofs": [proof(nonce(registry), new)]}
        registry.done("POST", f"/agents/{AGENT}/keys", change)

    assert possessions(desk) == ["not-proven", "proven", "proven", "proven"]


@on_both_databases
def test_a_registration_with_a_nonce_of_an_outdated_key_has_the_key_read_again(desk: Desk) -> None:
    """The database lost the key, as a restored one has, and no process was told."""
    with desk.open() as registry:
        outdated = nonce(registry)
        query(desk.url, "DELETE FROM used_nonces")
        assert_refused(registry.post(request(proofs=[proof(outdated)])), 422, ("proof.nonce", "request/proofs"))
        registry.register(request(proofs=[proof(nonce(registry))]))


# -- What SD-Cards say about it: ``issuer_checks`` --------------------------------------------------------------------


def checks_in(answer: Any) -> list[Any]:
    """The claim of every SD-Card of a Batch."""
    return [payload_of(parse_plain(card["sd_card"])).get("issuer_checks") for card in answer["cards"]]


def parse_plain(text: str) -> SdJwt:
    parsed = parse_sd_jwt(text, DEFAULT_LIMITS)
    assert isinstance(parsed, SdJwt)
    return parsed


def found_checks(registry: OpenDesk) -> list[Any]:
    """The claim of the SD-Card that discovery gives."""
    body = {"query": {"text": "AI"}, "context": "public"}
    results = registry.done("POST", "/agents/discover", body)["results"]
    return [payload_of(parse_plain(one["sd_card"])).get("issuer_checks") for one in results]


@on_both_databases
def test_every_sd_card_says_whether_possession_was_proved(desk: Desk, registry: OpenDesk) -> None:
    proved = registry.register(request(proofs=[proof(nonce(registry))]))
    found = found_checks(registry)
    renewed = registry.done("POST", f"/agents/{AGENT}/renew", {})
    other = registry.done("POST", f"/agents/{AGENT}/keys", {"public_key": jwk(SECOND), "supersedes": "run_out"})
    without = registry.register(request("another", public_key=jwk(key(22))))

    assert checks_in(proved) == [["possession"]] * 3
    assert found == [["possession"]]
    assert checks_in(renewed) == [["possession"]] * 3
    assert checks_in(other) == checks_in(without) == [[]] * 3
    assert found_checks(registry) == [[], []]
    recorded = [(one["event"], one.get("checks")) for one in desk.audit()]
    assert recorded[:4] == [
        ("agent.registered", "possession"),
        ("discovery.issued", "possession"),
        ("agent.renewed", "possession"),
        ("agent.keys-changed", ""),
    ]
    assert desk.verdict().findings == ()
    assert desk.differences() == []


def test_a_card_with_the_claims_name_is_refused(registry: OpenDesk) -> None:
    response = registry.post(request_with_card({**example(), "issuer_checks": ["approved"]}))

    assert_refused(response, 422, ("card.reserved-member", "card/issuer_checks"))
