"""RFC 9901 4.3: exactly what a KB-JWT holds."""

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from sdcard import Challenge, InMemorySigner, Misuse
from sdcard.jose.algorithms import DigestAlgorithm
from sdcard.keybinding.creation import bind
from sdcard.sdjwt.serialization import SdJwt
from tests.world import AUDIENCE, NOW, decode_part, key

SD_JWT = SdJwt("h.p.s", ("d1", "d2"))


@pytest.mark.parametrize("algorithm", DigestAlgorithm)
def test_a_kb_jwt_says_what_it_must_and_no_more(algorithm: DigestAlgorithm) -> None:
    bound = bind(SD_JWT, algorithm, Challenge("n", AUDIENCE), key(2), NOW + 0.9)
    header, payload, _ = bound.kb_jwt.split(".")
    assert decode_part(header) == {"alg": "ES256", "typ": "kb+jwt"}
    assert decode_part(payload) == {
        "iat": NOW,
        "aud": AUDIENCE,
        "nonce": "n",
        "sd_hash": algorithm.digest("h.p.s~d1~d2~"),
    }
    assert str(bound) == f"h.p.s~d1~d2~{bound.kb_jwt}"


def test_the_interaction_is_named_when_there_is_one() -> None:
    bound = bind(SD_JWT, DigestAlgorithm.SHA_256, Challenge("n", AUDIENCE, interaction_id="i-1"), key(2), NOW)
    assert decode_part(bound.kb_jwt.split(".")[1])["interaction_id"] == "i-1"


@pytest.mark.parametrize(
    ("signer", "algorithm", "size"),
    [
        (key(2), "ES256", 64),
        (key(2, ec.SECP384R1()), "ES384", 96),
        (key(2, ec.SECP521R1()), "ES512", 132),
        (InMemorySigner(ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32))), "EdDSA", 64),
    ],
)
def test_the_key_decides_the_algorithm(signer: InMemorySigner, algorithm: str, size: int) -> None:
    header, _, signature = bind(SD_JWT, DigestAlgorithm.SHA_256, Challenge("n", AUDIENCE), signer, NOW).kb_jwt.split(
        "."
    )
    assert decode_part(header)["alg"] == algorithm
    assert len(signature) == -(-size * 4 // 3)


@pytest.mark.parametrize("now", [True, float("nan"), float("inf"), "1800000000", None])
def test_an_instant_is_a_finite_number(now: float) -> None:
    with pytest.raises(Misuse):
        bind(SD_JWT, DigestAlgorithm.SHA_256, Challenge("n", AUDIENCE), key(2), now)
