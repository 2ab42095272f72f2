"""RFC 7517, 7518 6.2, 7638, 8037 (JWK-1 to JWK-7): which JWKs are keys of ours, and what comes out again."""

from collections.abc import Mapping
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from sdcard import InMemorySigner, Misuse, Refused, parse_public_jwk
from sdcard.encoding import decode_base64url, encode_base64url
from sdcard.errors import Part, Where
from sdcard.jose import algorithms as key_types
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.jose.keys import PRIVATE_MEMBERS, PUBLISHED_KEYS, check_not_published, public_key
from tests.world import REMOVED, changed, key, key_of, raises_rule

HERE = Where(Part.KEY)
ED25519 = InMemorySigner(ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
SIGNERS = [key_of(algorithm) for algorithm in SignatureAlgorithm]
MEMBERS = {"EC": ["crv", "kty", "x", "y"], "OKP": ["crv", "kty", "x"], "AKP": ["alg", "kty", "pub"]}
P256, OKP = key(1).public_key.to_jwk(), ED25519.public_key.to_jwk()


def to_bytes(text: str) -> bytes:
    return decode_base64url(text, HERE)


@pytest.mark.parametrize("signer", SIGNERS)
def test_a_jwk_comes_back_with_exactly_the_members_of_its_type(signer: InMemorySigner) -> None:
    jwk = signer.public_key.to_jwk()
    parsed = parse_public_jwk({**jwk, "kid": "k", "x-vendor": {"a": 1}, "use": "sig", "key_ops": ["verify"]}, HERE)
    assert parsed.to_jwk() == jwk
    assert parsed == signer.public_key
    assert list(jwk) == MEMBERS[jwk["kty"]]


@pytest.mark.parametrize(
    ("jwk", "thumbprint"),
    [
        (
            {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},
            "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k",
        ),
        (
            {
                "kty": "EC",
                "crv": "P-256",
                "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
                "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
            },
            "oKIywvGUpTVTyxMQ3bwIIeQUudfr_CkLMjCE19ECD-U",
        ),
    ],
)
def test_thumbprints_of_the_standards(jwk: dict[str, str], thumbprint: str) -> None:
    """RFC 8037 A.3 prints the first one. Both private keys are published, so both keys are refused."""
    parsed = parse_public_jwk(jwk, HERE)
    assert parsed.thumbprint == thumbprint
    with raises_rule("key.published", at="key"):
        check_not_published(parsed, PUBLISHED_KEYS, HERE)


def test_a_key_of_ones_own_is_not_published() -> None:
    check_not_published(key(1).public_key, PUBLISHED_KEYS, HERE)
    assert key(1).public_key.thumbprint not in PUBLISHED_KEYS


@pytest.mark.parametrize("value", [None, "text", 5, [P256]])
def test_a_jwk_is_an_object(value: Any) -> None:
    with raises_rule("key.malformed", at="key"):
        parse_public_jwk(value, HERE)


@pytest.mark.parametrize("name", sorted(PRIVATE_MEMBERS))
@pytest.mark.parametrize("jwk", [P256, OKP, {"kty": "RSA"}, {}])
def test_private_members_are_refused_whatever_the_key(jwk: Mapping[str, str], name: str) -> None:
    with raises_rule("key.private", at="key"):
        parse_public_jwk({**jwk, name: None}, HERE)


@pytest.mark.parametrize(
    ("jwk", "changes", "rule", "at"),
    [
        (P256, {"kty": REMOVED}, "key.unsupported", "key"),
        (P256, {"kty": "RSA"}, "key.unsupported", "key"),
        (P256, {"kty": "oct"}, "key.unsupported", "key"),
        (P256, {"kty": "OKP"}, "key.unsupported", "key"),
        (P256, {"kty": ["EC"]}, "key.unsupported", "key"),
        (P256, {"crv": REMOVED}, "key.unsupported", "key"),
        (P256, {"crv": "P-224"}, "key.unsupported", "key"),
        (P256, {"crv": "secp256k1"}, "key.unsupported", "key"),
        (P256, {"crv": {"a": 1}}, "key.unsupported", "key"),
        (P256, {"crv": "P-384"}, "key.malformed", "key/x"),
        (P256, {"x": REMOVED}, "key.malformed", "key/x"),
        (P256, {"y": REMOVED}, "key.malformed", "key/y"),
        (P256, {"x": 5}, "key.malformed", "key/x"),
        (P256, {"x": P256["x"] + "="}, "encoding.base64url", "key/x"),
        (P256, {"x": encode_base64url(to_bytes(P256["x"])[1:])}, "key.malformed", "key/x"),
        (P256, {"x": encode_base64url(b"\0" + to_bytes(P256["x"]))}, "key.malformed", "key/x"),
        (P256, {"y": P256["x"]}, "key.malformed", "key"),
        (P256, {"x": encode_base64url(bytes(32)), "y": encode_base64url(bytes(32))}, "key.malformed", "key"),
        (P256, {"x": encode_base64url(b"\xff" * 32)}, "key.malformed", "key"),
        (OKP, {"crv": "X25519"}, "key.unsupported", "key"),
        (OKP, {"crv": "Ed448"}, "key.unsupported", "key"),
        (OKP, {"x": encode_base64url(bytes(31))}, "key.malformed", "key/x"),
        (P256, {"use": "enc"}, "key.unsupported", "key/use"),
        (P256, {"use": None}, "key.unsupported", "key/use"),
        (P256, {"key_ops": ["sign"]}, "key.unsupported", "key/key_ops"),
        (P256, {"key_ops": []}, "key.unsupported", "key/key_ops"),
        (P256, {"key_ops": "verify"}, "key.unsupported", "key/key_ops"),
        (P256, {"alg": "ES384"}, "key.unsupported", "key/alg"),
        (P256, {"alg": "HS256"}, "key.unsupported", "key/alg"),
        (P256, {"alg": ["ES256"]}, "key.unsupported", "key/alg"),
        (OKP, {"alg": "ES256"}, "key.unsupported", "key/alg"),
    ],
)
def test_what_is_no_key_of_ours(jwk: Mapping[str, str], changes: Mapping[str, Any], rule: str, at: str) -> None:
    with raises_rule(rule, at):
        parse_public_jwk(changed(jwk, changes), HERE)


@pytest.mark.parametrize("alg", ["EdDSA", "Ed25519"])
def test_both_names_of_edwards_signatures(alg: str) -> None:
    assert parse_public_jwk({**OKP, "alg": alg}, HERE).algorithm is SignatureAlgorithm.EDDSA


def test_leading_zeros_of_a_coordinate_are_kept() -> None:
    """A key in 256 has a leading zero; its coordinate still has 43 characters."""
    signer = next(one for number in range(2_000) if to_bytes((one := key(number)).public_key.to_jwk()["x"])[0] == 0)
    jwk = signer.public_key.to_jwk()
    assert len(jwk["x"]) == len(jwk["y"]) == 43
    assert parse_public_jwk(jwk, HERE) == signer.public_key


@pytest.mark.parametrize("signer", SIGNERS)
def test_signatures_have_one_size_and_one_key(signer: InMemorySigner) -> None:
    signature = signer.sign(b"message")
    assert signer.public_key.verifies(b"message", signature)
    assert not signer.public_key.verifies(b"another", signature)
    half = len(signature) // 2
    for wrong in (
        b"",
        signature[:-1],
        signature[:half] + b"\0" + signature[half:],
        signature + b"\0",
        b"\0" + signature,
        bytes(len(signature)),
        b"\xff" * len(signature),
    ):
        assert not signer.public_key.verifies(b"message", wrong)
    assert not any(other.public_key.verifies(b"message", signature) for other in SIGNERS if other is not signer)


def test_a_der_signature_is_none() -> None:
    private = ec.derive_private_key(7, ec.SECP256R1())
    der = private.sign(b"message", ec.ECDSA(hashes.SHA256()))
    assert not public_key(private.public_key()).verifies(b"message", der)


def test_other_keys_are_misuse() -> None:
    for private in (rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP256K1())):
        with pytest.raises(Misuse, match=r"^only P-256, P-384, P-521, Ed25519 and ML-DSA keys are supported$"):
            public_key(private.public_key())
    with pytest.raises(Misuse, match=r"^only P-256, P-384, P-521, Ed25519 and ML-DSA keys are supported$"):
        public_key("text")


