"""Six ways to cheat a Verifier, each with the rule that refuses it.

The demo runs them on the real thing.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from cryptography.hazmat.primitives.asymmetric import ec

from sdcard.disclosure.plan import DisclosurePlan
from sdcard.edge.records import MemoryChallengeRecord
from sdcard.encoding import decode_base64url, encode_base64url, encode_json, parse_json
from sdcard.errors import Part, Where
from sdcard.holder import HeldSdCard, accept_sd_card, present, select_all
from sdcard.instants import Instant
from sdcard.issued import Acceptance
from sdcard.issuer import Issuer, SdCard, issue_sd_card, rounded_validity
from sdcard.jose.signer import InMemorySigner
from sdcard.keybinding.challenge import Challenge
from sdcard.keybinding.creation import bind
from sdcard.rules import Rule
from sdcard.salts import SaltSource
from sdcard.sdjwt.serialization import SdJwt
from sdcard.trust import TrustedIssuers


@dataclass(frozen=True, slots=True)
class Scene:
    """Material of an attacker: two SD-Cards of an agent, and a Verifier."""

    held: HeldSdCard
    other: HeldSdCard
    plan: DisclosurePlan
    holder: InMemorySigner
    challenges: MemoryChallengeRecord
    salts: SaltSource
    now: Instant

    def ask(self) -> Challenge:
        """A fresh challenge of the Verifier."""
        return self.challenges.issue(self.now)

    def bind(self, sd_jwt: SdJwt, challenge: Challenge) -> str:
        """Any SD-JWT with a genuine KB-JWT over it: the Holder itself may be the attacker."""
        sd_hash = self.held.issued.verified.processed.algorithm.digest(str(sd_jwt))
        return str(bind(sd_jwt, sd_hash, challenge, self.holder, self.now))


@dataclass(frozen=True, slots=True)
class Attempt:
    """Input of the Verifier: a presentation and its expected challenge.

    ``times``: how often it is presented; twice is a replay.
    """

    presentation: str
    challenge: Challenge
    times: int = 1


@dataclass(frozen=True, slots=True)
class Attack:
    """A way to cheat, and the refusal that is promised."""

    name: str
    what: str
    refused_with: Rule
    attempt: Callable[[Scene], Attempt]


def _tampered_disclosure(scene: Scene) -> Attempt:
    first, *rest = scene.held.sd_jwt.disclosures
    where = Where(Part.DISCLOSURE, (0,))
    array = parse_json(decode_base64url(first, where), where, 64)
    assert isinstance(array, list)
    changed = encode_base64url(encode_json([*array[:-1], "https://attacker.example"]))
    challenge = scene.ask()
    return Attempt(scene.bind(replace(scene.held.sd_jwt, disclosures=(changed, *rest)), challenge), challenge)


def _foreign_disclosure(scene: Scene) -> Attempt:
    mixed = (*scene.held.sd_jwt.disclosures, scene.other.sd_jwt.disclosures[0])
    challenge = scene.ask()
    return Attempt(scene.bind(replace(scene.held.sd_jwt, disclosures=mixed), challenge), challenge)


def _stripped_key_binding(scene: Scene) -> Attempt:
    return Attempt(str(scene.held.sd_jwt), scene.ask())


def _replay(scene: Scene) -> Attempt:
    challenge = scene.ask()
    return Attempt(scene.bind(scene.held.sd_jwt, challenge), challenge, times=2)


def _old_answer(scene: Scene) -> Attempt:
    challenge = scene.ask()
    answer = present(scene.held, select_all(scene.held), challenge, scene.holder, int(scene.now) - 301)
    return Attempt(str(answer), challenge)


def _unknown_issuer(scene: Scene) -> Attempt:
    rogue = InMemorySigner(ec.generate_private_key(ec.SECP256R1()))
    issuer = Issuer("https://rogue-registry.example", rogue.public_key)
    card: SdCard = issue_sd_card(
        issuer, scene.plan, rogue, agent_id="georoute", holder_key=scene.holder.public_key,
        validity=rounded_validity(scene.now), salts=scene.salts,
    )  # fmt: skip
    acceptance = Acceptance(issuers=TrustedIssuers.of(issuer.identifier, rogue.public_key))
    held = accept_sd_card(str(card), acceptance, scene.holder.public_key, scene.now)
    challenge = scene.ask()
    return Attempt(str(present(held, select_all(held), challenge, scene.holder, scene.now)), challenge)


ATTACKS = (
    Attack("tampered disclosure", "the Holder changes a value and signs",
           Rule.DISCLOSURE_UNREFERENCED, _tampered_disclosure),
    Attack("foreign disclosure", "one of another card is slipped in",
           Rule.DISCLOSURE_UNREFERENCED, _foreign_disclosure),
    Attack("stripped KB-JWT", "a stolen card, no proof of the key",
           Rule.KB_MISSING, _stripped_key_binding),
    Attack("replay", "a genuine answer is sent twice",
           Rule.KB_REPLAYED, _replay),
    Attack("old answer", "signed 301 seconds ago",
           Rule.KB_STALE, _old_answer),
    Attack("unknown issuer", "genuine, from a registry nobody trusts",
           Rule.ISSUER_UNKNOWN, _unknown_issuer),
)  # fmt: skip
