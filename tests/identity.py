"""An identity provider of our own: keys, access tokens with any change, and a JWKS that comes, fails or hangs."""

import json
from collections.abc import Mapping
from typing import Any

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256

from issuer_service.access import AuthorizationServer
from sdcard.encoding import decode_base64url, encode_base64url
from sdcard.errors import Part, Where
from sdcard.io.key_files import public_jwk
from sdcard.io.published_keys import ServerKeys
from sdcard.jose.jws import encode_signing_input, join_signature
from tests.world import ISSUER, NOW, key

SERVER = "https://idp.example/realms/agents"
LIMITS = "urn:sd-card:limits"
SIGNER = key(70)
RSA = generate_private_key(65_537, 2_048)
P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551

HEADER = {"typ": "at+jwt", "alg": "ES256", "kid": "es"}
CLAIMS: dict[str, Any] = {
    "iss": SERVER,
    "aud": ISSUER,
    "sub": "alice",
    "client_id": "client",
    "jti": "1",
    "iat": NOW,
    "exp": NOW + 300,
    "scope": "openid agents:register agents:manage",
}


def changed(whole: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """``None`` leaves a member out."""
    return {name: value for name, value in {**whole, **changes}.items() if value is not None}


def access_token(
    claims: Mapping[str, Any] | None = None, header: Mapping[str, Any] | None = None, signer: Any = SIGNER
) -> str:
    """A good access token with changes, signed all the same."""
    signing_input = encode_signing_input(changed(HEADER, header or {}), changed(CLAIMS, claims or {}))
    if isinstance(signer, RSAPrivateKey):
        return join_signature(signing_input, signer.sign(signing_input, PKCS1v15(), SHA256()))
    return join_signature(signing_input, signer.sign(signing_input))


def in_other_form(token: str) -> str:
    """Return the same token with the other valid form of its ES256 signature: r and n - s."""
    signed, _, signature = token.rpartition(".")
    data = decode_base64url(signature, Where(Part.ACCESS_TOKEN))
    s = P256_ORDER - int.from_bytes(data[32:], "big")
    return f"{signed}.{encode_base64url(data[:32] + s.to_bytes(32, 'big'))}"


def rsa_jwk(private: RSAPrivateKey = RSA, **changes: Any) -> dict[str, Any]:
    numbers = private.public_key().public_numbers()
    n = numbers.n.to_bytes((numbers.n.bit_length() + 7) // 8, "big")
    return changed({"kty": "RSA", "kid": "rs", "n": encode_base64url(n), "e": "AQAB", "alg": "RS256"}, changes)


def jwks(*keys: Mapping[str, Any]) -> bytes:
    """Both of its keys, or these."""
    return json.dumps({"keys": keys or ({**public_jwk(SIGNER.public_key), "kid": "es"}, rsa_jwk())}).encode()


class Source:
    """A JWKS that tests change; counts how often it was asked for."""

    def __init__(self, data: bytes | None = None) -> None:
        self.data: bytes | None = jwks() if data is None else data
        self.asked = 0

    async def load(self) -> bytes:
        self.asked += 1
        if self.data is None:
            raise ConnectionError("canary-in-an-exception")
        return self.data


def server(source: Source | None = None, **changes: Any) -> AuthorizationServer:
    parts: dict[str, Any] = {"issuer": SERVER, "audience": ISSUER, "limits_claim": LIMITS, **changes}
    return AuthorizationServer(keys=ServerKeys((source or Source()).load), **parts)
