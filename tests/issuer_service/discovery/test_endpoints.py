"""``POST /agents/discover``: the draft's own requests, what each criterion finds, and what is refused."""

import json
from typing import Any

import pytest

from issuer_service.access import Limit, Scope
from sdcard.limits import MOST_RESULTS
from tests.issuer_service.desk import Desk, OpenDesk, assert_refused, on_both_databases, request
from tests.issuer_service.discovery.seekers import found_cards, read, register, register_card, status_of
from tests.sdcard.cards.agentcard.cards import MINIMAL
from tests.sdcard.cards.kno.cards import kno
from tests.shared import shared_dir
from tests.world import NOW, example

pytestmark = on_both_databases


def skills() -> Any:
    return example()["skills"]


def drafts(name: str) -> dict[str, Any]:
    examples = json.loads((shared_dir() / "spec" / "sd-card-examples.json").read_text(encoding="utf-8"))
    body: dict[str, Any] = examples[name]["body"]
    return body


@pytest.mark.parametrize(
    ("name", "context", "ignored"),
    [("discover_request_4_2", "public", ["availability"]), ("discover_request_5_3_1", "internal", [])],
)
def test_the_requests_of_the_draft_find_its_agent(
    desk: Desk, registry: OpenDesk, everywhere: str, name: str, context: str, ignored: list[str]
) -> None:
    register(registry)
    register(registry, agent_id="other", skills=[])

    answer = registry.client.post(
        "/agents/discover", json=drafts(name), headers={"authorization": f"Bearer {everywhere}"}
    )

    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
    assert answer.json().keys() == {"results", "next_cursor", "ignored"}
    assert (answer.json()["next_cursor"], answer.json()["ignored"]) == (None, ignored)
    (found,) = answer.json()["results"]
    assert found.keys() == {"agent_id", "sd_card"}
    card = read(desk, registry, found["sd_card"])
    assert (card.subject, found["agent_id"]) == ("agent:georoute", "georoute")
    assert ("capabilities" in card.members) is (context == "internal")
    assert "securitySchemes" not in card.members


@pytest.mark.parametrize(
    ("query", "public", "internal"),
    [
        ({"skills": ["route-optimizer-traffic"]}, True, True),
        ({"skills": ["  Route-Optimizer-TRAFFIC "]}, True, True),
        ({"skills": ["traffic-aware  route\toptimizer"]}, True, True),
        ({"skills": ["route-optimizer-traffic", "fleet-dispatch"]}, True, True),
        ({"skills": ["route-optimizer-traffic", "nothing"]}, False, False),
        ({"skills": ["route-optimizer"]}, False, False),
        ({"tags": ["maps", "Routing"]}, False, True),
        ({"tags": ["route-optimizer-traffic"]}, False, False),
        ({"capabilities": {"streaming": True}}, False, True),
        ({"capabilities": {"push_notifications": True}}, False, True),
        ({"capabilities": {"extensions": True}}, False, False),
        ({"input_modes": ["text/plain"]}, False, True),
        ({"output_modes": ["application/geo+json", "image/jpeg"]}, False, True),
        ({"output_modes": ["text/plain"]}, False, False),
        ({"text": "Advanced: route planning!"}, True, True),
        ({"text": "fleet dispatch"}, True, True),
        ({"text": "deliveries"}, False, True),
        ({"text": "advanced cooking"}, False, False),
        ({"text": "advanced", "skills": ["fleet-dispatch"]}, True, True),
        ({"text": "advanced", "tags": ["fleet"]}, False, True),
        ({"text": "openid"}, False, False),
        ({"text": "harbour"}, False, False),
    ],
)
def test_an_agent_is_found_by_all_that_the_context_shows_and_nothing_else(
    registry: OpenDesk, everywhere: str, query: dict[str, Any], public: bool, internal: bool
) -> None:
    register(registry)

    assert registry.found("public", everywhere, **query) == ["georoute"] * public
    assert registry.found("internal", everywhere, **query) == ["georoute"] * internal
    assert registry.found("full", everywhere, **query) == []


def test_what_a_registration_does_not_disclose_finds_nobody(registry: OpenDesk, everywhere: str) -> None:
    register(registry, {"context": "internal", "disclose": ["skills.*.tags", "capabilities"]})

    assert registry.found("internal", everywhere, tags=["maps"], capabilities={"streaming": True}) == ["georoute"]
    assert registry.found("internal", everywhere, input_modes=["text/plain"]) == []
    assert registry.found("internal", everywhere, text="historical") == []


