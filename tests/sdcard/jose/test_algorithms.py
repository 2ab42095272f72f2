"""Signature algorithms, and ML-DSA (FIPS 204, RFC 9964)."""

from hashlib import shake_256
from typing import Any

import pytest
from cryptography.exceptions import UnsupportedAlgorithm

from sdcard import InMemorySigner, Misuse, Refused, parse_public_jwk
from sdcard.encoding import decode_base64url, encode_base64url
from sdcard.errors import Part, Where
from sdcard.jose import algorithms as key_types
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.jose.keys import PUBLISHED_KEYS, public_key
from sdcard.limits import DEFAULT_LIMITS
from sdcard.sdjwt.model import DigestAlgorithm
from sdcard.sdjwt.verification import process_payload
from sdcard.trust import parse_key_set
from tests.world import REMOVED, changed, key, key_of, raises_rule

# -- The closed sets: a name outside them cannot be represented -------------------------------------------------------


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
    assert process_payload({"_sd_alg": algorithm.value}, (), DEFAULT_LIMITS).algorithm is algorithm


@pytest.mark.parametrize("value", ["SHA-256", "sha-224", "sha-256-128", "md5", "SHA_256", "", None, 256, [], {}])
def test_others_are_refused_without_fall_back(value: Any) -> None:
    with raises_rule("sd.alg", at="issuer-jwt/_sd_alg"):
        process_payload({"_sd_alg": value}, (), DEFAULT_LIMITS)


# -- ML-DSA (FIPS 204) as JOSE uses it (RFC 9964) ---------------------------------------------------------------------

# One key, one algorithm, exact sizes, and no crash without it.

ML_DSA_HERE = Where(Part.KEY)
LEVELS = [SignatureAlgorithm.ML_DSA_44, SignatureAlgorithm.ML_DSA_65, SignatureAlgorithm.ML_DSA_87]
SIZES = dict(zip(LEVELS, (1_312, 1_952, 2_592), strict=True))
EVERY = pytest.mark.parametrize("level", LEVELS)


def jwk_of(level: SignatureAlgorithm) -> dict[str, str]:
    return key_of(level).public_key.to_jwk()


def pub_of(level: SignatureAlgorithm) -> bytes:
    return decode_base64url(jwk_of(level)["pub"], ML_DSA_HERE)


@EVERY
def test_a_key_has_the_members_and_size_of_its_level(level: SignatureAlgorithm) -> None:
    jwk = jwk_of(level)
    assert list(jwk) == ["alg", "kty", "pub"]
    assert (jwk["alg"], jwk["kty"], len(pub_of(level))) == (level.value, "AKP", SIZES[level])
    assert parse_public_jwk({**jwk, "kid": "k", "use": "sig"}, ML_DSA_HERE) == key_of(level).public_key


@EVERY
def test_the_keys_of_the_standard_are_published(level: SignatureAlgorithm) -> None:
    """RFC 9964 prints the key pair whose seed is 32 zero bytes; for ML-DSA-44 with its thumbprint as ``kid``."""
    printed = InMemorySigner(key_types.private_key_of(level, bytes(32))).public_key
    assert printed.thumbprint in PUBLISHED_KEYS
    if level is SignatureAlgorithm.ML_DSA_44:
        assert printed.thumbprint == "T4xl70S7MT6Zeq6r9V9fPJGVn76wfnXJ21-gyo0Gu6o"


@EVERY
@pytest.mark.parametrize("more", [-1, 1])
def test_a_public_key_of_another_size_is_refused(level: SignatureAlgorithm, more: int) -> None:
    pub = encode_base64url((pub_of(level) + b"\1")[: SIZES[level] + more])
    with raises_rule("key.malformed", at="key/pub"):
        parse_public_jwk({**jwk_of(level), "pub": pub}, ML_DSA_HERE)


@EVERY
@pytest.mark.parametrize("other", LEVELS)
def test_levels_are_not_confused(level: SignatureAlgorithm, other: SignatureAlgorithm) -> None:
    """Neither in a JWK nor under a key: a level is part of the key and of its thumbprint."""
    if other is level:
        return
    with raises_rule("key.malformed", at="key/pub"):
        parse_public_jwk({**jwk_of(level), "alg": other.value}, ML_DSA_HERE)
    assert key_of(level).public_key != key_of(other).public_key
    assert not key_of(level).public_key.verifies(b"m", key_of(other).sign(b"m"))


