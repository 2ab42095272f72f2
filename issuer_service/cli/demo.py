"""``sdcard demo``: a registry, an agent, a Verifier and six attacks."""

import signal
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import typer
from cryptography.hazmat.primitives.asymmetric import ec
from rich.text import Text

from sdcard.acceptance import Acceptance
from sdcard.cards.detect import parse_card
from sdcard.cli.app import EXIT_REFUSED
from sdcard.cli.options import AsJson
from sdcard.cli.output import console, print_json, table
from sdcard.encoding import JsonObject, decode_base64url, encode_base64url, encode_json, parse_json
from sdcard.errors import Part, Refused, Where
from sdcard.holder import HeldSdCard, accept_sd_card, present, select_all
from sdcard.instants import Instant
from sdcard.io.replay_cache import MemoryChallengeRecord
from sdcard.io.system import SystemClock, SystemSalts
from sdcard.issuer import Issuer, SdCard, issue_sd_card, rounded_validity
from sdcard.jose.jws import InMemorySigner
from sdcard.key_binding import Answering, Challenge, bind
from sdcard.policy.model import DEFAULT_POLICY
from sdcard.policy.plan import DisclosurePlan, plan_disclosure
from sdcard.rules import Rule
from sdcard.salts import SaltSource
from sdcard.sdjwt.model import SdJwt
from sdcard.status_list import Unchecked
from sdcard.trust import TrustedIssuers
from sdcard.verifier import Expectations, VerifiedCard, verify_presentation


@dataclass(frozen=True, slots=True)
class AttackSetup:
    """Material of an attacker: two SD-Cards of an agent, and a Verifier."""

    held: HeldSdCard
    other: HeldSdCard
    plan: DisclosurePlan
    holder: InMemorySigner
    challenges: MemoryChallengeRecord
    salts: SaltSource
    now: Instant

    def ask(self) -> Challenge:
        """Make a fresh challenge of the Verifier."""
        return self.challenges.issue(self.now)

    def bind(self, sd_jwt: SdJwt, challenge: Challenge) -> str:
        """Bind any SD-JWT with a genuine KB-JWT: the Holder itself may be the attacker."""
        sd_hash = self.held.issued.verified.processed.algorithm.digest(str(sd_jwt))
        return str(bind(sd_jwt, sd_hash, challenge, self.holder, self.now))


@dataclass(frozen=True, slots=True)
class Attempt:
    """A presentation and its expected challenge. ``times``: twice is a replay."""

    presentation: str
    challenge: Challenge
    times: int = 1


@dataclass(frozen=True, slots=True)
class Attack:
    """An attack, and the rule that must refuse it."""

    name: str
    what: str
    refused_with: Rule
    attempt: Callable[[AttackSetup], Attempt]


def _tampered_disclosure(setup: AttackSetup) -> Attempt:
    first, *rest = setup.held.sd_jwt.disclosures
    where = Where(Part.DISCLOSURE, (0,))
    array = parse_json(decode_base64url(first, where), where, 64)
    assert isinstance(array, list)
    changed = encode_base64url(encode_json([*array[:-1], "https://attacker.example"]))
    challenge = setup.ask()
    return Attempt(setup.bind(setup.held.sd_jwt._replace(disclosures=(changed, *rest)), challenge), challenge)


def _foreign_disclosure(setup: AttackSetup) -> Attempt:
    mixed = (*setup.held.sd_jwt.disclosures, setup.other.sd_jwt.disclosures[0])
    challenge = setup.ask()
    return Attempt(setup.bind(setup.held.sd_jwt._replace(disclosures=mixed), challenge), challenge)


def _stripped_key_binding(setup: AttackSetup) -> Attempt:
    return Attempt(str(setup.held.sd_jwt), setup.ask())


def _replay(setup: AttackSetup) -> Attempt:
    challenge = setup.ask()
    return Attempt(setup.bind(setup.held.sd_jwt, challenge), challenge, times=2)


def _old_answer(setup: AttackSetup) -> Attempt:
    challenge = setup.ask()
    answer = present(setup.held, select_all(setup.held), challenge, setup.holder, int(setup.now) - 301)
    return Attempt(str(answer), challenge)


def _unknown_issuer(setup: AttackSetup) -> Attempt:
    rogue = InMemorySigner(ec.generate_private_key(ec.SECP256R1()))
    issuer = Issuer("https://rogue-registry.example", rogue.public_key)
    card: SdCard = issue_sd_card(
        issuer, setup.plan, rogue, agent_id="georoute", holder_key=setup.holder.public_key,
        validity=rounded_validity(setup.now), salts=setup.salts,
    )  # fmt: skip
    acceptance = Acceptance(issuers=TrustedIssuers.of(issuer.identifier, rogue.public_key))
    held = accept_sd_card(str(card), acceptance, setup.holder.public_key, setup.now)
    challenge = setup.ask()
    return Attempt(str(present(held, select_all(held), challenge, setup.holder, setup.now)), challenge)


