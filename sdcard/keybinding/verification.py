"""Verify a KB-JWT: RFC 9901 7.3 step 5, and single use (9.5).

Single use comes last of all checks.
"""

from collections.abc import Awaitable
from inspect import isawaitable
from typing import NamedTuple

from sdcard.errors import Part, Refused, Where
from sdcard.instants import MAX_PAST, Instant
from sdcard.jose.claims import (
    MAX_NONCE_LENGTH,
    check_already_valid,
    check_equal,
    check_freshness,
    check_not_expired,
    read_nonce,
    required_text,
    same_text,
)
from sdcard.jose.jws import SignatureCheck, parse_jws, verify_jws
from sdcard.jose.keys import PublicKey
from sdcard.keybinding.challenge import Answering, KeyBinding, NonceUse, Unbound, Unsolicited
from sdcard.limits import Limits
from sdcard.names import INTERACTION_ID, KB_TYP, SD_HASH
from sdcard.rules import Rule

_KB = Where(Part.KB_JWT)
_NONCE_HINT = f"A nonce has 1 to {MAX_NONCE_LENGTH} characters."


class Bound(NamedTuple):
    """A verified KB-JWT: the Holder has the key, and signed these claims."""

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
    signature_is_valid: SignatureCheck | None = None,
) -> Bound:
    """Apply every rule of RFC 9901 7.3 step 5 to a KB-JWT, in order.

    ``check_single_use`` comes last, after the status. Steps 5.b to 5.d (``verify_jws``), 5.e ``iat`` (R-89), 5.f
    ``nonce`` and ``aud`` (R-44, R-90), 5.g ``sd_hash`` (4.3.1, R-46, R-47, R-91), the interaction (SD-Card 5.2.2,
    SDC-13), 5.h ``exp`` and ``nbf`` where present (R-92).

    Args:
        kb_jwt: the text after the SD-JWT, which the caller has verified.
        holder_key: from the ``cnf`` claim, never from the KB-JWT's header (R-49, R-85).
        sd_hash: the digest of the SD-JWT, by the algorithm that its ``_sd_alg`` names.
        expected: the Verifier's decision.
        now: the present instant.
        limits: bounds the depth of the KB-JWT's JSON.
        signature_is_valid: computes whether the key made the signature; by default, the key itself.

    Raises:
        Refused: ``kb.*``, ``jws.*``, ``claim.*`` or ``time.*``, in the KB-JWT or its header.
    """
    terms = expected.challenge if isinstance(expected, Answering) else expected
    jws = parse_jws(kb_jwt, Part.KB_HEADER, Part.KB_JWT, limits.json_depth)
    verify_jws(jws, holder_key, (KB_TYP,), signature_is_valid)
    claims = jws.payload
    issued_at = check_freshness(claims, terms.window, now, _KB, Rule.KB_STALE, Rule.KB_FROM_FUTURE)
    nonce = read_nonce(claims, "nonce", _KB, Rule.CLAIM_VALUE, _NONCE_HINT)
    if isinstance(expected, Answering) and not same_text(nonce, expected.challenge.nonce):
        raise Refused(Rule.KB_NONCE, _KB.within("nonce"))
    check_equal(claims, "aud", terms.audience, _KB, Rule.KB_AUDIENCE)
    check_equal(claims, SD_HASH, sd_hash, _KB, Rule.KB_SD_HASH)
    interaction_id = required_text(claims, INTERACTION_ID, _KB) if INTERACTION_ID in claims else None
    if terms.interaction_id is not None and interaction_id != terms.interaction_id:
        raise Refused(Rule.KB_INTERACTION, _KB.within(INTERACTION_ID))
    check_not_expired(claims, now, _KB, "The KB-JWT has expired.")
    check_already_valid(claims, now, _KB, "The KB-JWT is not valid yet.")
    return Bound(holder_key, issued_at, terms.audience, nonce, interaction_id)


def check_single_use(key_binding: Bound | Unbound, expected: KeyBinding, now: Instant) -> None:
    """Use up the nonce of a KB-JWT.

    It comes after every other check: else failing presentations could burn nonces (R-90, 9.5). Without key binding
    there is no nonce.

    Raises:
        Refused: ``kb.replayed`` or ``kb.record-unavailable``, at ``kb-jwt/nonce``.
    """
    if isinstance(key_binding, Bound) and not isinstance(expected, Unbound):
        check_first_use(_first_use(key_binding, expected, now))


async def check_single_use_async(key_binding: Bound | Unbound, expected: KeyBinding, now: Instant) -> None:
    """Use up the nonce as ``check_single_use`` does; await a record that is awaited."""
    if isinstance(key_binding, Bound) and not isinstance(expected, Unbound):
        answer = _first_use(key_binding, expected, now)
        check_first_use(await answer if isawaitable(answer) else answer)


def _first_use(bound: Bound, expected: Answering | Unsolicited, now: Instant) -> bool | Awaitable[bool]:
    """Ask the record whether this is the first use of the nonce.

    A nonce that the Holder chose is stored for the widest freshness window: another Verifier with the same record may
    accept older answers than this one.
    """
    if isinstance(expected, Answering):
        return expected.issued.consume(expected.challenge, now)
    use = NonceUse(bound.holder_key.thumbprint, bound.audience, bound.nonce)
    return expected.seen.first_use(use, bound.issued_at + MAX_PAST, now)


def check_first_use(first: object) -> None:
    """Refuse every answer of a record except true (R-90, 9.5).

    Raises:
        Refused: ``kb.replayed``, at ``kb-jwt/nonce``.
    """
    if first is not True:
        raise Refused(Rule.KB_REPLAYED, _KB.within("nonce"))
