"""A whole world in memory: Issuer, Holder and Verifier, a clock that tests move, salts that are counted, named cheats.

Nothing is patched: time, salts and keys are arguments of the code under test.
"""

import base64
import copy
import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from sdcard import (
    DEFAULT_POLICY,
    SD_CARD,
    Answering,
    Challenge,
    DisclosurePlan,
    DisclosurePolicy,
    Expectations,
    FreshnessWindow,
    HeldSdCard,
    InMemorySigner,
    Instant,
    Issuer,
    Profile,
    PublicKey,
    Refused,
    SdCard,
    TrustedIssuers,
    Unchecked,
    Unsolicited,
    VerificationCache,
    VerifiedCard,
    accept_sd_card,
    disclose,
    issue_sd_card,
    plan_disclosure,
    present,
    rounded_validity,
    select_all,
    verify_presentation,
)
from sdcard.acceptance import Acceptance
from sdcard.cards.detect import read_card
from sdcard.encoding import JsonObject, JsonValue, encode_base64url, encode_json
from sdcard.holder import Selection
from sdcard.io.replay_cache import MemoryChallengeRecord, MemoryReplayRecord
from sdcard.issuer import Validity
from sdcard.jose.algorithms import EC_PARAMETERS, SignatureAlgorithm, private_key_of
from sdcard.jose.jws import join_signature
from sdcard.key_binding import KeyBinding, Unbound
from sdcard.salts import SALT_BYTES
from sdcard.sdjwt.model import DigestAlgorithm, Disclosure, SdJwt, SdJwtWithKeyBinding, make_disclosure
from sdcard.status_list import StatusReference
from tests.shared import ROOT

NOW = 1_800_000_000
ISSUER = "https://registry.example"
AUDIENCE = "https://verifier.example"
UNASKED = Unbound("a test")
"""For a fetch that asks no host for a proof."""
AGENT_ID = "georoute"


class Sentinel:
    """A value that is nothing but itself, and has the same name in every process that collects the tests."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


REMOVED: Final = Sentinel("REMOVED")
"""In a change of claims: the claim is not there."""

T = TypeVar("T")


@contextmanager
def raises_rule(rule: str, at: str) -> Iterator[pytest.ExceptionInfo[Refused]]:
    """Exactly this rule says no, at exactly this place."""
    with pytest.raises(Refused) as caught:
        yield caught
    assert (str(caught.value.rule), str(caught.value.where)) == (rule, at)


def key(number: int, curve: ec.EllipticCurve | None = None) -> InMemorySigner:
    """The signer of this number; the same in every run. Its private key is the number: for tests only."""
    return InMemorySigner(ec.derive_private_key(number + 1_000_003, curve or ec.SECP256R1()))


def seed_of(algorithm: SignatureAlgorithm, number: int) -> bytes:
    """The private 32 bytes of ``key_of``, for algorithms whose private keys are bytes."""
    return hashlib.sha256(f"{algorithm}/{number}".encode()).digest()


def key_of(algorithm: SignatureAlgorithm, number: int = 1) -> InMemorySigner:
    """The signer of this algorithm and number; the same in every run. For tests only."""
    if algorithm in EC_PARAMETERS:
        return key(number, EC_PARAMETERS[algorithm].curve)
    if algorithm is SignatureAlgorithm.EDDSA:
        return InMemorySigner(ed25519.Ed25519PrivateKey.from_private_bytes(seed_of(algorithm, number)))
    return InMemorySigner(private_key_of(algorithm, seed_of(algorithm, number)))


def changed(claims: Mapping[str, Any], changes: Mapping[str, Any]) -> JsonObject:
    """Claims with some set, and some ``REMOVED``."""
    merged = {**claims, **changes}
    return {name: value for name, value in merged.items() if value is not REMOVED}


def example(name: str = "georoute.json") -> JsonObject:
    """A card document of ``examples/``."""
    document: JsonObject = json.loads((ROOT / "examples" / name).read_text(encoding="utf-8"))
    return document


def seal_claim(name: str, value: JsonValue, salt: str = "") -> Disclosure:
    """A Disclosure of an object's claim. Salts differ by name; nobody needs to guess them here."""
    return make_disclosure((salt or name).encode(), name, value)


