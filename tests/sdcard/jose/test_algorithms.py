"""The closed sets: a name outside them cannot be represented."""

import pytest

from sdcard.errors import Part, Where
from sdcard.jose.algorithms import DigestAlgorithm, SignatureAlgorithm, parse_digest_algorithm
from tests.world import raises_rule

HERE = Where(Part.ISSUER_JWT, ("_sd_alg",))


def test_the_sets_are_closed() -> None:
    classical, post_quantum = ["ES256", "ES384", "ES512", "EdDSA"], ["ML-DSA-44", "ML-DSA-65", "ML-DSA-87"]
    assert [str(one) for one in SignatureAlgorithm] == classical + post_quantum
    assert [str(one) for one in DigestAlgorithm] == ["sha-256", "sha-384", "sha-512"]


def test_signatures_have_the_sizes_of_their_standards() -> None:
    """RFC 7518 3.4, RFC 8032 5.1.6, FIPS 204 table 2."""
    sizes = [64, 96, 132, 64, 2_420, 3_309, 4_627]
    assert [one.signature_size for one in SignatureAlgorithm] == sizes


@pytest.mark.parametrize("algorithm", DigestAlgorithm)
def test_known_digest_algorithms(algorithm: DigestAlgorithm) -> None:
    assert parse_digest_algorithm(algorithm.value, HERE) is algorithm


@pytest.mark.parametrize("value", ["SHA-256", "sha-224", "sha-256-128", "md5", "SHA_256", "", None, 256, [], {}])
def test_others_are_refused_without_fall_back(value: object) -> None:
    with raises_rule("sd.alg", at="issuer-jwt/_sd_alg"):
        parse_digest_algorithm(value, HERE)
