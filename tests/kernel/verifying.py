"""Compare whole verifications: what is signed has changed claims, headers and KB-JWTs."""

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from typing import Any

from sdcard import (
    Answering,
    Challenge,
    Expectations,
    Refused,
    Unbound,
    Unchecked,
    Unsolicited,
    VerificationCache,
    VerifiedCard,
    acceleration,
    verify_many,
    verify_presentation,
)
from sdcard.encoding import JsonObject, encode_json
from sdcard.instants import FreshnessWindow, Instant
from sdcard.key_binding import ConsumedByCaller, KeyBinding, NonceUse
from sdcard.sdjwt.model import SdJwt
from sdcard.trust import parse_trusted_issuers
from tests.kernel.comparing import same, without_kernel
from tests.kernel.reading import change, concealed, spoilt
from vectors.actors import (
    AUDIENCE,
    HOLDER,
    ISSUER,
    ISSUER_ID,
    NONCE,
    NOW,
    REMOVED,
    bound,
    changed,
    claim,
    claims,
    digest,
    header,
    jwt,
    trust,
)


class NeverSeen:
    """A record in which no nonce is."""

    def first_use(self, use: NonceUse, until: Instant, now: Instant) -> bool:
        return True


CHALLENGE = Challenge(NONCE, AUDIENCE)


def expecting(key_binding: KeyBinding, skew: int = 0, longest: int | None = None) -> Expectations:
    """The demands of a Verifier on the actors' presentations."""
    return Expectations(
        issuers=parse_trusted_issuers(encode_json(trust())),
        key_binding=key_binding,
        status=Unchecked("comparing"),
        published_keys=frozenset(),
        clock_skew=skew,
        max_lifetime=longest,
    )


EXPECTED = expecting(Answering(CHALLENGE, ConsumedByCaller()))
OTHERS = (
    expecting(Answering(Challenge(NONCE, AUDIENCE, FreshnessWindow(0, 0), "a"), ConsumedByCaller()), 60),
    expecting(Answering(Challenge("other", "a"), ConsumedByCaller()), 0, 7_200),
    expecting(Unsolicited(AUDIENCE, NeverSeen()), 1, 7_199),
    expecting(Unsolicited(AUDIENCE, NeverSeen(), FreshnessWindow(10, 10), "a")),
    expecting(Unbound("comparing")),
)
JWK = HOLDER.jwk
CONFIRMED: tuple[Any, ...] = (
    {"jwk": {**JWK, "use": "sig"}},
    {"jwk": {**JWK, "use": "enc"}},
    {"jwk": {**JWK, "d": "AA"}},
    {"jwk": {**JWK, "alg": "ES384"}},
    {"jwk": {**JWK, "crv": "P-384"}},
    {"jwk": {**JWK, "kty": "OKP"}},
    {"jwk": {**JWK, "x": JWK["y"]}},
    {"jwk": {**JWK, "y": 5}},
    {"jwk": JWK, "kid": "a"},
    {"jwk": JWK, "kid": 5},
    {"jwk": JWK, "jkt": "a"},
    {"jwk": JWK, "jku": "https://a.example"},
    {"jwk": {}},
)
CLAIMS = (
    "iss",
    "sub",
    "iat",
    "exp",
    "nbf",
    "vct",
    "cnf",
    "card_format",
    "aud",
    "jti",
    "status",
    "_sd_alg",
    "issuer_checks",
)
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
    NOW - 1,
    NOW + 60,
    NOW - 300,
    -1,
    253_402_300_800,
    True,
    "n" * 256,
    "n" * 257,
    "agent-proof.a",
    {"status_list": {"idx": 5, "uri": "https://a.example"}},
    ["domain"],
    ["domain", "domain"],
)
BOUND = ("iat", "aud", "nonce", "sd_hash", "exp", "nbf", "interaction_id")