ATTACKS = (
    Attack("tampered disclosure", "the Holder changes a value and signs",
           Rule.DISCLOSURE_UNREFERENCED, _tampered_disclosure),
    Attack("foreign disclosure", "a Disclosure of another card is added",
           Rule.DISCLOSURE_UNREFERENCED, _foreign_disclosure),
    Attack("stripped KB-JWT", "a stolen card, no proof of the key",
           Rule.KB_MISSING, _stripped_key_binding),
    Attack("replay", "a genuine answer is sent twice",
           Rule.KB_REPLAYED, _replay),
    Attack("old answer", "signed 301 seconds ago",
           Rule.KB_STALE, _old_answer),
    Attack("unknown issuer", "genuine, from a registry that is not trusted",
           Rule.ISSUER_UNKNOWN, _unknown_issuer),
)  # fmt: skip


# -- The demo ---------------------------------------------------------------------------------------------------------

CONTEXTS = ("public", "internal", "diagnostic", "federation", "full")
AGENT_ID = "georoute"
AUDIENCE = "https://verifier.example"

NAMES = frozenset({"name", "description", "version"})
INSIDE = frozenset({
    "capabilities", "defaultInputModes", "defaultOutputModes", "documentationUrl", "iconUrl", "provider", "skills",
    "supportedInterfaces",
})  # fmt: skip
SECURITY = frozenset({"securityRequirements", "securitySchemes"})
PROMISED = {
    "public": NAMES | {"skills"},
    "internal": NAMES | INSIDE,
    "diagnostic": NAMES | INSIDE | SECURITY,
    "federation": NAMES | {"skills"},
    "full": NAMES | INSIDE | SECURITY,
}
"""The top-level members that a Verifier sees of the example card in each context."""

SKILL_NAMES = frozenset({"id", "name"})
SKILL = SKILL_NAMES | {"description", "examples", "inputModes", "outputModes", "tags"}
PROMISED_OF_SKILLS = {
    "public": SKILL_NAMES,
    "internal": SKILL,
    "diagnostic": SKILL | {"securityRequirements"},
    "federation": SKILL_NAMES,
    "full": SKILL | {"securityRequirements"},
}
"""The members that a Verifier sees of the example card's skills."""


@dataclass(frozen=True, slots=True)
class ContextResult:
    """The size of a context's SD-Card, and the members that the Verifier saw."""

    context: str
    size: int
    disclosures: int
    hidden: int
    members: frozenset[str]
    of_skills: frozenset[str]

    @property
    def as_promised(self) -> bool:
        """Whether the Verifier saw exactly what the context promises."""
        return self.members == PROMISED[self.context] and self.of_skills == PROMISED_OF_SKILLS[self.context]


@dataclass(frozen=True, slots=True)
class AttackResult:
    """An attack and the Verifier's answer. ``rule`` is None if the attack succeeded."""

    name: str
    what: str
    promised: str
    rule: str | None
    where: str

    @property
    def as_promised(self) -> bool:
        """Whether exactly the promised rule refused."""
        return self.rule == self.promised


def command(as_json: AsJson = False) -> None:
    """Run the demo."""
    from issuer_service.server import running_registry

    signal.signal(signal.SIGTERM, _stop)
    with tempfile.TemporaryDirectory(prefix="sdcard-demo-") as directory, running_registry(Path(directory)) as desk:
        shown, attacks = _story(desk.address, desk.token)
    good = all(s.as_promised for s in shown) and all(f.as_promised for f in attacks)
    if as_json:
        print_json(_document(desk.address, shown, attacks, good))
    else:
        _show(desk.address, shown, attacks, good)
    if not good:
        raise typer.Exit(EXIT_REFUSED)


def _stop(_: int, __: object) -> None:
    """Handle a stop signal: leave the ``with`` blocks first."""
    raise KeyboardInterrupt


def example_card() -> bytes:
    """Read the example card from the package, or from ``examples/`` in a checkout."""
    packaged = resources.files("issuer_service.cli").joinpath("georoute.json")
    if packaged.is_file():
        return packaged.read_bytes()
    return (Path(__file__).parents[2] / "examples" / "georoute.json").read_bytes()