def test_a_key_is_its_thumbprint_and_its_messages_show_no_more() -> None:
    one = key(1).public_key
    assert one == parse_public_jwk({**P256, "kid": "another name"}, HERE)
    assert one != key(2).public_key
    assert P256["x"] not in repr(one)


# -- one key, one JWK -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x", "y"])
def test_a_coordinate_is_below_the_prime(name: str) -> None:
    """Else one key had many thumbprints, and could be registered as often."""
    jwk = key(6, ec.SECP521R1()).public_key.to_jwk()
    number = int.from_bytes(decode_base64url(jwk[name], HERE), "big")
    alias = {**jwk, name: encode_base64url((number + 2**521 - 1).to_bytes(66, "big"))}

    with raises_rule("key.malformed", at="key"):
        parse_public_jwk(alias, HERE)


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        ({"x": encode_base64url((2**256 - 2**224 + 2**192 + 2**96 - 1).to_bytes(32, "big"))}, "prime"),
        ({"y": encode_base64url(b"\xff" * 32)}, "prime"),
        ({"y": encode_base64url(b"\0" * 32)}, "curve"),
        ({"key_ops": ["sign"]}, "verifying"),
    ],
)
def test_a_person_is_told_what_is_wrong_with_a_key(changes: dict[str, Any], hint: str) -> None:
    """The prime itself is not below the prime."""
    hints = {
        "prime": "A coordinate is not below the curve's prime.",
        "curve": "The point is not on the curve.",
        "verifying": "The key is not for verifying.",
    }
    with pytest.raises(Refused) as caught:
        parse_public_jwk({**P256, **changes}, HERE)
    assert caught.value.findings[0].hint == hints[hint]
    with pytest.raises(Refused) as caught:
        parse_public_jwk([P256], HERE)
    assert caught.value.findings[0].hint == "A JWK is a JSON object."


