"""JWT access tokens (RFC 9068): verification of their text and claims.

In two steps, since a key may have to be fetched in between: ``parse_access_token`` tells which key, and
``verify_access_token`` applies every rule. The caller decides what a scope permits.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from sdcard.encoding import JsonValue
from sdcard.errors import Part, Refused, Where
from sdcard.instants import MAX_SKEW, Instant, parse_numeric_date
from sdcard.jose.claims import required, required_text
from sdcard.jose.jws import Jws, check_type, parse_jws, verify_jws
from sdcard.oauth.actors import check_actors
from sdcard.oauth.keys import ServerKey
from sdcard.rules import Rule

TYPES = ("at+jwt", "application/at+jwt")
"""What tells an access token from an ID token of the same server (RFC 9068 4)."""

_MOST_CHARACTERS = 16_384
_DEPTH = 16
_WHERE = Where(Part.ACCESS_TOKEN)
_COMPACT = re.compile(r"[^.]*\.[^.]*\.[^.]*")


@dataclass(frozen=True, slots=True)
class AccessToken:
    """Claims of an access token of an authorization server.

    Attributes:
        issuer: the server, its ``iss``.
        subject: on whose behalf; not blank, and unique to this Issuer only.
        client_id: who asked for the token.
        token_id: its ``jti``.
        scopes: what it is for, of whatever resource server.
        issued_at, expires_at: Unix seconds; ``expires_at`` is exclusive.
        claims: all of them, those above too.
    """

    issuer: str
    subject: str
    client_id: str
    token_id: str = field(repr=False)
    scopes: tuple[str, ...]
    issued_at: Instant
    expires_at: Instant
    claims: Mapping[str, JsonValue] = field(repr=False)


def is_jwt(text: str) -> bool:
    """Whether a bearer token looks like a JWT: three parts with dots between them."""
    return _COMPACT.fullmatch(text) is not None


def parse_access_token(text: str) -> Jws:
    """An unverified access token; its header has the ``kid`` of the key.

    Raises:
        Refused: ``limit.bytes``, ``jws.typ``, or a rule of the encodings.
    """
    if len(text) > _MOST_CHARACTERS:
        raise Refused(Rule.LIMIT_BYTES, _WHERE)
    jws = parse_jws(text, Part.ACCESS_TOKEN, Part.ACCESS_TOKEN, _DEPTH)
    check_type(jws, TYPES)
    return jws


def verify_access_token(token: Jws, key: ServerKey, issuer: str, audience: str, now: Instant) -> AccessToken:
    """Every rule of RFC 9068 4 and 2.2.

    Args:
        token: from ``parse_access_token``.
        key: the server's, of the token's ``kid``.
        issuer: the server's ``iss``, compared as text.
        audience: what ``aud`` calls this resource server.
        now: the present instant.

    Raises:
        Refused: ``jws.alg``, ``jws.crit``, ``jws.signature``, ``issuer.unknown``, ``audience.mismatch``, ``claim.*``,
            ``time.*``, ``delegation.act``, ``delegation.may-act``; at ``access-token/…``.
    """
    verify_jws(token, key, TYPES)
    claims = token.payload
    if _text(claims, "iss") != issuer:
        raise Refused(Rule.ISSUER_UNKNOWN, _WHERE.within("iss"))
    _check_audience(claims, audience)
    issued_at, expires_at = _check_times(claims, now)
    check_actors(claims)
    return AccessToken(
        issuer=issuer,
        subject=_text(claims, "sub"),
        client_id=_text(claims, "client_id"),
        token_id=_text(claims, "jti"),
        scopes=_scopes(claims),
        issued_at=issued_at,
        expires_at=expires_at,
        claims=claims,
    )


def _check_audience(claims: Mapping[str, JsonValue], audience: str) -> None:
    aud, where = required(claims, "aud", _WHERE), _WHERE.within("aud")
    listed = aud if isinstance(aud, list) else [aud]
    if not all(isinstance(one, str) for one in listed):
        raise Refused(Rule.CLAIM_TYPE, where)
    if audience not in listed:
        raise Refused(Rule.TOKEN_AUDIENCE, where)


def _check_times(claims: Mapping[str, JsonValue], now: Instant) -> tuple[Instant, Instant]:
    """Check ``exp`` to the second, ``iat`` and ``nbf`` with a little clock skew."""
    expires_at, issued_at = (
        parse_numeric_date(required(claims, name, _WHERE), _WHERE.within(name)) for name in ("exp", "iat")
    )
    if now >= expires_at:
        raise Refused(Rule.EXPIRED, _WHERE.within("exp"))
    if issued_at > now + MAX_SKEW:
        raise Refused(Rule.ISSUED_IN_FUTURE, _WHERE.within("iat"))
    if "nbf" in claims and parse_numeric_date(claims["nbf"], _WHERE.within("nbf")) > now + MAX_SKEW:
        raise Refused(Rule.NOT_YET_VALID, _WHERE.within("nbf"))
    return issued_at, expires_at


def _scopes(claims: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """Separated by spaces (RFC 8693 4.2)."""
    scope = claims.get("scope", "")
    if not isinstance(scope, str):
        raise Refused(Rule.CLAIM_TYPE, _WHERE.within("scope"))
    return tuple(scope.split(" ")) if scope else ()


def _text(claims: Mapping[str, JsonValue], name: str) -> str:
    value = required_text(claims, name, _WHERE)
    if not value:
        raise Refused(Rule.CLAIM_TYPE, _WHERE.within(name))
    return value
