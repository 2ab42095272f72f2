"""Which keys of an authorization server verify access tokens."""

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from sdcard.encoding import encode_base64url
from sdcard.oauth import parse_server_keys
from tests.identity import RSA, jwks, rsa_jwk
from tests.world import key, raises_rule


def test_a_key_says_what_it_is_for() -> None:
    keys = parse_server_keys(jwks())

    assert {kid: one.header_names for kid, one in keys.items()} == {"es": ("ES256",), "rs": ("RS256",)}


@pytest.mark.parametrize(
    "entry",
    [
        {"kty": "oct", "kid": "x", "k": "AAAA"},
        rsa_jwk(use="enc"),
        rsa_jwk(alg="PS256"),
        rsa_jwk(alg="RSA-OAEP"),
        rsa_jwk(key_ops=["encrypt"]),
        rsa_jwk(e="AQ"),
        rsa_jwk(e="Aw"),
        rsa_jwk(n="AQAB"),
        rsa_jwk(n=None),
        rsa_jwk(n="!"),
        rsa_jwk(n=encode_base64url(b"\0" + (RSA.public_key().public_numbers().n).to_bytes(256, "big"))),
        rsa_jwk(n=encode_base64url(b"\xff" * 1_025)),
        rsa_jwk(d="AAAA"),
        rsa_jwk(generate_private_key(65_537, 1_024)),
        rsa_jwk(kid=None),
        rsa_jwk(kid=7),
        {**dict(key(5).public_key.to_jwk()), "kid": "x", "use": "enc"},
        "no key",
    ],
)
def test_other_keys_are_left_out(entry: Any) -> None:
    with raises_rule("key.malformed", "key/keys"):
        parse_server_keys(jwks(entry))
    assert set(parse_server_keys(jwks(entry, rsa_jwk(kid="good")))) == {"good"}


def test_two_keys_of_one_name_are_none() -> None:
    assert set(parse_server_keys(jwks(rsa_jwk(), rsa_jwk(generate_private_key(65_537, 2_048)), rsa_jwk(kid="x")))) == {
        "x"
    }
