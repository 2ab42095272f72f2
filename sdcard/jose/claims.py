"""Checks of claims that all kinds of JWT share.

- RFC 7519 4.1: a token is valid from ``nbf`` until before ``exp``. ``iat`` is its creation, ``aud`` its recipients.
- A proof (KB-JWT, proof of possession, DPoP proof) also has a freshness window around ``iat``, exactly one audience,
  and a nonce or ``jti`` that fits in a replay cache.
- RFC 7800: ``cnf`` names the one key that a token is bound to.

Confirmation methods (RFC 7800 3.1 permits one key, in one form):

- ``jwk`` (RFC 7800 3.2) is the key of an SD-Card. ``jkt`` (RFC 9449 6) is the thumbprint of an access token's key.
- ``jwe``, ``jku`` (RFC 7800 3.3, 3.5), ``x5t#S256`` (RFC 8705 3.1) and ``osc`` (RFC 9203 3.3) name keys that this
  library cannot compare. They would be a second, unchecked binding, so they are refused.
- ``jkt`` beside ``jwk`` is accepted if it is the thumbprint of that key.
- ``kid`` (RFC 7800 3.4) must be a string. It selects no key.
- Unregistered members are ignored (RFC 7800 3.1).
"""

import hmac
from collections.abc import Mapping

from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Refused, Where
from sdcard.instants import FreshnessWindow, Instant, read_numeric_date
from sdcard.jose.keys import PublicKey, parse_public_jwk
from sdcard.rules import Rule
from sdcard.verification_cache import VerificationCache

MAX_NONCE_LENGTH = 256
"""Characters of a ``nonce`` or ``jti`` that a replay cache stores."""
UNCHECKED_METHODS = ("jwe", "jku", "x5t#S256", "osc")
"""Confirmation methods whose key cannot be compared here."""


def required(claims: Mapping[str, JsonValue], name: str, where: Where) -> JsonValue:
    """Read a claim that must be present.

    Raises:
        Refused: ``claim.missing``, at ``where/name``.
    """
    if name not in claims:
        raise Refused(Rule.CLAIM_MISSING, where.within(name))
    return claims[name]


def required_text(claims: Mapping[str, JsonValue], name: str, where: Where) -> str:
    """Read a claim that must be a single string, not an array (R-44, R-45, R-46).

    Raises:
        Refused: ``claim.missing`` or ``claim.type``, at ``where/name``.
    """
    value = claims.get(name)
    if not isinstance(value, str):
        required(claims, name, where)
        raise Refused(Rule.CLAIM_TYPE, where.within(name), "The claim must be a single string.")
    return value