def seal_element(value: JsonValue, salt: str = "element") -> Disclosure:
    """A Disclosure of an array's element."""
    return make_disclosure(salt.encode(), None, value)


def digest(disclosure: Disclosure | str, algorithm: DigestAlgorithm = DigestAlgorithm.SHA_256) -> str:
    """The digest that refers to a Disclosure."""
    return algorithm.digest(disclosure if isinstance(disclosure, str) else disclosure.encoded)


def decode_part(text: str) -> Any:
    """The JSON behind a base64url text that our own code wrote."""
    return json.loads(_decode(text))


def payload_of(sd_jwt: SdJwt) -> JsonObject:
    """Return the payload that the Issuer signed."""
    payload: JsonObject = decode_part(sd_jwt.issuer_jwt.split(".")[1])
    return payload


def outcome(action: Callable[[], T]) -> T | Refused:
    """Return the result of an action, or its refusal. Other errors fail the test."""
    try:
        return action()
    except Refused as refusal:
        return refusal


def at_once(action: Callable[[], T], count: int = 20) -> list[T]:
    """The results of as many calls that start together, each in a thread of its own."""
    barrier = threading.Barrier(count)

    def call(_: int) -> T:
        barrier.wait(timeout=10)
        return action()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(call, range(count)))


class MovableClock:
    """Stands still until a test moves it."""

    def __init__(self, start: Instant = NOW) -> None:
        self._now = start

    def now(self) -> Instant:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds


class RecordingSalts:
    """Deterministic salts; every one that was drawn is in ``drawn``."""

    def __init__(self, seed: str = "world") -> None:
        self._seed = seed
        self.drawn: list[bytes] = []

    def draw(self, count: int) -> bytes:
        fresh = [self._salt(len(self.drawn) + number) for number in range(count)]
        self.drawn += fresh
        return b"".join(fresh)

    def decoys(self) -> set[str]:
        """The digests that any of the salts would give as a decoy."""
        return {encode_base64url(hashlib.sha256(encode_base64url(salt).encode()).digest()) for salt in self.drawn}

    def _salt(self, number: int) -> bytes:
        return hashlib.sha256(f"{self._seed}/{number}".encode()).digest()[:SALT_BYTES]


