"""Access tokens that are bound to a key (RFC 9449 6.1).

Their claim ``cnf`` is ``{"jkt": thumbprint}``.
"""

from collections.abc import Mapping

from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Part, Refused, Where
from sdcard.jose.claims import parse_confirmed_thumbprint
from sdcard.jose.keys import PublicKey
from sdcard.rules import Rule

_WHERE = Where(Part.ACCESS_TOKEN, ("cnf",))


def binding_claim(key: PublicKey) -> JsonObject:
    """The value of ``cnf`` in an access token that is to be bound to a key."""
    return {"jkt": key.thumbprint}


def parse_binding(claims: Mapping[str, JsonValue]) -> str:
    """Return the key's thumbprint of a token of ``Authorization: DPoP``.

    Raises:
        Refused: ``dpop.token-unbound``, also where ``cnf`` says another key too: a second binding that nobody checks.
    """
    try:
        return parse_confirmed_thumbprint(claims.get("cnf"), _WHERE)
    except Refused as refusal:
        raise Refused(Rule.DPOP_UNBOUND, _WHERE, refusal.findings[0].hint) from None


def check_unbound(claims: Mapping[str, JsonValue]) -> None:
    """Refuse a key-bound token of ``Authorization: Bearer`` (RFC 9449 7.2).

    Raises:
        Refused: ``dpop.missing``, for any ``cnf``: a thief of the token could send it without a proof.
    """
    if "cnf" in claims:
        raise Refused(Rule.DPOP_MISSING, _WHERE)
