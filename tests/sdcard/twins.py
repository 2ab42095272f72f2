"""Twins: cards that differ in members, some of which a context hides; and what an SD-Card of each looks like."""

import copy
import json
import random
from collections.abc import Iterator

from sdcard import DEFAULT_POLICY, Card, Refused
from sdcard.cards.detect import read_card
from sdcard.encoding import JsonObject, JsonValue
from sdcard.policy.plan import plan_disclosure, shown
from tests.sdcard.cards.agentcard.cards import mcp, readme
from tests.world import MovableClock, RecordingSalts, WorldIssuer, example, key

CAPABILITIES: JsonObject = {"streaming": True, "pushNotifications": False}
SKILLS: list[JsonValue] = [{"id": "plan", "name": "Plan", "description": "d", "tags": ["t"]}]
OLD: JsonObject = {
    "name": "N",
    "description": "d",
    "version": "1",
    "url": "https://agent.example/a2a",
    "capabilities": CAPABILITIES,
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": SKILLS,
}
INTERFACE: JsonObject = {"url": "https://agent.example/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
AGENT: JsonObject = example("georoute.agentcard.json")
KNO: JsonObject = {
    "$schema": "agent-card@0.1.0",
    "id": "01KKSY8ABC123DEF456GHJ789",
    "slug": "echo-agent",
    "name": "Echo Agent",
    "description": "Says what it hears.",
    "url": "https://agent.example/kno",
    "version": "0.1.0",
    "provider": {"organization": "O", "url": "https://o.example"},
    "capabilities": {"streaming": False, "push_notifications": False},
    "skills": [{"id": "echo", "name": "Echo", "description": "d", "tags": ["t"]}],
    "ownership": {"context": "platform"},
}
BASES: dict[str, list[JsonObject]] = {
    "a2a": [
        OLD,
        {**OLD, "authentication": {"schemes": ["Bearer"]}},
        {**OLD, "protocolVersion": "0.1"},
        {**OLD, "protocolVersion": "0.2.5"},
        {**OLD, "protocolVersion": "0.3.0"},
        {**OLD, "protocolVersion": "1.0"},
        {**OLD, "supportedInterfaces": [INTERFACE]},
        example(),
        example("georoute-0.3.json"),
    ],
    "agentcard": [AGENT, readme(), mcp()],
    "kno": [KNO],
}

REMOVED = object()
SCHEMES: JsonObject = {"m": {"type": "mutualTLS"}, "k": {"type": "apiKey", "in": "header", "name": "X"}}
MEMBERS: dict[str, dict[tuple[str | int, ...], tuple[object, ...]]] = {
    "a2a": {
        ("url",): ("https://agent.example/other", REMOVED),
        ("supportedInterfaces",): ([INTERFACE], [INTERFACE, {**INTERFACE, "tenant": "t"}], REMOVED),
        ("additionalInterfaces",): ([{"url": "https://agent.example/2", "transport": "GRPC"}], REMOVED),
        ("preferredTransport",): ("GRPC", REMOVED),
        ("provider",): ({"organization": "O", "url": "https://o.example"}, REMOVED),
        ("iconUrl",): ("https://agent.example/i.png", REMOVED),
        ("documentationUrl",): ("https://agent.example/doc", REMOVED),
        ("capabilities",): (CAPABILITIES, {"extensions": [{"uri": "https://x.example/e"}]}, {}),
        ("defaultInputModes",): (["text/plain"], ["application/json", "text/plain"], []),
        ("supportsAuthenticatedExtendedCard",): (True, REMOVED),
        ("authentication",): ({"schemes": ["Bearer"]}, REMOVED),
        ("security",): ([{"k": []}], REMOVED),
        ("securitySchemes",): (SCHEMES, {"m": {"mtlsSecurityScheme": {}}}, REMOVED),
        ("securityRequirements",): ([{"schemes": {"m": {"list": []}}}], REMOVED),
        ("skills", 0, "security"): ([{"m": []}], REMOVED),
        ("skills", 0, "tags"): (["a", "b"], []),
        ("skills", 0, "examples"): (["e"], REMOVED),
        ("skills", 0, "inputModes"): (["text/plain"], REMOVED),
        ("x-own",): ({"b": 1, "a": [2]}, REMOVED),
    },
    "agentcard": {
        ("endpoint", "health_url"): ("https://agent.example/health", REMOVED),
        ("endpoint", "auth"): (
            {"scheme": "bearer"},
            {"scheme": "bearer", "token_url": "https://agent.example/t"},
            {"scheme": "none"},
        ),
        ("endpoint", "protocol"): ("http", "https"),
        ("pricing",): (
            {"base_cost_joules": 1e-21, "per_token_joules": 1e-24},
            {"base_cost_joules": 1e-21, "estimated_latency_ms": 5},
            {"base_cost_joules": 1e-21, "currency_unit": "EUR"},
            REMOVED,
        ),
        ("metadata",): ({"pacr:interaction_count": 3}, {"pacr:ossification_risk": "low"}, {"framework": "f"}, REMOVED),
        ("goal_subscriptions",): ([{"goal_id": "g"}, {"goal_id": "h"}], REMOVED),
        ("capabilities", 0, "description"): ("another description of what it does",),
        ("x-own",): (1, REMOVED),
    },
    "kno": {
        ("$schema",): ("agent-card@0.2.0", "agent-card@0.2.1"),
        ("ownership",): ({"context": "platform"}, REMOVED),
        ("provider",): ({"organization": "O", "url": "https://o.example"}, REMOVED),
        ("authentication",): ({"schemes": ["Bearer"]}, REMOVED),
        ("capabilities",): ({"streaming": True}, {}),
        ("perception",): ({"domains": ["a"]}, {"domains": []}, REMOVED),
        ("goals",): ([{"id": "g", "description": "d"}], REMOVED),
        ("boundaries",): (["no"], REMOVED),
        ("endpoint",): ("https://agent.example/kno", REMOVED),
        ("x-own",): (1, REMOVED),
    },
}


def twin_of(document: JsonObject, family: str, dice: random.Random) -> JsonObject:
    """The document with some of its members changed, and every object's members in another order."""
    changed = copy.deepcopy(document)
    for place, values in MEMBERS[family].items():
        if dice.random() < 0.4:
            _set(changed, place, dice.choice(values))
    return _shuffled(changed, dice)


def _set(document: JsonValue, place: tuple[str | int, ...], value: object) -> None:
    for step in place[:-1]:
        inside = document
        if isinstance(inside, dict) and step in inside:
            document = inside[str(step)]
        elif isinstance(inside, list) and isinstance(step, int) and step < len(inside):
            document = inside[step]
        else:
            return
    if isinstance(document, dict):
        document.pop(str(place[-1]), None)
        if value is not REMOVED:
            document[str(place[-1])] = copy.deepcopy(value)  # type: ignore[assignment]  # a JSON value of the table


def _shuffled(value: JsonValue, dice: random.Random) -> "JsonObject":
    def walk(inner: JsonValue) -> JsonValue:
        if isinstance(inner, dict):
            return {name: walk(inner[name]) for name in dice.sample(list(inner), len(inner))}
        return [walk(one) for one in inner] if isinstance(inner, list) else inner

    walked = walk(value)
    assert isinstance(walked, dict)
    return walked


def issued(card: Card, context: str, disclose: list[str] | None = None) -> tuple[str, str]:
    """Return the claims of the card's SD-Card, and its text without the signature; salts are fixed."""
    plan = plan_disclosure(card, DEFAULT_POLICY, context, disclose)
    world = WorldIssuer(MovableClock(), RecordingSalts(), key(2).public_key)
    sd_jwt = world.issue(plan).sd_jwt
    signed = sd_jwt.issuer_jwt.rpartition(".")[0]
    return json.dumps(shown(plan.root), sort_keys=True), "~".join((signed, *sd_jwt.disclosures))


def cards(family: str, base: JsonObject, dice: random.Random) -> Iterator[Card]:
    while True:
        try:
            card = read_card(twin_of(base, family, dice))
        except Refused:
            continue
        if card.format.family == family:
            yield card
