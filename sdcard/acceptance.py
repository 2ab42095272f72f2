"""Verification of an SD-Card without its KB-JWT, for Holders and Verifiers.

``check_issued`` applies RFC 9901 7.1 in order, the profile, and the rules for ``cnf``. With a ``VerificationCache``, a
stored SD-Card is not parsed again. Trust, times, ``aud`` and published keys are checked at every call.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from itertools import filterfalse
from typing import NamedTuple

from sdcard import acceleration
from sdcard.acceleration import REQUIRED
from sdcard.encoding import JsonObject, JsonValue, encode_json
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.instants import MAX_SKEW, Instant, is_instant, read_numeric_date
from sdcard.issuer_checks import are_checks, check_codes, missing_checks, read_issuer_checks
from sdcard.jose.claims import (
    check_addressed,
    check_already_issued,
    check_already_valid,
    check_not_expired,
    parse_confirmed_key,
    read_audiences,
    required_text,
)
from sdcard.jose.jws import Batch, parse_jws, verify_jws
from sdcard.jose.keys import PUBLISHED_KEYS, PublicKey, check_not_published, p256_key
from sdcard.limits import DEFAULT_LIMITS, Limits
from sdcard.profile import CNF, ISSUER_CHECKS, NEVER_SELECTIVE, RESERVED_AT_TOP, SD_CARD, Profile
from sdcard.rules import Rule
from sdcard.sdjwt.model import SdJwt
from sdcard.sdjwt.verification import ProcessedPayload, ReadPayload, process_payload
from sdcard.trust import TrustedIssuers
from sdcard.verification_cache import VerificationCache

_WHERE = Where(Part.ISSUER_JWT)
_CNF = Where(Part.ISSUER_JWT, (CNF,))
_KEY = Where(Part.ISSUER_JWT, (CNF, "jwk"))
_KID = Where(Part.ISSUER_HEADER, ("kid",))
_ENTRY_BYTES = 4_000
"""Fixed size of a cache entry."""
_DISCLOSURE_BYTES = 500
_VALUE_BYTES = 110
"""Sizes of Python objects: of a Disclosure, and of a comma, colon or bracket of JSON. They are upper bounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """The terms on which a Holder or Verifier accepts an SD-Card.

    Attributes:
        issuers: the trusted Issuers, with their keys.
        profile: the requirements for a well-formed SD-Card.
        clock_skew: permitted difference of an Issuer's clock in seconds, at most 60.
        published_keys: thumbprints of keys that anyone can sign with. They are refused as Issuer and Holder keys.
        max_lifetime: the most seconds from ``iat`` to ``exp``; None for no bound.
        required_checks: codes of checks that the Issuer must confirm, such as ``domain``.
    """

    issuers: TrustedIssuers
    profile: Profile = SD_CARD
    clock_skew: int | float = 0
    published_keys: frozenset[str] = PUBLISHED_KEYS
    limits: Limits = DEFAULT_LIMITS
    max_lifetime: int | float | None = None
    required_checks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.clock_skew, str | bool) or not 0 <= self.clock_skew <= MAX_SKEW:
            raise Misuse(f"a clock skew is 0 to {MAX_SKEW} seconds")
        if self.max_lifetime is not None and (not is_instant(self.max_lifetime) or not self.max_lifetime):
            raise Misuse("a longest lifetime is a number of seconds above 0")
        check_codes(self.required_checks)


class VerifiedSdJwt(NamedTuple):
    """An SD-JWT with a valid signature and valid Disclosures.

    Its claims are not checked.

    Attributes:
        processed: the Processed SD-JWT Payload and the place of each Disclosure.
    """

    processed: ProcessedPayload
    sd_jwt: SdJwt

    @property
    def sd_hash(self) -> str:
        """The digest that the KB-JWT must name (4.3.1, R-46, R-47)."""
        return self.processed.sd_hash(self.sd_jwt)

    def __repr__(self) -> str:
        return f"VerifiedSdJwt({self.processed!r}, …)"


class IssuedSdCard(NamedTuple):
    """An SD-Card that a trusted Issuer signed.

    Attributes:
        issuer, subject: ``iss`` and ``sub``.
        issued_at, expires_at: Unix seconds.
        holder_key: the key in ``cnf``.
        vct: the type of the SD-Card; None if absent.
        not_before: ``nbf``, in Unix seconds; None if absent.
        audience: the names in ``aud``; empty if absent.
        token_id: ``jti``; None if absent.
        card_format: the claim of this name; None if absent.
        status: the claim of this name, or nothing.
        issuer_checks: the codes in the claim of this name; None if absent.
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
    status: tuple[JsonValue, ...]
    issuer_checks: tuple[str, ...] | None
    verified: VerifiedSdJwt

    @property
    def members(self) -> JsonObject:
        """The card's members that these Disclosures show."""
        return card_members(self.verified.processed.claims)

    def terms(self) -> JsonObject:
        """Return the claims whose check depends on the call: times and ``aud``."""
        terms: JsonObject = {"iat": self.issued_at, "exp": self.expires_at}
        if self.not_before is not None:
            terms["nbf"] = self.not_before
        if self.audience:
            terms["aud"] = [*self.audience]
        return terms

    def copied(self) -> "IssuedSdCard":
        """Return a copy that shares no JSON object with this one."""
        return self._replace(verified=self.verified._replace(processed=self.verified.processed.copied()))

    def __repr__(self) -> str:
        return f"IssuedSdCard(issuer={self.issuer!r}, subject={self.subject!r}, …)"


