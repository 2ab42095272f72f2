"""Proof of possession: one change to a good proof, one rule at one place."""

from collections.abc import Mapping
from typing import Any

import pytest

from sdcard.encoding import encode_base64url, encode_json
from sdcard.errors import Refused
from sdcard.instants import FreshnessWindow
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.jose.jws import join_signature
from sdcard.possession import MAX_PROOF_LENGTH, POSSESSION_TYP, prove_possession, verify_possession
from tests.world import AGENT_ID, ISSUER, NOW, REMOVED, changed, decode_part, key, key_of, raises_rule

NONCE = "n-0S6_WzA2Mj"
HOLDER = key(2)


def verify(proof: str, now: float = NOW) -> str:
    return verify_possession(proof, HOLDER.public_key, ISSUER, AGENT_ID, now, FreshnessWindow())


def made(claims: Mapping[str, Any] | None = None, header: Mapping[str, Any] | None = None, signer: Any = HOLDER) -> str:
    """A good proof with changes, signed by anybody."""
    good = {"aud": ISSUER, "sub": f"agent:{AGENT_ID}", "iat": NOW, "nonce": NONCE}
    parts = changed({"alg": "ES256", "typ": POSSESSION_TYP}, header or {}), changed(good, claims or {})
    signing_input = ".".join(encode_base64url(encode_json(part)) for part in parts).encode()
    return join_signature(signing_input, signer.sign(signing_input))


@pytest.mark.parametrize("algorithm", SignatureAlgorithm)
def test_a_proof_of_every_algorithm_gives_its_nonce(algorithm: SignatureAlgorithm) -> None:
    signer = key_of(algorithm)

    proof = prove_possession(signer, ISSUER, AGENT_ID, NONCE, NOW + 0.5)

    assert verify_possession(proof, signer.public_key, ISSUER, AGENT_ID, NOW, FreshnessWindow()) == NONCE


def test_a_proof_says_no_more_than_it_must() -> None:
    header, payload, _ = prove_possession(HOLDER, ISSUER, AGENT_ID, NONCE, NOW).split(".")

    assert decode_part(header) == {"alg": "ES256", "typ": "sd-card-possession+jwt"}
    assert decode_part(payload) == {"aud": ISSUER, "sub": "agent:georoute", "iat": NOW, "nonce": NONCE}


@pytest.mark.parametrize(
    ("claims", "header", "rule", "where"),
    [
        ({"aud": "https://other.example"}, {}, "proof.audience-mismatch", "possession/aud"),
        ({"aud": [ISSUER]}, {}, "claim.type", "possession/aud"),
        ({"aud": REMOVED}, {}, "claim.missing", "possession/aud"),
        ({"sub": "agent:other"}, {}, "proof.agent-mismatch", "possession/sub"),
        ({"sub": AGENT_ID}, {}, "proof.agent-mismatch", "possession/sub"),
        ({"sub": REMOVED}, {}, "claim.missing", "possession/sub"),
        ({"iat": NOW - 301}, {}, "proof.stale", "possession/iat"),
        ({"iat": NOW + 61}, {}, "proof.from-future", "possession/iat"),
        ({"iat": str(NOW)}, {}, "claim.type", "possession/iat"),
        ({"iat": REMOVED}, {}, "claim.missing", "possession/iat"),
        ({"nonce": REMOVED}, {}, "claim.missing", "possession/nonce"),
        ({"nonce": 7}, {}, "claim.type", "possession/nonce"),
        ({"nonce": ""}, {}, "proof.nonce", "possession/nonce"),
        ({"nonce": "n" * 257}, {}, "proof.nonce", "possession/nonce"),
        ({}, {"typ": "kb+jwt"}, "jws.typ", "possession-header/typ"),
        ({}, {"typ": REMOVED}, "jws.typ", "possession-header/typ"),
        ({}, {"alg": "none"}, "jws.alg", "possession-header/alg"),
        ({}, {"alg": "HS256"}, "jws.alg", "possession-header/alg"),
        ({}, {"crit": ["x"]}, "jws.crit", "possession-header/crit"),
    ],
)
def test_a_proof_of_something_else_is_refused(
    claims: dict[str, Any], header: dict[str, Any], rule: str, where: str
) -> None:
    with raises_rule(rule, where):
        verify(made(claims, header))


@pytest.mark.parametrize("iat", [NOW - 300, NOW, NOW + 60])
def test_the_window_is_inclusive(iat: int) -> None:
    assert verify(made({"iat": iat})) == NONCE


def test_the_key_is_the_registered_one_whatever_the_header_says() -> None:
    stranger = key(3)

    with raises_rule("jws.signature", "possession/signature"):
        verify(made(header={"jwk": dict(stranger.public_key.to_jwk())}, signer=stranger))


@pytest.mark.parametrize("text", ["", "a.b", "a" * 8193, f"{made()}."])
def test_what_is_no_jws_is_refused(text: str) -> None:
    with raises_rule("jws.format", "possession"):
        verify(text)


@pytest.mark.parametrize("nonce", ["n", "n" * 256])
def test_a_nonce_may_be_as_short_and_as_long_as_a_record_keeps_one(nonce: str) -> None:
    assert verify(made({"nonce": nonce})) == nonce


def of_length(length: int) -> str:
    """A good proof of so many characters: a character more of a claim is one or two more of the text."""
    pads = range(length * 3 // 4 - 400, length * 3 // 4)
    proofs = (made({"x": "x" * pad}, {"y": "y" * more}) for pad in pads for more in range(3))
    return next(proof for proof in proofs if len(proof) == length)


def test_a_proof_may_be_as_long_as_any_and_no_longer() -> None:
    assert verify(of_length(MAX_PROOF_LENGTH)) == NONCE
    with raises_rule("jws.format", "possession"):
        verify(of_length(MAX_PROOF_LENGTH + 1))


def test_what_must_be_a_string_is_said_in_words() -> None:
    with pytest.raises(Refused) as refusal:
        verify(made({"aud": [ISSUER]}))
    assert str(refusal.value) == "claim.type at possession/aud: The claim must be a single string."
