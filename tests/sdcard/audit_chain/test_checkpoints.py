"""Checkpoints: one that counts, and everything that is none."""

from typing import Any

import pytest

from sdcard import InMemorySigner
from sdcard.audit_chain import MOST_BYTES, TYP, Checkpoint, Head, issue_checkpoint, verify_checkpoint
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.jose.jws import encode_signing_input, join_signature
from sdcard.status_list import TYP as STATUS_TYP
from tests.world import ISSUER, NOW, REMOVED, changed, key, key_of, raises_rule

SIGNER = key(12)
KEYS = {SIGNER.public_key.thumbprint: SIGNER.public_key}
HEAD = Head(7, "a" * 64)
CLAIMS = {"iss": ISSUER, "iat": NOW, "sequence": 7, "digest": "a" * 64}


def signed(header: dict[str, Any] | None = None, signer: InMemorySigner = SIGNER, **claims: Any) -> str:
    """A checkpoint with changes, signed all the same."""
    whole = {"alg": "ES256", "typ": TYP, "kid": SIGNER.public_key.thumbprint}
    signing_input = encode_signing_input(changed(whole, header or {}), changed(CLAIMS, claims))
    return join_signature(signing_input, signer.sign(signing_input))


def test_a_checkpoint_comes_back_as_it_was() -> None:
    assert verify_checkpoint(issue_checkpoint(HEAD, ISSUER, SIGNER, NOW), KEYS) == Checkpoint(ISSUER, NOW, HEAD)
    assert verify_checkpoint(signed(), KEYS) == Checkpoint(ISSUER, NOW, HEAD)


@pytest.mark.parametrize("algorithm", SignatureAlgorithm)
def test_a_key_of_every_algorithm_signs_them(algorithm: SignatureAlgorithm) -> None:
    signer = key_of(algorithm)
    keys = {signer.public_key.thumbprint: signer.public_key}

    assert verify_checkpoint(issue_checkpoint(HEAD, ISSUER, signer, NOW), keys).head == HEAD


@pytest.mark.parametrize(
    ("text", "rule", "at"),
    [
        (signed(signer=key(13)), "jws.signature", "audit-checkpoint/signature"),
        (signed({"kid": key(13).public_key.thumbprint}, key(13)), "issuer.key-unknown", "audit-checkpoint/kid"),
        (signed({"kid": REMOVED}), "issuer.key-unknown", "audit-checkpoint/kid"),
        (signed({"typ": STATUS_TYP}), "jws.typ", "audit-checkpoint/typ"),
        (signed({"typ": REMOVED}), "jws.typ", "audit-checkpoint/typ"),
        (signed({"alg": "none"}), "jws.alg", "audit-checkpoint/alg"),
        (signed({"crit": ["exp"]}), "jws.crit", "audit-checkpoint/crit"),
        *((signed(None, SIGNER, **{name: REMOVED}), "claim.missing", f"audit-checkpoint/{name}") for name in CLAIMS),
        *((signed(None, SIGNER, **{name: True}), "claim.type", f"audit-checkpoint/{name}") for name in CLAIMS),
        (signed(sequence=-1), "claim.type", "audit-checkpoint/sequence"),
        (signed(sequence=7.0), "claim.type", "audit-checkpoint/sequence"),
        (signed(sequence=2**53), "claim.type", "audit-checkpoint/sequence"),
        ("a" * (MOST_BYTES + 1), "limit.bytes", "audit-checkpoint"),
        ("é", "jws.format", "audit-checkpoint"),
        (signed()[: len(signed()) // 3], "jws.format", "audit-checkpoint"),
        (signed()[:-10], "encoding.base64url", "audit-checkpoint/signature"),
    ],
)  # fmt: skip
def test_what_is_no_checkpoint_is_refused(text: str, rule: str, at: str) -> None:
    if rule == "encoding.base64url":
        text = text[:-2] + "_"
    with raises_rule(rule, at):
        verify_checkpoint(text, KEYS)
