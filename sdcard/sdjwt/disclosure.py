"""Disclosures and their digests (RFC 9901 4.2.1 to 4.2.3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from sdcard.encoding import (
    JsonValue,
    decode_base64url,
    encode_base64url,
    encode_each_base64url,
    encode_each_json,
    parse_json,
)
from sdcard.errors import Part, Refused, Where
from sdcard.limits import DEFAULT_LIMITS
from sdcard.rules import Rule


@dataclass(frozen=True, slots=True)
class Disclosure:
    """A salted value. The digest is over ``encoded`` exactly as received, never over a second encoding (R-21, R-23).

    Attributes:
        encoded: the base64url text.
        salt: known to nobody but who holds the Disclosure.
        name: the claim's name, or None for an array element.
        value: any JSON value; may itself hold digests.
        depth_without_digests: when ``value`` cannot hold digests, a bound on how deeply it nests; else None.
    """

    encoded: str
    salt: str
    name: str | None
    value: JsonValue
    depth_without_digests: int | None = None

    def __repr__(self) -> str:
        return "Disclosure(…)"


@lru_cache(maxsize=DEFAULT_LIMITS.disclosures)
def where_of(number: int) -> Where:
    """The place of a Disclosure: its number in the order sent."""
    return Where(Part.DISCLOSURE, (number,))


def make_disclosure(salt: bytes, name: str | None, value: JsonValue) -> Disclosure:
    """Salt, name (None for an array element) and value → Disclosure (R-16, R-20, R-22)."""
    text = encode_base64url(salt)
    (encoded,) = encode_disclosures([text], [(name, value)])
    return Disclosure(encoded.decode("ascii"), text, name, value)


def encode_disclosures(salts: Sequence[str], parts: Sequence[tuple[str | None, JsonValue]]) -> list[bytes]:
    """As ``make_disclosure``, for many, of whom nothing is needed but the base64url text, as ASCII bytes."""
    arrays: list[JsonValue] = [
        [salt, value] if name is None else [salt, name, value] for salt, (name, value) in zip(salts, parts, strict=True)
    ]
    return encode_each_base64url(encode_each_json(arrays))


def parse_disclosure(encoded: str, where: Where, depth: int) -> Disclosure:
    """Base64url text → Disclosure: salt, perhaps a name, and any JSON value (R-5, R-16, R-17, R-19, R-22).

    Raises:
        Refused: ``disclosure.format``, or a rule of the encodings.
    """
    data = decode_base64url(encoded, where)
    array = parse_json(data, where, depth)
    if isinstance(array, list) and 2 <= len(array) <= 3:
        salt, second = array[:2]
        if isinstance(salt, str) and len(array) == 2:
            return Disclosure(encoded, salt, None, second, _depth_without_digests(data))
        if isinstance(salt, str) and isinstance(second, str):
            return Disclosure(encoded, salt, second, array[2], _depth_without_digests(data))
    raise Refused(Rule.DISCLOSURE_FORMAT, where)


def _depth_without_digests(data: bytes) -> int | None:
    """Digests need a member `_sd` or `...`; without an escape sequence their names stand in the text as they are."""
    escapes = b"\\" in data and b"\\u" in data
    if escapes or (b"_" in data and b'"_sd' in data) or b'"..."' in data:
        return None
    return data.count(b"[") + data.count(b"{")