@EVERY
@pytest.mark.parametrize("more", [-1, 1])
def test_a_signature_of_another_size_is_none(level: SignatureAlgorithm, more: int) -> None:
    signer = key_of(level)
    signature = signer.sign(b"m")
    assert not signer.public_key.verifies(b"m", (signature + b"\0")[: len(signature) + more])
    assert signer.public_key.verifies(b"m", signature)


@EVERY
def test_two_signatures_of_one_message_differ(level: SignatureAlgorithm) -> None:
    assert key_of(level).sign(b"m") != key_of(level).sign(b"m")


def test_a_signature_for_a_context_is_none() -> None:
    """RFC 9964 4: the context is empty."""
    private: Any = key_types.private_key_of(LEVELS[0], bytes(31) + b"\1")
    public = public_key(private.public_key())
    assert public.verifies(b"m", private.sign(b"m"))
    assert public.verifies(b"m", private.sign(b"m", b""))
    assert not public.verifies(b"m", private.sign(b"m", b"a context"))


@pytest.mark.parametrize(
    ("changes", "rule", "at"),
    [
        ({"alg": REMOVED}, "key.malformed", "key/alg"),
        ({"alg": None}, "key.malformed", "key/alg"),
        ({"alg": ["ML-DSA-44"]}, "key.malformed", "key/alg"),
        ({"alg": "ml-dsa-44"}, "key.unsupported", "key/alg"),
        ({"alg": "ML_DSA_44"}, "key.unsupported", "key/alg"),
        ({"alg": "ES256"}, "key.unsupported", "key/alg"),
        ({"alg": "SLH-DSA-SHA2-128s"}, "key.unsupported", "key/alg"),
        ({"pub": REMOVED}, "key.malformed", "key/pub"),
        ({"pub": 5}, "key.malformed", "key/pub"),
        ({"pub": ""}, "encoding.base64url", "key/pub"),
        ({"priv": "AA"}, "key.private", "key"),
        ({"use": "enc"}, "key.unsupported", "key/use"),
        ({"key_ops": ["sign"]}, "key.unsupported", "key/key_ops"),
        ({"kty": "OKP"}, "key.unsupported", "key"),
        ({"kty": "akp"}, "key.unsupported", "key"),
    ],
)
def test_what_is_no_ml_dsa_key(changes: dict[str, Any], rule: str, at: str) -> None:
    with raises_rule(rule, at=at):
        parse_public_jwk(changed(jwk_of(LEVELS[0]), changes), ML_DSA_HERE)


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        ({"alg": REMOVED}, "An AKP key must have `alg`."),
        ({"alg": "ES256"}, "Use ML-DSA-44, ML-DSA-65 or ML-DSA-87."),
        ({"pub": encode_base64url(bytes(1_312))}, "Anyone could forge signatures for this key."),
        ({"pub": "AA"}, "The member must encode exactly 1312 bytes."),
    ],
)
def test_a_person_is_told_what_an_ml_dsa_key_is(changes: dict[str, Any], hint: str) -> None:
    with pytest.raises(Refused) as caught:
        parse_public_jwk(changed(jwk_of(LEVELS[0]), changes), ML_DSA_HERE)
    assert caught.value.findings[0].hint == hint


FORGING = dict(zip(LEVELS, [(32, 4, 4, 80, 18, 192), (48, 5, 6, 55, 20, 128), (64, 7, 8, 75, 20, 128)], strict=True))
"""FIPS 204 table 1: bytes of the challenge, l, k, ω, bits of a coefficient of z; and bytes of an encoded row of w1."""


def forged(level: SignatureAlgorithm, pub: bytes, message: bytes) -> bytes:
    """A signature that needs no private key: z and the hints are zero, and so is then w1 when t is short."""
    challenge, columns, rows, omega, bits, w1_row = FORGING[level]
    representative = shake_256(shake_256(pub).digest(64) + b"\0\0" + message).digest(64)
    z = sum(1 << (bits - 1) << (bits * number) for number in range(256 * columns))
    head = shake_256(representative + bytes(w1_row * rows)).digest(challenge)
    return head + z.to_bytes(bits * 32 * columns, "little") + bytes(omega + rows)