def test_cards_of_every_format_are_found_by_the_same_criteria(registry: OpenDesk, everywhere: str) -> None:
    aevum = str(MINIMAL["agent_id"])
    register_card(registry, dict(MINIMAL), "full", agent_id=aevum)
    register_card(registry, kno(), "full", agent_id="kno")
    registry.register(request("summary", disclosure_contexts=[{"context": "full"}]))
    aevum_card: Any = MINIMAL
    kno_card: Any = kno()
    capability, skill = aevum_card["capabilities"][0]["id"], kno_card["skills"][0]

    assert registry.found("full", everywhere, skills=[capability]) == [aevum]
    assert registry.found("full", everywhere, skills=[skill["id"]]) == ["kno"]
    assert registry.found("full", everywhere, text="general purpose") == ["summary"]


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"query": {}}, "query"),
        ({"query": {"availability": "24/7"}}, "query"),
        ({"query": {"availability": None, "skills": ["a"]}}, "query/availability"),
        ({"query": {"skill": ["a"]}}, "query/skill"),
        ({"query": {"skills": []}}, "query/skills"),
        ({"query": {"skills": "a"}}, "query/skills"),
        ({"query": {"skills": [""]}}, "query/skills/0"),
        ({"query": {"skills": [1]}}, "query/skills/0"),
        ({"query": {"skills": ["a"], "tags": None}}, "query/tags"),
        ({"query": {"tags": ["a", " \t"]}}, "query/tags/1"),
        ({"query": {"tags": ["a"] * 17}}, "query/tags"),
        ({"query": {"tags": ["a" * 257]}}, "query/tags/0"),
        ({"query": {"text": "a" * 257}}, "query/text"),
        ({"query": {"text": "?!"}}, "query/text"),
        ({"query": {"text": " ".join(f"w{n}" for n in range(33))}}, "query"),
        ({"query": {"capabilities": {"streaming": False}}}, "query/capabilities/streaming"),
        ({"query": {"capabilities": {"streaming": "true"}}}, "query/capabilities/streaming"),
        ({"query": {"capabilities": {}}}, "query/capabilities"),
        ({"query": {"capabilities": {"_": True}}}, "query/capabilities"),
        ({"query": ["a"]}, "query"),
        ({"query": None}, "query"),
        ({"context": None}, "context"),
        ({"context": ""}, "context"),
        ({"max_results": 0}, "max_results"),
        ({"max_results": MOST_RESULTS + 1}, "max_results"),
        ({"max_results": "10"}, "max_results"),
        ({"max_results": True}, "max_results"),
        ({"max_results": None}, "max_results"),
        ({"cursor": None}, "cursor"),
        ({"cursor": ""}, "cursor"),
        ({"cursor": "a" * 257}, "cursor"),
        ({"offset": 1}, "offset"),
        ({"requester_claims": {"roles": ["a"] * 65}}, "requester_claims/roles"),
        ({"requester_claims": {"organization": 1}}, "requester_claims/organization"),
        ({"requester_claims": {"scopes": []}}, "requester_claims/scopes"),
    ],
)
def test_a_request_of_another_shape_is_refused_at_its_place(
    registry: OpenDesk, changes: dict[str, Any], place: str
) -> None:
    body = {"query": {"skills": ["a"]}, "context": "public", **changes}

    answer = registry.client.post("/agents/discover", json=body, headers={"authorization": f"Bearer {registry.token}"})

    assert_refused(answer, 422, ("request.malformed", f"request/{place}"))


def test_everything_that_is_wrong_is_said_at_once_and_long_names_are_not(registry: OpenDesk) -> None:
    answer = registry.client.post(
        "/agents/discover",
        json={"query": {"colour": 1, "capabilities": {"x" * 300: 1}}, "max_results": 0},
        headers={"authorization": f"Bearer {registry.token}"},
    )

    places = {finding["where"] for finding in answer.json()["findings"]}
    assert places >= {"request/query/colour", "request/context", "request/max_results", "request/query/capabilities"}
    assert "x" * 65 not in answer.text


def test_who_may_ask_and_for_what_the_token_says(desk: Desk, registry: OpenDesk) -> None:
    register(registry, "public", "internal", "full")
    discover, fleet = (Scope.AGENTS_DISCOVER,), {"skills": ["fleet-dispatch"]}
    plain = desk.new_token("bob", discover)
    insider = desk.new_token("carol", discover, {Limit.CONTEXTS: ["internal", "nowhere"]})
    nobody = desk.new_token("dave", discover, {Limit.CONTEXTS: []})
    owner = desk.new_token("alice", (Scope.AGENTS_REGISTER, Scope.AGENTS_MANAGE), {Limit.CONTEXTS: ["public"]})
    limited = desk.new_token("erin", discover, {Limit.AGENT_ID_PREFIXES: ["x"], Limit.SKILL_IDS: []})
    beyond = ("token.limit", "request/context")

    assert registry.found("public", plain, **fleet) == ["georoute"]
    assert registry.found("internal", insider, **fleet) == ["georoute"]
    assert registry.found("public", limited, **fleet) == ["georoute"]
    for token, context in ((plain, "internal"), (plain, "nowhere"), (insider, "public"), (nobody, "public")):
        assert_refused(registry.look_for(context, token, **fleet), 403, beyond)
    assert_refused(registry.look_for("nowhere", insider, **fleet), 422, ("context.unknown", "request/context"))
    assert "internal" not in registry.look_for("nowhere", insider, **fleet).text
    authorization = ("token.scope", "request/headers/authorization")
    assert_refused(registry.look_for("public", owner, **fleet), 403, authorization)
    assert_refused(
        registry.client.post("/agents/discover", json={}), 401, ("token.missing", "request/headers/authorization")
    )


