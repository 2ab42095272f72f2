"""AgentCards at the registry: taken as they are, in agreement with the request, and within the limits of the token."""

from typing import Any

import pytest

from issuer_service.access import Limit
from sdcard.encoding import JsonObject
from tests.issuer_service.desk import Desk, OpenDesk, assert_refused, request_with_card
from tests.sdcard.cards.agentcard.cards import MINIMAL, mcp, readme, whole
from tests.sdcard.cards.documents import changed

URL = "card/endpoint/url"
CONTEXTS = [{"context": name} for name in ("public", "internal", "diagnostic", "federation", "full")]


def registration(card: JsonObject, **changes: Any) -> dict[str, Any]:
    """AgentCards have no description; the request has one of its own."""
    named = {"agent_id": card["agent_id"], "disclosure_contexts": CONTEXTS}
    return request_with_card(card, **{**named, **changes})


@pytest.mark.parametrize("card", [MINIMAL, whole(), readme(), mcp()])
def test_an_agentcard_gets_an_sd_card_for_every_context(registry: OpenDesk, card: JsonObject) -> None:
    answer = registry.register(registration(card))

    assert answer["sub"] == f"agent:{card['agent_id']}"
    assert [one["context"] for one in answer["cards"]] == [one["context"] for one in CONTEXTS]
    shown = {one["context"]: set(one["discloses"]) for one in answer["cards"]}
    always = {"agent_id", "name", "version"}
    assert shown["public"] == always | {"capabilities", "capabilities.*", "capabilities.*.id"}
    assert set(card) <= shown["full"]


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"agent_id": "01HZQK3P8EMXR9V7T5N2W4J6C1"}, "request/agent_id"),
        ({"agent_id": "georoute"}, "request/agent_id"),
        ({"name": "Another"}, "request/name"),
        ({"version": "9.9.9"}, "request/version"),
    ],
)
def test_what_the_request_says_too_must_be_the_same(
    desk: Desk, registry: OpenDesk, change: dict[str, str], place: str
) -> None:
    before = desk.rows()
    assert_refused(registry.post(registration(whole(), **change)), 422, ("card.disagrees", place))
    assert desk.rows() == before


def test_an_a2a_card_may_hold_an_agent_id_that_means_something_else(registry: OpenDesk) -> None:
    """A2A does not know the member, so it says nothing about the agent."""
    card = request_with_card()["card"] | {"agent_id": "urn:something:else"}
    registry.register(request_with_card(card))


def test_an_invalid_agentcard_is_refused_with_everything_that_is_wrong(registry: OpenDesk) -> None:
    card = changed(whole(), ("pricing", "base_cost_joules"), 1e-30) | {"version": "1"}
    response = registry.post(registration(card))
    expected = [("card.member-value", "card/version"), ("agentcard.cost-floor", "card/pricing/base_cost_joules")]
    assert_refused(response, 422, *expected)


WITHIN: list[dict[Limit, list[str]]] = [
    {Limit.ENDPOINT_HOSTS: ["GeoRoute-agent.example.com"]},
    {Limit.SKILL_IDS: ["tool.route_optimizer", "com.example.fleet.dispatch"]},
    {Limit.PROVIDER_NAMES: ["Anybody"]},
    {Limit.AGENT_ID_PREFIXES: ["01JZ8"]},
]
BEYOND: list[tuple[dict[Limit, list[str]], JsonObject, list[str]]] = [
    ({Limit.ENDPOINT_HOSTS: ["example.com"]}, whole(), [URL]),
    ({Limit.ENDPOINT_HOSTS: []}, whole(), [URL]),
    ({Limit.ENDPOINT_HOSTS: ["other.example"]}, readme(), [URL, "card/endpoint/health_url"]),
    ({Limit.SKILL_IDS: ["tool.route_optimizer"]}, whole(), ["card/capabilities/1/id"]),
    ({Limit.AGENT_ID_PREFIXES: ["02"]}, whole(), ["request/agent_id"]),
]


@pytest.mark.parametrize("limits", WITHIN)
def test_what_is_within_the_limits_is_granted(desk: Desk, registry: OpenDesk, limits: dict[Limit, list[str]]) -> None:
    registry.register(registration(whole()), desk.new_token("bob", limits=limits))


@pytest.mark.parametrize(("limits", "card", "places"), BEYOND)
def test_what_is_beyond_them_is_refused_at_its_place(
    desk: Desk, registry: OpenDesk, limits: dict[Limit, list[str]], card: JsonObject, places: list[str]
) -> None:
    token = desk.new_token("bob", limits=limits)
    response = registry.post(registration(card), authorization=f"Bearer {token}")
    assert_refused(response, 403, *[("token.limit", place) for place in places])


@pytest.mark.parametrize(
    ("protocol", "url", "status"),
    [
        ("mcp", "mcp://a.example/agent", 201),
        ("mcp", "mcp://b.example/agent", 403),
        ("mcp", "other://a.example/agent", 403),
        ("stdio", "stdio:a.example", 403),
        ("stdio", "file://a.example/agent", 403),
        ("https", "https://b.example@a.example/", 403),
        ("https", "https://a.example@b.example/", 403),
        ("grpc", "grpcs://a.example:443", 201),
    ],
)
def test_an_endpoint_whose_host_is_not_plain_passes_no_limit(
    desk: Desk, registry: OpenDesk, protocol: str, url: str, status: int
) -> None:
    token = desk.new_token("bob", limits={Limit.ENDPOINT_HOSTS: ["a.example"]})
    card = MINIMAL | {"endpoint": {"protocol": protocol, "url": url}}
    response = registry.post(registration(card), authorization=f"Bearer {token}")
    assert response.status_code == status
