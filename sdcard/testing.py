"""Pytest fixtures for projects that use SD-Cards.

They are a registry, an agent, a Verifier, attacks and a clock.

Load them where they are needed: ``pytest_plugins = ["sdcard.testing"]`` in the top ``conftest.py``. Everything is in
memory: no network, no files. Keys are made for each test, and time stands still until a test moves it.

PYTEST_DONT_REWRITE: there is no assertion here, and a ``conftest.py`` may import it first.
"""

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from sdcard.acceptance import Acceptance
from sdcard.cards.detect import read_card
from sdcard.encoding import JsonObject, encode_base64url
from sdcard.errors import Misuse
from sdcard.holder import HeldSdCard, accept_sd_card, disclose, present, select_all
from sdcard.http_auth import encode_credentials, parse_challenge
from sdcard.instants import Instant
from sdcard.io.agent import Agent
from sdcard.io.system import SystemSalts
from sdcard.io.verifier import Verifier
from sdcard.issuer import Issuer, Validity, issue_sd_card
from sdcard.jose.jws import InMemorySigner
from sdcard.jose.keys import PublicKey
from sdcard.key_binding import Challenge, bind
from sdcard.policy.model import DEFAULT_POLICY
from sdcard.policy.plan import plan_disclosure
from sdcard.rules import Rule
from sdcard.sdjwt.model import DigestAlgorithm, SdJwt
from sdcard.status_list import Checked, StatusReference, StatusValue
from sdcard.trust import TrustedIssuers

if TYPE_CHECKING:
    from sdcard.web.clients import SdCardAuth

