"""Delegation: chains, narrowing and delegated tokens."""

from dataclasses import replace
from typing import Any

import pytest

from sdcard.delegation_chain import (
    MOST_SCOPES,
    BoundRequest,
    Chain,
    Delegation,
    act_claim,
    check_scopes,
    claims_of,
    extend_chain,
    is_agent,
    narrowed_expiry,
    one_interaction,
    parse_chain,
    parse_scope,
    prepare_token,
    verify_bound_token,
    verify_delegated_token,
)
from sdcard.dpop import create_dpop_proof
from sdcard.io.replay_cache import MemoryReplayRecord
from sdcard.jose.jws import encode_signing_input, join_signature
from sdcard.oauth import MOST_ACTORS
from tests.world import ISSUER, NOW, RecordingSalts, changed, key, raises_rule

# -- Chains: who acts for whom, in order, nobody twice, and not too many ----------------------------------------------

CHAIN = Chain("alice", ("agent:a", "agent:b"))


def test_the_actor_that_acts_now_is_outermost() -> None:
    assert act_claim(CHAIN) == {"sub": "agent:b", "act": {"sub": "agent:a"}}
    assert act_claim(Chain("alice")) is None


@pytest.mark.parametrize("count", [0, 1, 2, MOST_ACTORS])
def test_a_chain_comes_back_from_its_claims(count: int) -> None:
    chain = Chain("alice", tuple(f"agent:{n}" for n in range(count)))
    act = act_claim(chain)
    assert parse_chain({"sub": "alice"} if act is None else {"sub": "alice", "act": act}) == chain


def test_a_subject_that_hands_on_what_is_its_own_is_no_actor() -> None:
    assert extend_chain(Chain("agent:a"), "agent:a", "agent:b", 1) == Chain("agent:a")
    assert extend_chain(Chain("alice"), "agent:a", "agent:b", 1) == Chain("alice", ("agent:a",))


@pytest.mark.parametrize("target", ["alice", "agent:a", "agent:b", "agent:c"])
def test_nobody_is_in_a_chain_twice(target: str) -> None:
    with raises_rule("delegation.cycle", "request/audience"):
        extend_chain(CHAIN, "agent:c", target, 9)
    with raises_rule("delegation.cycle", "request/audience"):
        extend_chain(CHAIN, "agent:a", "agent:d", 9)


@pytest.mark.parametrize(("most", "refused"), [(2, True), (3, False), (4, False)])
def test_a_chain_has_an_end(most: int, refused: bool) -> None:
    if not refused:
        assert len(extend_chain(CHAIN, "agent:c", "agent:d", most).actors) == 3
        return
    with raises_rule("delegation.too-deep", "request/audience"):
        extend_chain(CHAIN, "agent:c", "agent:d", most)


def nested(count: int) -> Any:
    act: Any = None
    for n in range(count):
        act = {"sub": f"agent:{n}", **({"act": act} if act else {})}
    return act


@pytest.mark.parametrize(
    ("act", "where"),
    [
        (None, ""),
        ("agent:a", ""),
        ([], ""),
        ({}, ""),
        ({"sub": ""}, ""),
        ({"sub": "a\nb"}, ""),
        ({"sub": "x" * 257}, ""),
        ({"sub": 5}, ""),
        ({"sub": "agent:a", "iss": "https://other.example"}, ""),
        ({"sub": "agent:a", "act": None}, "/act"),
        ({"sub": "agent:a", "act": {"act": {"sub": "agent:b"}}}, "/act"),
        ({"sub": "agent:a", "act": {"sub": "agent:a"}}, ""),
        ({"sub": "alice"}, ""),
        (nested(MOST_ACTORS + 1), ""),
    ],
)
def test_what_is_no_chain(act: Any, where: str) -> None:
    with raises_rule("delegation.act", f"access-token/act{where}"):
        parse_chain({"sub": "alice", "act": act})


@pytest.mark.parametrize("subject", [None, 5, "", "a\0"])
def test_a_subject_that_is_none(subject: Any) -> None:
    with raises_rule("claim.type", "access-token/sub"):
        parse_chain({"sub": subject})


def test_agents_are_called_as_their_sd_cards_call_them() -> None:
    assert is_agent("agent:a.B_c-1")
    for other in ("a", "agent:", "agent: a", "AGENT:a", "agent:a\n", "agent:é", "agent:" + "x" * 129):
        assert not is_agent(other)


def test_who_holds_the_authority_already_is_not_added_again() -> None:
    held = Chain("alice", ("bob",))
    assert extend_chain(held, "bob", "agent:a", 1) == held


# -- What is handed on is never more than there is --------------------------------------------------------------------


def test_scopes_are_sorted_and_each_is_there_once() -> None:
    assert parse_scope("write read write") == ("read", "write")
    assert len(parse_scope(" ".join(f"s{n}" for n in range(MOST_SCOPES)))) == MOST_SCOPES


@pytest.mark.parametrize("text", ["", " ", "a  b", " a", "a ", 'a"', "a\\", "a\tb", "é", "x" * 257, "a " * 64 + "a"])
def test_what_is_no_scope(text: str) -> None:
    with raises_rule("delegation.scope", "request/scope"):
        parse_scope(text)