@EVERY
@pytest.mark.parametrize("short", [b"\0" * 5, b"\xff" * 5, b"\0\0\0\0\0\xff\xff\xff\xff\xff"], ids=["0", "-1", "both"])
def test_a_key_under_which_anybody_can_sign_is_refused(level: SignatureAlgorithm, short: bytes) -> None:
    t1 = short * ((SIZES[level] - 32) // len(short))
    for change in (b"", b"\1", b"\0\0\0\0\1\0\0\0\0\1"):
        pub = pub_of(level)[:32] + change + t1[len(change) :]
        wrapped = public_key(key_types.public_key_of(level, pub))
        if not change:
            assert wrapped.verifies(b"anything", forged(level, pub, b"anything"))
        with raises_rule("key.malformed", at="key/pub"):
            parse_public_jwk(wrapped.to_jwk(), ML_DSA_HERE)


def packed(coefficients: list[int]) -> bytes:
    """A public key with this ``t1``: ten bits each, the first one lowest."""
    number = sum(one << (10 * place) for place, one in enumerate(coefficients))
    return bytes(32) + number.to_bytes(len(coefficients) * 10 // 8, "little")


@EVERY
@pytest.mark.parametrize(
    "value", [0, 1, 31, 32, 33, 63, 64, 128, 256, 480, 511, 512, 543, 544, 768, 960, 991, 992, 1023]
)
def test_a_key_is_usable_when_more_than_half_of_its_coefficients_are_far_from_zero(
    level: SignatureAlgorithm, value: int
) -> None:
    """Far is 32 or more, modulo 1024; the value counts the same in every place."""
    count = (SIZES[level] - 32) * 8 // 10
    far = 32 <= value <= 1024 - 33
    for near in (0, 31, 992, 1023):
        coefficients = [512] * (count // 2) + [near] * (count // 2)
        assert not key_types.is_usable_ml_dsa(packed(coefficients))
        assert not key_types.is_usable_ml_dsa(packed(coefficients[::-1]))
        for place in (count // 2, count // 2 + 1, count - 1):
            coefficients[place] = value
            assert key_types.is_usable_ml_dsa(packed(coefficients)) == far
            assert key_types.is_usable_ml_dsa(packed(coefficients[::-1])) == far
            coefficients[place] = near


def test_every_value_of_a_coefficient_is_near_or_far() -> None:
    for value in range(1024):
        assert key_types.is_usable_ml_dsa(packed([value] * 4)) == (32 <= value <= 991)


@EVERY
def test_every_real_key_is_usable(level: SignatureAlgorithm) -> None:
    for number in range(20):
        signer = key_of(level, number)
        assert parse_public_jwk(signer.public_key.to_jwk(), ML_DSA_HERE) == signer.public_key


def test_a_seed_has_one_size() -> None:
    for size in (31, 33):
        with pytest.raises(ValueError, match="32"):
            key_types.private_key_of(LEVELS[0], bytes(size))


# -- a build of cryptography without it -------------------------------------------------------------------------------


class OneLevel:
    """An older OpenSSL, which offers one level and then lacks it."""

    class MLDSA65PublicKey:
        @classmethod
        def from_public_bytes(cls, encoded: bytes) -> None:
            raise UnsupportedAlgorithm("not in this OpenSSL")


@EVERY
@pytest.mark.parametrize("module", [None, OneLevel])
def test_without_ml_dsa_its_keys_are_unsupported(
    level: SignatureAlgorithm, module: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    jwk, private = jwk_of(level), key_types.private_key_of(level, bytes(32))
    monkeypatch.setattr(key_types, "_module", module)

    with pytest.raises(Refused) as caught:
        parse_public_jwk(jwk, ML_DSA_HERE)
    assert str(caught.value) == "key.unsupported at key: This build of cryptography has no ML-DSA."
    with pytest.raises(UnsupportedAlgorithm, match=f"no MLDSA{level[-2:]}PrivateKey"):
        key_types.private_key_of(level, bytes(32))
    with pytest.raises(Misuse):
        public_key(private.public_key())
    assert parse_public_jwk(key(1).public_key.to_jwk(), ML_DSA_HERE) == key(1).public_key


def test_without_ml_dsa_a_key_set_still_gives_its_other_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    jwks = {"keys": [jwk_of(LEVELS[1]), key(1).public_key.to_jwk()]}
    monkeypatch.setattr(key_types, "_module", None)

    assert list(parse_key_set(jwks, Where(Part.TRUST)).values()) == [key(1).public_key]
