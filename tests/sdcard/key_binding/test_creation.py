"""RFC 9901 4.3: exactly what a KB-JWT holds."""

import pytest

from sdcard import Challenge, Misuse
from sdcard.jose.algorithms import DigestAlgorithm, SignatureAlgorithm
from sdcard.key_binding import bind
from sdcard.sdjwt.model import SdJwt
from tests.world import AUDIENCE, NOW, decode_part, key, key_of

SD_JWT = SdJwt("h.p.s", ("d1", "d2"))
SD_HASH = DigestAlgorithm.SHA_256.digest(str(SD_JWT))


@pytest.mark.parametrize("algorithm", DigestAlgorithm)
def test_a_kb_jwt_says_what_it_must_and_no_more(algorithm: DigestAlgorithm) -> None:
    bound = bind(SD_JWT, algorithm.digest(str(SD_JWT)), Challenge("n", AUDIENCE), key(2), NOW + 0.9)
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
    bound = bind(SD_JWT, SD_HASH, Challenge("n", AUDIENCE, interaction_id="i-1"), key(2), NOW)
    assert decode_part(bound.kb_jwt.split(".")[1])["interaction_id"] == "i-1"


@pytest.mark.parametrize("algorithm", SignatureAlgorithm)
def test_the_key_decides_the_algorithm(algorithm: SignatureAlgorithm) -> None:
    bound = bind(SD_JWT, SD_HASH, Challenge("n", AUDIENCE), key_of(algorithm), NOW)
    header, _, signature = bound.kb_jwt.split(".")
    assert decode_part(header)["alg"] == algorithm.value
    assert len(signature) == -(-algorithm.signature_size * 4 // 3)


@pytest.mark.parametrize("now", [True, float("nan"), float("inf"), "1800000000", None])
def test_an_instant_is_a_finite_number(now: float) -> None:
    with pytest.raises(Misuse):
        bind(SD_JWT, SD_HASH, Challenge("n", AUDIENCE), key(2), now)
