"""The closed sets: a name outside them cannot be represented."""

import pytest

from sdcard.errors import Part, Where
from sdcard.jose.algorithms import DigestAlgorithm, SignatureAlgorithm, parse_digest_algorithm
from tests.world import raises_rule

HERE = Where(Part.ISSUER_JWT, ("_sd_alg",))


def test_the_sets_are_closed() -> None:
    assert [str(one) for one in SignatureAlgorithm] == ["ES256", "ES384", "ES512", "EdDSA"]
    assert [str(one) for one in DigestAlgorithm] == ["sha-256", "sha-384", "sha-512"]


@pytest.mark.parametrize("algorithm", DigestAlgorithm)
def test_known_digest_algorithms(algorithm: DigestAlgorithm) -> None:
    assert parse_digest_algorithm(algorithm.value, HERE) is algorithm


@pytest.mark.parametrize("value", ["SHA-256", "sha-224", "sha-256-128", "md5", "SHA_256", "", None, 256, [], {}])
def test_others_are_refused_without_fall_back(value: object) -> None:
    with raises_rule("sd.alg", at="issuer-jwt/_sd_alg"):
        parse_digest_algorithm(value, HERE)
