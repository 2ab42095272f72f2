"""Check an SD-Card as Holder and Verifier both do.

``check_issued`` applies RFC 9901 7.1 in its order, the profile, and the rules for ``cnf``. With a
``VerificationCache``, an SD-Card that passed before is not parsed again; trust, times, ``aud`` and published keys are
still checked at every call.
"""

from dataclasses import dataclass
from itertools import filterfalse
from typing import NamedTuple

from sdcard.encoding import JsonObject, copied, encode_json
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.instants import MAX_SKEW, Instant, is_instant, read_numeric_date
from sdcard.jose.claims import (
    check_addressed,
    check_already_issued,
    check_already_valid,
    check_not_expired,
    parse_confirmed_key,
    read_audiences,
    required_text,
)
from sdcard.jose.jws import SignatureCheck, parse_jws, verify_jws
from sdcard.jose.keys import PUBLISHED_KEYS, PublicKey, check_not_published
from sdcard.limits import DEFAULT_LIMITS, Limits
from sdcard.profile import CNF, NEVER_SELECTIVE, RESERVED_AT_TOP, SD_CARD, Profile
from sdcard.rules import Rule
from sdcard.sdjwt.model import SdJwt
from sdcard.sdjwt.verification import ProcessedPayload, process_payload
from sdcard.trust import TrustedIssuers
from sdcard.verification_cache import VerificationCache

