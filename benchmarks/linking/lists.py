"""Information that status lists, their addresses and SD-Card ends reveal."""

import base64
import json
import random
import zlib
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.linking.population import Agent, agents
from benchmarks.linking.registry import OWNER, START, Held, Registry, new_key, registry
from benchmarks.linking.settings import PARTNERS, partner_name, with_partners
from issuer_service.status.service import REVOKE, change_statuses, published_list
from sdcard.issuer import DAY

CONTEXTS = ("public", "internal", "diagnostic", "full", "federation")
Entry = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Told:
    """Number of right guesses.

    Attributes:
        right: right guesses.
        asked: guesses.
        chance: right guesses of an attacker who learned nothing, expected.
    """

    right: int
    asked: int
    chance: float


def contexts_told(seed: str, cards: int = 354) -> dict[str, Told]:
    """Guess the context of an SD-Card that shows nothing, from other cards.

    The contexts of the other cards are known.

    Once from the address of its status list, and once from its number of digests.
    """
    dice = random.Random(f"addresses {seed}")
    found: dict[str, list[tuple[Hashable, str]]] = {"address": [], "digests": []}
    with registry(seed) as open_registry:
        for agent in agents(f"addresses {seed}", -(-2 * cards // len(CONTEXTS))):
            issued = open_registry.register(agent, [{"context": name} for name in CONTEXTS], [new_key(dice)], START)
            for card in issued:
                context = card.answer["context"]
                found["address"].append((card.answer["status"]["uri"], context))
                found["digests"].append((len(_payload(card.text)["_sd"]), context))
    return {name: _told(each[: 2 * cards], dice) for name, each in found.items()}


def partners_from_cards(seed: str, lifetime_days: int, broad: bool = False, cards: int = 250) -> Told:
    """Guess the partner of an SD-Card of *federation*, from other cards.

    The partners of the other cards are known.

    The attacker looks at its times and at its numbers of digests. ``broad``: as for ``with_partners``.
    """
    dice = random.Random(f"ends {seed}")
    found = []
    with registry(seed, lifetime_days * DAY, with_partners(lifetime_days, broad)) as open_registry:
        for agent in agents(f"ends {seed}", 2 * cards):
            partner = partner_name(dice.randrange(PARTNERS))
            asked = [{"context": "federation", "partner": partner}]
            (card,) = open_registry.register(agent, asked, [new_key(dice)], START)
            claims = _payload(card.text)
            found.append(((claims["iat"], claims["exp"], len(claims["_sd"])), partner))
    return _told(found, dice)


def agents_from_revocations(seed: str, a_minute: int, count: int = 20, looks: float = 10.0) -> int:
    """Count the agents that an attacker finds whole from changes in lists.

    Each agent has six SD-Cards.

    The attacker looks at all lists every so many seconds. It knows one SD-Card of each agent. When six entries change
    between two looks, and one of them is known, the attacker has found the agent.
    """
    dice = random.Random(f"revocations {seed} {a_minute}")
    with registry(seed) as open_registry:
        drawn = agents(f"revocations {seed}", count)
        entries = {agent.agent_id: _six(open_registry, agent, dice) for agent in drawn}
        addresses = sorted({address for each in entries.values() for address, _ in each})
        minutes = -(-count // a_minute)
        moments = sorted(
            (START + 120 + 60 * (number // a_minute) + dice.random() * 60, agent.agent_id)
            for number, agent in enumerate(drawn)
        )
        before, found = _look(open_registry, addresses, START + 119), set[str]()
        at, end = START + 120.0, START + 120 + 60 * minutes + 600
        while at <= end:
            while moments and moments[0][0] <= at:
                open_registry.clock.at, agent_id = moments.pop(0)
                open_registry.run(change_statuses(open_registry.container, OWNER, agent_id, REVOKE, b"{}"))
            after = _look(open_registry, addresses, at)
            changed = after - before
            found |= {agent_id for agent_id, each in entries.items() if each == changed}
            before = after
            at += looks
    return len(found)


def _six(open_registry: Registry, agent: Agent, dice: random.Random) -> set[Entry]:
    """The entries of an agent's SD-Cards: three contexts, two keys."""
    keys = [new_key(dice) for _ in range(2)]
    issued = open_registry.register(agent, [{"context": name} for name in CONTEXTS[:3]], keys, START)
    return {_entry(card) for card in issued}


def _entry(card: Held) -> Entry:
    return card.answer["status"]["uri"], card.answer["status"]["idx"]


def _look(open_registry: Registry, addresses: Sequence[str], at: float) -> set[Entry]:
    """All entries that are not valid."""
    open_registry.clock.at = at
    found = set[Entry]()
    for address in addresses:
        published = open_registry.run(published_list(open_registry.container, address.rpartition("/")[2]))
        listed = _payload(published.token.decode())["status_list"]
        bits = zlib.decompress(_decoded(listed["lst"]))
        each = 8 // listed["bits"]
        for place, byte in enumerate(bits):
            if byte:
                size = listed["bits"]
                found |= {
                    (address, place * each + number)
                    for number in range(each)
                    if byte >> (number * size) & ((1 << size) - 1)
                }
    return found


def _told(found: Sequence[tuple[Hashable, str]], dice: random.Random) -> Told:
    """Learn from one half of what is known, and guess in the other half."""
    order = dice.sample(found, len(found))
    known, asked = order[: len(order) // 2], order[len(order) // 2 :]
    answers: dict[Hashable, Counter[str]] = defaultdict(Counter)
    for sign, answer in known:
        answers[sign][answer] += 1
    commonest = Counter(answer for _, answer in known).most_common(1)[0][0]
    guesses = [answers[sign].most_common(1)[0][0] if sign in answers else commonest for sign, _ in asked]
    right = sum(guess == answer for guess, (_, answer) in zip(guesses, asked, strict=True))
    return Told(right, len(asked), len(asked) / len({answer for _, answer in found}))


def _payload(text: str) -> Any:
    return json.loads(_decoded(text.split("~")[0].split(".")[1]))


def _decoded(encoded: str) -> bytes:
    return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
