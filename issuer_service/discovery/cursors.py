"""Cursors: encrypted page positions for one token, query and audience.

A position would reveal the number of agents, so a cursor is encrypted and has a fixed length. Each cursor has its own
key, derived from the registry's secret and 128 random bits, so no nonce is used twice.
"""

import hashlib

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from sdcard.encoding import decode_base64url, encode_base64url
from sdcard.errors import Part, Refused, Where
from sdcard.instants import MAX_SKEW, Instant, Lifetime
from sdcard.rules import Rule
from sdcard.salts import SALT_BYTES, SaltSource

LIFETIME = 600
"""Seconds to fetch the next page in."""

_NONCE = bytes(12)
_NUMBER = 8
_WHERE = Where(Part.REQUEST, ("cursor",))


def seal_cursor(position: int, binding: bytes, secret: bytes, now: Instant, salts: SaltSource) -> str:
    """Encrypt a position; ``binding`` names the token, query and audience."""
    salt = salts.draw(1)
    content = position.to_bytes(_NUMBER, "big", signed=True) + (int(now) + LIFETIME).to_bytes(_NUMBER, "big")
    return encode_base64url(salt + _cipher(secret, salt).encrypt(_NONCE, content, binding))


def open_cursor(cursor: str, binding: bytes, secret: bytes, now: Instant) -> int:
    """Decrypt the position of a cursor.

    Raises:
        Refused: ``cursor.invalid`` for a cursor that is forged, changed, for another query, or expired, without
            distinction.
    """
    try:
        sealed = decode_base64url(cursor, _WHERE)
        content = _cipher(secret, sealed[:SALT_BYTES]).decrypt(_NONCE, sealed[SALT_BYTES:], binding)
    except (Refused, InvalidTag):
        raise Refused(Rule.CURSOR, _WHERE, "Ask again without one.") from None
    ends_at = int.from_bytes(content[_NUMBER:], "big")
    if not Lifetime(ends_at - LIFETIME, ends_at).covers(now, MAX_SKEW):
        raise Refused(Rule.CURSOR, _WHERE, "Ask again without one.")
    return int.from_bytes(content[:_NUMBER], "big", signed=True)


def _cipher(secret: bytes, salt: bytes) -> AESGCM:
    return AESGCM(hashlib.blake2b(b"discovery cursor" + salt, key=secret, digest_size=32).digest())
