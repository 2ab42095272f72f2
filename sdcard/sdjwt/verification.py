"""Verification of the SD-JWT by Holder and Verifier: RFC 9901 7.1, in its order."""

from collections.abc import Callable, Collection, Generator
from typing import NamedTuple

from sdcard.encoding import JsonObject
from sdcard.errors import Part, Refused, Where
from sdcard.instants import Instant, read_numeric_date
from sdcard.jose.confirmation import parse_confirmed_key
from sdcard.jose.jws import SignatureQuestion, computed, parse_jws, verifying_jws
from sdcard.jose.keys import PublicKey
from sdcard.limits import Limits
from sdcard.names import CNF
from sdcard.rules import Rule
from sdcard.sdjwt.processing import ProcessedPayload, process_payload
from sdcard.sdjwt.seen import Reading, Seen, find, keep
from sdcard.sdjwt.values import SdJwt, sd_hash_of

CONFIRMED = Where(Part.ISSUER_JWT, (CNF, "jwk"))
"""Where the Holder's key is."""
_WHERE = Where(Part.ISSUER_JWT)


class VerifiedSdJwt(NamedTuple):
    """An SD-JWT whose signature and Disclosures are in order. Nothing is said yet about its claims.

    Attributes:
        processed: the Processed SD-JWT Payload and where each Disclosure belongs.
        sd_jwt: the text.
        known_hash: its ``sd_hash``, where it was computed before.
    """

    processed: ProcessedPayload
    sd_jwt: SdJwt
    known_hash: str | None

    def __repr__(self) -> str:
        return f"VerifiedSdJwt({self.processed!r}, …)"

    @property
    def sd_hash(self) -> str:
        """What a KB-JWT over exactly these Disclosures must name (4.3.1, R-46, R-47)."""
        return self.known_hash or sd_hash_of(self.sd_jwt, self.processed.algorithm)


def verify_sd_jwt(
    sd_jwt: SdJwt, key_for: Callable[[object, object, object], PublicKey], types: Collection[str], limits: Limits
) -> VerifiedSdJwt:
    """Steps 1 to 5: separate, signature, digests, Disclosures (R-50).

    The Issuer's key comes first (2.c): which algorithm is the right one (2.a) follows from it.

    Args:
        sd_jwt: the parsed text.
        key_for: chooses the Issuer's key by ``iss``, ``kid`` and ``alg``, and refuses an unknown Issuer (step 2.c).
        types: accepted values of the header's ``typ``.
        limits: bounds the work.

    Raises:
        Refused: ``jws.*``, ``encoding.*``, ``json.*``, ``sd.*``, ``digest.*``, ``disclosure.*``, ``limit.*``,
            and what ``key_for`` refuses with.
    """
    return computed(verifying_sd_jwt(sd_jwt, key_for, types, limits))


def verifying_sd_jwt(
    sd_jwt: SdJwt, key_for: Callable[[object, object, object], PublicKey], types: Collection[str], limits: Limits
) -> Generator[SignatureQuestion, bool, VerifiedSdJwt]:
    """As ``verify_sd_jwt``, step by step; whoever takes the steps computes the signature."""
    seen = find(sd_jwt.issuer_jwt)
    reading = seen and seen.reading_of(sd_jwt, limits)
    if seen and reading:
        jws, issuer, processed = reading.again()
        yield from verifying_jws(jws, key_for(issuer, jws.header.get("kid"), jws.header.get("alg")), types, seen.key)
        return VerifiedSdJwt(processed, reading.sd_jwt, reading.sd_hash)
    jws = parse_jws(sd_jwt.issuer_jwt, Part.ISSUER_HEADER, Part.ISSUER_JWT, limits.json_depth)
    key = key_for(jws.payload.get("iss"), jws.header.get("kid"), jws.header.get("alg"))
    yield from verifying_jws(jws, key, types, seen.key if seen else None)
    processed = process_payload(jws.payload, sd_jwt.disclosures, limits)
    keep(sd_jwt.issuer_jwt, Seen(key, Reading.of(sd_jwt, limits, jws, processed) if seen else None))
    return VerifiedSdJwt(processed, sd_jwt, None)


def check_in_clear(verified: VerifiedSdJwt, required: frozenset[str], never_selective: frozenset[str]) -> None:
    """Refuse an SD-JWT that lacks a required claim, or lets a Holder hide one that must not be hidden.

    Raises:
        Refused: ``claim.not-in-clear`` or ``claim.missing``, at the claim.
    """
    check_not_selective(verified, required, never_selective)
    check_present(verified, required)


def check_not_selective(verified: VerifiedSdJwt, required: frozenset[str], never_selective: frozenset[str]) -> None:
    """Refuse a claim that decides whether a token counts and that a Holder could withhold, in whole or in part.

    RFC 9901 9.7 (R-34); SD-JWT VC 2.2.2.2, sub-claims included (VC-5); HAIP 6.1 (HAIP-4).

    Raises:
        Refused: ``claim.not-in-clear``, at the claim.
    """
    for name in verified.processed.selective:
        if name in required or name in never_selective:
            raise Refused(Rule.CLAIM_NOT_IN_CLEAR, _WHERE.within(name))


