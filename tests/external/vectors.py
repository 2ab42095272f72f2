"""The cases of ``../shared/vectors``: where they are, and what RFC 9901 7.1 and 7.3 make of one.

Most of them are no SD-Cards, so they go through the SD-JWT layer alone. Whatever a test raises other than ``Refused``
or ``Misuse`` fails it. What we answer otherwise than the vectors say is in ``otherwise.py``, by name.
"""

import json
from pathlib import Path
from typing import Any, TypeAlias

from sdcard import Answering, Challenge, Instant, Limits, PublicKey, Refused, Rule
from sdcard.acceptance import VerifiedSdJwt
from sdcard.encoding import JsonObject
from sdcard.errors import Part, Where
from sdcard.jose.keys import parse_public_jwk
from sdcard.key_binding import ConsumedByCaller, check_single_use, verify_key_binding
from sdcard.sdjwt.model import SdJwt, SdJwtWithKeyBinding, parse_sd_jwt
from tests.external.layer import check_validity, holder_key_of, verify_sd_jwt
from tests.shared import shared_dir

Case: TypeAlias = dict[str, Any]

KEY = Where(Part.KEY)
TYPES = ("example+sd-jwt", "dc+sd-jwt")
ADDED = ("iss", "iat", "exp", "cnf")
"""Claims that the generators of others add to those of the user."""


def folder(name: str) -> Path:
    return shared_dir() / "vectors" / name


def read_text(name: str, file: str) -> str:
    return (folder(name) / file).read_text(encoding="utf-8").strip()


def read_json(name: str, file: str) -> Any:
    return json.loads(read_text(name, file))


def manifest(name: str) -> list[Case]:
    cases: list[Case] = read_json(name, "manifest.json")["cases"]
    return cases


def key_of(name: str, case: Case) -> PublicKey:
    return parse_public_jwk(read_json(name, case.get("key_file", "issuer_public.jwk.json")), KEY)


def verified(text: str, key: PublicKey, now: Instant, challenge: Challenge | None) -> VerifiedSdJwt:
    """The adapter. Without a challenge no key binding is expected."""
    limits, arrived = Limits(), parse_sd_jwt(text, Limits())
    if isinstance(arrived, SdJwtWithKeyBinding) and challenge is None:
        raise Refused(Rule.KB_UNEXPECTED, Where(Part.KB_JWT))
    if isinstance(arrived, SdJwt) and challenge is not None:
        raise Refused(Rule.KB_MISSING, Where(Part.PRESENTATION))
    sd_jwt = arrived if isinstance(arrived, SdJwt) else arrived.sd_jwt
    found = verify_sd_jwt(sd_jwt, key, TYPES, limits)
    claims = found.processed.claims
    check_validity(claims, now, challenge.audience if challenge else None)
    if isinstance(arrived, SdJwtWithKeyBinding) and challenge is not None:
        expected = Answering(challenge, ConsumedByCaller())
        holder_key = holder_key_of(claims)
        bound = verify_key_binding(arrived.kb_jwt, holder_key, found.sd_hash, expected, now, limits)
        check_single_use(bound, expected, now)
    return found


def run(name: str, case: Case, text: str | None = None) -> VerifiedSdJwt:
    """A case of a manifest, or another text under its key, its clock and its expectations."""
    required = case.get("key_binding") == "required"
    challenge = Challenge(case["expected_nonce"], case["expected_aud"]) if required else None
    text = read_text(name, case["file"]) if text is None else text
    return verified(text, key_of(name, case), case["clock"], challenge)


def without_added(claims: JsonObject) -> JsonObject:
    """The user's claims among those of an SD-JWT that a generator made."""
    return {name: value for name, value in claims.items() if name not in ADDED}