def _story(address: str, token: str) -> tuple[list[ContextResult], list[AttackResult]]:
    """Register over HTTP; accept, present and verify in each context; then attack."""
    from sdcard.io.registry_client import Registry

    clock, salts = SystemClock(), SystemSalts()
    holder = InMemorySigner(ec.generate_private_key(ec.SECP256R1()))
    card = parse_card(example_card())
    registry = Registry(address, token)
    body: JsonObject = {
        "agent_id": AGENT_ID,
        **{name: card.document[name] for name in ("name", "description", "version")},
        "public_key": dict(holder.public_key.to_jwk()),
        "disclosure_contexts": [{"context": context} for context in CONTEXTS],
        "card": card.document,
    }
    issuers, _ = registry.issuer()
    answer = registry.register(body, [(context, holder.public_key.thumbprint) for context in CONTEXTS])
    acceptance = Acceptance(issuers=issuers)
    held = {
        one.context: accept_sd_card(one.sd_card, acceptance, holder.public_key, clock.now()) for one in answer.cards
    }
    challenges = MemoryChallengeRecord(AUDIENCE, salts)
    plan = plan_disclosure(card, DEFAULT_POLICY, "full")
    setup = AttackSetup(held["internal"], held["public"], plan, holder, challenges, salts, clock.now())
    shown = [_present(context, held[context], setup, issuers) for context in CONTEXTS]
    return shown, _attack(setup, issuers)


def _present(context: str, held: HeldSdCard, setup: AttackSetup, issuers: TrustedIssuers) -> ContextResult:
    challenge = setup.ask()
    presentation = present(held, select_all(held), challenge, setup.holder, setup.now)
    verified = _verify(str(presentation), Answering(challenge, setup.challenges), issuers, setup.now)
    skills: Any = verified.members["skills"]
    return ContextResult(
        context=context,
        size=len(str(held.sd_jwt)),
        disclosures=len(held.sd_jwt.disclosures),
        hidden=verified.hidden,
        members=frozenset(verified.members),
        of_skills=frozenset(name for skill in skills for name in skill),
    )


def _attack(setup: AttackSetup, issuers: TrustedIssuers) -> list[AttackResult]:
    attacks = []
    for attack in ATTACKS:
        attempt = attack.attempt(setup)
        rule, where = None, ""
        try:
            for _ in range(attempt.times):
                _verify(attempt.presentation, Answering(attempt.challenge, setup.challenges), issuers, setup.now)
        except Refused as refusal:
            rule, where = refusal.rule.value, str(refusal.where)
        attacks.append(AttackResult(attack.name, attack.what, attack.refused_with.value, rule, where))
    return attacks


def _verify(presentation: str, expected: Answering, issuers: TrustedIssuers, now: Instant) -> VerifiedCard:
    status = Unchecked("the demo's registry keeps no status list")
    return verify_presentation(presentation, Expectations(issuers=issuers, key_binding=expected, status=status), now)


def _document(address: str, shown: list[ContextResult], attacks: list[AttackResult], good: bool) -> dict[str, Any]:
    return {
        "as_promised": good,
        "registry": address,
        "contexts": [
            {"context": s.context, "bytes": s.size, "disclosures": s.disclosures, "hidden": s.hidden,
             "members": sorted(s.members), "as_promised": s.as_promised}
            for s in shown
        ],
        "attacks": [
            {"attack": f.name, "promised": f.promised, "refused_with": f.rule, "where": f.where,
             "as_promised": f.as_promised}
            for f in attacks
        ],
    }  # fmt: skip


def _show(address: str, shown: list[ContextResult], attacks: list[AttackResult], good: bool) -> None:
    out = console()
    out.print(Text(f"\nThe registry at {address} issued one agent an SD-Card per context."))
    out.print(Text("The agent presented each with key binding. A Verifier saw:"))
    out.print(table("", ("member", *(one.context for one in shown)), [*_members(shown), *_figures(shown)]))
    out.print(Text("Then six attackers tried to deceive the Verifier:"))
    out.print(table("", ("attack", "what was done", "refused with", ""), [_attack_row(one) for one in attacks]))
    line = "Everything as promised." if good else "Something is not as promised."
    out.print(Text(f"{line}\n", "bold green" if good else "bold red"))


def _members(shown: list[ContextResult]) -> list[list[Text]]:
    rows = []
    for member in sorted({name for one in shown for name in one.members}):
        rows.append([Text(member), *(_seen(member, one) for one in shown)])
    return rows


def _seen(member: str, one: ContextResult) -> Text:
    if member not in one.members:
        return Text("—", "dim")
    names_only = member == "skills" and one.of_skills == SKILL_NAMES
    return Text("id, name" if names_only else "●", "green")


def _figures(shown: list[ContextResult]) -> list[list[Text]]:
    return [
        [Text("disclosures", "dim"), *(Text(str(one.disclosures), "dim") for one in shown)],
        [Text("size in bytes", "dim"), *(Text(str(one.size), "dim") for one in shown)],
        [Text("as promised"), *(_mark(one.as_promised) for one in shown)],
    ]


def _attack_row(one: AttackResult) -> list[Text]:
    refused = Text(f"{one.rule}\nat {one.where}", "red") if one.rule else Text("accepted!", "bold red")
    return [Text(one.name, "bold"), Text(one.what), refused, _mark(one.as_promised)]


def _mark(as_promised: bool) -> Text:
    return Text("✓", "green") if as_promised else Text("✗", "bold red")
