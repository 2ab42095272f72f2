"""AgentCards as SD-Cards: every valid conformance case in every context, and what a2a-sdk makes of converted ones."""

import json
from typing import Any

import pytest

from sdcard import DEFAULT_POLICY
from sdcard.cards.agentcard.conversion import to_1_0
from sdcard.cards.detect import examine_card, read_card
from sdcard.encoding import JsonObject, JsonValue, same_json
from tests.external.a2a_sdks import ask_sdk
from tests.external.test_wild_cards import is_part, verified
from tests.sdcard.cards.agentcard.cards import MINIMAL, conformance, mcp, readme, whole
from tests.world import World

ALWAYS = {"agent_id", "name", "version"}
STRICTLY = """
import json, sys
from google.protobuf.json_format import MessageToDict, ParseDict
from a2a.types import AgentCard
json.dump([MessageToDict(ParseDict(card, AgentCard())) for card in json.load(sys.stdin)], sys.stdout)
"""


def valid_cases() -> list[JsonObject]:
    cards = (examine_card(case["data"]).card for case in conformance())
    return [card.document for card in cards if card is not None]


def vouched(value: Any) -> Any:
    """A card without the members that only a ledger may claim (AgentCard 8.4)."""
    if isinstance(value, dict):
        return {name: vouched(inside) for name, inside in value.items() if not name.startswith("pacr:")}
    return [vouched(element) for element in value] if isinstance(value, list) else value


def test_every_valid_case_comes_through_every_context(world: World) -> None:
    documents = [*valid_cases(), MINIMAL, whole(), readme(), mcp()]
    for document in documents:
        shown = {context: verified(world, context, document)[1] for context in DEFAULT_POLICY.contexts}
        for context, members in shown.items():
            assert is_part(members, document), context
            assert members.keys() >= ALWAYS
        assert same_json(shown["full"], vouched(document))
        assert same_json(shown["diagnostic"], vouched(document))
        expected = ALWAYS | {"capabilities"} | {"description"} & document.keys()
        assert shown["public"].keys() == shown["federation"].keys() == expected
    assert len(documents) >= 48


def test_each_context_shows_of_a_whole_card_what_it_is_for(world: World) -> None:
    document = whole() | {"x_own": 1}
    names: JsonValue = [{"id": "tool.route_optimizer"}, {"id": "com.example.fleet.dispatch"}]
    always = {name: document[name] for name in ALWAYS}

    _, public = verified(world, "public", document)
    assert same_json(public, always | {"capabilities": names})

    _, internal = verified(world, "internal", document)
    endpoint = {"protocol": "https", "url": "https://georoute-agent.example.com/api"}
    own = {name: vouched(document[name]) for name in ("capabilities", "pricing", "metadata")}
    assert same_json(internal, always | own | {"endpoint": endpoint})


@pytest.mark.parametrize(
    ("entry", "shown"),
    [
        ("endpoint.url", {"endpoint": {"protocol": "https", "url": "https://georoute-agent.example.com/api"}}),
        ("security_context", {"endpoint": {"protocol": "https", "auth": {"scheme": "bearer"}}}),
        ("metadata.framework", {"metadata": {"framework": "custom"}}),
        ("capabilities.*.tags", {"capabilities": [
            {"id": "tool.route_optimizer", "tags": ["maps", "routing", "traffic"]},
            {"id": "com.example.fleet.dispatch", "tags": ["fleet"]},
        ]}),
        ("goal_subscriptions", {"goal_subscriptions": whole()["goal_subscriptions"]}),
        ("provider", {}),
    ],
)  # fmt: skip
def test_a_registration_can_ask_for_each_part(world: World, entry: str, shown: JsonObject) -> None:
    document = whole()
    card = world.issuer.issue(world.issuer.plan("full", document, [entry]))
    challenge = world.verifier.challenge()
    seen = world.verifier.verify(world.holder.present(challenge, card), world.verifier.answering(challenge))
    assert same_json(seen.members, {name: document[name] for name in ALWAYS} | shown)
    assert seen.card_format == "agentcard/draft-00"


def test_a2a_sdk_parses_every_converted_card_strictly_and_says_the_same() -> None:
    """ParseDict refuses members that A2A 1.0 does not have, and values of another type."""
    converted: list[Any] = [to_1_0(read_card(one)).document for one in (MINIMAL, whole(), readme(), mcp())]
    for before, after in zip(converted, ask_sdk("1.3.0", STRICTLY, converted), strict=True):
        assert after == json.loads(json.dumps(before), object_hook=_as_protobuf_says)


def _as_protobuf_says(members: dict[str, Any]) -> dict[str, Any]:
    """Protobuf leaves out what is empty, and knows numbers of a Struct as floats."""
    return {name: value for name, value in members.items() if value != [] or name != "list"}
