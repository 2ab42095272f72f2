"""Delegated tokens as an agent gets them."""

from dataclasses import replace
from typing import Any

import pytest

from sdcard.delegation import (
    BoundRequest,
    Chain,
    Delegation,
    claims_of,
    prepare_token,
    verify_bound_token,
    verify_delegated_token,
)
from sdcard.dpop import create_dpop_proof
from sdcard.io.replay_cache import MemoryReplayRecord
from sdcard.jose.jws import encode_signing_input, join_signature
from tests.world import ISSUER, NOW, RecordingSalts, changed, key, raises_rule

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
