"""OAuth access tokens (RFC 9068, RFC 6750) and their actors (RFC 8693).

Verification has two steps, because a key may have to be fetched between them: ``parse_access_token`` returns the
``kid``, and ``verify_access_token`` applies every rule. The caller decides what a scope permits.

Every authorization server supports RS256 (RFC 9068 2.1), so RSA keys are accepted here, and only here.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, RSAPublicNumbers
from cryptography.hazmat.primitives.hashes import SHA256

from sdcard.encoding import JsonObject, JsonValue, decode_base64url, encode_base64url, encode_json, parse_json_object
from sdcard.errors import Finding, Misuse, Part, Refused, Where, foreign_code
from sdcard.instants import MAX_SKEW, Instant, parse_numeric_date
from sdcard.jose.claims import (
    check_addressed,
    check_already_issued,
    check_already_valid,
    check_not_expired,
    required,
    required_text,
)
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
"""Actors of a token. It fits the depth bound on its JSON."""

EXTERNAL = "jwt:"
"""Prefix of the name of an external Issuer's subject. No subject of a registry's own tokens has it."""

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
    """Read the actors of an external Issuer's token, the first actor first.

    ``iss`` and ``sub`` name an actor. Without ``iss`` it is an actor of the token's Issuer, so its name never equals a
    name of the registry's own. Other members are ignored (RFC 8693 4.1).

    Args:
        issuer: the token's ``iss``.
        registry: the registry's ``iss``, whose parties keep their names.

    Raises:
        Refused: ``delegation.act``, at an ``act`` that is not an object, names no party, or nests too deeply.
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
        issuer: its ``iss``.
        registry: the registry's ``iss``.
        names: the names of the actor. Without ``iss``, ``may_act`` may use the registry's name for it.

    Raises:
        Refused: ``delegation.may-act``, at ``access-token/may_act``, also for a malformed claim.
    """
    if "may_act" not in claims:
        return
    named, refusal = claims["may_act"], Refused(Rule.DELEGATION_MAY_ACT, _MAY_ACT)
    issuer_of, subject = _named(named, refusal)
    permitted = {_external_party(issuer_of, subject, issuer, registry)} | ({subject} if issuer_of is None else set())
    if permitted.isdisjoint(names):
        raise refusal


def external_party(issuer: str, subject: str) -> str:
    """Build the name of an external Issuer's subject."""
    return f"{EXTERNAL}{issuer} {subject}"


def read_actors(claims: Mapping[str, JsonValue], party: Callable[[JsonObject, Where], str]) -> tuple[str, ...]:
    """Read the actors of nested ``act`` claims, the innermost first."""
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
    """Read ``iss``, if present, and ``sub`` of a party; raise the refusal on failure."""
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


QUOTES = tuple("\"'`\u201c\u201d\u2018\u2019")


def parse_credentials(authorization: Sequence[str]) -> str:
    """Read the bearer token of exactly one ``Authorization`` header (RFC 6750 2.1).

    Args:
        authorization: every value of the header.

    Raises:
        Refused: ``token.missing`` or ``token.invalid``.
    """
    match = _CREDENTIALS.fullmatch(authorization[0]) if len(authorization) == 1 else None
    if match:
        return match.group(1)
    if all(map(_OTHER_SCHEME.fullmatch, authorization)):
        raise Refused(Rule.TOKEN_MISSING, WHERE)
    raise Refused(Rule.TOKEN_INVALID, WHERE, "Send one header: Authorization: Bearer and the token.")


def check_token(token: str) -> str:
    """Return a bearer token that a header can carry.

    Raises:
        Misuse: for another text, with what to remove. The token is not shown.
    """
    if token.lower().startswith("bearer "):
        raise Misuse("the bearer token begins with `Bearer `: give the token alone")
    if token[:1] in QUOTES or token[-1:] in QUOTES:
        raise Misuse("the bearer token has quotes around it: give the token alone")
    if any(one.isspace() for one in token):
        raise Misuse("the bearer token has white space in it: give one token, on one line")
    if not token or not token.isascii() or not token.isprintable():
        raise Misuse("the bearer token is empty or has other than printable ASCII characters")
    return token


# -- The authorization server's keys (RFC 7517) -----------------------------------------------------------------------

MOST_BYTES = 262_144
"""Bytes of a JWK Set."""
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
        """Whether the key made this signature over the message (RFC 7518 3.3)."""
        try:
            self._key.verify(signature, message, PKCS1v15(), SHA256())
        except LIBRARY_FAILS:  # what cannot be verified is not verified
            return False
        return True


ServerKey: TypeAlias = PublicKey | RsaKey


