"""Proof that a Holder has the private key that it registers: a JWT over a nonce of the registry (SD-Card T-26).

Header: ``alg`` and ``typ: sd-card-possession+jwt``, so that it is never taken for a KB-JWT nor a KB-JWT for it.
Payload: ``aud`` (the Issuer that is to bind the key), ``sub`` (the agent that it is to be bound to), ``iat`` and
``nonce``.
"""

from sdcard.encoding import JsonObject
from sdcard.errors import Part, Refused, Where
from sdcard.instants import FreshnessWindow, Instant, check_instant, parse_numeric_date
from sdcard.jose.claims import required, required_text, same_text
from sdcard.jose.jws import encode_signing_input, join_signature, parse_jws, verify_jws
from sdcard.jose.keys import PublicKey
from sdcard.jose.signer import Signer
from sdcard.keybinding.challenge import MAX_NONCE_LENGTH
from sdcard.rules import Rule
from sdcard.sdjwt.verification import check_already_valid, check_not_expired

POSSESSION_TYP = "sd-card-possession+jwt"
MAX_PROOF_LENGTH = 8_192
"""Characters: the longest signature (ML-DSA-87) has 6,170 of them."""

_DEPTH = 8
_CLAIMS = Where(Part.POSSESSION)


def prove_possession(signer: Signer, audience: str, agent_id: str, nonce: str, now: Instant) -> str:
    """Sign that the key in the signer is to be bound to an agent.

    Args:
        signer: holds the key that is registered.
        audience: the Issuer's identifier, as ``iss`` has it.
        agent_id: the agent's id at the registry.
        nonce: the registry's, which works once.
        now: becomes ``iat``, in whole seconds.
    """
    header: JsonObject = {"alg": signer.public_key.algorithm.value, "typ": POSSESSION_TYP}
    payload: JsonObject = {
        "aud": audience,
        "sub": f"agent:{agent_id}",
        "iat": int(check_instant(now)),
        "nonce": nonce,
    }
    signing_input = encode_signing_input(header, payload)
    return join_signature(signing_input, signer.sign(signing_input))


def verify_possession(
    proof: str, key: PublicKey, audience: str, agent_id: str, now: Instant, window: FreshnessWindow
) -> str:
    """Check a proof in all respects but one, and give its nonce: that it is used once is for a record to see to.

    Args:
        proof: a compact JWS.
        key: the one that is registered; the proof's own header never chooses it.
        audience, agent_id: as for ``prove_possession``, compared exactly.
        now: the present instant.
        window: how old the proof may be.

    Raises:
        Refused: ``jws.…``, ``claim.missing``, ``claim.type``, ``proof.audience-mismatch``, ``proof.agent-mismatch``,
            ``proof.stale``, ``proof.from-future``, ``time.…`` or ``proof.nonce``, in the proof or its header.
    """
    check_proof_length(proof)
    jws = parse_jws(proof, Part.POSSESSION_HEADER, Part.POSSESSION, _DEPTH)
    verify_jws(jws, key, (POSSESSION_TYP,))
    check_proof_audience(jws.payload, audience)
    check_proof_agent(jws.payload, agent_id)
    check_proof_freshness(jws.payload, window, now)
    check_not_expired(jws.payload, now, _CLAIMS, "The proof has expired.")
    check_already_valid(jws.payload, now, _CLAIMS, "The proof is not valid yet.")
    return check_proof_nonce(jws.payload)


def check_proof_length(proof: str) -> None:
    """Refuse a text that is longer than any proof.

    Raises:
        Refused: ``jws.format``.
    """
    if len(proof) > MAX_PROOF_LENGTH:
        raise Refused(Rule.JWS_FORMAT, _CLAIMS)


def check_proof_audience(claims: JsonObject, audience: str) -> None:
    """Refuse a proof for another registry: one string, compared exactly.

    Raises:
        Refused: ``proof.audience-mismatch`` or ``claim.…``, at ``possession/aud``.
    """
    if not same_text(required_text(claims, "aud", _CLAIMS), audience):
        raise Refused(Rule.PROOF_AUDIENCE, _CLAIMS.within("aud"))


def check_proof_agent(claims: JsonObject, agent_id: str) -> None:
    """Refuse a proof for another agent.

    Raises:
        Refused: ``proof.agent-mismatch`` or ``claim.…``, at ``possession/sub``.
    """
    if not same_text(required_text(claims, "sub", _CLAIMS), f"agent:{agent_id}"):
        raise Refused(Rule.PROOF_AGENT, _CLAIMS.within("sub"))


def check_proof_freshness(claims: JsonObject, window: FreshnessWindow, now: Instant) -> None:
    """Refuse a proof created too long ago, or in the future. Both bounds are inclusive.

    Raises:
        Refused: ``proof.stale`` or ``proof.from-future``, at ``possession/iat``.
    """
    where = _CLAIMS.within("iat")
    issued_at = parse_numeric_date(required(claims, "iat", _CLAIMS), where)
    if issued_at < now - window.past:
        raise Refused(Rule.PROOF_STALE, where)
    if issued_at > now + window.future:
        raise Refused(Rule.PROOF_FROM_FUTURE, where)


def check_proof_nonce(claims: JsonObject) -> str:
    """The nonce, when a record can keep one of its length.

    Raises:
        Refused: ``proof.nonce`` or ``claim.…``, at ``possession/nonce``.
    """
    nonce = required_text(claims, "nonce", _CLAIMS)
    if not 1 <= len(nonce) <= MAX_NONCE_LENGTH:
        raise Refused(Rule.PROOF_NONCE, _CLAIMS.within("nonce"))
    return nonce