def check_present(verified: VerifiedSdJwt, required: frozenset[str]) -> None:
    """Refuse an SD-JWT without a claim that is needed to decide: it may have been withheld. 7.1 step 6, 9.7 (R-72).

    Comes after ``check_not_selective``: a claim that is there is in the clear then.

    Raises:
        Refused: ``claim.missing``, at the claim.
    """
    claims = verified.processed.claims
    if not claims.keys() >= required:
        raise Refused(Rule.CLAIM_MISSING, _WHERE.within(min(required - claims.keys())))


def check_validity(claims: JsonObject, now: Instant, skew: int | float, audience: str | None) -> None:
    """Step 6, on the processed payload: ``exp``, ``nbf``, ``iat`` and ``aud``, where they are (R-71).

    Args:
        claims: the Processed SD-JWT Payload.
        now: the present instant.
        skew: seconds by which the Issuer's clock may differ.
        audience: who we are; an ``aud`` claim must name us. None is nobody.

    Raises:
        Refused: ``time.*``, ``audience.mismatch``, ``claim.type`` or ``claim.value``, at the claim.
    """
    check_not_expired(claims, now - skew, _WHERE)
    check_already_valid(claims, now + skew, _WHERE)
    check_already_issued(claims, now + skew, _WHERE)
    check_addressed(claims, audience, _WHERE)


def check_not_expired(claims: JsonObject, now: Instant, where: Where, hint: str = "") -> None:
    """Refuse a token from its ``exp`` on: the bound is exclusive. RFC 7519 4.1.4 (R-71, R-92).

    Raises:
        Refused: ``time.expired``; ``claim.type`` or ``claim.value`` for no NumericDate.
    """
    if "exp" in claims and now >= read_numeric_date(claims, "exp", where):
        raise Refused(Rule.EXPIRED, where.within("exp"), hint)


def check_already_valid(claims: JsonObject, now: Instant, where: Where, hint: str = "") -> None:
    """Refuse a token before its ``nbf``. RFC 7519 4.1.5 (R-71, R-92).

    Raises:
        Refused: ``time.not-yet-valid``; ``claim.type`` or ``claim.value`` for no NumericDate.
    """
    if "nbf" in claims and now < read_numeric_date(claims, "nbf", where):
        raise Refused(Rule.NOT_YET_VALID, where.within("nbf"), hint)


def check_already_issued(claims: JsonObject, now: Instant, where: Where) -> None:
    """Refuse an SD-JWT that says it is from the future. RFC 7519 4.1.6 (R-71).

    Raises:
        Refused: ``time.issued-in-future``; ``claim.type`` or ``claim.value`` for no NumericDate.
    """
    if "iat" in claims and now < read_numeric_date(claims, "iat", where):
        raise Refused(Rule.ISSUED_IN_FUTURE, where.within("iat"))


def check_lifetime(claims: JsonObject, longest: int | float) -> None:
    """Refuse an SD-JWT that its Issuer lets live for too long. The bound is inclusive. RFC 7519 4.1.4 (R-71).

    Raises:
        Refused: ``time.lifetime``, at ``issuer-jwt/exp``; ``claim.type`` or ``claim.value`` for no NumericDate.
    """
    if read_numeric_date(claims, "exp", _WHERE) - read_numeric_date(claims, "iat", _WHERE) > longest:
        raise Refused(Rule.LIFETIME, _WHERE.within("exp"), f"At most {longest} s are accepted.")


def check_addressed(claims: JsonObject, audience: str | None, where: Where) -> None:
    """Refuse an SD-JWT that names others and not us. RFC 7519 4.1.3 (R-71).

    Raises:
        Refused: ``audience.mismatch``, or ``claim.type`` when ``aud`` is neither a string nor an array of strings.
    """
    if "aud" in claims and audience not in read_audiences(claims, where):
        raise Refused(Rule.TOKEN_AUDIENCE, where.within("aud"))


def read_audiences(claims: JsonObject, where: Where) -> tuple[str, ...]:
    """Whom ``aud`` names, one string or an array of them; nobody where it is not there. RFC 7519 4.1.3.

    Raises:
        Refused: ``claim.type``, at ``where/aud``.
    """
    value = claims.get("aud", [])
    audiences = value if isinstance(value, list) else [value]
    named = tuple(one for one in audiences if isinstance(one, str))
    if len(named) < len(audiences):
        raise Refused(Rule.CLAIM_TYPE, where.within("aud"))
    return named


def parse_confirmation(claims: JsonObject) -> PublicKey:
    """``cnf`` → the Holder's key (4.1.2, 7.3 step 5.a, R-15, R-85, VC-7, HAIP-2).

    References to keys elsewhere are never followed (VC-8).

    Raises:
        Refused: ``cnf.malformed``, ``key.private``, ``key.unsupported`` or ``key.malformed``.
    """
    return parse_confirmed_key(claims.get(CNF), _WHERE.within(CNF))
