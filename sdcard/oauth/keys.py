"""The authorization server's keys: those of ``sdcard.jose``, and RSA for RS256, which all know (RFC 9068 2.1).

RSA verifies access tokens and nothing else: no SD-Card, status list or agent card is ever checked with these keys.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, RSAPublicNumbers
from cryptography.hazmat.primitives.hashes import SHA256

from sdcard.encoding import JsonValue, decode_base64url, parse_json_object
from sdcard.errors import Part, Refused, Where
from sdcard.jose.keys import PRIVATE_MEMBERS, PUBLISHED_KEYS, PublicKey, check_not_published, parse_public_jwk
from sdcard.rules import Rule

MOST_BYTES = 262_144
"""Of a JWKS."""
_MOST_KEYS = 64
_WHERE = Where(Part.KEY, ("keys",))
_DEPTH = 8
_RSA_BITS = range(2_048, 8_193)
_RSA_EXPONENT = 65_537


@dataclass(frozen=True, slots=True)
class RsaKey:
    """A key that verifies RS256."""

    _key: RSAPublicKey = field(repr=False)
    header_names: tuple[str, ...] = ("RS256",)

    def verifies(self, message: bytes, signature: bytes) -> bool:
        """Whether the signature is this key's over the message (RFC 7518 3.3)."""
        try:
            self._key.verify(signature, message, PKCS1v15(), SHA256())
        except InvalidSignature:
            return False
        return True


ServerKey: TypeAlias = PublicKey | RsaKey


def names_of(key: ServerKey) -> tuple[str, ...]:
    """The values of ``alg`` that the key signs with; an algorithm follows from the key, never from a token."""
    return key.header_names if isinstance(key, RsaKey) else key.algorithm.header_names


def parse_server_keys(data: bytes) -> Mapping[str, ServerKey]:
    """A JWKS → ``kid`` → key. What is no key for signatures that we know is left out (RFC 7517 5), and so are keys
    that share a ``kid``, that stand in public documents, or that were sent with their private halves.

    Raises:
        Refused: ``limit.bytes``, ``key.malformed`` or a rule of the encodings, when it is no JWKS or leaves no key.
    """
    if len(data) > MOST_BYTES:
        raise Refused(Rule.LIMIT_BYTES, _WHERE)
    entries = parse_json_object(data, Where(Part.KEY), _DEPTH).get("keys")
    if not isinstance(entries, list) or len(entries) > _MOST_KEYS:
        raise Refused(Rule.KEY_MALFORMED, _WHERE, f"A JWKS is an object with an array of at most {_MOST_KEYS} keys.")
    kids = [entry.get("kid") if isinstance(entry, dict) else None for entry in entries]
    keys = {
        kid: key
        for kid, entry in zip(kids, entries, strict=True)
        if isinstance(kid, str) and kids.count(kid) == 1 and (key := _key(entry)) is not None
    }
    if not keys:
        raise Refused(Rule.KEY_MALFORMED, _WHERE, "There is no key with a `kid` of its own that verifies signatures.")
    return keys


def _key(entry: JsonValue) -> ServerKey | None:
    try:
        if isinstance(entry, dict) and entry.get("kty") == "RSA":
            return _parse_rsa(entry)
        key = parse_public_jwk(entry, _WHERE)
        check_not_published(key, PUBLISHED_KEYS, _WHERE)
    except Refused:
        return None
    return key


def _parse_rsa(entry: Mapping[str, JsonValue]) -> RsaKey | None:
    """RFC 7518 6.3.1; of fixed exponent, and of a length that is neither weak nor much work."""
    operations = entry.get("key_ops", ["verify"])
    is_ours = (
        not PRIVATE_MEMBERS & entry.keys()
        and entry.get("use", "sig") == "sig"
        and isinstance(operations, list)
        and "verify" in operations
        and entry.get("alg", "RS256") == "RS256"
    )
    n, e = (_number(entry.get(name)) for name in ("n", "e"))
    if not is_ours or n.bit_length() not in _RSA_BITS or n % 2 == 0 or e != _RSA_EXPONENT:
        return None
    return RsaKey(RSAPublicNumbers(e, n).public_key())


def _number(text: object) -> int:
    """Base64urlUInt; 0 for anything else, a leading zero byte too."""
    if not isinstance(text, str):
        return 0
    data = decode_base64url(text, _WHERE)
    return 0 if data.startswith(b"\0") else int.from_bytes(data, "big")
