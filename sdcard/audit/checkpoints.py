"""Checkpoints: signed chain heads, stored out of reach of an attacker.

A compact JWS of its own ``typ``, with a key that signs nothing else. It says that the registry saw this head, and when.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sdcard.audit.records import Head
from sdcard.encoding import JsonObject
from sdcard.errors import Part, Refused, Where
from sdcard.instants import Instant, check_instant, parse_numeric_date
from sdcard.jose.claims import required, required_text
from sdcard.jose.jws import encode_signing_input, join_signature, parse_jws, verify_jws
from sdcard.jose.keys import PublicKey
from sdcard.jose.signer import Signer
from sdcard.rules import Rule

TYP = "sdcard-audit-checkpoint+jwt"
MOST_BYTES = 16_384
"""Of one checkpoint; the largest signatures, of ML-DSA-87, have 6,200 characters."""

_WHERE = Where(Part.CHECKPOINT)
_DEPTH = 4
_FAR = 2**53


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A verified checkpoint.

    Attributes:
        issuer: whose chain it is.
        at: Unix seconds.
        head: what was seen.
    """

    issuer: str
    at: Instant
    head: Head


def issue_checkpoint(head: Head, issuer: str, signer: Signer, at: int) -> str:
    """Sign a head: a compact JWS.

    ``signer`` holds a key that signs nothing else, ``at`` is in Unix seconds.
    """
    key = signer.public_key
    header: JsonObject = {"alg": key.algorithm.value, "typ": TYP, "kid": key.thumbprint}
    claims: JsonObject = {"iss": issuer, "iat": check_instant(at), "sequence": head.sequence, "digest": head.digest}
    signing_input = encode_signing_input(header, claims)
    return join_signature(signing_input, signer.sign(signing_input))


def verify_checkpoint(text: str, keys: Mapping[str, PublicKey]) -> Checkpoint:
    """Text → checkpoint.

    Args:
        text: as it was kept.
        keys: those that sign the registry's checkpoints, by ``kid``.

    Raises:
        Refused: ``limit.bytes``, ``jws.…``, ``encoding.…``, ``json.…``, ``issuer.key-unknown`` or
            ``claim.…``.
    """
    if len(text) > MOST_BYTES:
        raise Refused(Rule.LIMIT_BYTES, _WHERE)
    if not text.isascii():
        raise Refused(Rule.JWS_FORMAT, _WHERE)
    jws = parse_jws(text, Part.CHECKPOINT, Part.CHECKPOINT, _DEPTH)
    key = keys.get(str(jws.header.get("kid")))
    if key is None:
        raise Refused(Rule.ISSUER_KEY_UNKNOWN, _WHERE.within("kid"), "None of the given keys has this name.")
    verify_jws(jws, key, (TYP,))
    claims = jws.payload
    head = Head(_count(claims, "sequence"), required_text(claims, "digest", _WHERE))
    at = parse_numeric_date(required(claims, "iat", _WHERE), _WHERE.within("iat"))
    return Checkpoint(required_text(claims, "iss", _WHERE), at, head)


def _count(claims: JsonObject, name: str) -> int:
    value = required(claims, name, _WHERE)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _FAR:
        raise Refused(Rule.CLAIM_TYPE, _WHERE.within(name))
    return value