class _CacheEntry(NamedTuple):
    """A verified SD-Card, and the header that selected its Issuer's key."""

    header: JsonObject
    issuer_key: PublicKey
    issued: IssuedSdCard

    def __repr__(self) -> str:
        return f"_CacheEntry({self.issued!r})"


def check_issued(
    sd_jwt: SdJwt,
    acceptance: Acceptance,
    now: Instant,
    audience: str | None,
    cache: VerificationCache | None = None,
    batch: Batch | None = None,
    likely: PublicKey | None = None,
) -> IssuedSdCard:
    """Apply RFC 9901 7.1 and the profile to an SD-Card, in order.

    No rule depends on the presenter (R-50). The Issuer's key (2.c) is selected first, because it determines the
    algorithm (2.a). A caller that passes a cache must not change the JSON objects in the result.

    Args:
        audience: the Verifier, which an ``aud`` claim must name; None for a Holder.
        cache: as for ``check_presentation``.
        batch: verifies the signature later.
        likely: the key that ``cnf`` should have; another one is no mistake here.

    Raises:
        Refused: for the first rule that is broken.
    """
    issuers = acceptance.issuers
    issuers.check_current(now)
    entry = None if cache is None else _entry_of(sd_jwt, acceptance)
    known: _CacheEntry | None = cache.find(entry) if cache is not None else None
    if known is not None and issuers.key_for(known.issued.issuer, known.header, now) == known.issuer_key:
        issued = _check_again(known, acceptance, now, audience)
    else:
        limits = acceptance.limits
        if batch is None:
            native = None if likely is None else likely._native
            read = acceleration.read_sd_jwt(*sd_jwt, limits.json_depth, limits.digests, native)
        else:
            read = batch.read()
        made = None if read is None else _accept(read, sd_jwt, acceptance, now, audience, batch, likely)
        made = made or _check_rules(sd_jwt, acceptance, now, audience, cache, batch)
        issued = made[2]
        if cache is not None:
            cache.store(entry, _CacheEntry(*made), _size_of(issued))
    required = acceptance.required_checks
    if required and (missing := missing_checks(issued.issuer_checks, required)):
        raise Refused.because(missing)
    return issued


def is_known(sd_jwt: SdJwt, acceptance: Acceptance, cache: VerificationCache | None) -> bool:
    """Whether a cache has the SD-Card."""
    return cache is not None and cache.find(_entry_of(sd_jwt, acceptance)) is not None


def _entry_of(sd_jwt: SdJwt, acceptance: Acceptance) -> Hashable:
    return sd_jwt.issuer_jwt, sd_jwt.disclosures, acceptance.profile, acceptance.limits


def _accept(
    read: acceleration.SdJwt,
    sd_jwt: SdJwt,
    acceptance: Acceptance,
    now: Instant,
    audience: str | None,
    batch: Batch | None,
    likely: PublicKey | None,
) -> tuple[JsonObject, PublicKey, IssuedSdCard] | None:
    """Check an SD-Card with the kernel. None: it declines, and Python decides.

    Raises:
        Refused: for the Issuer or a published key, as ``check_issued``.
    """
    profile, skew = acceptance.profile, acceptance.clock_skew
    issuer, header = read.origin
    if header.get("typ") not in profile.accepted_types or not profile.required <= REQUIRED:
        return None
    key, published = acceptance.issuers.key_for(issuer, header, now), acceptance.published_keys
    if key.thumbprint in published:
        check_not_published(key, published, _KID)
    queue = None if batch is None else batch.queue
    native = key._native
    if native is None:
        return None
    found = read.accept(native, now - skew, now + skew, acceptance.max_lifetime, audience, queue)
    if found is None:
        return None
    vct, (codes, x, y, key_in_cnf, thumbprint, hidden, emptied) = found[4], found[10:]
    if vct not in profile.accepted_vcts or not (codes is None or are_checks(codes)):
        return None
    if likely is not None and likely.thumbprint == thumbprint:
        holder_key = likely
    else:
        holder_key = p256_key(x, y, key_in_cnf, thumbprint)
    if thumbprint in published:
        check_not_published(holder_key, published, _KEY)
    verified = VerifiedSdJwt(ReadPayload(read, sd_jwt.disclosures, hidden, emptied), sd_jwt)
    checks = None if codes is None else tuple(codes)
    issued = IssuedSdCard._make((*found[:4], holder_key, *found[4:10], checks, verified))
    return header, key, issued


