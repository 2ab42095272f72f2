"""JWT access tokens (RFC 9068): text → the token as the registry knows its own, or a refusal.

Its subject is qualified by its Issuer, so it is nobody whom an opaque token speaks for. It carries scopes of ours among
others, and limits in a claim of their own.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from issuer_service.access import EXTERNAL, MOST_SUBJECT, WHERE, Limit, Scope, is_limit
from issuer_service.authorization_server.fetching import ServerKeys
from issuer_service.authorization_server.keys import ServerKey, names_of
from issuer_service.stores.ports import TokenRow
from sdcard.encoding import JsonValue
from sdcard.errors import Part, Refused, Where
from sdcard.instants import MAX_SKEW, Instant, parse_numeric_date
from sdcard.jose.jws import Jws, check_nothing_critical, check_type, parse_jws
from sdcard.rules import Rule

TYPES = ("at+jwt", "application/at+jwt")
"""What tells an access token from an ID token of the same server (RFC 9068 4)."""

_MOST_CHARACTERS = 16_384
_DEPTH = 16
_WHERE = Where(Part.ACCESS_TOKEN)
_REQUIRED_TEXTS = ("sub", "client_id", "jti")
_COMPACT = re.compile(r"[^.]*\.[^.]*\.[^.]*")


@dataclass(frozen=True, slots=True)
class AuthorizationServer:
    """Whose JWT access tokens count.

    Attributes:
        issuer: its ``iss``, compared as text.
        audience: what ``aud`` calls this registry.
        keys: its keys.
        limits_claim: the claim that holds limits.
        limits: of a token without that claim.
    """

    issuer: str
    audience: str
    keys: ServerKeys = field(repr=False)
    limits_claim: str
    limits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    async def read(self, text: str, now: Instant) -> TokenRow:
        """The token behind the text (RFC 9068 4).

        Raises:
            Refused: ``token.invalid``, whose hint names the rule that the token broke and the place;
                ``token.keys-unavailable``.
        """
        try:
            if len(text) > _MOST_CHARACTERS:
                raise Refused(Rule.LIMIT_BYTES, _WHERE)
            jws = parse_jws(text, Part.ACCESS_TOKEN, Part.ACCESS_TOKEN, _DEPTH)
            check_type(jws, TYPES)
            key = await self.keys.find(jws.header.get("kid"), now)
            _check_signature(jws, key)
            return self._token(text, jws.payload, now)
        except Refused as refusal:
            if refusal.rule is Rule.TOKEN_KEYS:
                raise
            raise Refused(Rule.TOKEN_INVALID, WHERE, f"{refusal.rule} at {refusal.where}") from None

    def _token(self, text: str, claims: Mapping[str, JsonValue], now: Instant) -> TokenRow:
        if _text(claims, "iss") != self.issuer:
            raise Refused(Rule.ISSUER_UNKNOWN, _WHERE.within("iss"))
        _check_audience(claims, self.audience)
        issued_at, expires_at = _check_times(claims, now)
        subject, _, _ = (_text(claims, name) for name in _REQUIRED_TEXTS)
        qualified = f"{EXTERNAL}{self.issuer} {subject}"
        if len(qualified) > MOST_SUBJECT or not subject.isprintable():
            raise Refused(Rule.CLAIM_VALUE, _WHERE.within("sub"))
        return TokenRow(
            digest=hashlib.sha256(text.encode()).hexdigest(),
            subject=qualified,
            scopes=_scopes(claims),
            limits=self._limits(claims),
            created_at=int(issued_at),
            expires_at=int(expires_at),
        )

    def _limits(self, claims: Mapping[str, JsonValue]) -> Mapping[str, tuple[str, ...]]:
        """Those of the claim, else those of the setting. A kind that nobody knows permits nothing, as ever."""
        if self.limits_claim not in claims:
            return self.limits
        stated, where = claims[self.limits_claim], _WHERE.within(self.limits_claim)
        if not isinstance(stated, dict):
            raise Refused(Rule.CLAIM_TYPE, where)
        return {kind: _limit(kind, values, where) for kind, values in stated.items()}


def is_jwt(text: str) -> bool:
    """Whether a bearer token is of this kind: the registry's own have no dots."""
    return _COMPACT.fullmatch(text) is not None


def _check_signature(jws: Jws, key: ServerKey) -> None:
    """The key says which algorithm, so neither ``none`` nor a MAC over a public key passes (RFC 8725 3.1)."""
    if jws.header.get("alg") not in names_of(key):
        raise Refused(Rule.JWS_ALG, _WHERE.within("alg"))
    check_nothing_critical(jws)
    if not key.verifies(jws.signing_input, jws.signature):
        raise Refused(Rule.JWS_SIGNATURE, _WHERE.within("signature"))


def _check_audience(claims: Mapping[str, JsonValue], audience: str) -> None:
    aud, where = _claim(claims, "aud"), _WHERE.within("aud")
    listed = aud if isinstance(aud, list) else [aud]
    if not all(isinstance(one, str) for one in listed):
        raise Refused(Rule.CLAIM_TYPE, where)
    if audience not in listed:
        raise Refused(Rule.TOKEN_AUDIENCE, where)


def _check_times(claims: Mapping[str, JsonValue], now: Instant) -> tuple[Instant, Instant]:
    """``exp`` holds to the second; a clock that is a little ahead of ours may say ``iat`` and ``nbf``."""
    expires_at, issued_at = (parse_numeric_date(_claim(claims, name), _WHERE.within(name)) for name in ("exp", "iat"))
    if now >= expires_at:
        raise Refused(Rule.EXPIRED, _WHERE.within("exp"))
    if issued_at > now + MAX_SKEW:
        raise Refused(Rule.ISSUED_IN_FUTURE, _WHERE.within("iat"))
    if "nbf" in claims and parse_numeric_date(claims["nbf"], _WHERE.within("nbf")) > now + MAX_SKEW:
        raise Refused(Rule.NOT_YET_VALID, _WHERE.within("nbf"))
    return issued_at, expires_at


def _scopes(claims: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """Those of ours; a server has others for others (RFC 8693 4.2)."""
    scope = claims.get("scope", "")
    if not isinstance(scope, str):
        raise Refused(Rule.CLAIM_TYPE, _WHERE.within("scope"))
    return tuple(one for one in scope.split(" ") if one in Scope._value2member_map_)


def _limit(kind: str, values: JsonValue, claim: Where) -> tuple[str, ...]:
    where = claim.within(kind) if kind in Limit._value2member_map_ else claim
    if not isinstance(values, list):
        raise Refused(Rule.CLAIM_TYPE, where)
    texts = tuple(value for value in values if isinstance(value, str))
    if len(texts) < len(values):
        raise Refused(Rule.CLAIM_TYPE, where)
    if kind in Limit._value2member_map_ and not is_limit(Limit(kind), texts):
        raise Refused(Rule.CLAIM_VALUE, where)
    return texts


def _text(claims: Mapping[str, JsonValue], name: str) -> str:
    value = _claim(claims, name)
    if not isinstance(value, str) or not value:
        raise Refused(Rule.CLAIM_TYPE, _WHERE.within(name))
    return value


def _claim(claims: Mapping[str, JsonValue], name: str) -> JsonValue:
    if name not in claims:
        raise Refused(Rule.CLAIM_MISSING, _WHERE.within(name))
    return claims[name]
