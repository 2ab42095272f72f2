"""Create KB-JWTs (RFC 9901 4.3)."""

from sdcard.encoding import JsonObject
from sdcard.frozen import frozen
from sdcard.instants import Instant, check_instant
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.jose.jws import add_payload, encode_header, join_signature
from sdcard.jose.signer import Signer
from sdcard.keybinding.challenge import Challenge
from sdcard.names import INTERACTION_ID, KB_TYP, SD_HASH
from sdcard.sdjwt.serialization import SdJwt, SdJwtWithKeyBinding

_HEADERS = frozen({algorithm: encode_header(algorithm, KB_TYP) for algorithm in SignatureAlgorithm})
"""The header of every KB-JWT of an algorithm, encoded."""


def bind(sd_jwt: SdJwt, sd_hash: str, challenge: Challenge, signer: Signer, now: Instant) -> SdJwtWithKeyBinding:
    """Sign the answer to a challenge over exactly this SD-JWT (R-41 to R-48).

    Args:
        sd_jwt: with the Disclosures that are to be shown.
        sd_hash: of this SD-JWT, by the algorithm that its ``_sd_alg`` names (R-47).
        challenge: the Verifier's, or one's own for an unsolicited presentation.
        signer: holds the key in ``cnf``.
        now: becomes ``iat``, in whole seconds.
    """
    payload: JsonObject = {
        "iat": int(check_instant(now)),
        "aud": challenge.audience,
        "nonce": challenge.nonce,
        SD_HASH: sd_hash,
    }
    if challenge.interaction_id is not None:
        payload[INTERACTION_ID] = challenge.interaction_id
    signing_input = add_payload(_HEADERS[signer.public_key.algorithm], payload)
    return SdJwtWithKeyBinding(sd_jwt, join_signature(signing_input, signer.sign(signing_input)))
