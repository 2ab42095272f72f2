"""Claims that a JWT must have (RFC 7519 4): the one way to take them out of a payload that strangers wrote."""

import hmac
from collections.abc import Mapping

from sdcard.encoding import JsonValue
from sdcard.errors import Refused, Where
from sdcard.rules import Rule


def required(claims: Mapping[str, JsonValue], name: str, where: Where) -> JsonValue:
    """A claim that must be there, such as those of a KB-JWT (RFC 9901 4.3, R-43 to R-46).

    Raises:
        Refused: ``claim.missing``, at ``where/name``.
    """
    if name not in claims:
        raise Refused(Rule.CLAIM_MISSING, where.within(name))
    return claims[name]


def required_text(claims: Mapping[str, JsonValue], name: str, where: Where) -> str:
    """A claim that must be one string: an array is none, even with a single entry (R-44, R-45, R-46).

    Raises:
        Refused: ``claim.missing`` or ``claim.type``, at ``where/name``.
    """
    value = claims.get(name)
    if not isinstance(value, str):
        required(claims, name, where)
        raise Refused(Rule.CLAIM_TYPE, where.within(name), "The claim must be a single string.")
    return value


def same_text(one: str, other: str) -> bool:
    """Whether two texts are equal, in a time that does not tell where they differ."""
    if one.isascii() and other.isascii():
        return hmac.compare_digest(one, other)
    return hmac.compare_digest(one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass"))
