"""KB-JWT verification: RFC 9901 7.3 step 5, one function a rule, in its order."""

from collections.abc import Awaitable, Generator
from typing import NamedTuple

from sdcard.encoding import JsonObject
from sdcard.errors import Part, Refused, Where
from sdcard.instants import MAX_PAST, FreshnessWindow, Instant, parse_numeric_date
from sdcard.jose.claims import required, required_text, same_text
from sdcard.jose.jws import SignatureQuestion, computed, parse_jws, verifying_jws
from sdcard.jose.keys import PublicKey
from sdcard.keybinding.challenge import MAX_NONCE_LENGTH, Answering, NonceUse, Unsolicited
from sdcard.limits import Limits
from sdcard.names import INTERACTION_ID, KB_TYP, SD_HASH
from sdcard.rules import Rule
from sdcard.sdjwt.verification import check_already_valid, check_not_expired

_KB = Where(Part.KB_JWT)
_IAT = _KB.within("iat")


class Bound(NamedTuple):
    """A KB-JWT that verified: the Holder has the key, and this is what it signed."""

    holder_key: PublicKey
    issued_at: Instant
    audience: str
    nonce: str
    interaction_id: str | None


def verify_key_binding(
    kb_jwt: str,
    holder_key: PublicKey,
    sd_hash: str,
    expected: Answering | Unsolicited,
    now: Instant,
    limits: Limits,
) -> Bound:
    """Check a KB-JWT in all respects but one: single use comes last, see ``ask_single_use``.

    Args:
        kb_jwt: what follows the SD-JWT, which the caller has verified.
        holder_key: from the ``cnf`` claim, never from the KB-JWT's header (R-49, R-85).
        sd_hash: the digest of the SD-JWT, by the algorithm that its ``_sd_alg`` names.
        expected: the Verifier's decision.
        now: the present instant.
        limits: bounds the depth of the KB-JWT's JSON.

    Raises:
        Refused: ``kb.*``, ``jws.*``, ``claim.*`` or ``time.*``, in the KB-JWT or its header.
    """
    return computed(verifying_key_binding(kb_jwt, holder_key, sd_hash, expected, now, limits))


def verifying_key_binding(
    kb_jwt: str,
    holder_key: PublicKey,
    sd_hash: str,
    expected: Answering | Unsolicited,
    now: Instant,
    limits: Limits,
) -> Generator[SignatureQuestion, bool, Bound]:
    """As ``verify_key_binding``, step by step; whoever takes the steps computes the signature."""
    jws = parse_jws(kb_jwt, Part.KB_HEADER, Part.KB_JWT, limits.json_depth)
    yield from verifying_jws(jws, holder_key, (KB_TYP,), None)
    claims = jws.payload
    issued_at = check_freshness(claims, expected.window, now)
    nonce = check_nonce(claims, expected)
    audience = check_audience(claims, expected.audience)
    check_sd_hash(claims, sd_hash)
    interaction_id = check_interaction(claims, expected.interaction_id)
    check_validity(claims, now)
    return Bound(holder_key, issued_at, audience, nonce, interaction_id)


def check_freshness(claims: JsonObject, window: FreshnessWindow, now: Instant) -> Instant:
    """Refuse a KB-JWT created too long ago, or in the future.

    The Holder chooses ``iat``, so both ends are bounded: a past value may be a replay, and a future one would
    outlive the Verifier's memory of its nonce. Both bounds are inclusive. RFC 9901 7.3 step 5.e (R-89).

    Raises:
        Refused: ``kb.stale`` or ``kb.from-future``, at ``kb-jwt/iat``.
    """
    issued_at = parse_numeric_date(required(claims, "iat", _KB), _IAT)
    if issued_at < now - window.past:
        raise Refused(Rule.KB_STALE, _IAT)
    if issued_at > now + window.future:
        raise Refused(Rule.KB_FROM_FUTURE, _IAT)
    return issued_at


