"""OAuth access tokens (RFC 9068, RFC 6750) and their actors (RFC 8693)."""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, RSAPublicNumbers
from cryptography.hazmat.primitives.hashes import SHA256

from sdcard.encoding import JsonObject, JsonValue, decode_base64url, encode_base64url, encode_json, parse_json_object
from sdcard.errors import Finding, Part, Refused, Where, foreign_code
from sdcard.instants import MAX_SKEW, Instant, parse_numeric_date
from sdcard.jose.claims import required, required_text
from sdcard.jose.jws import Jws, check_type, parse_jws, verify_jws
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

# -- Parties in ``act`` and ``may_act`` of an access token (RFC 8693 4.1 and 4.4) -------------------------------------

MOST_PARTY = 256
"""Characters of a party's name."""
MOST_ACTORS = 12
"""JSON of access tokens is not read deeper than that."""

EXTERNAL = "jwt:"
"""What the name of an external Issuer's subject begins with. No subject of a registry's own tokens does."""

_ACTORS = Where(Part.ACCESS_TOKEN)
_MAY_ACT = _ACTORS.within("may_act")


def check_actors(claims: Mapping[str, JsonValue]) -> None:
    """Refuse an access token whose ``act`` or ``may_act`` names no party.

    Raises:
        Refused: ``delegation.act``, at ``access-token/act…``; ``delegation.may-act``, at ``access-token/may_act``.
    """
    read_actors(claims, lambda act, where: _named(act, Refused(Rule.DELEGATION_ACT, where))[1])
    if "may_act" in claims:
        _named(claims["may_act"], Refused(Rule.DELEGATION_MAY_ACT, _MAY_ACT))


def parse_external_actors(claims: Mapping[str, JsonValue], issuer: str, registry: str) -> tuple[str, ...]:
    """Actors of an external Issuer's token, the first one first (RFC 8693 4.1).

    ``iss`` and ``sub`` name an actor. An actor without ``iss`` is one of the token's Issuer, so its name never equals
    one of the registry's own. Other members do not name anybody, and are ignored as 4.1 says of ``exp`` and others.

    Args:
        claims: of the token.
        issuer: its ``iss``.
        registry: the ``iss`` of the registry, whose parties have their own names.

    Raises:
        Refused: ``delegation.act``, at the ``act`` that is no object, names nobody, or nests too deep.
    """

    def party(act: JsonObject, where: Where) -> str:
        refusal = Refused(Rule.DELEGATION_ACT, where)
        named = _external_party(*_named(act, refusal), issuer, registry)
        if not is_party(named):
            raise refusal
        return named

    return read_actors(claims, party)


def check_may_act(claims: Mapping[str, JsonValue], issuer: str, registry: str, *names: str) -> None:
    """Refuse an actor that ``may_act`` of the subject token excludes (RFC 8693 4.4).

    Args:
        claims: of the subject token.
        issuer: its ``iss``.
        registry: the ``iss`` of the registry.
        names: of the party that wants to act. Without ``iss``, ``may_act`` may name it as the registry does.

    Raises:
        Refused: ``delegation.may-act``, at ``access-token/may_act``, also for a claim that names nobody.
    """
    if "may_act" not in claims:
        return
    named, refusal = claims["may_act"], Refused(Rule.DELEGATION_MAY_ACT, _MAY_ACT)
    issuer_of, subject = _named(named, refusal)
    permitted = {_external_party(issuer_of, subject, issuer, registry)} | ({subject} if issuer_of is None else set())
    if permitted.isdisjoint(names):
        raise refusal


def external_party(issuer: str, subject: str) -> str:
    """The name of an external Issuer's subject."""
    return f"{EXTERNAL}{issuer} {subject}"


