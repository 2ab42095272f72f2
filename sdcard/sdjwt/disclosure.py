"""Disclosures and their digests (RFC 9901 4.2.1 to 4.2.3)."""

from collections.abc import Sequence
from functools import cache
from operator import add
from typing import NamedTuple

from sdcard.encoding import JsonValue, cut, decode_json, encode_base64url, encode_json
from sdcard.errors import Part, Refused, Where
from sdcard.rules import Rule

_HEAD = 36
"""Characters of base64url that 27 bytes make: ``["``, a salt of 22 characters, ``",`` and one more."""


class Disclosure(NamedTuple):
    """A salted value. The digest is over ``encoded`` exactly as received, never over a second encoding (R-21, R-23).

    Attributes:
        encoded: the base64url text.
        salt: known to nobody but who holds the Disclosure.
        name: the claim's name, or None for an array element.
        without_digests: whether the text shows that there are none in ``value``.
    """

    encoded: str
    salt: str
    name: str | None
    without_digests: bool

    @property
    def value(self) -> JsonValue:
        """Any JSON value; may itself hold digests. It is read from the text each time."""
        where = Where(Part.DISCLOSURE)
        _, array = decode_json(self.encoded, where, len(self.encoded))
        return array[-1] if isinstance(array, list) else None

    def __repr__(self) -> str:
        return "Disclosure(…)"


@cache
def where_of(number: int) -> Where:
    """The place of a Disclosure: its number in the order sent. Kept for as many as limits ever let in."""
    return Where(Part.DISCLOSURE, (number,))


def make_disclosure(salt: bytes, name: str | None, value: JsonValue) -> Disclosure:
    """Salt, name (None for an array element) and value → Disclosure (R-16, R-20, R-22)."""
    text = encode_base64url(salt)
    encoded = encode_base64url(encode_json([text, value] if name is None else [text, name, value]))
    return Disclosure(encoded, text, name, without_digests=False)


def encode_ending(name: str | None, value: JsonValue) -> tuple[str, str]:
    """What a Disclosure has around its salt, whatever that is: its head with ``%s`` for the salt, and the rest.

    The head is JSON of 27 bytes, and so whole groups of base64url, as which the rest is written.
    """
    json = encode_json([value] if name is None else [name, value])
    return '["%s",' + chr(json[1]), encode_base64url(json[2:])


def encode_disclosures(salts: Sequence[str], heads: str, endings: Sequence[str]) -> list[str]:
    """The texts of Disclosures, each as ``make_disclosure`` makes it, with salts of ``SALT_BYTES`` bytes.

    Args:
        salts: one for each.
        heads: of each, as ``encode_ending`` gives them, one after another.
        endings: what follows each.
    """
    encoded = encode_base64url((heads % tuple(salts)).encode("ascii"))
    assert len(encoded) == _HEAD * len(endings), "another length of salt would shift all that follows"
    return [*map(add, cut(encoded, _HEAD, _HEAD), endings)]


def parse_disclosure(encoded: str, where: Where, depth: int) -> Disclosure:
    """As ``read_disclosure``, for those who need no value."""
    return read_disclosure(encoded, where, depth)[0]


def read_disclosure(encoded: str, where: Where, depth: int) -> tuple[Disclosure, JsonValue]:
    """Base64url text → Disclosure, and its value: salt, perhaps a name, any JSON value (R-5, R-16, R-17, R-19, R-22).

    Raises:
        Refused: ``disclosure.format``, or a rule of the encodings.
    """
    data, array = decode_json(encoded, where, depth)
    # Digests need a member `_sd` or `...`; without an escape sequence their names stand in the text as they are.
    # `rfind` takes half the time of `in`, and one byte is found in no time.
    named = (b"_" in data and data.rfind(b'"_sd') >= 0) or data.rfind(b'"..."') >= 0
    named = named or (b"\\" in data and b"\\u" in data)
    if isinstance(array, list) and array and isinstance(array[0], str):
        if len(array) == 2:
            return Disclosure(encoded, array[0], None, not named), array[1]
        if len(array) == 3 and isinstance(array[1], str):
            return Disclosure(encoded, array[0], array[1], not named), array[2]
    raise Refused(Rule.DISCLOSURE_FORMAT, where)