ORDER_8 = 55188659117513257062467267217118295137698188065244968500265048394206261417927
SMALL_ORDER = [0, 1, 2**255 - 20, ORDER_8, 2**255 - 19 - ORDER_8]


@pytest.mark.parametrize("sign", [0, 1])
@pytest.mark.parametrize("y", [*SMALL_ORDER, 2, 2**255 - 19, 2**255 - 18, 2**255 - 1])
def test_an_ed25519_key_is_a_point_with_a_private_key(y: int, sign: int) -> None:
    """Under a point of small order a constant signature verifies; 2 is no point; the others are second spellings."""
    x = encode_base64url((y + (sign << 255)).to_bytes(32, "little"))

    with raises_rule("key.malformed", at="key/x"):
        parse_public_jwk({"kty": "OKP", "crv": "Ed25519", "x": x}, HERE)


@pytest.mark.parametrize("y", range(2, 40))
def test_an_ed25519_key_is_on_the_curve(y: int) -> None:
    """RFC 8032 5.1.3, by its own way: x is a root of (y² - 1) / (d y² + 1), or there is no point with this y."""
    p = 2**255 - 19
    square = (y * y - 1) * pow(-121665 * pow(121666, -1, p) * y * y + 1, -1, p) % p
    root = pow(square, (p + 3) // 8, p)
    exists = any((one * one - square) % p == 0 for one in (root, root * pow(2, (p - 1) // 4, p)))

    assert all(key_types.is_usable_ed25519((y + (sign << 255)).to_bytes(32, "little")) == exists for sign in (0, 1))


def test_every_real_ed25519_key_is_usable() -> None:
    for _ in range(200):
        public = ed25519.Ed25519PrivateKey.generate().public_key()
        x = encode_base64url(public.public_bytes_raw())
        assert parse_public_jwk({"kty": "OKP", "crv": "Ed25519", "x": x}, HERE).to_jwk()["x"] == x