def parse_server_keys(data: bytes) -> KeySet[ServerKey]:
    """Parse an authorization server's JWK Set (RFC 7517 5).

    Entries are independent. Unusable ones are left out: no signature key of a known type, no ``kid``, a published key,
    or a private key.

    Raises:
        Refused: ``limit.bytes``, ``key.malformed``, ``encoding.*`` or ``json.*`` for a malformed or empty set; all
            reasons when no entry is usable.
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
        none = Finding(Rule.KEY_MALFORMED, _KEYS, "There is no usable key with a unique `kid`.")
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
    """Parse an RSA key with exponent 65537 (RFC 7518 6.3.1).

    Its size is bounded, because a short key is weak and a long one costs much work.
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
    with foreign_code(Refused, Rule.KEY_MALFORMED, where, "This is not an RSA key."):
        key = RSAPublicNumbers(e, n).public_key()
    return RsaKey(key, thumbprint)


def _number(text: object, where: Where) -> int:
    """Decode a Base64urlUInt without a leading zero byte (RFC 7518 2)."""
    data = decode_base64url(text, where) if isinstance(text, str) else b""
    if not data or data.startswith(b"\0"):
        raise Refused(Rule.KEY_MALFORMED, where, "A number in base64url is expected, without leading zeros.")
    return int.from_bytes(data, "big")


# -- JWT access tokens (RFC 9068) -------------------------------------------------------------------------------------

TYPES = ("at+jwt", "application/at+jwt")
"""Values of ``typ`` that tell an access token from an ID token of the same server (RFC 9068 4)."""

_MOST_CHARACTERS = 16_384
_DEPTH = 16
_WHERE = Where(Part.ACCESS_TOKEN)
_COMPACT = re.compile(r"[^.]*\.[^.]*\.[^.]*")


@dataclass(frozen=True, slots=True)
class AccessToken:
    """Claims of an access token of an authorization server.

    Attributes:
        issuer: the server's ``iss``.
        subject: ``sub``; not blank, and unique within this Issuer only.
        client_id: the client that requested the token.
        token_id: ``jti``.
        scopes: of any resource server.
        issued_at, expires_at: Unix seconds; ``expires_at`` is exclusive.
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
    """Parse an access token without verifying it.

    Raises:
        Refused: ``limit.bytes``, ``jws.format``, ``jws.header``, ``jws.typ``, ``encoding.*`` or ``json.*``.
    """
    if len(text) > _MOST_CHARACTERS:
        raise Refused(Rule.LIMIT_BYTES, _WHERE)
    jws = parse_jws(text, Part.ACCESS_TOKEN, Part.ACCESS_TOKEN, _DEPTH)
    check_type(jws, TYPES)
    return jws


def verify_access_token(token: Jws, key: ServerKey, issuer: str, audience: str, now: Instant) -> AccessToken:
    """Apply every rule of RFC 9068 4 and 2.2.

    Args:
        key: the server's key with the token's ``kid``.
        issuer: the server's ``iss``, compared exactly.
        audience: this resource server's name in ``aud``.
        now: the present instant. ``exp`` is exact; ``iat`` and ``nbf`` have ``MAX_SKEW``.

    Raises:
        Refused: ``jws.alg``, ``jws.crit``, ``jws.signature``, ``issuer.unknown``, ``audience.mismatch``, ``claim.*``,
            ``time.*``, ``delegation.act``, ``delegation.may-act``; at ``access-token/…``.
    """
    verify_jws(token, key, TYPES)
    claims = token.payload
    if _text(claims, "iss") != issuer:
        raise Refused(Rule.ISSUER_UNKNOWN, _WHERE.within("iss"))
    required(claims, "aud", _WHERE)
    check_addressed(claims, audience, _WHERE)
    expires_at, issued_at = (
        parse_numeric_date(required(claims, name, _WHERE), _WHERE.within(name)) for name in ("exp", "iat")
    )
    check_not_expired(claims, now, _WHERE)
    check_already_issued(claims, now + MAX_SKEW, _WHERE)
    check_already_valid(claims, now + MAX_SKEW, _WHERE)
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


def _scopes(claims: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """Split ``scope`` at spaces (RFC 8693 4.2)."""
    scope = claims.get("scope", "")
    if not isinstance(scope, str):
        raise Refused(Rule.CLAIM_TYPE, _WHERE.within("scope"))
    return tuple(scope.split(" ")) if scope else ()


def _text(claims: Mapping[str, JsonValue], name: str) -> str:
    value = required_text(claims, name, _WHERE)
    if not value:
        raise Refused(Rule.CLAIM_TYPE, _WHERE.within(name))
    return value
