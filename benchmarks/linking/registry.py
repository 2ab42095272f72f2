"""A registry in this process on SQLite, a settable clock, and Holders.

The benchmark sets the clock. The Holders present.
"""

import asyncio
import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec

from benchmarks.linking.population import Agent
from benchmarks.work import ISSUER
from issuer_service.access import Caller
from issuer_service.agents.registration import register_agent
from issuer_service.container import AuditCheckpoints, Container
from issuer_service.db.migrations import upgrade
from issuer_service.keys.repository import KeyUse
from issuer_service.keys.ring import KeyRing, Vault, create_key_encryption_key
from issuer_service.keys.service import make_missing
from issuer_service.settings import SubjectPer
from sdcard import DEFAULT_POLICY, InMemorySigner, TrustedIssuers
from sdcard.acceptance import Acceptance
from sdcard.holder import HeldSdCard, Selection, accept_sd_card, present, select_all, select_paths
from sdcard.instants import Instant
from sdcard.io.database import open_database
from sdcard.issuer import DAY, DEFAULT_LIFETIME
from sdcard.key_binding import new_challenge
from sdcard.paths import ClaimPath
from sdcard.policy.model import DisclosurePolicy
from sdcard.salts import SALT_BYTES

START = 1_800_014_400
"""A midnight on which no step of seven or thirty days begins."""
OWNER = Caller("owner", "", {}, 0)


class SetClock:
    """A clock that shows what the benchmark sets."""

    def __init__(self, at: Instant = START) -> None:
        self.at = at

    def now(self) -> Instant:
        return self.at


class SeededSalts:
    """Salts from a seed, so that a run can be repeated.

    A cryptographic hash keeps them independent of each other.
    """

    def __init__(self, seed: str) -> None:
        self._seed, self._drawn = seed.encode(), 0

    def draw(self, count: int) -> bytes:
        self._drawn += 1
        return hashlib.shake_128(b"%s/%d" % (self._seed, self._drawn)).digest(SALT_BYTES * count)


def new_key(dice: random.Random) -> InMemorySigner:
    """A P-256 key from a seeded generator."""
    return InMemorySigner(ec.derive_private_key(dice.getrandbits(255) + 1, ec.SECP256R1()))


@dataclass(frozen=True, slots=True)
class Held:
    """An SD-Card and the key that it is bound to.

    Attributes:
        text: as issued.
        signer: the Holder's key.
        answer: what the registry says of this SD-Card to its owner.
    """

    text: str
    signer: InMemorySigner
    answer: dict[str, Any]


class Registry:
    """The registry's own services, called in turn at chosen instants."""

    def __init__(
        self, folder: Path, seed: str, lifetime: int, policy: DisclosurePolicy, subject_per: SubjectPer
    ) -> None:
        url = f"sqlite:///{folder}/registry.sqlite"
        upgrade(url)
        self.clock, self._loop = SetClock(), asyncio.new_event_loop()
        self.store = open_database(url)
        vault = Vault(create_key_encryption_key(folder / "key-encryption.key"))
        self.run(make_missing(self.store, vault, START - DAY))
        self.container = Container(
            ISSUER,
            KeyRing(self.store, vault, self.clock),
            self.store,
            AuditCheckpoints(folder / "audit.checkpoints"),
            clock=self.clock,
            salts=SeededSalts(f"registry {seed}"),
            lifetime=lifetime,
            policy=policy,
            subject_per=subject_per,
        )

    def run(self, work: Any) -> Any:
        """The result of an awaitable."""
        return self._loop.run_until_complete(work)

    def register(
        self, agent: Agent, contexts: Sequence[dict[str, Any]], signers: Sequence[InMemorySigner], at: Instant
    ) -> list[Held]:
        """Register an agent at an instant: one SD-Card for each context and key.

        The SD-Cards are in the order of the contexts.
        """
        self.clock.at = at
        request = {
            "agent_id": agent.agent_id,
            **{name: agent.card[name] for name in ("name", "description", "version")},
            "public_keys": [dict(signer.public_key.to_jwk()) for signer in signers],
            "disclosure_contexts": contexts,
            "card": agent.card,
        }
        answer = json.loads(self.run(register_agent(self.container, OWNER, json.dumps(request).encode())))
        owners = {signer.public_key.thumbprint: signer for signer in signers}
        return [Held(card["sd_card"], owners[card["key_thumbprint"]], card) for card in answer["cards"]]

    def acceptance(self) -> Acceptance:
        """Rules for Holders to accept SD-Cards."""
        keys = self.run(self.container.keys.current())
        return Acceptance(issuers=TrustedIssuers.of(ISSUER, *keys.published[KeyUse.CARDS]))

    def close(self) -> None:
        self.run(self.store.close())
        self._loop.close()


@contextmanager
def registry(
    seed: str,
    lifetime: int = DEFAULT_LIFETIME,
    policy: DisclosurePolicy = DEFAULT_POLICY,
    subject_per: SubjectPer = SubjectPer.AGENT,
) -> Iterator[Registry]:
    """A fresh registry."""
    with TemporaryDirectory() as folder:
        opened = Registry(Path(folder), seed, lifetime, policy, subject_per)
        try:
            yield opened
        finally:
            opened.close()


def accepted(held: Held, acceptance: Acceptance, at: Instant) -> HeldSdCard:
    """The SD-Card after its Holder has checked it."""
    return accept_sd_card(held.text, acceptance, held.signer.public_key, at)


def selection(card: HeldSdCard, shows: str, skills_at: str = "skills") -> Selection:
    """Select the Disclosures that a Holder shows: ``nothing``, ``skill`` or ``all``.

    ``skill`` is the first skill.
    """
    if shows == "all":
        return select_all(card)
    return select_paths(card, [ClaimPath((skills_at, 0))] if shows == "skill" else [])


def presented(
    card: HeldSdCard, signer: InMemorySigner, chosen: Selection, audience: str, at: Instant, salts: SeededSalts
) -> str:
    """A presentation to a Verifier."""
    return str(present(card, chosen, new_challenge(audience, salts), signer, at))
