"""The authorization server's keys: those of ``sdcard.jose``, and RSA.

RS256 is the algorithm that all servers know (RFC 9068 2.1).

RSA verifies access tokens and nothing else: no SD-Card, status list or agent card is ever checked with these keys.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, RSAPublicNumbers
from cryptography.hazmat.primitives.hashes import SHA256

from sdcard.encoding import (
    JsonObject,
    JsonValue,
    decode_base64url,
    encode_base64url,
    encode_json,
    parse_json_object,
)
from sdcard.errors import Finding, Part, Refused, Where, foreign_code
from sdcard.jose.key_sets import read_key_set
from sdcard.jose.keys import (
    LIBRARY_FAILS,
    PRIVATE_MEMBERS,
    PUBLISHED_KEYS,
    KeySet,
    PublicKey,
    check_not_published,
    check_purpose,
    parse_public_jwk,
)
from sdcard.rules import Rule

MOST_BYTES = 262_144
"""Of a JWKS."""
_MOST_KEYS = 64
_SET = Where(Part.KEY)
_WHERE = _SET.within("keys")
_DEPTH = 8
_RSA_BITS = range(2_048, 8_193)
_RSA_EXPONENT = 65_537


@dataclass(frozen=True, slots=True)
class RsaKey:
    """A key that verifies RS256."""

    _key: RSAPublicKey = field(repr=False)
    thumbprint: str
    header_names: tuple[str, ...] = ("RS256",)

    def verifies(self, message: bytes, signature: bytes) -> bool:
        """Whether the signature is this key's over the message (RFC 7518 3.3)."""
        try:
            self._key.verify(signature, message, PKCS1v15(), SHA256())
        except LIBRARY_FAILS:  # what cannot be verified is not verified
            return False
        return True


ServerKey: TypeAlias = PublicKey | RsaKey


def parse_server_keys(data: bytes) -> KeySet[ServerKey]:
    """A JWKS → ``kid`` → key.

    Entries are independent, as in every key set (RFC 7517 5).

    Left out are entries that are no keys for signatures that we know, that name themselves by no ``kid``, that stand in
    public documents, or that were sent with their private halves.

    Raises:
        Refused: ``limit.bytes``, ``key.malformed`` or a rule of the encodings, when it is no JWKS or has no entry; the
            reasons for all entries, when none is usable.
    """
    if len(data) > MOST_BYTES:
        raise Refused(Rule.LIMIT_BYTES, _WHERE)
    document = parse_json_object(data, _SET, _DEPTH)
    entries = document.get("keys")
    if not isinstance(entries, list) or not 0 < len(entries) <= _MOST_KEYS:
        raise Refused(Rule.KEY_MALFORMED, _WHERE, f"A JWKS is an object with an array of 1 to {_MOST_KEYS} keys.")
    try:
        return read_key_set(document, _SET, _parse_server_key, rule=Rule.KEY_MALFORMED)
    except Refused as refusal:
        none = Finding(Rule.KEY_MALFORMED, _WHERE, "There is no key with a `kid` of its own that verifies signatures.")
        raise Refused.because([none, *refusal.findings]) from None


def _parse_server_key(entry: object, where: Where) -> ServerKey:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("kid"), str):
        raise Refused(Rule.KEY_MALFORMED, where, "A token names its key by a `kid`, a string.")
    if entry.get("kty") == "RSA":
        return _parse_rsa(entry, where)
    key = parse_public_jwk(entry, where)
    check_not_published(key, PUBLISHED_KEYS, where)
    return key


def _parse_rsa(entry: Mapping[str, JsonValue], where: Where) -> RsaKey:
    """Read an RSA key (RFC 7518 6.3.1).

    Its exponent is fixed, and its length neither weak nor much work.
    """
    if not PRIVATE_MEMBERS.isdisjoint(entry):
        raise Refused(Rule.KEY_PRIVATE, where)
    check_purpose(entry, ("RS256",), where)
    n, e = (_number(entry.get(name), where.within(name)) for name in ("n", "e"))
    if n.bit_length() not in _RSA_BITS or n % 2 == 0:
        raise Refused(Rule.KEY_MALFORMED, where.within("n"), "An RSA key has 2048 to 8192 bits, and an odd modulus.")
    if e != _RSA_EXPONENT:
        raise Refused(Rule.KEY_UNSUPPORTED, where.within("e"), f"The public exponent is {_RSA_EXPONENT}.")
    members: JsonObject = {"e": entry["e"], "kty": "RSA", "n": entry["n"]}
    thumbprint = encode_base64url(hashlib.sha256(encode_json(members)).digest())
    with foreign_code(Refused, Rule.KEY_MALFORMED, where, "This is no RSA key."):
        key = RSAPublicNumbers(e, n).public_key()
    return RsaKey(key, thumbprint)


def _number(text: object, where: Where) -> int:
    """Base64urlUInt: no leading zero byte (RFC 7518 2)."""
    data = decode_base64url(text, where) if isinstance(text, str) else b""
    if not data or data.startswith(b"\0"):
        raise Refused(Rule.KEY_MALFORMED, where, "A number in base64url is expected, without leading zeros.")
    return int.from_bytes(data, "big")
