"""Trust lists: trusted Issuers and their keys, signed with a pinned key.

A compact JWS of its own ``typ``. It is the trust document of ``sdcard.trust`` as a payload, with ``iat`` and ``exp``;
with it and the pinned key, a Verifier verifies SD-Cards offline until it expires. A list that was replaced is good
until then: only its lifetime bounds for how long an old one can be passed off as the present one.
"""

from collections.abc import Sequence

from sdcard.encoding import JsonValue
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.instants import MAX_SKEW, Instant, check_instant, parse_numeric_date
from sdcard.jose.claims import check_addressed, check_already_valid
from sdcard.jose.jws import encode_signing_input, join_signature, parse_jws, verify_jws
from sdcard.jose.keys import PublicKey
from sdcard.jose.signer import Signer
from sdcard.limits import DEFAULT_LIMITS, Limits
from sdcard.rules import Rule
from sdcard.trust import TrustedIssuers, encode_trusted_issuers, read_trusted_issuers

TYP = "sdcard-trust+jwt"
MOST_BYTES = 1_048_576

_WHERE = Where(Part.TRUST)


def issue_trust_list(issuers: TrustedIssuers, signer: Signer, issued_at: int, expires_at: int) -> str:
    """Trusted Issuers → compact JWS.

    Args:
        issuers: trusted Issuers; not after their own expiry.
        signer: holds a key that signs nothing else.
        issued_at: Unix seconds.
        expires_at: likewise.

    Raises:
        Misuse: for a list that would live no time, or longer than what it is made of.
    """
    if check_instant(expires_at) <= check_instant(issued_at):
        raise Misuse("a trust list lives for some time")
    if not issuers.is_current(expires_at - 1):
        raise Misuse("a trust list expires no later than the trust document that it is made of")
    key = signer.public_key
    header: dict[str, JsonValue] = {"alg": key.algorithm.value, "typ": TYP, "kid": key.thumbprint}
    claims = encode_trusted_issuers(issuers) | {"iat": issued_at, "exp": expires_at}
    signing_input = encode_signing_input(header, claims)
    return join_signature(signing_input, signer.sign(signing_input))


def verify_trust_list(
    text: str, signers: Sequence[PublicKey], now: Instant, limits: Limits = DEFAULT_LIMITS
) -> TrustedIssuers:
    """Compact JWS → trusted Issuers, until the list expires.

    Args:
        text: the list.
        signers: the pinned keys; the header names one of them by its thumbprint.
        now: the present instant.
        limits: bounds the depth of the JSON.

    Raises:
        Refused: ``limit.bytes``, ``jws.…``, ``encoding.…``, ``json.…``, ``trust.signer-unknown``, ``trust.expired``,
            ``trust.malformed``, ``claim.…``, ``time.issued-in-future`` or a rule of the keys.
    """
    check_instant(now)
    if len(text) > MOST_BYTES:
        raise Refused(Rule.LIMIT_BYTES, _WHERE)
    if not text.isascii():
        raise Refused(Rule.JWS_FORMAT, _WHERE)
    jws = parse_jws(text, Part.TRUST, Part.TRUST, limits.json_depth)
    key = {signer.thumbprint: signer for signer in signers}.get(str(jws.header.get("kid")))
    if key is None:
        raise Refused(Rule.TRUST_SIGNER, _WHERE.within("kid"))
    verify_jws(jws, key, (TYP,))
    for name in ("iat", "exp"):
        if name not in jws.payload:
            raise Refused(Rule.CLAIM_MISSING, _WHERE.within(name))
    if parse_numeric_date(jws.payload["iat"], _WHERE.within("iat")) > now + MAX_SKEW:
        raise Refused(Rule.ISSUED_IN_FUTURE, _WHERE.within("iat"))
    check_addressed(jws.payload, None, _WHERE)
    check_already_valid(jws.payload, now + MAX_SKEW, _WHERE)
    issuers = read_trusted_issuers(jws.payload)
    issuers.check_current(now)
    return issuers