def _check_rules(
    sd_jwt: SdJwt,
    acceptance: Acceptance,
    now: Instant,
    audience: str | None,
    cache: VerificationCache | None,
    batch: Batch | None,
) -> tuple[JsonObject, PublicKey, IssuedSdCard]:
    """Apply every rule in order. The profile accepts ``vct`` (SDC-4, VC-3)."""
    profile, limits = acceptance.profile, acceptance.limits
    jws = parse_jws(sd_jwt.issuer_jwt, Part.ISSUER_HEADER, Part.ISSUER_JWT, limits.json_depth)
    key = acceptance.issuers.key_for(jws.payload.get("iss"), jws.header, now)
    check_not_published(key, acceptance.published_keys, _KID)
    verify_jws(jws, key, profile.accepted_types, batch)
    processed = process_payload(jws.payload, sd_jwt.disclosures, limits)
    claims = processed.claims
    check_in_clear(processed, profile.required)
    check_terms(claims, acceptance, now, audience)
    if "vct" in claims and check_text(claims, "vct") not in profile.accepted_vcts:
        raise Refused(Rule.VCT, _WHERE.within("vct"), f"Profile: {profile.name}.")
    holder_key = parse_confirmed_key(claims.get(CNF), _CNF, cache)
    check_not_published(holder_key, acceptance.published_keys, _KEY)
    issued = IssuedSdCard(
        issuer=check_text(claims, "iss"),
        subject=check_text(claims, "sub"),
        issued_at=read_numeric_date(claims, "iat", _WHERE),
        expires_at=read_numeric_date(claims, "exp", _WHERE),
        holder_key=holder_key,
        vct=check_text(claims, "vct") if "vct" in claims else None,
        not_before=read_numeric_date(claims, "nbf", _WHERE) if "nbf" in claims else None,
        audience=read_audiences(claims, _WHERE) if "aud" in claims else (),
        token_id=required_text(claims, "jti", _WHERE) if "jti" in claims else None,
        card_format=check_text(claims, "card_format") if "card_format" in claims else None,
        status=(claims["status"],) if "status" in claims else (),
        issuer_checks=read_issuer_checks(claims) if ISSUER_CHECKS in claims else None,
        verified=VerifiedSdJwt(processed, sd_jwt),
    )
    return jws.header, key, issued


def _size_of(issued: IssuedSdCard) -> int:
    """Estimate the bytes of a cache entry; usual SD-Cards take half of it.

    A character of JSON can take four bytes, because Python stores a text as wide as its widest character. What the
    kernel read takes less, until it becomes Python objects.
    """
    processed, sd_jwt = issued.verified
    texts = len(sd_jwt.issuer_jwt) + sum(map(len, sd_jwt.disclosures))
    fixed = _ENTRY_BYTES + 2 * texts + _DISCLOSURE_BYTES * len(sd_jwt.disclosures)
    if processed.kernel is not None:
        return fixed + 4 * processed.kernel.size
    json = encode_json(processed.claims)
    return fixed + 5 * len(json) + _VALUE_BYTES * sum(map(json.count, b",:{["))


def _check_again(known: _CacheEntry, acceptance: Acceptance, now: Instant, audience: str | None) -> IssuedSdCard:
    """Check a stored SD-Card against terms that may have changed, in the same order."""
    check_not_published(known.issuer_key, acceptance.published_keys, _KID)
    check_terms(known.issued.terms(), acceptance, now, audience)
    check_not_published(known.issued.holder_key, acceptance.published_keys, _KEY)
    return known.issued


def check_in_clear(processed: ProcessedPayload, required: frozenset[str]) -> None:
    """Refuse an SD-JWT that lacks or can hide a required claim.

    A Holder may withhold no part of a claim that is needed for verification: RFC 9901 9.7 (R-34); SD-JWT VC 2.2.2.2,
    sub-claims included (VC-5); HAIP 6.1 (HAIP-4). An absent required claim is refused: 7.1 step 6, 9.7 (R-72).

    Raises:
        Refused: ``claim.not-in-clear`` or ``claim.missing``, at the claim.
    """
    for name in processed.selective:
        if name in required or name in NEVER_SELECTIVE:
            raise Refused(Rule.CLAIM_NOT_IN_CLEAR, _WHERE.within(name))
    if not processed.claims.keys() >= required:
        raise Refused(Rule.CLAIM_MISSING, _WHERE.within(min(required - processed.claims.keys())))


def check_terms(claims: JsonObject, acceptance: Acceptance, now: Instant, audience: str | None) -> None:
    """Check times and ``aud`` of the processed payload (step 6, R-71).

    The longest lifetime is inclusive. The result depends on ``now``, so it is never cached.

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


def check_text(claims: JsonObject, name: str) -> str:
    """Return a claim that is a text and not empty.

    Raises:
        Refused: ``claim.type`` or ``claim.value``, at the claim.
    """
    value = claims.get(name)
    if not isinstance(value, str):
        raise Refused(Rule.CLAIM_TYPE, _WHERE.within(name), "The claim must be a string.")
    if not value:
        raise Refused(Rule.CLAIM_VALUE, _WHERE.within(name), "The claim must not be empty.")
    return value
