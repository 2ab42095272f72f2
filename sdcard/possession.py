"""Proof that a Holder has the private key that it registers (SD-Card T-26).

The proof is a JWT over a nonce of the registry. Its ``typ`` is ``sd-card-possession+jwt``, so it is never accepted as a
KB-JWT, nor a KB-JWT as a proof. Claims: ``aud`` (the Issuer that binds the key), ``sub`` (the agent), ``iat``,
``nonce``.
"""

from sdcard.encoding import JsonObject
from sdcard.errors import Part, Refused, Where
from sdcard.instants import FreshnessWindow, Instant, check_instant
from sdcard.jose.claims import check_already_valid, check_equal, check_freshness, check_not_expired, read_nonce
from sdcard.jose.jws import Signer, encode_signing_input, join_signature, parse_jws, verify_jws
from sdcard.jose.keys import PublicKey
from sdcard.rules import Rule

POSSESSION_TYP = "sd-card-possession+jwt"
MAX_PROOF_LENGTH = 8_192
"""Characters. The longest signature (ML-DSA-87) has 6,170 of them."""

_DEPTH = 8
_CLAIMS = Where(Part.POSSESSION)


def prove_possession(signer: Signer, audience: str, agent_id: str, nonce: str, now: Instant) -> str:
    """Sign that the key in the signer is to be bound to an agent.

    Args:
        signer: holds the registered key.
        audience: the Issuer's ``iss``.
        agent_id: the agent's id at the registry.
        now: becomes ``iat``, in whole seconds.
    """
    header: JsonObject = {"alg": signer.public_key.algorithm.value, "typ": POSSESSION_TYP}
    payload: JsonObject = {"aud": audience, "sub": f"agent:{agent_id}", "iat": int(check_instant(now)), "nonce": nonce}
    signing_input = encode_signing_input(header, payload)
    return join_signature(signing_input, signer.sign(signing_input))


def verify_possession(
    proof: str, key: PublicKey, audience: str, agent_id: str, now: Instant, window: FreshnessWindow
) -> str:
    """Apply every rule to a proof except single use, and return its nonce.

    The caller's replay cache checks single use.

    Args:
        key: the registered key, never selected by the proof's header.
        audience, agent_id: as for ``prove_possession``, compared exactly.

    Raises:
        Refused: ``jws.*``, ``claim.missing``, ``claim.type``, ``proof.*`` or ``time.*``, in the proof or its header.
    """
    if len(proof) > MAX_PROOF_LENGTH:
        raise Refused(Rule.JWS_FORMAT, _CLAIMS)
    jws = parse_jws(proof, Part.POSSESSION_HEADER, Part.POSSESSION, _DEPTH)
    verify_jws(jws, key, (POSSESSION_TYP,))
    claims = jws.payload
    check_equal(claims, "aud", audience, _CLAIMS, Rule.PROOF_AUDIENCE)
    check_equal(claims, "sub", f"agent:{agent_id}", _CLAIMS, Rule.PROOF_AGENT)
    check_freshness(claims, window, now, _CLAIMS, Rule.PROOF_STALE, Rule.PROOF_FROM_FUTURE)
    check_not_expired(claims, now, _CLAIMS, "The proof has expired.")
    check_already_valid(claims, now, _CLAIMS, "The proof is not valid yet.")
    return read_nonce(claims, "nonce", _CLAIMS, Rule.PROOF_NONCE)