class WorldIssuer:
    """Issues, and as a cheat signs anything."""

    def __init__(self, clock: MovableClock, salts: RecordingSalts, holder_key: PublicKey) -> None:
        self._clock, self._salts, self._holder_key = clock, salts, holder_key
        self.signer = key(1)
        self.issuer = Issuer(ISSUER, self.signer.public_key)
        self.trust = TrustedIssuers.of(ISSUER, self.signer.public_key)

    def plan(
        self,
        context: str = "full",
        document: JsonObject | None = None,
        disclose: Sequence[str] | None = None,
        policy: DisclosurePolicy = DEFAULT_POLICY,
        profile: Profile = SD_CARD,
    ) -> DisclosurePlan:
        card = read_card(example() if document is None else document)
        return plan_disclosure(card, policy, context, disclose, profile)

    def issue(
        self,
        context: str | DisclosurePlan = "full",
        document: JsonObject | None = None,
        *,
        profile: Profile = SD_CARD,
        holder_key: PublicKey | None = None,
        status: StatusReference | None = None,
        validity: Validity | None = None,
    ) -> SdCard:
        plan = self.plan(context, document, profile=profile) if isinstance(context, str) else context
        return issue_sd_card(
            self.issuer,
            plan,
            self.signer,
            agent_id=AGENT_ID,
            holder_key=holder_key or self._holder_key,
            validity=validity or rounded_validity(self._clock.now()),
            salts=self._salts,
            status=status,
        )

    def claims(self, changes: Mapping[str, Any] | None = None) -> JsonObject:
        """The claims of a good SD-Card in which nothing is hidden, with changes."""
        good: JsonObject = {
            "iss": ISSUER,
            "sub": f"agent:{AGENT_ID}",
            "iat": int(self._clock.now()) - 3600,
            "exp": int(self._clock.now()) + 3600,
            "vct": SD_CARD.vct,
            "cnf": {"jwk": dict(self._holder_key.to_jwk())},
            "card_format": "a2a/1.0",
            "name": "A",
            "description": "",
            "version": "1.0.0",
        }
        return changed(good, changes or {})

    def sign(
        self, claims: JsonObject, header: Mapping[str, Any] | None = None, signer: InMemorySigner | None = None
    ) -> str:
        """Any claims, under a header with changes."""
        return self.sign_text(encode_json(claims), encode_json(changed(self.header(), header or {})), signer)

    def sign_text(self, claims: bytes, header: bytes | None = None, signer: InMemorySigner | None = None) -> str:
        """Any bytes at all."""
        parts = (encode_json(self.header()) if header is None else header, claims)
        signing_input = ".".join(map(encode_base64url, parts)).encode()
        return join_signature(signing_input, (signer or self.signer).sign(signing_input))

    def sd_jwt(
        self, claims: JsonObject, *disclosures: Disclosure | str, header: Mapping[str, Any] | None = None
    ) -> SdJwt:
        """Any claims with any Disclosures."""
        return SdJwt(
            self.sign(claims, header), tuple(one if isinstance(one, str) else one.encoded for one in disclosures)
        )

    def sign_again(self, sd_jwt: SdJwt, changes: Mapping[str, Any]) -> SdJwt:
        """The same SD-JWT with altered claims."""
        return sd_jwt._replace(issuer_jwt=self.sign(changed(payload_of(sd_jwt), changes)))

    def header(self) -> JsonObject:
        return {"alg": "ES256", "typ": SD_CARD.typ, "kid": self.signer.public_key.thumbprint}


class WorldHolder:
    """Accepts and presents, and as a cheat binds anything."""

    def __init__(self, clock: MovableClock, cache: VerificationCache) -> None:
        self._clock, self._cache = clock, cache
        self.signer = key(2)
        self.key = self.signer.public_key
        self.acceptance: Acceptance
        self.card: SdCard

    def accept(self, card: SdCard | SdJwt | str | None = None) -> HeldSdCard:
        text = card if isinstance(card, str) else str(self.card if card is None else card)
        return accept_sd_card(text, self.acceptance, self.key, self._clock.now(), self._cache)

    def present(self, challenge: Challenge, card: SdCard | None = None, selection: Selection | None = None) -> str:
        held = self.accept(card)
        shown = selection or select_all(held)
        return str(present(held, shown, challenge, self.signer, self._clock.now(), self._cache))

    def unbound(self) -> SdJwt:
        """The world's own SD-Card with everything, unbound."""
        held = self.accept()
        return disclose(held, select_all(held))

    def kb_claims(self, sd_jwt: SdJwt, challenge: Challenge, algorithm: DigestAlgorithm) -> JsonObject:
        return {
            "iat": int(self._clock.now()),
            "aud": challenge.audience,
            "nonce": challenge.nonce,
            "sd_hash": algorithm.digest(str(sd_jwt)) if str(sd_jwt).isascii() else "",
        }

    def bind(
        self,
        sd_jwt: SdJwt,
        challenge: Challenge,
        claims: Mapping[str, Any] | None = None,
        header: Mapping[str, Any] | None = None,
        signer: InMemorySigner | None = None,
        algorithm: DigestAlgorithm = DigestAlgorithm.SHA_256,
    ) -> str:
        """A KB-JWT over any SD-JWT, with any changes, signed with any key."""
        payload = changed(self.kb_claims(sd_jwt, challenge, algorithm), claims or {})
        protected = changed({"alg": "ES256", "typ": "kb+jwt"}, header or {})
        signing_input = ".".join(encode_base64url(encode_json(part)) for part in (protected, payload)).encode()
        return str(
            SdJwtWithKeyBinding(sd_jwt, join_signature(signing_input, (signer or self.signer).sign(signing_input)))
        )


