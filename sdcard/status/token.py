"""Status List Tokens: a signed status list (Token Status List 5 and 8.3)."""

from dataclasses import dataclass, field

from sdcard.encoding import JsonObject
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.instants import Instant, check_instant, parse_numeric_date
from sdcard.jose.claims import check_addressed, check_already_valid, required
from sdcard.jose.jws import encode_signing_input, join_signature, parse_jws, verify_jws
from sdcard.jose.keys import PublicKey
from sdcard.jose.signer import Signer
from sdcard.limits import Limits
from sdcard.rules import Rule
from sdcard.status.status_list import StatusList, parse_status_list

TYP = "statuslist+jwt"
MEDIA_TYPE = "application/statuslist+jwt"

_WHERE = Where(Part.STATUS_LIST)


@dataclass(frozen=True, slots=True)
class StatusListToken:
    """A verified Status List Token.

    Attributes:
        uri: the list's own name, ``sub``.
        issued_at: Unix seconds.
        expires_at: exclusive; None where the token does not say.
        ttl: for how many seconds after it was fetched the token may be used; None where it does not say.
        statuses: the list.
    """

    uri: str
    issued_at: Instant
    expires_at: Instant | None
    ttl: int | float | None
    statuses: StatusList = field(repr=False)


def issue_status_list_token(
    statuses: StatusList, uri: str, signer: Signer, issued_at: int, ttl: int, expires_at: int
) -> str:
    """Status list → compact JWS.

    Args:
        statuses: the list.
        uri: where Verifiers fetch it, exactly as SD-Cards refer to it (TSL-7).
        signer: holds a key that signs nothing else.
        issued_at, expires_at: Unix seconds.
        ttl: seconds for which a Verifier may keep it.

    Raises:
        Misuse: for a token that would live no time.
    """
    if ttl < 1 or check_instant(expires_at) <= check_instant(issued_at):
        raise Misuse("a Status List Token lives for some time")
    key = signer.public_key
    header: JsonObject = {"alg": key.algorithm.value, "typ": TYP, "kid": key.thumbprint}
    claims: JsonObject = {
        "sub": uri,
        "iat": issued_at,
        "exp": expires_at,
        "ttl": ttl,
        "status_list": statuses.to_claim(),
    }
    signing_input = encode_signing_input(header, claims)
    return join_signature(signing_input, signer.sign(signing_input))


def verify_status_list_token(
    text: str, uri: str, key: PublicKey, now: Instant, limits: Limits, clock_skew: int | float = 0
) -> StatusListToken:
    """Text → token, in the order of Token Status List 8.3 (TSL-5 to TSL-8).

    Args:
        text: as fetched.
        uri: of the SD-Card's reference; the token must be about exactly this list.
        key: the one that signs this Issuer's status lists.
        now: the present instant.
        limits: bounds the size of text and list.
        clock_skew: seconds that ``iat`` may lie ahead: a list may be made after ``now`` was read.

    Raises:
        Refused: ``jws.…``, ``encoding.…``, ``json.…``, ``claim.…``, ``status-list.…``, ``time.…`` or ``limit.bytes``.
    """
    if len(text) > 2 * limits.status_list_bytes:
        raise Refused(Rule.LIMIT_BYTES, _WHERE)
    if not text.isascii():
        raise Refused(Rule.JWS_FORMAT, _WHERE)
    jws = parse_jws(text, Part.STATUS_LIST, Part.STATUS_LIST, limits.json_depth)
    verify_jws(jws, key, (TYP,))
    claims = jws.payload
    _check_subject(claims, uri)
    check_addressed(claims, None, _WHERE)
    check_already_valid(claims, now + clock_skew, _WHERE)
    issued_at = parse_numeric_date(required(claims, "iat", _WHERE), _WHERE.within("iat"))
    if issued_at > now + clock_skew:
        raise Refused(Rule.ISSUED_IN_FUTURE, _WHERE.within("iat"))
    return StatusListToken(
        uri=uri,
        issued_at=issued_at,
        expires_at=_expiry(claims, now),
        ttl=_ttl(claims),
        statuses=parse_status_list(
            required(claims, "status_list", _WHERE), _WHERE.within("status_list"), limits.status_list_bytes
        ),
    )


def _check_subject(claims: JsonObject, uri: str) -> None:
    """Another list of the same Issuer says nothing about this SD-Card (TSL-7)."""
    if required(claims, "sub", _WHERE) != uri:
        raise Refused(Rule.STATUS_LIST_OTHER, _WHERE.within("sub"))


def _expiry(claims: JsonObject, now: Instant) -> Instant | None:
    """``exp``, exclusive, where there is one (TSL-11)."""
    if "exp" not in claims:
        return None
    expires_at = parse_numeric_date(claims["exp"], _WHERE.within("exp"))
    if now >= expires_at:
        raise Refused(Rule.EXPIRED, _WHERE.within("exp"))
    return expires_at


def _ttl(claims: JsonObject) -> int | float | None:
    """``ttl``: a positive number of seconds, where there is one (TSL-6)."""
    if "ttl" not in claims:
        return None
    ttl = parse_numeric_date(claims["ttl"], _WHERE.within("ttl"))
    if ttl <= 0:
        raise Refused(Rule.CLAIM_VALUE, _WHERE.within("ttl"), "A positive number of seconds is expected.")
    return ttl
