"""``cnf``: the one key that a token is bound to (RFC 7800), and the one reader of it.

RFC 7800 3.1 permits one key, in one form. Of the methods that IANA lists:

- ``jwk`` (RFC 7800 3.2) is the key of an SD-Card, ``jkt`` (RFC 9449 6) the thumbprint of an access token's key.
- ``jwe``, ``jku`` (RFC 7800 3.3, 3.5), ``x5t#S256`` (RFC 8705 3.1) and ``osc`` (RFC 9203 3.3) name a key that nothing
  here can compare, so beside another form they would be a second binding that nobody checks. They are refused.
- ``jkt`` beside ``jwk`` is legal when it is the thumbprint of that key.
- ``kid`` (RFC 7800 3.4) is a name for the key. It is a string, and chooses nothing.
- Members that nobody has registered are ignored, as 3.1 demands.
"""

from collections.abc import Mapping

from sdcard.encoding import JsonValue
from sdcard.errors import Refused, Where
from sdcard.jose.keys import PublicKey, parse_public_jwk
from sdcard.rules import Rule

UNCHECKED_METHODS = ("jwe", "jku", "x5t#S256", "osc")
"""Confirmation methods whose key cannot be compared here."""


def parse_confirmed_key(cnf: JsonValue, where: Where) -> PublicKey:
    """The key in ``cnf.jwk`` (4.1.2, 7.3 step 5.a, R-15, R-85, VC-7, VC-8, HAIP-2).

    Args:
        cnf: the claim's value.
        where: its place.

    Raises:
        Refused: ``cnf.malformed``, at ``where``, for no ``jwk`` or another key beside it; ``key.…``, at the ``jwk``.
    """
    if not isinstance(cnf, dict) or not isinstance(cnf.get("jwk"), dict) or not cnf["jwk"]:
        raise Refused(Rule.CNF, where)
    _check_members(cnf, where)
    key = parse_public_jwk(cnf["jwk"], where.within("jwk"))
    if cnf.get("jkt", key.thumbprint) != key.thumbprint:
        raise Refused(Rule.CNF, where, "`jkt` is not the thumbprint of the key in `jwk`.")
    return key


def parse_confirmed_thumbprint(cnf: JsonValue, where: Where) -> str:
    """The thumbprint in ``cnf.jkt`` of an access token (RFC 9449 6; RFC 7800 3.1, R-15).

    Raises:
        Refused: ``cnf.malformed``, at ``where``, for no ``jkt`` or another key beside it; ``key.…``, at a ``jwk``.
    """
    if not isinstance(cnf, dict) or not isinstance(cnf.get("jkt"), str) or not cnf["jkt"]:
        raise Refused(Rule.CNF, where)
    _check_members(cnf, where)
    if "jwk" in cnf:
        parse_confirmed_key(cnf, where)
    return str(cnf["jkt"])


def _check_members(cnf: Mapping[str, JsonValue], where: Where) -> None:
    """Refuse a second binding, and a ``kid`` that is no name (RFC 7800 3.1, 3.4, VC-8)."""
    if not cnf.keys().isdisjoint(UNCHECKED_METHODS):
        raise Refused(Rule.CNF, where, f"A token is bound to one key: {', '.join(UNCHECKED_METHODS)} say another.")
    if not isinstance(cnf.get("kid", ""), str):
        raise Refused(Rule.CNF, where, "A `kid` is a string.")
