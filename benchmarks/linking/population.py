"""Agents with cards, from a seed: the same seed gives the same agents.

Members are drawn independently of each other. So whatever a visible member tells about a hidden one comes from the
product, and not from the way in which authors write cards.
"""

import random
from dataclasses import dataclass
from typing import Any

DOMAINS = (
    "route", "weather", "invoice", "travel", "recipe", "ticket", "contract", "stock", "image", "speech", "calendar",
    "payroll", "claims", "legal", "clinic", "music", "print", "garden", "energy", "freight", "survey", "alert",
    "library", "museum", "harbour", "tender", "audit", "training", "grant", "census",
)  # fmt: skip
ACTIONS = (
    "planner", "checker", "finder", "writer", "translator", "summarizer", "forecaster", "classifier", "optimizer",
    "watcher", "matcher", "auditor", "scheduler", "converter", "reviewer", "estimator", "tracker", "composer",
)  # fmt: skip
MODES = ("text/plain", "application/json", "text/html", "image/png", "audio/wav", "application/pdf")
SHARED_NAME, SHARED_DESCRIPTION = "Fleet assistant", "An assistant of the fleet that does what its skills say."
MANY_SKILLS = 0.02
"""Share of agents that have more than sixteen skills."""


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent of the population.

    Attributes:
        agent_id: its id at the registry.
        card: its document, with the members in the order of its writer.
        writer: the number of the author whose habits the card has.
    """

    agent_id: str
    card: dict[str, Any]
    writer: int


def agents(
    seed: str, count: int, *, writers: int = 1, shared_texts: bool = False, versions: int = 1, catalog: int = 0
) -> list[Agent]:
    """Draw agents.

    Args:
        seed: decides everything.
        count: how many.
        writers: authors, each of whom has an order of members of their own.
        shared_texts: whether all agents have one name, description and version, and no ``protocolVersion``.
        versions: among how many values of ``protocolVersion`` the agents with shared texts are spread.
        catalog: draw the skills from so many that all agents share; 0 gives each agent skills of its own.
    """
    dice = random.Random(f"agents {seed}")
    known = [_skill(dice, number) for number in range(catalog)]
    drawn = []
    for number in range(count):
        writer = dice.randrange(writers)
        card = _card(dice, number, known)
        if shared_texts:
            card |= {"name": SHARED_NAME, "description": SHARED_DESCRIPTION, "version": "1.0.0"}
            card.pop("protocolVersion", None)
            if versions > 1:
                card["protocolVersion"] = f"0.3.{dice.randrange(versions)}"
        agent_id = f"{dice.choice(DOMAINS)}-{dice.getrandbits(40):010x}"
        drawn.append(Agent(agent_id, _in_order_of(writer, card, f"{seed} {writers}"), writer))
    return drawn


def has_security(card: dict[str, Any]) -> bool:
    """Whether a card says in any way that callers authenticate."""
    names = ("security", "securitySchemes", "securityRequirements", "authentication")
    return any(card.get(name) for name in names) or any("security" in skill for skill in card["skills"])


def endpoints(card: dict[str, Any]) -> int:
    """Count the addresses that a card lists."""
    return len(card.get("supportedInterfaces", ())) + len(card.get("additionalInterfaces", ())) + ("url" in card)


def _card(dice: random.Random, number: int, known: list[dict[str, Any]]) -> dict[str, Any]:
    """Draw a card of A2A 0.1 to 1.0.

    A separate coin decides each member that a context may hide.
    """
    domain, action = dice.choice(DOMAINS), dice.choice(ACTIONS)
    skills = _number_of_skills(dice)
    card: dict[str, Any] = {
        "name": f"{domain.title()} {action} {number}",
        "description": f"A {action} for {dice.choice(DOMAINS)} and {domain} work. " * dice.randint(1, 3),
        "version": f"{dice.randint(0, 4)}.{dice.randint(0, 9)}.{dice.randint(0, 20)}",
        "capabilities": {"streaming": dice.random() < 0.5, "pushNotifications": dice.random() < 0.3},
        "defaultInputModes": dice.sample(MODES, dice.randint(1, 3)),
        "defaultOutputModes": dice.sample(MODES, dice.randint(1, 3)),
        "skills": dice.sample(known, min(skills, len(known))) if known else [_skill(dice, n) for n in range(skills)],
    }
    host = f"https://{domain}-{number}.example"
    newest = dice.random() < 0.5
    addresses = [f"{host}/{path}" for path in dice.sample(("a2a", "rpc", "grpc", "v1", "v2", "eu"), dice.randint(1, 4))]
    if newest:
        card["supportedInterfaces"] = [
            {"url": url, "protocolBinding": dice.choice(("JSONRPC", "GRPC", "HTTP+JSON")), "protocolVersion": "1.0"}
            for url in addresses
        ]
    else:
        card["url"] = addresses[0]
        if addresses[1:]:
            card["additionalInterfaces"] = [{"url": url, "transport": "GRPC"} for url in addresses[1:]]
        version = dice.choice((None, "0.2.5", "0.3.0"))
        if version is not None:
            card["protocolVersion"] = version
    for name, value in _optional(dice, host).items():
        if dice.random() < 0.4:
            card[name] = value
    if dice.random() < 0.5:
        card["provider"] = {"organization": f"{domain.title()} {dice.choice(('Ltd', 'GmbH', 'Inc'))}", "url": host}
    if dice.random() < 0.5:
        _secure(dice, card, newest)
    return card


def _optional(dice: random.Random, host: str) -> dict[str, Any]:
    return {
        "documentationUrl": f"{host}/docs",
        "iconUrl": f"{host}/icon.png",
        "x-region": dice.choice(("eu", "us", "ap")),
        "x-contact": {"email": f"team@{host[8:]}", "hours": dice.randint(1, 24)},
    }


def _number_of_skills(dice: random.Random) -> int:
    return dice.randint(17, 24) if dice.random() < MANY_SKILLS else dice.choice((1, 1, 2, 2, 3, 4, 5, 6, 7, 8, 10, 12))


def _skill(dice: random.Random, number: int) -> dict[str, Any]:
    domain, action = dice.choice(DOMAINS), dice.choice(ACTIONS)
    skill: dict[str, Any] = {
        "id": f"{domain}-{action}-{number}",
        "name": f"{domain.title()} {action}",
        "description": f"Works as {action} for {domain}, by day and by night. " * dice.randint(1, 3),
        "tags": dice.sample(DOMAINS, dice.randint(1, 5)),
    }
    if dice.random() < 0.5:
        skill["examples"] = [f"Ask the {action} about {dice.choice(DOMAINS)}." for _ in range(dice.randint(1, 3))]
    if dice.random() < 0.3:
        skill["inputModes"] = dice.sample(MODES, dice.randint(1, 2))
    return skill


def _secure(dice: random.Random, card: dict[str, Any], newest: bool) -> None:
    """Add a declaration that callers authenticate, in a way that cards use."""
    if newest:
        card["securitySchemes"] = {"key": {"apiKeySecurityScheme": {"location": "header", "name": "X-API-Key"}}}
        card["securityRequirements"] = [{"schemes": {"key": {"list": []}}}]
        return
    way = dice.randrange(4)
    if way == 0 and "protocolVersion" not in card:
        card["authentication"] = {"schemes": [dice.choice(("Bearer", "Basic"))]}
        return
    card["securitySchemes"] = {"m": {"type": "mutualTLS"}} if way == 1 else {"b": {"type": "http", "scheme": "bearer"}}
    name = next(iter(card["securitySchemes"]))
    if way == 2:
        card["skills"][0] = {**card["skills"][0], "security": [{name: []}]}
    card["security"] = [{name: []}]


def _in_order_of(writer: int, card: dict[str, Any], seed: str) -> dict[str, Any]:
    """Order the members of all the card's objects as this writer does."""

    def rank(name: str) -> float:
        return random.Random(f"{seed} {writer} {name}").random()

    def ordered(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: ordered(value[name]) for name in sorted(value, key=rank)}
        return [ordered(element) for element in value] if isinstance(value, list) else value

    result: dict[str, Any] = ordered(card)
    return result
