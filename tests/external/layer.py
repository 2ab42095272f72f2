"""The SD-JWT layer alone, without a profile: most documents of others are no SD-Cards."""

from collections.abc import Collection

from sdcard import Acceptance, Instant, Limits, PublicKey, TrustedIssuers
from sdcard.acceptance import VerifiedSdJwt, check_terms
from sdcard.encoding import JsonObject
from sdcard.errors import Part, Where
from sdcard.jose.claims import parse_confirmed_key
from sdcard.jose.jws import parse_jws, verify_jws
from sdcard.sdjwt.model import SdJwt
from sdcard.sdjwt.verification import process_payload

NOBODY = Acceptance(issuers=TrustedIssuers({}))


def verify_sd_jwt(sd_jwt: SdJwt, key: PublicKey, types: Collection[str], limits: Limits) -> VerifiedSdJwt:
    """RFC 9901 7.1, steps 1 to 5, with this key."""
    jws = parse_jws(sd_jwt.issuer_jwt, Part.ISSUER_HEADER, Part.ISSUER_JWT, limits.json_depth)
    verify_jws(jws, key, types)
    processed = process_payload(jws.payload, sd_jwt.disclosures, limits)
    return VerifiedSdJwt(processed, sd_jwt)


def check_validity(claims: JsonObject, now: Instant, audience: str | None) -> None:
    """Step 6, without skew."""
    check_terms(claims, NOBODY, now, audience)


def holder_key_of(claims: JsonObject) -> PublicKey:
    """The key in ``cnf``."""
    return parse_confirmed_key(claims.get("cnf"), Where(Part.ISSUER_JWT, ("cnf",)))