def presentation(drawn: random.Random) -> tuple[str, bool]:
    """A presentation, signed after its parts were changed, and whether none was."""
    made: list[str] = []
    payload: Any = {**concealed(drawn, 3, made, at_top=True), **claims()}
    bound_header: JsonObject = {"alg": "ES256", "typ": "kb+jwt"}
    protected, changes = header(), dict[str, Any]()
    kind = drawn.random()
    if kind < 0.05:
        payload = changed(payload, {"cnf": drawn.choice(CONFIRMED)})
    elif kind < 0.1:
        made.append(claim(drawn.choice(CLAIMS), drawn.choice(CHANGED[1:])))
        payload = {**payload, "_sd": [*payload.get("_sd", ()), digest(made[-1])]}
        payload.pop(drawn.choice(CLAIMS), None)
    elif kind < 0.3:
        payload = changed(payload, {drawn.choice(CLAIMS): drawn.choice(CHANGED)})
    elif kind < 0.5:
        changes = {drawn.choice(BOUND): drawn.choice(CHANGED)}
    elif kind < 0.6:
        which = {drawn.choice(("alg", "typ", "kid", "crit", "b64", "x5c")): drawn.choice(CHANGED)}
        protected, bound_header = drawn.choice(
            ((changed(protected, which), bound_header), (protected, changed(bound_header, which)))
        )
    elif kind < 0.65 and made:
        change(drawn, made)
    shown = SdJwt(jwt(payload, protected), tuple(filter(str.isascii, made)))
    text = bound(shown, bound_header, **changes)
    if 0.65 <= kind < 0.75:
        text = spoilt(drawn, text.encode()).decode("utf-8", "replace")
    return text, kind >= 0.75


def outcome_of(text: str, cache: VerificationCache | None, expected: Expectations = EXPECTED) -> object:
    """The card in all its parts, or the refusal with its place and hint."""
    try:
        return described(verify_presentation(text, expected, NOW, cache))
    except Refused as refusal:
        return described(refusal)


def described(outcome: VerifiedCard | Refused) -> object:
    """All parts of an outcome."""
    if isinstance(outcome, Refused):
        return outcome.findings
    return [(field.name, getattr(outcome, field.name)) for field in fields(outcome)]


POOL = ThreadPoolExecutor(2)


def compare_batch(drawn: random.Random) -> str:
    """Verify several presentations at once with the kernel, and one by one without."""
    texts = [presentation(drawn)[0] for _ in range(drawn.randrange(1, 7))]
    texts += drawn.choices(texts, k=2)
    pairs = [(text, drawn.choice((EXPECTED, *OTHERS))) for text in texts]
    with without_kernel():
        slow = [outcome_of(text, None, expected) for text, expected in pairs]
    cache = drawn.choice((None, VerificationCache()))
    for _ in range(2):
        same("batch", [described(one) for one in verify_many(pairs, NOW, POOL, drawn.randrange(1, 4), cache)], slow)
    return "compared"


def accepted_by_kernel(text: str) -> str:
    """Say whether the kernel accepts a presentation."""
    sd_jwt_part, _, kb_jwt = text.rpartition("~")
    issuer_jwt, *disclosures = sd_jwt_part.split("~")
    read = acceleration.read_sd_jwt(issuer_jwt, tuple(disclosures), 64, 65_536, HOLDER.public_key._native)
    key = ISSUER.public_key._native
    if read is None or key is None or read.accept(key, NOW, NOW, None, None, None) is None:
        return "ordinary, declined"
    proof = read.bound(kb_jwt, tuple(disclosures), AUDIENCE, NONCE, None, NOW - 300, NOW + 60, 64, None)
    return "ordinary, declined" if proof is None else "ordinary, accepted"


def compare_verification(drawn: random.Random) -> str:
    """Verify a presentation both ways: new, into a cache, and out of it."""
    text, ordinary = presentation(drawn)
    with without_kernel():
        slow = outcome_of(text, None)
    cache = VerificationCache()
    for one in (None, cache, cache):
        same("verification", outcome_of(text, one), slow)
    other = drawn.choice(OTHERS)
    with without_kernel():
        slow_other = outcome_of(text, None, other)
    same("verification", outcome_of(text, drawn.choice((None, cache)), other), slow_other)
    if ordinary and isinstance(slow, list):
        return accepted_by_kernel(text)
    return "accepted" if isinstance(slow, list) else "refused"
