"""A request and a Signer → DPoP proof (RFC 9449 4.2)."""

import hashlib
import re

from sdcard.dpop.targets import parse_target
from sdcard.encoding import JsonObject, JsonValue, encode_base64url
from sdcard.errors import Misuse
from sdcard.hosts import check_secret_url
from sdcard.instants import Instant, check_instant
from sdcard.jose.jws import encode_signing_input, join_signature
from sdcard.jose.signer import Signer
from sdcard.salts import SaltSource, draw_salts

DPOP_TYP = "dpop+jwt"
_METHOD = re.compile("[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
"""A token (RFC 9110 9.1 and 5.6.2)."""


def create_dpop_proof(
    signer: Signer,
    method: str,
    url: str,
    access_token: str | None,
    salts: SaltSource,
    now: Instant,
    nonce: str | None = None,
) -> str:
    """Sign a DPoP proof for one request: the value of its ``DPoP`` header field.

    Args:
        signer: holds the key that the access token is bound to, or is to be bound to.
        method: of the request, exactly, such as ``POST``.
        url: of the request; query and fragment play no part.
        access_token: the one that the request carries as ``Authorization: DPoP``; None where it carries none.
        salts: gives the 128 bits of ``jti``.
        now: becomes ``iat``, in whole seconds.
        nonce: the server's ``DPoP-Nonce``, where it sent one (RFC 9449 8).

    Raises:
        Misuse: when the method is no token; when the URL is not an absolute https URL, or http on this machine
            (``check_secret_url``).
    """
    if not _METHOD.fullmatch(method):
        raise Misuse("the method of a request is a token, such as POST")
    if parse_target(url) is None:
        raise Misuse("a DPoP proof is for an absolute https URL")
    check_secret_url(url.partition("#")[0], "a DPoP proof")
    header: JsonObject = {
        "typ": DPOP_TYP,
        "alg": signer.public_key.algorithm.value,
        "jwk": dict[str, JsonValue](signer.public_key.to_jwk()),
    }
    payload: JsonObject = {
        "jti": encode_base64url(draw_salts(salts, 1)),
        "htm": method,
        "htu": url.partition("#")[0].partition("?")[0],
        "iat": int(check_instant(now)),
    }
    if access_token is not None:
        payload["ath"] = token_hash(access_token)
    if nonce is not None:
        payload["nonce"] = nonce
    signing_input = encode_signing_input(header, payload)
    return join_signature(signing_input, signer.sign(signing_input))


def token_hash(access_token: str) -> str:
    """Compute ``ath`` of an access token: base64url of the SHA-256 digest of its text."""
    return encode_base64url(hashlib.sha256(access_token.encode("utf-8", "surrogatepass")).digest())
