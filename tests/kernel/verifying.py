"""Compare whole verifications: what is signed has changed claims, headers and KB-JWTs."""

import random
from dataclasses import fields
from typing import Any

from sdcard import Answering, Challenge, Expectations, Refused, Unchecked, VerificationCache, verify_presentation
from sdcard.encoding import encode_json
from sdcard.key_binding import ConsumedByCaller
from sdcard.sdjwt.model import SdJwt
from sdcard.trust import parse_trusted_issuers
from tests.kernel.comparing import same, without_kernel
from tests.kernel.reading import change, compare_reading, concealed, spoilt
from vectors.actors import AUDIENCE, HOLDER, ISSUER_ID, NONCE, NOW, REMOVED, bound, changed, claims, header, jwt, trust

EXPECTED = Expectations(
    issuers=parse_trusted_issuers(encode_json(trust())),
    key_binding=Answering(Challenge(NONCE, AUDIENCE), ConsumedByCaller()),
    status=Unchecked("comparing"),
    published_keys=frozenset(),
)
CLAIMS = ("iss", "sub", "iat", "exp", "nbf", "vct", "cnf", "card_format", "aud", "jti", "status", "_sd_alg")
CHANGED: tuple[Any, ...] = (
    REMOVED,
    None,
    0,
    NOW,
    NOW + 1.5,
    1e300,
    "",
    "a",
    AUDIENCE,
    [AUDIENCE],
    [],
    {},
    {"jwk": HOLDER.jwk},
    ISSUER_ID,
)
BOUND = ("iat", "aud", "nonce", "sd_hash", "exp", "nbf", "interaction_id")


def presentation(drawn: random.Random) -> tuple[str, bool]:
    """A presentation, signed after its parts were changed, and whether none was."""
    made: list[str] = []
    payload: Any = {**concealed(drawn, 3, made, at_top=True), **claims()}
    protected, bound_header, changes = header(), {"alg": "ES256", "typ": "kb+jwt"}, {}
    kind = drawn.random()
    if kind < 0.3:
        payload = changed(payload, {drawn.choice(CLAIMS): drawn.choice(CHANGED)})
    elif kind < 0.5:
        changes = {drawn.choice(BOUND): drawn.choice(CHANGED)}
    elif kind < 0.6:
        protected = changed(protected, {drawn.choice(("alg", "typ", "kid", "crit", "b64")): drawn.choice(CHANGED)})
    elif kind < 0.65 and made:
        change(drawn, made)
    shown = SdJwt(jwt(payload, protected), tuple(filter(str.isascii, made)))
    text = bound(shown, bound_header, **changes)
    if 0.65 <= kind < 0.75:
        text = spoilt(drawn, text.encode()).decode("utf-8", "replace")
    return text, kind >= 0.75


def outcome_of(text: str, cache: VerificationCache | None) -> object:
    """The card in all its parts, or the refusal with its place and hint."""
    try:
        card = verify_presentation(text, EXPECTED, NOW, cache)
    except Refused as refusal:
        return refusal.findings
    return [(field.name, getattr(card, field.name)) for field in fields(card)]


def compare_verification(drawn: random.Random) -> str:
    """Verify a presentation both ways: new, into a cache, and out of it."""
    text, ordinary = presentation(drawn)
    with without_kernel():
        slow = outcome_of(text, None)
    cache = VerificationCache()
    for one in (None, cache, cache):
        same("verification", outcome_of(text, one), slow)
    accepted = "accepted" if isinstance(slow, list) else "refused"
    if ordinary and accepted == "accepted":
        sd_jwt_part, _, _ = text.rpartition("~")
        issuer_jwt, *disclosures = sd_jwt_part.split("~")
        accepted = compare_reading(issuer_jwt, tuple(disclosures), ordinary=True)
    return accepted