def same_text(one: str, other: str) -> bool:
    """Compare two texts in constant time."""
    if one.isascii() and other.isascii():
        return hmac.compare_digest(one, other)
    return hmac.compare_digest(one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass"))


def check_not_expired(claims: JsonObject, now: Instant, where: Where, hint: str = "") -> None:
    """Refuse a token from its ``exp`` on. RFC 7519 4.1.4 (R-71, R-92).

    Raises:
        Refused: ``time.expired``; ``claim.type`` or ``claim.value`` if ``exp`` is not a NumericDate.
    """
    if "exp" in claims and now >= read_numeric_date(claims, "exp", where):
        raise Refused(Rule.EXPIRED, where.within("exp"), hint)


def check_already_valid(claims: JsonObject, now: Instant, where: Where, hint: str = "") -> None:
    """Refuse a token before its ``nbf``. RFC 7519 4.1.5 (R-71, R-92).

    Raises:
        Refused: ``time.not-yet-valid``; ``claim.type`` or ``claim.value`` if ``nbf`` is not a NumericDate.
    """
    if "nbf" in claims and now < read_numeric_date(claims, "nbf", where):
        raise Refused(Rule.NOT_YET_VALID, where.within("nbf"), hint)


def check_already_issued(claims: JsonObject, now: Instant, where: Where) -> None:
    """Refuse a token whose ``iat`` is in the future. RFC 7519 4.1.6 (R-71).

    Raises:
        Refused: ``time.issued-in-future``; ``claim.type`` or ``claim.value`` if ``iat`` is not a NumericDate.
    """
    if "iat" in claims and now < read_numeric_date(claims, "iat", where):
        raise Refused(Rule.ISSUED_IN_FUTURE, where.within("iat"))


def check_addressed(claims: JsonObject, audience: str | None, where: Where) -> None:
    """Refuse a token whose ``aud`` does not include ``audience``.

    RFC 7519 4.1.3 (R-71).

    Raises:
        Refused: ``audience.mismatch``, or ``claim.type`` when ``aud`` is neither a string nor an array of strings.
    """
    if "aud" in claims and audience not in read_audiences(claims, where):
        raise Refused(Rule.TOKEN_AUDIENCE, where.within("aud"))


def read_audiences(claims: JsonObject, where: Where) -> tuple[str, ...]:
    """Read an ``aud`` that is present: one string or an array (RFC 7519 4.1.3).

    Raises:
        Refused: ``claim.type``, at ``where/aud``.
    """
    value = claims["aud"]
    audiences = value if isinstance(value, list) else [value]
    named = tuple([one for one in audiences if isinstance(one, str)])
    if len(named) < len(audiences):
        raise Refused(Rule.CLAIM_TYPE, where.within("aud"))
    return named


def check_freshness(
    claims: JsonObject, window: FreshnessWindow, now: Instant, where: Where, stale: Rule, from_future: Rule
) -> Instant:
    """Refuse a proof whose ``iat`` is too old or in the future, and return ``iat``.

    The sender chooses ``iat``, so both ends are bounded, inclusive. An old proof may be a replay. A proof from the
    future would outlive the replay cache's entry for its nonce. RFC 9901 7.3 step 5.e (R-89); RFC 9449 4.3 check 11.

    Raises:
        Refused: ``stale``, ``from_future`` or ``claim.*``, at ``where/iat``.
    """
    if "iat" not in claims:
        raise Refused(Rule.CLAIM_MISSING, where.within("iat"))
    issued_at = read_numeric_date(claims, "iat", where)
    if issued_at < now - window.past:
        raise Refused(stale, where.within("iat"))
    if issued_at > now + window.future:
        raise Refused(from_future, where.within("iat"))
    return issued_at


def check_equal(claims: JsonObject, name: str, expected: str, where: Where, mismatch: Rule) -> None:
    """Refuse a claim that is not exactly the expected string (R-44, R-90).

    Raises:
        Refused: ``mismatch``, ``claim.missing`` or ``claim.type``, at ``where/name``.
    """
    if not same_text(required_text(claims, name, where), expected):
        raise Refused(mismatch, where.within(name))


def read_nonce(claims: JsonObject, name: str, where: Where, unusable: Rule, hint: str = "") -> str:
    """Read the ``nonce`` or ``jti`` of a proof.

    Its length is bounded, because a replay cache stores it (R-45).

    Raises:
        Refused: ``unusable`` for other than 1 to 256 characters; ``claim.missing`` or ``claim.type``.
    """
    nonce = required_text(claims, name, where)
    if not 1 <= len(nonce) <= MAX_NONCE_LENGTH:
        raise Refused(unusable, where.within(name), hint)
    return nonce


def parse_confirmed_key(cnf: JsonValue, where: Where, cache: VerificationCache | None = None) -> PublicKey:
    """Parse the key in ``cnf.jwk``.

    RFC 9901 4.1.2, 7.3 step 5.a (R-15, R-85, VC-7, HAIP-2). References to other keys are never followed (VC-8).

    Args:
        cache: stores the parsed key.

    Raises:
        Refused: ``cnf.malformed`` without a ``jwk`` or with a second key; ``key.*``, at the ``jwk``.
    """
    if not isinstance(cnf, dict) or not isinstance(cnf.get("jwk"), dict) or not cnf["jwk"]:
        raise Refused(Rule.CNF, where)
    _check_confirmation_members(cnf, where)
    key = parse_public_jwk(cnf["jwk"], Where(where.part, (*where.path, "jwk")), cache)
    if cnf.get("jkt", key.thumbprint) != key.thumbprint:
        raise Refused(Rule.CNF, where, "`jkt` is not the thumbprint of the key in `jwk`.")
    return key


def parse_confirmed_thumbprint(cnf: JsonValue, where: Where) -> str:
    """Read ``cnf.jkt`` of an access token. RFC 9449 6; RFC 7800 3.1 (R-15).

    Raises:
        Refused: ``cnf.malformed`` without a ``jkt`` or with a second key; ``key.*``, at a ``jwk``.
    """
    if not isinstance(cnf, dict) or not isinstance(cnf.get("jkt"), str) or not cnf["jkt"]:
        raise Refused(Rule.CNF, where)
    _check_confirmation_members(cnf, where)
    if "jwk" in cnf:
        parse_confirmed_key(cnf, where)
    return str(cnf["jkt"])


def _check_confirmation_members(cnf: Mapping[str, JsonValue], where: Where) -> None:
    """Refuse a second binding, and a ``kid`` that is not a string (VC-8)."""
    if not cnf.keys().isdisjoint(UNCHECKED_METHODS):
        raise Refused(Rule.CNF, where, f"Remove {', '.join(UNCHECKED_METHODS)} from cnf: each could name a second key.")
    if not isinstance(cnf.get("kid", ""), str):
        raise Refused(Rule.CNF, where, "A `kid` is a string.")
