"""Unverified reading of SD-JWTs: for tools that look, never for decisions."""

from dataclasses import dataclass

from sdcard.errors import Part, Refused
from sdcard.jose.jws import Jws, parse_jws
from sdcard.limits import Limits
from sdcard.sdjwt.processing import ProcessedPayload, process_payload
from sdcard.sdjwt.serialization import SdJwt, SdJwtWithKeyBinding, parse_sd_jwt


@dataclass(frozen=True, slots=True)
class UnverifiedSdJwt:
    """The parts of an SD-JWT, every Disclosure in its place.

    No signature, time or trust was looked at.

    Attributes:
        sd_jwt: as text, without its KB-JWT.
        jws: the Issuer-signed JWT.
        processed: the Processed SD-JWT Payload.
        kb_jwt: the KB-JWT, where there is one.
    """

    sd_jwt: SdJwt
    jws: Jws
    processed: ProcessedPayload
    kb_jwt: Jws | None


def read_unverified(text: str, limits: Limits) -> UnverifiedSdJwt:
    """Read the parts as strictly as a Verifier, and verify nothing.

    Raises:
        Refused: ``sd-jwt.format``, ``limit.*``, ``jws.format``, ``jws.header``, ``encoding.*``, ``json.*``, ``sd.*``,
            ``digest.*`` or ``disclosure.*``.
        Misuse: for something that is no text.
    """
    arrived = parse_sd_jwt(text, limits)
    sd_jwt = arrived.sd_jwt if isinstance(arrived, SdJwtWithKeyBinding) else arrived
    jws = parse_jws(sd_jwt.issuer_jwt, Part.ISSUER_HEADER, Part.ISSUER_JWT, limits.json_depth)
    processed = process_payload(jws.payload, sd_jwt.disclosures, limits)
    kb_jwt = None
    if isinstance(arrived, SdJwtWithKeyBinding):
        kb_jwt = parse_jws(arrived.kb_jwt, Part.KB_HEADER, Part.KB_JWT, limits.json_depth)
    return UnverifiedSdJwt(sd_jwt, jws, processed, kb_jwt)


def read_nonce(text: str, limits: Limits) -> str | None:
    """Return the nonce of a KB-JWT, to find its challenge; None without one.

    A Verifier says what is wrong with the presentation; here, nothing is.
    """
    try:
        arrived = parse_sd_jwt(text, limits)
        if isinstance(arrived, SdJwt):
            return None
        nonce = parse_jws(arrived.kb_jwt, Part.KB_HEADER, Part.KB_JWT, limits.json_depth).payload.get("nonce")
    except Refused:
        return None
    return nonce if isinstance(nonce, str) and nonce.strip() else None
