"""What Holder and Verifier alike ask of an SD-Card: trusted Issuer, sound SD-JWT, profile, times, a usable ``cnf``."""

from collections.abc import Generator
from dataclasses import dataclass
from itertools import filterfalse
from typing import NamedTuple

from sdcard.encoding import JsonObject, copied
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.instants import MAX_SKEW, Instant, is_instant, read_numeric_date
from sdcard.jose.claims import required_text
from sdcard.jose.jws import SignatureQuestion, computed
from sdcard.jose.keys import PUBLISHED_KEYS, PublicKey, check_not_published
from sdcard.limits import DEFAULT_LIMITS, Limits
from sdcard.names import NEVER_SELECTIVE, RESERVED_AT_TOP
from sdcard.profile import SD_CARD, Profile
from sdcard.rules import Rule
from sdcard.sdjwt.serialization import SdJwt
from sdcard.sdjwt.verification import (
    CONFIRMED,
    VerifiedSdJwt,
    check_in_clear,
    check_lifetime,
    check_validity,
    parse_confirmation,
    read_audiences,
    verifying_sd_jwt,
)
from sdcard.trust import TrustedIssuers

_WHERE = Where(Part.ISSUER_JWT)
_KID = Where(Part.ISSUER_HEADER, ("kid",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """Which SD-Cards are acceptable at all.

    Attributes:
        issuers: the trusted ones, with their keys.
        profile: what a well-formed SD-Card is.
        clock_skew: seconds by which an Issuer's clock may differ, at most 60.
        published_keys: thumbprints of keys that anybody can sign with; they neither issue nor hold.
        limits: bounds the work.
        max_lifetime: seconds from ``iat`` to ``exp``, at most; None: as long as the Issuer likes.
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


class IssuedSdCard(NamedTuple):
    """An SD-Card that its Issuer stands behind.

    Attributes:
        issuer, subject: ``iss`` and ``sub``.
        issued_at, expires_at: Unix seconds.
        holder_key: the key in ``cnf``.
        vct: the type that the SD-Card says it is; None where the profile lets it say none.
        not_before: ``nbf``, in Unix seconds, where it is there.
        audience: whom ``aud`` names; nobody where it is not there.
        token_id: ``jti``, where it is there.
        card_format: the claim of this name, where the SD-Card has one.
        members: the card's members that the Disclosures at hand show. Others may exist.
        verified: the SD-JWT beneath.
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
        """The same, of which nothing that can be changed is anybody else's."""
        claims = copied(self.verified.processed.claims)
        processed = self.verified.processed._replace(claims=claims)
        return self._replace(members=card_members(claims), verified=self.verified._replace(processed=processed))

    def __repr__(self) -> str:
        return f"IssuedSdCard(issuer={self.issuer!r}, subject={self.subject!r}, …)"


def read_issued(sd_jwt: SdJwt, acceptance: Acceptance, now: Instant) -> IssuedSdCard:
    """Check an SD-Card in every respect that does not depend on who presents it, and to whom (RFC 9901 7.1).

    Args:
        sd_jwt: the SD-JWT, with some or all Disclosures.
        acceptance: what is acceptable.
        now: the present instant.

    Raises:
        Refused: for the first rule that says no.
    """
    return computed(reading_issued(sd_jwt, acceptance, now, None))


def reading_issued(
    sd_jwt: SdJwt, acceptance: Acceptance, now: Instant, audience: str | None
) -> Generator[SignatureQuestion, bool, IssuedSdCard]:
    """As ``read_issued``, step by step; whoever takes the steps computes the signature.

    ``audience``: who we are, should the SD-Card have an ``aud`` claim; nobody for a Holder.
    """

    def key_for(issuer: object, kid: object, alg: object) -> PublicKey:
        key = acceptance.issuers.key_for(issuer, kid, alg)
        check_not_published(key, acceptance.published_keys, _KID)
        return key

    acceptance.issuers.check_current(now)
    verified = yield from verifying_sd_jwt(sd_jwt, key_for, acceptance.profile.accepted_types, acceptance.limits)
    check_in_clear(verified, acceptance.profile.required, NEVER_SELECTIVE)
    claims = verified.processed.claims
    check_validity(claims, now, acceptance.clock_skew, audience)
    if acceptance.max_lifetime is not None:
        check_lifetime(claims, acceptance.max_lifetime)
    _check_vct(claims, acceptance.profile)
    holder_key = parse_confirmation(claims)
    check_not_published(holder_key, acceptance.published_keys, CONFIRMED)
    return IssuedSdCard(
        issuer=_text(claims, "iss"),
        subject=_text(claims, "sub"),
        issued_at=read_numeric_date(claims, "iat", _WHERE),
        expires_at=read_numeric_date(claims, "exp", _WHERE),
        holder_key=holder_key,
        vct=_text(claims, "vct") if "vct" in claims else None,
        not_before=read_numeric_date(claims, "nbf", _WHERE) if "nbf" in claims else None,
        audience=read_audiences(claims, _WHERE),
        token_id=required_text(claims, "jti", _WHERE) if "jti" in claims else None,
        card_format=_text(claims, "card_format") if "card_format" in claims else None,
        members=card_members(claims),
        verified=verified,
    )


def card_members(claims: JsonObject) -> JsonObject:
    """What of the claims is the card's own."""
    return {name: claims[name] for name in filterfalse(RESERVED_AT_TOP.__contains__, claims)}


def _check_vct(claims: JsonObject, profile: Profile) -> None:
    """Refuse a token of another type (SDC-4, VC-3)."""
    if "vct" in claims and _text(claims, "vct") not in profile.accepted_vcts:
        raise Refused(Rule.VCT, _WHERE.within("vct"), f"Profile: {profile.name}.")


def _text(claims: JsonObject, name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str):
        raise Refused(Rule.CLAIM_TYPE, _WHERE.within(name), "The claim must be a string.")
    if not value:
        raise Refused(Rule.CLAIM_VALUE, _WHERE.within(name), "The claim must not be empty.")
    return value