def test_every_scope_is_in_every_collection() -> None:
    check_scopes(["a", "b"], ["a", "b", "c"], {"b", "a"})
    check_scopes(["a"], ["a"])
    short: list[list[list[str]]] = [[["a"], ["a", "b"]], [["a", "b"], ["b"]], [[]]]
    for permitted in short:
        with raises_rule("delegation.scope", "request/scope"):
            check_scopes(["a", "b"], *permitted)


@pytest.mark.parametrize(
    ("ends", "end"), [([], 300), ([NOW + 299], 299), ([NOW + 301], 300), ([NOW + 1.9, NOW + 9], 1)]
)
def test_a_token_ends_with_the_first_of_what_it_is_made_from(ends: list[float], end: int) -> None:
    assert narrowed_expiry(NOW, 300, ends) == NOW + end


@pytest.mark.parametrize("end", [NOW, NOW - 1, NOW + 0.5])
def test_what_has_ended_gives_nothing(end: float) -> None:
    with raises_rule("time.expired", "request/subject_token"):
        narrowed_expiry(NOW, 300, [NOW + 100, end])


def test_an_interaction_is_one() -> None:
    assert one_interaction() is one_interaction(None, None) is None
    assert one_interaction(None, "x", "x") == "x"
    with raises_rule("delegation.interaction-id", "request/interaction_id"):
        one_interaction("x", None, "y")


# -- Delegated tokens as an agent gets them ---------------------------------------------------------------------------

SIGNER, HOLDER = key(13), key(60)
KEYS = {SIGNER.public_key.thumbprint: SIGNER.public_key}
DELEGATION = Delegation(
    ISSUER, "agent:c", Chain("alice", ("agent:a", "agent:b")), "bob", ("read",), "1", NOW, NOW + 300, "task-1", None
)
BOUND = replace(DELEGATION, key=HOLDER.public_key.thumbprint)
URL = "https://c.example/tasks"


def token_of(delegation: Delegation) -> str:
    signing_input = prepare_token(delegation, SIGNER.public_key)
    return join_signature(signing_input, SIGNER.sign(signing_input))


def with_claims(**changes: Any) -> str:
    header = {"alg": "ES256", "typ": "at+jwt", "kid": SIGNER.public_key.thumbprint}
    signing_input = encode_signing_input(header, changed(claims_of(DELEGATION), changes))
    return join_signature(signing_input, SIGNER.sign(signing_input))


def bound_request(token: str, signer: Any = HOLDER, url: str = URL) -> BoundRequest:
    proof = create_dpop_proof(signer, "POST", url, token, RecordingSalts("dpop"), NOW)
    return BoundRequest([proof], "POST", URL, MemoryReplayRecord())


def test_a_token_comes_back_as_it_was() -> None:
    for delegation in (DELEGATION, replace(DELEGATION, chain=Chain("agent:a"), interaction_id=None)):
        assert verify_delegated_token(token_of(delegation), KEYS, ISSUER, "agent:c", NOW) == delegation


def test_a_bound_token_comes_back_with_its_proof_and_not_without() -> None:
    token = token_of(BOUND)
    request = bound_request(token)
    assert verify_bound_token(token, KEYS, ISSUER, "agent:c", request, NOW) == BOUND
    with raises_rule("dpop.replayed", "dpop/jti"):
        verify_bound_token(token, KEYS, ISSUER, "agent:c", request, NOW)
    with raises_rule("dpop.missing", "access-token/cnf"):
        verify_delegated_token(token, KEYS, ISSUER, "agent:c", NOW)
    with raises_rule("dpop.other-key", "dpop-header/jwk"):
        verify_bound_token(token, KEYS, ISSUER, "agent:c", bound_request(token, key(61)), NOW)
    unbound = token_of(DELEGATION)
    with raises_rule("dpop.token-unbound", "access-token/cnf"):
        verify_bound_token(unbound, KEYS, ISSUER, "agent:c", bound_request(unbound), NOW)


@pytest.mark.parametrize(
    ("changes", "rule", "where"),
    [
        ({"aud": "agent:d"}, "audience.mismatch", "aud"),
        ({"aud": ["agent:c"]}, "claim.type", "aud"),
        ({"iss": "https://other.example"}, "issuer.unknown", "iss"),
        ({"exp": NOW}, "time.expired", "exp"),
        ({"act": {"sub": "agent:c"}}, "delegation.act", "act"),
        ({"sub": "agent:c"}, "delegation.act", "act"),
        ({"interaction_id": 5}, "claim.type", "interaction_id"),
        ({"interaction_id": ""}, "claim.type", "interaction_id"),
        ({"interaction_id": None}, "claim.type", "interaction_id"),
        ({"cnf": {}}, "cnf.malformed", "cnf"),
        ({"cnf": {"jkt": 5}}, "cnf.malformed", "cnf"),
        ({"cnf": {"jkt": "x", "jwk": {}}}, "cnf.malformed", "cnf"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], rule: str, where: str) -> None:
    with raises_rule(rule, f"access-token/{where}"):
        verify_delegated_token(with_claims(**changes), KEYS, ISSUER, "agent:c", NOW)


def test_a_key_that_is_not_the_registrys() -> None:
    with raises_rule("issuer.key-unknown", "access-token/kid"):
        verify_delegated_token(token_of(DELEGATION), {}, ISSUER, "agent:c", NOW)
    other = {SIGNER.public_key.thumbprint: key(14).public_key}
    with raises_rule("jws.signature", "access-token/signature"):
        verify_delegated_token(token_of(DELEGATION), other, ISSUER, "agent:c", NOW)