def check_nonce(claims: JsonObject, expected: Answering | Unsolicited) -> str:
    """Refuse an answer to another challenge, and a nonce too long to remember. 7.3 step 5.f (R-90).

    Raises:
        Refused: ``kb.nonce-mismatch``, ``claim.type`` or ``claim.value``, at ``kb-jwt/nonce``.
    """
    nonce = _read_nonce(claims)
    if isinstance(expected, Answering) and not same_text(nonce, expected.challenge.nonce):
        raise Refused(Rule.KB_NONCE, Where(Part.KB_JWT, ("nonce",)))
    return nonce


def check_audience(claims: JsonObject, audience: str) -> str:
    """Refuse a KB-JWT for anybody else: one string, compared exactly. 7.3 step 5.f (R-44, R-90).

    Raises:
        Refused: ``kb.audience-mismatch`` or ``claim.type``, at ``kb-jwt/aud``.
    """
    if not same_text(required_text(claims, "aud", _KB), audience):
        raise Refused(Rule.KB_AUDIENCE, Where(Part.KB_JWT, ("aud",)))
    return audience


def check_sd_hash(claims: JsonObject, sd_hash: str) -> None:
    """Refuse a KB-JWT made for another set or order of Disclosures. 4.3.1, 7.3 step 5.g (R-46, R-47, R-91).

    Raises:
        Refused: ``kb.sd-hash`` or ``claim.type``, at ``kb-jwt/sd_hash``.
    """
    if not same_text(required_text(claims, SD_HASH, _KB), sd_hash):
        raise Refused(Rule.KB_SD_HASH, Where(Part.KB_JWT, (SD_HASH,)))


def check_interaction(claims: JsonObject, expected: str | None) -> str | None:
    """Refuse a KB-JWT of another interaction, when the Verifier expects one (SD-Card 5.2.2, SDC-13).

    Raises:
        Refused: ``kb.interaction-id`` or ``claim.type``, at ``kb-jwt/interaction_id``.
    """
    given = required_text(claims, INTERACTION_ID, _KB) if INTERACTION_ID in claims else None
    if expected is not None and given != expected:
        raise Refused(Rule.KB_INTERACTION, Where(Part.KB_JWT, (INTERACTION_ID,)))
    return given


def check_validity(claims: JsonObject, now: Instant) -> None:
    """Honour ``exp`` and ``nbf`` where a KB-JWT has them. 7.3 step 5.h (R-92).

    Raises:
        Refused: ``time.expired``, ``time.not-yet-valid`` or ``claim.type``.
    """
    check_not_expired(claims, now, _KB, "The KB-JWT has expired.")
    check_already_valid(claims, now, _KB, "The KB-JWT is not valid yet.")


def ask_single_use(bound: Bound, expected: Answering | Unsolicited, now: Instant) -> bool | Awaitable[bool]:
    """Use up the nonce. Last of all checks, or anybody could burn nonces with presentations that fail (R-90, 9.5).

    A nonce that the Holder chose is remembered for the widest window there is: another caller of the same record may
    accept older answers than this one does.

    Returns:
        Whether this is its first use, as the record says it: now, or when it is awaited.

    Raises:
        Refused: ``kb.record-unavailable``, at ``kb-jwt/nonce``.
    """
    if isinstance(expected, Answering):
        return expected.issued.consume(expected.challenge, now)
    use = NonceUse(bound.holder_key.thumbprint, bound.audience, bound.nonce)
    return expected.seen.first_use(use, bound.issued_at + MAX_PAST, now)


def judge_single_use(first: object) -> None:
    """Refuse every answer of a record but true (R-90, 9.5).

    Raises:
        Refused: ``kb.replayed``, at ``kb-jwt/nonce``.
    """
    if first is not True:
        raise Refused(Rule.KB_REPLAYED, Where(Part.KB_JWT, ("nonce",)))


def _read_nonce(claims: JsonObject) -> str:
    """The nonce, when a record can keep one of its length (R-45)."""
    nonce = required_text(claims, "nonce", _KB)
    if not 1 <= len(nonce) <= MAX_NONCE_LENGTH:
        where = Where(Part.KB_JWT, ("nonce",))
        raise Refused(Rule.CLAIM_VALUE, where, f"A nonce has 1 to {MAX_NONCE_LENGTH} characters.")
    return nonce