_WHERE = Where(Part.ISSUER_JWT)
_CNF = Where(Part.ISSUER_JWT, (CNF,))
_KEY = Where(Part.ISSUER_JWT, (CNF, "jwk"))
_KID = Where(Part.ISSUER_HEADER, ("kid",))
_ENTRY_BYTES = 4_000
"""Bytes of a cache entry that do not grow with the SD-Card."""
_DISCLOSURE_BYTES = 500
_VALUE_BYTES = 100
"""Bytes of the objects for a Disclosure, and for a comma, colon or bracket of JSON: a bound for every kind of value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """The terms on which a Holder or Verifier accepts an SD-Card.

    Attributes:
        issuers: the trusted ones, with their keys.
        profile: what a well-formed SD-Card is.
        clock_skew: seconds that an Issuer's clock may differ, at most 60.
        published_keys: thumbprints of keys that anyone can sign with; they neither issue nor hold.
        limits: bounds the work.
        max_lifetime: the most seconds from ``iat`` to ``exp``; None for no bound.
    """

    issuers: TrustedIssuers
    profile: Profile = SD_CARD
    clock_skew: int | float = 0
    published_keys: frozenset[str] = PUBLISHED_KEYS
    limits: Limits = DEFAULT_LIMITS
    max_lifetime: int | float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.clock_skew, str | bool) or not 0 <= self.clock_skew <= MAX_SKEW:
            raise Misuse(f"a clock skew is 0 to {MAX_SKEW} seconds")
        if self.max_lifetime is not None and (not is_instant(self.max_lifetime) or not self.max_lifetime):
            raise Misuse("a longest lifetime is a number of seconds above 0")


class VerifiedSdJwt(NamedTuple):
    """An SD-JWT whose signature and Disclosures are valid.

    Its claims are not checked.

    Attributes:
        processed: the Processed SD-JWT Payload and the place of each Disclosure.
        sd_jwt: the text.
        sd_hash: the digest that a KB-JWT over exactly these Disclosures must name (4.3.1, R-46, R-47).
    """

    processed: ProcessedPayload
    sd_jwt: SdJwt
    sd_hash: str

    def __repr__(self) -> str:
        return f"VerifiedSdJwt({self.processed!r}, …)"


class IssuedSdCard(NamedTuple):
    """An SD-Card that a trusted Issuer signed.

    Attributes:
        issuer, subject: ``iss`` and ``sub``.
        issued_at, expires_at: Unix seconds.
        holder_key: the key in ``cnf``.
        vct: the type of the SD-Card; None where the profile does not require one.
        not_before: ``nbf``, in Unix seconds, where present.
        audience: the names in ``aud``; empty where it is absent.
        token_id: ``jti``, where present.
        card_format: the claim of this name, where the SD-Card has one.
        members: the card's members that these Disclosures show. Others may exist.
        verified: the SD-JWT.
    """

    issuer: str
    subject: str
    issued_at: Instant
    expires_at: Instant
    holder_key: PublicKey
    vct: str | None
    not_before: Instant | None
    audience: tuple[str, ...]
    token_id: str | None
    card_format: str | None
    members: JsonObject
    verified: VerifiedSdJwt

    def copied(self) -> "IssuedSdCard":
        """Return a copy that shares no JSON object with this one."""
        claims = copied(self.verified.processed.claims)
        processed = self.verified.processed._replace(claims=claims)
        return self._replace(members=card_members(claims), verified=self.verified._replace(processed=processed))

    def __repr__(self) -> str:
        return f"IssuedSdCard(issuer={self.issuer!r}, subject={self.subject!r}, …)"


class _Known(NamedTuple):
    """A cache entry for an SD-Card that passed every check.

    ``kid`` and ``alg`` are those of its header; ``issuer_key`` is the key that they selected.
    """

    kid: object
    alg: object
    issuer_key: PublicKey
    issued: IssuedSdCard

    def __repr__(self) -> str:
        return f"_Known({self.issued!r})"


def check_issued(
    sd_jwt: SdJwt,
    acceptance: Acceptance,
    now: Instant,
    audience: str | None,
    cache: VerificationCache | None = None,
    signature_is_valid: SignatureCheck | None = None,
) -> IssuedSdCard:
    """Apply RFC 9901 7.1 and the profile to an SD-Card, in order.

    Nothing here depends on who presents the SD-Card (R-50). The Issuer's key comes first (2.c), since the right
    algorithm (2.a) follows from it. The profile accepts ``vct`` (SDC-4, VC-3). A caller that passes a cache must not
    change the JSON objects in the result.

    Args:
        sd_jwt: the SD-JWT, with some or all Disclosures.
        acceptance, now: the terms, and the present instant.
        audience: the Verifier, which an ``aud`` claim must name; None for a Holder.
        cache, signature_is_valid: as for ``check_presentation``.

    Raises:
        Refused: for the first rule that is broken.
    """
    issuers, profile, limits = acceptance.issuers, acceptance.profile, acceptance.limits
    issuers.check_current(now)
    entry = (sd_jwt.issuer_jwt, sd_jwt.disclosures, profile, limits)
    known: _Known | None = cache.find(entry) if cache is not None else None
    if known is not None and issuers.key_for(known.issued.issuer, known.kid, known.alg) == known.issuer_key:
        return _check_again(known, acceptance, now, audience)
    jws = parse_jws(sd_jwt.issuer_jwt, Part.ISSUER_HEADER, Part.ISSUER_JWT, limits.json_depth)
    kid, alg = jws.header.get("kid"), jws.header.get("alg")
    key = issuers.key_for(jws.payload.get("iss"), kid, alg)
    check_not_published(key, acceptance.published_keys, _KID)
    verify_jws(jws, key, profile.accepted_types, signature_is_valid)
    processed = process_payload(jws.payload, sd_jwt.disclosures, limits)
    claims = processed.claims
    check_in_clear(processed, profile.required)
    check_terms(claims, acceptance, now, audience)
    if "vct" in claims and _text(claims, "vct") not in profile.accepted_vcts:
        raise Refused(Rule.VCT, _WHERE.within("vct"), f"Profile: {profile.name}.")
    holder_key = parse_confirmed_key(claims.get(CNF), _CNF, cache)
    check_not_published(holder_key, acceptance.published_keys, _KEY)
    issued = IssuedSdCard(
        issuer=_text(claims, "iss"),
        subject=_text(claims, "sub"),
        issued_at=read_numeric_date(claims, "iat", _WHERE),
        expires_at=read_numeric_date(claims, "exp", _WHERE),
        holder_key=holder_key,
        vct=_text(claims, "vct") if "vct" in claims else None,
        not_before=read_numeric_date(claims, "nbf", _WHERE) if "nbf" in claims else None,
        audience=read_audiences(claims, _WHERE) if "aud" in claims else (),
        token_id=required_text(claims, "jti", _WHERE) if "jti" in claims else None,
        card_format=_text(claims, "card_format") if "card_format" in claims else None,
        members=card_members(claims),
        verified=VerifiedSdJwt(processed, sd_jwt, processed.algorithm.digest(str(sd_jwt))),
    )
    if cache is not None:
        cache.store(entry, _Known(kid, alg, key, issued), _size_of(sd_jwt, claims))
    return issued


def _size_of(sd_jwt: SdJwt, claims: JsonObject) -> int:
    """Estimate the bytes of a cache entry; usual SD-Cards take half of it.

    One character of JSON can take four bytes of a text, since Python stores a text as wide as its widest character.
    """
    json = encode_json(claims)
    values = sum(map(json.count, b",:{["))
    texts = len(sd_jwt.issuer_jwt) + sum(map(len, sd_jwt.disclosures))
    shown = _DISCLOSURE_BYTES * len(sd_jwt.disclosures)
    return _ENTRY_BYTES + 2 * texts + 4 * len(json) + _VALUE_BYTES * values + shown


def _check_again(known: _Known, acceptance: Acceptance, now: Instant, audience: str | None) -> IssuedSdCard:
    """Check the conditions that may have changed since an SD-Card was stored.

    The order is that of ``check_issued``.
    """
    check_not_published(known.issuer_key, acceptance.published_keys, _KID)
    check_terms(known.issued.verified.processed.claims, acceptance, now, audience)
    check_not_published(known.issued.holder_key, acceptance.published_keys, _KEY)
    return known.issued


def check_in_clear(processed: ProcessedPayload, required: frozenset[str]) -> None:
    """Refuse an SD-JWT without a required claim, or with one that can be hidden.

    A Holder may withhold no part of a claim that decides whether the SD-JWT counts: RFC 9901 9.7 (R-34); SD-JWT VC
    2.2.2.2, sub-claims included (VC-5); HAIP 6.1 (HAIP-4). Then a required claim that is present is in the clear, and
    one that is absent may have been withheld: 7.1 step 6, 9.7 (R-72).

    Raises:
        Refused: ``claim.not-in-clear`` or ``claim.missing``, at the claim.
    """
    for name in processed.selective:
        if name in required or name in NEVER_SELECTIVE:
            raise Refused(Rule.CLAIM_NOT_IN_CLEAR, _WHERE.within(name))
    if not processed.claims.keys() >= required:
        raise Refused(Rule.CLAIM_MISSING, _WHERE.within(min(required - processed.claims.keys())))


def check_terms(claims: JsonObject, acceptance: Acceptance, now: Instant, audience: str | None) -> None:
    """Check times and ``aud`` of the processed payload.

    Step 6 (R-71). The result is never stored. The longest lifetime is inclusive: RFC 7519 4.1.4.

    Raises:
        Refused: ``time.*``, ``audience.mismatch``, ``claim.type`` or ``claim.value``, at the claim.
    """
    skew, longest = acceptance.clock_skew, acceptance.max_lifetime
    check_not_expired(claims, now - skew, _WHERE)
    check_already_valid(claims, now + skew, _WHERE)
    check_already_issued(claims, now + skew, _WHERE)
    check_addressed(claims, audience, _WHERE)
    if longest is not None:
        lifetime = read_numeric_date(claims, "exp", _WHERE) - read_numeric_date(claims, "iat", _WHERE)
        if lifetime > longest:
            raise Refused(Rule.LIFETIME, _WHERE.within("exp"), f"At most {longest} s are accepted.")


def card_members(claims: JsonObject) -> JsonObject:
    """Select the claims that are members of the card."""
    return {name: claims[name] for name in filterfalse(RESERVED_AT_TOP.__contains__, claims)}


def _text(claims: JsonObject, name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str):
        raise Refused(Rule.CLAIM_TYPE, _WHERE.within(name), "The claim must be a string.")
    if not value:
        raise Refused(Rule.CLAIM_VALUE, _WHERE.within(name), "The claim must not be empty.")
    return value