@pytest.mark.parametrize("claims", [{}, {"organization": "seeker", "roles": ["admin", "diagnostic"]}, {"roles": []}])
def test_what_a_requester_claims_permits_nothing(
    desk: Desk, registry: OpenDesk, everywhere: str, claims: dict[str, Any]
) -> None:
    register(registry)
    plain = desk.new_token("bob", (Scope.AGENTS_DISCOVER,))

    refused = registry.look_for("internal", plain, tags=["maps"], requester_claims=claims)
    assert_refused(refused, 403, ("token.limit", "request/context"))
    assert registry.found("internal", everywhere, tags=["maps"], requester_claims=claims) == ["georoute"]


def test_the_last_registration_decides_what_is_found(desk: Desk, registry: OpenDesk, everywhere: str) -> None:
    """BUG-067: the first version stayed visible for ever."""
    register(registry, "public", "internal", name="QA v1", version="1.0.0")
    assert registry.found("public", everywhere, text="QA v1") == ["georoute"]

    register(registry, "public", name="QA renamed", version="1.3.0", skills=skills()[:1])

    (card,) = found_cards(desk, registry, "public", everywhere, text="QA renamed").values()
    assert (card.members["name"], card.members["version"]) == ("QA renamed", "1.3.0")
    assert registry.found("public", everywhere, text="v1") == []
    assert registry.found("public", everywhere, skills=["fleet-dispatch"]) == []
    assert registry.found("internal", everywhere, text="QA") == [], "it registered for public alone"


def test_suspended_and_revoked_agents_are_left_out_at_once(registry: OpenDesk, everywhere: str) -> None:
    register(registry)
    headers, found = {"authorization": f"Bearer {registry.token}"}, {"skills": ["fleet-dispatch"]}

    def after(action: str, **asked: str) -> tuple[list[str], list[str]]:
        assert registry.client.post(f"/agents/georoute/{action}", json=asked, headers=headers).status_code == 200
        return registry.found("public", everywhere, **found), registry.found("internal", everywhere, **found)

    assert after("suspend") == ([], [])
    assert after("reinstate") == (["georoute"], ["georoute"])
    assert after("suspend", context="internal") == (["georoute"], [])
    assert after("revoke", batch_id="another") == (["georoute"], [])
    assert after("revoke", context="public") == ([], [])
    assert after("reinstate") == ([], ["georoute"])
    assert after("revoke") == ([], [])
    assert after("reinstate") == ([], [])
    register(registry, "public")
    assert registry.found("public", everywhere, **found) == ["georoute"]


def test_what_was_found_can_be_revoked(desk: Desk, registry: OpenDesk, everywhere: str) -> None:
    own = register(registry, "public")
    (card,) = found_cards(desk, registry, "public", everywhere, text="route").values()
    place = status_of(card)

    changed = registry.client.post(
        "/agents/georoute/revoke", json={}, headers={"authorization": f"Bearer {registry.token}"}
    )

    assert changed.json() == {"agent_id": "georoute", "changed": 2, "public_at": NOW + 60}
    assert place != {"uri": own["cards"][0]["status"]["uri"], "idx": own["cards"][0]["status"]["idx"]}
    statuses = {row[1]: row[2] for row in desk.rows()["status_entries"]}
    assert statuses == {place["idx"]: 1, own["cards"][0]["status"]["idx"]: 1}


def test_what_is_found_was_issued_for_discovery(desk: Desk, registry: OpenDesk, everywhere: str) -> None:
    own = register(registry, "public", "internal")["cards"]
    found = {
        context: registry.look_for(context, everywhere, text="route").json()["results"][0]["sd_card"]
        for context in ("public", "internal")
    }
    again = registry.look_for("public", everywhere, text="route").json()["results"][0]["sd_card"]

    assert again == found["public"], "it is made once"
    parts = [set(text.split("~")) - {""} for text in (*found.values(), *(one["sd_card"] for one in own))]
    assert sum(map(len, parts)) == len(set().union(*parts)), "no Disclosure and no signature is used twice"
    records = desk.audit()
    assert [record["event"] for record in records] == ["agent.registered"] + ["discovery.issued"] * 2
    (audited,) = [record for record in records if "public" in record["disclosed"] and record is not records[0]]
    assert (audited["at"], audited["subject"], audited["agent_id"]) == (NOW, "https://registry.example", "georoute")
    assert audited["disclosed"]["public"] == own[0]["discloses"]


def test_nothing_of_an_answer_is_in_the_records_but_in_its_row(
    desk: Desk, registry: OpenDesk, everywhere: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    register(registry, "public")
    sd_card = registry.look_for("public", everywhere, text="route").json()["results"][0]["sd_card"]

    rows = desk.rows()
    (kept,) = rows.pop("discovery_cards")
    assert sd_card in kept
    assert sd_card[:80] not in repr(rows) + caplog.text