ISSUER = "https://registry.example"
AUDIENCE = "https://verifier.example"
"""The audience of the fixture ``sdcard_verifier``."""
AGENT_ID = "agent-under-test"
_CONTEXTS = ("public", "internal")
_DAY = 86_400
_CARD: JsonObject = {
    "name": "Agent under test",
    "description": "Plans routes.",
    "version": "1.0.0",
    "provider": {"organization": "Example", "url": "https://example.com"},
    "capabilities": {},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "route", "name": "Route", "description": "Plans a route.", "tags": ["maps"]}],
    "supportedInterfaces": [
        {"url": "https://agent.example/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    ],
}


class MovableClock:
    """A clock that stands still until a test moves it.

    It starts at the present instant.
    """

    def __init__(self, start: Instant | None = None) -> None:
        self._now = time.time() if start is None else start

    def now(self) -> Instant:
        """Return the instant."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move the clock."""
        self._now += seconds


class FakeRegistry:
    """A registry in memory, with a key of its own.

    It issues SD-Cards, and knows their statuses.

    Attributes:
        issuer: its name, ``iss``.
        trust: the trusted Issuers: this registry.
    """

    def __init__(self, clock: MovableClock, issuer: str = ISSUER) -> None:
        self.issuer, self._clock, self._signer = issuer, clock, new_signer()
        self._revoked: set[int] = set()
        self._issued: list[int] = []
        self.trust = TrustedIssuers.of(issuer, self._signer.public_key)

    def issue(
        self,
        document: JsonObject,
        context: str,
        holder_key: PublicKey,
        *,
        lifetime: int = 7 * _DAY,
        age: int = 0,
        checks: tuple[str, ...] | None = None,
    ) -> str:
        """Issue an SD-Card for a context to the key of an agent.

        Args:
            document: the agent card.
            lifetime: seconds from its issuance until it expires.
            age: seconds since its issuance.
            checks: the codes in ``issuer_checks``, such as ``domain``; None writes no claim.
        """
        issued_at = int(self._clock.now()) - age
        self._issued.append(len(self._issued))
        card = issue_sd_card(
            Issuer(self.issuer, self._signer.public_key),
            plan_disclosure(read_card(document), DEFAULT_POLICY, context),
            self._signer,
            agent_id=AGENT_ID,
            holder_key=holder_key,
            validity=Validity(issued_at, issued_at + lifetime),
            salts=SystemSalts(),
            status=StatusReference(f"{self.issuer}/status/1", self._issued[-1]),
            checks=checks,
        )
        return str(card)

    def revoke(self) -> None:
        """Revoke every SD-Card that was issued until now."""
        self._revoked.update(self._issued)

    def status(self, reference: StatusReference, issuer: str, now: Instant) -> int:
        """Return the status of an SD-Card: the registry is a ``StatusSource``."""
        return StatusValue.INVALID if reference.index in self._revoked else StatusValue.VALID


class _FakeCards:
    """The SD-Cards of an agent, renewed by a ``FakeRegistry``."""

    def __init__(self, registry: FakeRegistry, document: JsonObject, key: PublicKey, clock: MovableClock) -> None:
        self._registry, self._document, self._key, self._clock = registry, document, key, clock
        self._cards = self._make()

    def load(self) -> Mapping[str, HeldSdCard]:
        return self._cards

    def renew(self, is_due: Callable[[Mapping[str, HeldSdCard]], bool]) -> Mapping[str, HeldSdCard]:
        if is_due(self._cards):
            self._cards = self._make()
        return self._cards

    def are_withdrawn(self, cards: Mapping[str, HeldSdCard]) -> bool:
        return False

    def _make(self) -> Mapping[str, HeldSdCard]:
        texts = {one: self._registry.issue(self._document, one, self._key) for one in _CONTEXTS}
        acceptance, now = Acceptance(issuers=self._registry.trust), self._clock.now()
        return {one: accept_sd_card(text, acceptance, self._key, now) for one, text in texts.items()}


ATTACKS: Mapping[str, Rule] = MappingProxyType(
    {
        "another key": Rule.JWS_SIGNATURE,
        "another nonce": Rule.KB_NONCE,
        "another audience": Rule.KB_AUDIENCE,
        "no key binding": Rule.KB_MISSING,
        "an old answer": Rule.KB_STALE,
        "a claim withheld after signing": Rule.KB_SD_HASH,
        "a changed claim": Rule.DISCLOSURE_UNREFERENCED,
        "a changed signature": Rule.JWS_SIGNATURE,
        "an unknown registry": Rule.ISSUER_UNKNOWN,
        "a forged registry": Rule.ISSUER_KEY_UNKNOWN,
        "an expired card": Rule.EXPIRED,
        "a revoked card": Rule.STATUS_REVOKED,
    }
)
"""Attack → the rule that refuses it when the fixture ``sdcard_verifier`` verifies it."""


class Attacker:
    """Answers challenges with presentations that a Verifier must refuse."""

    def __init__(self, registry: FakeRegistry, document: JsonObject, clock: MovableClock) -> None:
        self._registry, self._document, self._clock, self._signer = registry, document, clock, new_signer()

    def present(self, attack: str, challenge: Challenge) -> str:
        """Return the presentation of an attack.

        Raises:
            Misuse: for an attack that is not one of ``ATTACKS``.
        """
        if attack not in ATTACKS:
            raise Misuse(f"an attack is one of: {', '.join(ATTACKS)}")
        now, signer = self._clock.now(), self._signer
        forged = {"an unknown registry": "https://other-registry.example", "a forged registry": self._registry.issuer}
        registry = FakeRegistry(self._clock, forged[attack]) if attack in forged else self._registry
        is_old = attack == "an expired card"
        issued = registry.issue(
            self._document, "internal", signer.public_key, lifetime=_DAY, age=2 * _DAY if is_old else 0
        )
        if attack == "a revoked card":
            registry._revoked.add(registry._issued[-1])
        accepted_at = now - 1.5 * _DAY if is_old else now
        held = accept_sd_card(issued, Acceptance(issuers=registry.trust), signer.public_key, accepted_at)
        shown = disclose(held, select_all(held))
        asked = {
            "another nonce": Challenge("another-nonce", challenge.audience),
            "another audience": Challenge(challenge.nonce, "https://other.example"),
        }.get(attack, challenge)
        match attack:
            case "no key binding":
                return str(shown)
            case "an old answer":
                return str(present(held, select_all(held), asked, signer, now - 3_600))
            case "another key":
                return _bound(shown, asked, new_signer(), now)
            case "a changed claim":
                return _bound(SdJwt(shown.issuer_jwt, _changed(shown.disclosures)), asked, signer, now)
            case "a changed signature":
                return _bound(SdJwt(_with_other_signature(shown.issuer_jwt), shown.disclosures), asked, signer, now)
            case "a claim withheld after signing":
                issuer_jwt, *disclosures, kb_jwt = _bound(shown, asked, signer, now).split("~")
                return "~".join([issuer_jwt, *disclosures[1:], kb_jwt])
        return str(present(held, select_all(held), asked, signer, now))

    def auth(self, attack: str) -> "SdCardAuth":
        """Make an auth class that answers every challenge with an attack.

        It is for ``httpx2`` and Starlette's ``TestClient``.
        """
        from sdcard.web.clients import SdCardAuth

        presenter: Any = _HostilePresenter(self, attack)
        return SdCardAuth(lambda: presenter)


class _HostilePresenter:
    def __init__(self, attacker: Attacker, attack: str) -> None:
        self._attacker, self._attack = attacker, attack

    def is_for(self, url: object) -> bool:
        return True

    def answer(self, www_authenticate: list[str], interaction_id: str | None) -> str | None:
        received = parse_challenge(www_authenticate)
        if received is None:
            return None
        return encode_credentials(self._attacker.present(self._attack, received.challenge))


def new_signer() -> InMemorySigner:
    """Make a key."""
    return InMemorySigner(ec.generate_private_key(ec.SECP256R1()))


def _bound(shown: SdJwt, challenge: Challenge, signer: InMemorySigner, now: Instant) -> str:
    return str(bind(shown, DigestAlgorithm.SHA_256.digest(str(shown)), challenge, signer, now))


def _changed(disclosures: tuple[str, ...]) -> tuple[str, ...]:
    return (encode_base64url(b'["salt-of-an-attacker","description","Plans everything."]'), *disclosures[1:])


def _with_other_signature(jwt: str) -> str:
    head, _, signature = jwt.rpartition(".")
    return f"{head}.{signature[:10]}{'A' if signature[10] != 'A' else 'B'}{signature[11:]}"


# -- fixtures ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def sdcard_clock() -> MovableClock:
    """A clock that a test moves: ``sdcard_clock.advance(400)``."""
    return MovableClock()


@pytest.fixture
def sdcard_document() -> JsonObject:
    """The agent card. Override this fixture to use your own."""
    return dict(_CARD)


@pytest.fixture
def sdcard_registry(sdcard_clock: MovableClock) -> FakeRegistry:
    """A registry in memory: ``trust``, ``issue()``, ``revoke()``.

    It is also the status source.
    """
    return FakeRegistry(sdcard_clock)


@pytest.fixture
def sdcard_agent(sdcard_registry: FakeRegistry, sdcard_document: JsonObject, sdcard_clock: MovableClock) -> Agent:
    """An agent with SD-Cards for ``public`` and ``internal``, which it renews."""
    signer = new_signer()
    cards = _FakeCards(sdcard_registry, sdcard_document, signer.public_key, sdcard_clock)
    return Agent(cards, signer, sdcard_clock, lambda: 0.5)


@pytest.fixture
def sdcard_verifier(sdcard_registry: FakeRegistry, sdcard_clock: MovableClock) -> Verifier:
    """A Verifier that trusts the registry and checks statuses."""
    return Verifier(sdcard_registry.trust, AUDIENCE, status=Checked(sdcard_registry), clock=sdcard_clock)


@pytest.fixture
def sdcard_attacker(sdcard_registry: FakeRegistry, sdcard_document: JsonObject, sdcard_clock: MovableClock) -> Attacker:
    """An attacker who has an SD-Card.

    ``present(attack, challenge)`` and ``auth(attack)``, for each of ``ATTACKS``.
    """
    return Attacker(sdcard_registry, sdcard_document, sdcard_clock)