class WorldVerifier:
    """Asks and verifies."""

    def __init__(
        self, clock: MovableClock, salts: RecordingSalts, trust: TrustedIssuers, cache: VerificationCache
    ) -> None:
        self._clock, self._trust, self._cache = clock, trust, cache
        self.issued = MemoryChallengeRecord(AUDIENCE, salts)
        self.seen = MemoryReplayRecord()

    def challenge(self, window: FreshnessWindow | None = None, interaction_id: str | None = None) -> Challenge:
        return self.issued.issue(self._clock.now(), window, interaction_id)

    def answering(self, challenge: Challenge) -> Answering:
        return Answering(challenge, self.issued)

    def unsolicited(self) -> Unsolicited:
        return Unsolicited(AUDIENCE, self.seen)

    def expectations(self, key_binding: KeyBinding, **changes: Any) -> Expectations:
        settings: dict[str, Any] = {"issuers": self._trust, "status": Unchecked("a test of something else"), **changes}
        return Expectations(key_binding=key_binding, **settings)

    def verify(self, presentation: str, expected: KeyBinding | Challenge, **changes: Any) -> VerifiedCard:
        key_binding = self.answering(expected) if isinstance(expected, Challenge) else expected
        expectations = self.expectations(key_binding, **changes)
        return verify_presentation(presentation, expectations, self._clock.now(), self._cache)


class World:
    """An Issuer, a Holder with an SD-Card of context ``full``, and a Verifier with a challenge.

    Holder and Verifier share a cache, so that tests meet what is stored as well as what is new.
    """

    def __init__(self) -> None:
        self.clock, self.salts, self.cache = MovableClock(), RecordingSalts(), VerificationCache()
        self.holder = WorldHolder(self.clock, self.cache)
        self.issuer = WorldIssuer(self.clock, self.salts, self.holder.key)
        self.verifier = WorldVerifier(self.clock, self.salts, self.issuer.trust, self.cache)
        self.holder.acceptance = Acceptance(issuers=self.issuer.trust)
        self.holder.card = self.issuer.issue()
        self.challenge = self.verifier.challenge()

    def show(self, sd_jwt: SdJwt, algorithm: DigestAlgorithm = DigestAlgorithm.SHA_256, **changes: Any) -> VerifiedCard:
        """Bind an SD-JWT of any content as its Holder does, and verify it."""
        challenge = self.verifier.challenge()
        return self.verifier.verify(self.holder.bind(sd_jwt, challenge, algorithm=algorithm), challenge, **changes)

    def show_claims(self, changes: Mapping[str, Any], *disclosures: Disclosure | str, **settings: Any) -> VerifiedCard:
        """Change the claims of a valid SD-Card, bind and verify it."""
        return self.show(self.issuer.sd_jwt(self.issuer.claims(changes), *disclosures), **settings)


# -- ways to cheat that need no key -----------------------------------------------------------------------------------


def with_disclosures(sd_jwt: SdJwt, disclosures: Sequence[str]) -> SdJwt:
    """Other Disclosures, or the same in another order."""
    return sd_jwt._replace(disclosures=tuple(disclosures))


def tampered(disclosure: str) -> str:
    """The same Disclosure with another value."""
    array = decode_part(disclosure)
    return encode_base64url(encode_json([*array[:-1], "another value"]))


def unsigned(jwt: str) -> str:
    """The same JWT with one bit of its signature flipped."""
    head, _, signature = jwt.rpartition(".")
    data = bytearray(_decode(signature))
    data[10] ^= 1
    return f"{head}.{encode_base64url(bytes(data))}"


def without(document: JsonObject, *place: str | int) -> JsonObject:
    """A copy of a card document without one member."""
    copied = copy.deepcopy(document)
    inner: Any = copied
    for segment in place[:-1]:
        inner = inner[segment]
    del inner[place[-1]]
    return copied


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