def read_actors(claims: Mapping[str, JsonValue], party: Callable[[JsonObject, Where], str]) -> tuple[str, ...]:
    """The actors of nested ``act`` claims, the innermost one first."""
    actors: list[str] = []
    where = _ACTORS
    while "act" in claims:
        act, where = claims["act"], where.within("act")
        if not isinstance(act, dict):
            raise Refused(Rule.DELEGATION_ACT, where)
        actors.append(party(act, where))
        claims = act
    if len(actors) > MOST_ACTORS:
        raise Refused(Rule.DELEGATION_ACT, _ACTORS.within("act"), f"At most {MOST_ACTORS} may have acted.")
    return tuple(reversed(actors))


def is_party(value: object) -> bool:
    """Whether a value can name a party."""
    return isinstance(value, str) and 1 <= len(value) <= MOST_PARTY and value.isprintable()


def _external_party(named_by: str | None, subject: str, issuer: str, registry: str) -> str:
    """Return the party that ``iss``, if present, and ``sub`` name."""
    return subject if named_by == registry else external_party(named_by or issuer, subject)


def _named(value: JsonValue, refusal: Refused) -> tuple[str | None, str]:
    """Read ``iss``, if present, and ``sub`` of a party; or raise the refusal."""
    if not isinstance(value, dict):
        raise refusal
    issuer, subject = value.get("iss"), value.get("sub")
    if not is_party(subject) or ("iss" in value and not is_party(issuer)):
        raise refusal
    return None if issuer is None else str(issuer), str(subject)


# -- Bearer tokens as requests carry them (RFC 6750) ------------------------------------------------------------------

WHERE = Where(Part.REQUEST, ("headers", "authorization"))
_CREDENTIALS = re.compile(r"(?i:bearer) +([A-Za-z0-9._~+/-]+=*)")
_OTHER_SCHEME = re.compile(r"(?!bearer\b)[A-Za-z0-9!#$%&'*+.^_`|~-]+(?: .*)?", re.IGNORECASE | re.DOTALL)


def parse_credentials(authorization: Sequence[str]) -> str:
    """The bearer token: exactly one header of exactly one spelling (RFC 6750 2.1).

    Args:
        authorization: the values of all ``Authorization`` headers.

    Raises:
        Refused: ``token.missing`` or ``token.invalid``.
    """
    match = _CREDENTIALS.fullmatch(authorization[0]) if len(authorization) == 1 else None
    if match:
        return match.group(1)
    if all(map(_OTHER_SCHEME.fullmatch, authorization)):
        raise Refused(Rule.TOKEN_MISSING, WHERE)
    raise Refused(Rule.TOKEN_INVALID, WHERE, "Send one header: Authorization: Bearer and the token.")


# -- The authorization server's keys: those of ``sdcard.jose``, and RSA -----------------------------------------------
# RS256 is the algorithm that all servers know (RFC 9068 2.1).
#
# RSA verifies access tokens and nothing else: no SD-Card, status list or agent card is ever checked with these keys.

MOST_BYTES = 262_144
"""Of a JWKS."""
_MOST_KEYS = 64
_SET = Where(Part.KEY)
_KEYS = _SET.within("keys")
_KEYS_DEPTH = 8
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
        raise Refused(Rule.LIMIT_BYTES, _KEYS)
    document = parse_json_object(data, _SET, _KEYS_DEPTH)
    entries = document.get("keys")
    if not isinstance(entries, list) or not 0 < len(entries) <= _MOST_KEYS:
        raise Refused(Rule.KEY_MALFORMED, _KEYS, f"A JWKS is an object with an array of 1 to {_MOST_KEYS} keys.")
    try:
        return read_key_set(document, _SET, _parse_server_key, rule=Rule.KEY_MALFORMED)
    except Refused as refusal:
        none = Finding(Rule.KEY_MALFORMED, _KEYS, "There is no key with a `kid` of its own that verifies signatures.")
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


# -- JWT access tokens (RFC 9068): verification of their text and claims ----------------------------------------------
# In two steps, since a key may have to be fetched in between: ``parse_access_token`` tells which key, and
# ``verify_access_token`` applies every rule. The caller decides what a scope permits.

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
