"""The settings in which the attacker links pairs, and their texts."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.linking.population import Agent, agents
from benchmarks.linking.registry import (
    START,
    Held,
    Registry,
    SeededSalts,
    SetClock,
    accepted,
    new_key,
    presented,
    registry,
    selection,
)
from issuer_service.settings import SubjectPer
from sdcard import DEFAULT_POLICY
from sdcard.io.system import CoarseClock
from sdcard.issuer import DAY
from sdcard.policy.context import Agreement
from sdcard.policy.model import DisclosurePolicy

PARTNERS = 20
WITHIN = 5
"""Seconds between two presentations of one task."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A way in which agents are registered and present.

    Attributes:
        name: as it stands in the table.
        contexts: of the two SD-Cards; ``public`` twice is one context with two keys.
        fresh_keys: whether the two SD-Cards are bound to two keys.
        subjects: what one ``sub`` stands for: an ``agent``, a ``context`` of it, or a ``card``.
        shared_texts: whether all agents have the same name, description and version.
        lifetime_days: of an SD-Card.
        spread_days: over how many days the agents register.
        versions: as in ``agents``.
        shows: what both presentations show.
        catalog: as in ``agents``.
        writers: as in ``agents``.
        same_task: whether the two presentations are within five seconds of each other.
        step: of the Holder's clock, in seconds.
    """

    name: str
    contexts: tuple[str, str] = ("public", "public")
    fresh_keys: bool = True
    subjects: str = "card"
    shared_texts: bool = True
    lifetime_days: int = 30
    spread_days: int = 0
    versions: int = 1
    shows: str = "nothing"
    catalog: int = 0
    writers: int = 1
    same_task: bool = False
    step: int = 60


_OWN = Setting("texts of their own", shared_texts=False, lifetime_days=7, step=1)
SETTINGS = (
    replace(_OWN, name="one key", contexts=("public", "internal"), fresh_keys=False, subjects="agent"),
    replace(_OWN, name="fresh keys", subjects="agent"),
    replace(_OWN, name="fresh keys, a subject for each context", contexts=("public", "internal"), subjects="context"),
    Setting("recommended"),
    Setting("recommended, public and internal", ("public", "internal")),
    Setting("recommended, a subject for each context", ("public", "internal"), subjects="context"),
    Setting("recommended, registered over 7 days", spread_days=7),
    Setting("recommended, registered over 60 days", spread_days=60),
    Setting("shared texts, three protocol versions", versions=3),
    Setting("lifetime of 7 days, registered over 7 days", lifetime_days=7, spread_days=7),
    Setting("lifetime of 7 days, registered over 60 days", lifetime_days=7, spread_days=60),
    Setting("lifetime of 1 day, registered over 60 days", lifetime_days=1, spread_days=60),
    Setting("one skill of 540 shown", shows="skill"),
    Setting("one skill of 40 shown", shows="skill", catalog=40),
    Setting("all skills shown, of 40", shows="all", catalog=40),
    Setting("all shown, internal, skills of 40", ("internal", "internal"), shows="all", catalog=40),
    Setting("12 writers, the same skill shown", shows="skill", catalog=1, writers=12),
    Setting("50 writers, the same skill shown", shows="skill", catalog=1, writers=50),
    Setting("two Verifiers within 5 s, exact iat", same_task=True, step=1),
    Setting("two Verifiers within 5 s, iat rounded to a minute", same_task=True),
    Setting("two Verifiers within 5 s, iat rounded to four minutes", same_task=True, step=240),
    Setting("agreements of 20 partners", ("federation", "federation"), lifetime_days=7),
    Setting("agreements of 20 partners, lifetime of 30 days", ("federation", "federation")),
)


def make_pairs(setting: Setting, seed: str, count: int) -> tuple[list[str], list[str]]:
    """The first and second presentations; those of one number are of one agent."""
    dice, salts = random.Random(f"pairs {setting.name} {seed}"), SeededSalts(f"holders {seed}")
    drawn = agents(
        seed,
        count,
        writers=setting.writers,
        shared_texts=setting.shared_texts,
        versions=setting.versions,
        catalog=setting.catalog,
    )
    policy = with_partners(setting.lifetime_days) if "federation" in setting.contexts else DEFAULT_POLICY
    with registry(seed, setting.lifetime_days * DAY, policy, SubjectPer(setting.subjects)) as open_registry:
        acceptance = open_registry.acceptance()
        times = sorted(START + dice.random() * setting.spread_days * DAY for _ in drawn)
        last = times[-1]
        pairs = []
        for agent, at in zip(drawn, times, strict=True):
            cards = _register(open_registry, setting, agent, dice, at)
            moments = _moments(setting, dice, last)
            chosen = [
                presented(
                    held := accepted(card, acceptance, at),
                    card.signer,
                    selection(held, setting.shows),
                    f"https://verifier-{number}.example",
                    CoarseClock(SetClock(moment), setting.step).now(),
                    salts,
                )
                for number, (card, moment) in enumerate(zip(cards, moments, strict=True))
            ]
            pairs.append(chosen)
    return [one for one, _ in pairs], [other for _, other in pairs]


def _register(registry: Registry, setting: Setting, agent: Agent, dice: random.Random, at: float) -> list[Held]:
    """Register an agent for two SD-Cards.

    They are of one context with two keys, of two contexts with one key, or of two registrations.
    """
    keys = [new_key(dice) for _ in range(1 + setting.fresh_keys)]
    partner = partner_name(dice.randrange(PARTNERS))
    contexts = [_context(name, partner) for name in setting.contexts]
    if setting.contexts[0] == setting.contexts[1]:
        return registry.register(agent, contexts[:1], keys, at)
    if not setting.fresh_keys:
        return registry.register(agent, contexts, keys, at)
    return [card for number in (0, 1) for card in registry.register(agent, [contexts[number]], [keys[number]], at)]


def _context(name: str, partner: str) -> dict[str, Any]:
    return {"context": name, "partner": partner} if name == "federation" else {"context": name}


def _moments(setting: Setting, dice: random.Random, last: float) -> Sequence[float]:
    """Draw the instants of presentations, one for each agent.

    Each is within the day after the last registration.
    """
    first = last + 1 + dice.random() * DAY
    return first, first + dice.random() * WITHIN if setting.same_task else last + 1 + dice.random() * DAY


def partner_name(number: int) -> str:
    """Return the name of the agreement with a partner."""
    return f"https://partner-{number}.example"


GROUPS = ("description", "skills", "provider", "endpoints", "operational_info")
"""What agreements list."""


def with_partners(lifetime_days: int, broad: bool = False) -> DisclosurePolicy:
    """Make agreements with partners, each ending on a day of its own.

    The day is within the life of an SD-Card.

    ``broad``: each lists groups of its own choice; else all list the same.
    """
    dice = random.Random("partners")
    agreed = []
    for number in range(PARTNERS):
        ends = int(START + dice.uniform(1, 2) * lifetime_days * DAY)
        listed = tuple(dice.sample(GROUPS, dice.randint(1, 5))) if broad else GROUPS[:2]
        agreed.append(Agreement(partner_name(number), listed, ends))
    return DisclosurePolicy(DEFAULT_POLICY.contexts, agreements=tuple(agreed))
