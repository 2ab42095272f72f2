"""Operations of an owner on registered agents. Other callers are refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from issuer_service.access import Limit, Scope
from sdcard import DEFAULT_POLICY, Acceptance, TrustedIssuers, accept_sd_card
from sdcard.encoding import JsonObject
from sdcard.errors import Part, Where
from sdcard.issuer import issuing_step
from sdcard.policy.model import DisclosurePolicy
from sdcard.trust import parse_key_set
from tests.issuer_service.desk import (
    HOLDER,
    Desk,
    OpenDesk,
    assert_refused,
    chain,
    jwk,
    on_both_databases,
    request,
    request_with_card,
)
from tests.issuer_service.status.test_endpoints import statuses
from tests.postgres import query
from tests.sdcard.cards.agentcard.cards import mcp, readme, whole
from tests.sdcard.cards.documents import georoute_0_1, georoute_0_2, georoute_0_3
from tests.sdcard.cards.kno.cards import kno
from tests.world import ISSUER, NOW, at_once, example, key

AGENT = "ai-assistant-v2"
DAY = 86_400
UNKNOWN = ("agent.unknown", "request/agent_id")
NEW = key(21)


def renew(registry: OpenDesk, **body: Any) -> Any:
    return registry.done("POST", f"/agents/{AGENT}/renew", body)


def change(registry: OpenDesk, *keys: Any, **body: Any) -> Any:
    return registry.done("POST", f"/agents/{AGENT}/keys", {"public_keys": [jwk(one) for one in keys], **body})


def events(desk: Desk) -> list[Any]:
    return [(record["event"], record.get("supersedes")) for record in desk.audit()]


# -- registering again ------------------------------------------------------------------------------------------------


@on_both_databases
def test_what_supersedes_revokes_or_lets_run_out(desk: Desk, registry: OpenDesk) -> None:
    first = registry.register(request())
    second = registry.register(request(supersedes="run_out"))
    assert statuses(desk, registry, first) == statuses(desk, registry, second) == [0, 0, 0]

    third = registry.register(request(supersedes="revoke"))

    assert statuses(desk, registry, first) == statuses(desk, registry, second) == [1, 1, 1]
    assert statuses(desk, registry, third) == [0, 0, 0]
    assert events(desk) == [
        ("agent.registered", "run_out"), ("agent.registered", "run_out"), ("agent.registered", "revoke")
    ]  # fmt: skip


@on_both_databases
def test_superseding_revokes_what_is_suspended_and_nothing_of_another_agent(desk: Desk, registry: OpenDesk) -> None:
    other = registry.register(request("other", public_key=jwk(NEW)))
    first = registry.register(request())
    registry.done("POST", f"/agents/{AGENT}/suspend", {})

    registry.register(request(supersedes="revoke"))

    assert statuses(desk, registry, first) == [1, 1, 1]
    assert statuses(desk, registry, other) == [0, 0, 0]


@on_both_databases
def test_a_registration_that_is_refused_revokes_nothing(desk: Desk, registry: OpenDesk) -> None:
    registry.register(request("other", public_key=jwk(NEW)))
    first = registry.register(request())
    before = desk.rows()

    refused = registry.post(request(public_key=jwk(NEW), supersedes="revoke"))

    assert_refused(refused, 409, ("key.bound-elsewhere", "request/public_key"))
    assert statuses(desk, registry, first) == [0, 0, 0]
    assert desk.rows() == before


@pytest.mark.parametrize("value", ["keep", "REVOKE", "", None, True, 1, ["revoke"]])
def test_supersedes_is_one_of_two_words(registry: OpenDesk, value: Any) -> None:
    finding = ("request.malformed", "request/supersedes")

    assert_refused(registry.post(json.dumps({**request(), "supersedes": value})), 422, finding)
    registry.register(request())
    for path, body in (("renew", {}), ("keys", {"public_key": jwk(NEW)})):
        response = registry.ask("POST", f"/agents/{AGENT}/{path}", {**body, "supersedes": value})
        assert_refused(response, 422, finding)


@on_both_databases
def test_of_registrations_that_supersede_each_other_at_once_the_last_one_stays(desk: Desk, registry: OpenDesk) -> None:
    answers = [registry.register(request())]

    answers += at_once(lambda: registry.register(request(supersedes="revoke")), 8)

    good = [answer for answer in answers if statuses(desk, registry, answer) == [0, 0, 0]]
    assert len(good) == 1
    assert [statuses(desk, registry, answer) for answer in answers if answer not in good] == [[1, 1, 1]] * 8
    assert desk.rows()["agents"][0][9] == good[0]["batch_id"]


# -- renewing ---------------------------------------------------------------------------------------------------------


@on_both_databases
def test_a_renewal_asks_for_what_was_asked_for(desk: Desk, registry: OpenDesk) -> None:
    first = registry.register(request(public_key=None, public_keys=[jwk(), jwk(NEW)]))
    desk.clock.advance(issuing_step())
    token, registry.token = registry.token, desk.new_token("alice")

    second = renew(registry)

    assert token != registry.token
    assert second["batch_id"] != first["batch_id"]
    members = ("context", "agreement", "key_thumbprint", "discloses")
    assert [[card[name] for name in members] for card in second["cards"]] == [
        [card[name] for name in members] for card in first["cards"]
    ]
    assert all(new["exp"] > old["exp"] for new, old in zip(second["cards"], first["cards"], strict=True))
    assert second["findings"] == first["findings"]
    assert statuses(desk, registry, first) == statuses(desk, registry, second) == [0] * 6
    assert events(desk)[1] == ("agent.renewed", "run_out")
    renew(registry, supersedes="revoke")
    assert statuses(desk, registry, first) == statuses(desk, registry, second) == [1] * 6


CARDS: dict[str, Callable[[], JsonObject]] = {
    "a2a 1.0": example,
    "a2a 0.3": georoute_0_3,
    "a2a 0.2": georoute_0_2,
    "a2a 0.1": georoute_0_1,
    "kno": kno,
    "agentcard draft": whole,
    "agentcard readme": readme,
    "agentcard mcp": mcp,
}


@pytest.mark.parametrize("name", CARDS)
def test_a_card_of_every_format_is_renewed_as_it_was(desk: Desk, registry: OpenDesk, name: str) -> None:
    card = CARDS[name]()
    agent_id = str(card.get("agent_id", AGENT))
    body = request_with_card(card, agent_id=agent_id)
    first = registry.register(body)
    remembered = desk.rows()["agents"][0]

    second = registry.done("POST", f"/agents/{agent_id}/renew", {})

    assert [one["discloses"] for one in second["cards"]] == [one["discloses"] for one in first["cards"]]
    assert desk.rows()["agents"][0][:8] == remembered[:8]


def test_renewed_cards_are_good(registry: OpenDesk) -> None:
    registry.register(request_with_card())

    (card,) = renew(registry)["cards"]

    keys = parse_key_set(registry.get("/.well-known/jwks.json").json(), Where(Part.TRUST))
    accepted = accept_sd_card(
        card["sd_card"], Acceptance(issuers=TrustedIssuers({ISSUER: keys})), HOLDER.public_key, NOW
    )
    assert accepted.issued.subject == f"agent:{AGENT}"


def stricter() -> DisclosurePolicy:
    """A policy without the context `diagnostic`, and without `full`, which contains it."""
    contexts = {name: one for name, one in DEFAULT_POLICY.contexts.items() if name not in ("diagnostic", "full")}
    return replace(DEFAULT_POLICY, contexts=contexts)


def test_a_renewal_is_read_by_the_present_policy(desk: Desk) -> None:
    with desk.open() as registry:
        first = registry.register(request())
    before = desk.rows()
    with desk.open(policy=stricter()) as registry:
        response = registry.ask("POST", f"/agents/{AGENT}/renew", {"supersedes": "revoke"})
        assert_refused(response, 422, ("context.unknown", "request/disclosure_contexts/2/context"))
        assert statuses(desk, registry, first) == [0, 0, 0]
    assert desk.rows() == before


@pytest.mark.parametrize("path", ["renew", "keys"])
def test_limits_of_the_token_hold_for_what_was_registered_before(desk: Desk, registry: OpenDesk, path: str) -> None:
    registry.register(request_with_card())
    body = {} if path == "renew" else {"public_key": jwk(NEW)}
    before = desk.rows()
    elsewhere = desk.new_token("alice", limits={Limit.ENDPOINT_HOSTS: ["elsewhere.example"]})
    prefixed = desk.new_token("alice", limits={Limit.AGENT_ID_PREFIXES: ["other-"]})
    before["tokens"] = desk.rows()["tokens"]

    beyond = registry.ask("POST", f"/agents/{AGENT}/{path}", body, elsewhere)
    other = registry.ask("POST", f"/agents/{AGENT}/{path}", body, prefixed)

    assert (beyond.status_code, beyond.json()["rule"]) == (403, "token.limit")
    assert_refused(other, 403, ("token.limit", "request/agent_id"))
    assert desk.rows() == before


def test_an_agent_of_before_is_registered_again_instead(desk: Desk, registry: OpenDesk) -> None:
    registry.register(request())
    query(desk.url, "UPDATE agents SET asked = NULL, possession = NULL, batch_id = NULL")

    for path, body in (("renew", {}), ("keys", {"public_key": jwk(NEW)})):
        response = registry.ask("POST", f"/agents/{AGENT}/{path}", body)
        assert_refused(response, 409, ("agent.not-renewable", "request/agent_id"))
    shown = registry.done("GET", f"/agents/{AGENT}")
    assert (shown["disclosure_contexts"], shown["key_thumbprints"], shown["possession"]) == (None, None, "not-proven")
    registry.register(request())
    renew(registry)


@on_both_databases
def test_renewals_and_registrations_at_once_leave_the_card_that_was_registered(desk: Desk, registry: OpenDesk) -> None:
    """A renewal never restores a card that was replaced while it was signed."""
    registry.register(request())
    asks = iter([{"name": f"name {n}", "version": f"{n}.0.0"} if n % 2 else None for n in range(8)])

    def act() -> Any:
        changes = next(asks)
        if changes is None:
            return registry.ask("POST", f"/agents/{AGENT}/renew", {})
        return registry.post(request(**changes))

    answers = at_once(act, 8)

    assert {one.status_code for one in answers} <= {201, 503}
    chain(desk.url)
    rows = query(desk.url, "SELECT batch_id, event FROM audit ORDER BY sequence", "SELECT card, batch_id FROM agents")
    registered = {one.json()["batch_id"]: one for one in answers if one.status_code == 201}
    assert rows[1][0][1] == rows[0][-1][0]
    last = [batch for batch, event in rows[0] if event == "agent.registered"][-1]
    assert last in registered or len(rows[0]) == 1
    name = json.loads(rows[1][0][0])["name"]
    asked = json.loads(registered[last].request.content)
    assert asked["name"] == name


# -- other keys -------------------------------------------------------------------------------------------------------


@on_both_databases
def test_other_keys_take_the_place_of_the_old_ones(desk: Desk, registry: OpenDesk) -> None:
    first = registry.register(request())

    second = change(registry, NEW)

    assert {card["key_thumbprint"] for card in second["cards"]} == {NEW.public_key.thumbprint}
    assert [card["context"] for card in second["cards"]] == [card["context"] for card in first["cards"]]
    assert statuses(desk, registry, first) == [1, 1, 1]
    assert statuses(desk, registry, second) == [0, 0, 0]
    assert events(desk)[1] == ("agent.keys-changed", "revoke")
    third = change(registry, key(22), supersedes="run_out")
    assert statuses(desk, registry, second) == statuses(desk, registry, third) == [0, 0, 0]
    assert {card["key_thumbprint"] for card in renew(registry)["cards"]} == {key(22).public_key.thumbprint}


def test_a_key_that_was_given_up_stays_the_agents(registry: OpenDesk) -> None:
    registry.register(request())
    change(registry, NEW)

    taken = registry.post(request("other"))

    assert_refused(taken, 409, ("key.bound-elsewhere", "request/public_key"))
    change(registry, HOLDER)


@pytest.mark.parametrize(
    ("body", "finding"),
    [
        ({}, ("request.malformed", "request/public_key")),
        ({"public_key": jwk(NEW), "public_keys": [jwk(NEW)]}, ("request.malformed", "request/public_key")),
        ({"public_keys": [jwk(NEW), jwk(NEW)]}, ("key.repeated", "request/public_keys/1")),
        ({"public_key": {**jwk(NEW), "d": "canary"}}, ("key.private", "request/public_key")),
        ({"public_key": jwk(NEW), "card": {}}, ("request.malformed", "request/card")),
        ({"public_key": jwk(NEW), "agent_id": "other"}, ("request.malformed", "request/agent_id")),
        ({"public_key": jwk(NEW), "disclosure_contexts": []}, ("request.malformed", "request/disclosure_contexts")),
    ],
)
def test_a_change_of_keys_changes_keys_alone(
    desk: Desk, registry: OpenDesk, body: dict[str, Any], finding: tuple[str, str]
) -> None:
    registry.register(request())
    before = desk.rows()

    response = registry.ask("POST", f"/agents/{AGENT}/keys", body)

    assert_refused(response, 422, finding)
    assert "canary" not in response.text
    assert desk.rows() == before


# -- deleting ---------------------------------------------------------------------------------------------------------


@on_both_databases
def test_of_a_deleted_agent_nothing_is_left_but_its_name_and_keys(desk: Desk, registry: OpenDesk) -> None:
    first = registry.register(request_with_card(disclosure_contexts=[{"context": "full", "disclose": ["provider"]}]))
    registry.done("POST", f"/agents/{AGENT}/suspend", {})

    answer = registry.done("DELETE", f"/agents/{AGENT}")

    assert answer == {"agent_id": AGENT, "revoked": 1, "public_at": NOW + 60}
    assert statuses(desk, registry, first) == [1]
    rows = desk.rows()
    assert rows["agents"] == [(AGENT, AGENT, "alice", "", "", NOW, NOW, *[None] * 5, NOW)]
    assert [row[:2] for row in rows["holder_keys"]] == [(HOLDER.public_key.thumbprint, AGENT)]
    assert rows["batches"] == rows["cards"] == []
    assert [event for event, _ in events(desk)] == ["agent.registered", "cards.suspended", "agent.deleted"]
    document = rows.pop("audit"), rows
    assert "provider" not in repr(document[1])


@on_both_databases
def test_a_deleted_agent_is_unknown(desk: Desk, registry: OpenDesk) -> None:
    registry.register(request())
    registry.done("DELETE", f"/agents/{AGENT}")
    before = desk.rows()

    assert_refused(registry.ask("GET", f"/agents/{AGENT}"), 404, UNKNOWN)
    assert_refused(registry.ask("DELETE", f"/agents/{AGENT}"), 404, UNKNOWN)
    for path, body in (("renew", {}), ("keys", {"public_key": jwk(NEW)}), ("revoke", {}), ("reinstate", {})):
        assert_refused(registry.ask("POST", f"/agents/{AGENT}/{path}", body), 404, UNKNOWN)
    assert registry.done("GET", "/agents")["agents"] == []
    assert desk.rows() == before


@on_both_databases
def test_a_deleted_agents_name_and_keys_are_its_subjects_for_ever(desk: Desk, registry: OpenDesk) -> None:
    first = registry.register(request("Georoute"))
    registry.done("DELETE", "/agents/Georoute")
    bob = desk.new_token("bob")

    for agent_id in ("Georoute", "georoute"):
        taken = registry.post(request(agent_id, public_key=jwk(NEW)), authorization=f"Bearer {bob}")
        assert_refused(taken, 409, ("agent.taken", "request/agent_id"))
    for token in (bob, registry.token):
        bound = registry.post(request("another"), authorization=f"Bearer {token}")
        assert_refused(bound, 409, ("key.bound-elsewhere", "request/public_key"))
    assert_refused(registry.post(request("georoute")), 409, ("agent.taken", "request/agent_id"))
    again = registry.register(request("Georoute"))

    assert statuses(desk, registry, first) == [1, 1, 1]
    assert statuses(desk, registry, again) == [0, 0, 0]
    assert [one["agent_id"] for one in registry.done("GET", "/agents")["agents"]] == ["Georoute"]
    assert registry.done("GET", "/agents/Georoute")["batches"][0]["batch_id"] == again["batch_id"]


@on_both_databases
def test_of_those_who_delete_and_register_at_once_everybody_gets_a_sound_answer(desk: Desk, registry: OpenDesk) -> None:
    answers = [registry.register(request())]
    asks = iter(range(8))

    def act() -> Any:
        if next(asks) % 2:
            return registry.ask("DELETE", f"/agents/{AGENT}")
        return registry.post(request())

    outcomes = at_once(act, 8)

    assert {one.status_code for one in outcomes} <= {200, 201, 404}
    answers += [one.json() for one in outcomes if one.status_code == 201]
    kept = {row[0] for row in desk.rows()["batches"]}
    for answer in answers:
        assert statuses(desk, registry, answer) == ([0] * 3 if answer["batch_id"] in kept else [1] * 3)


# -- whose agents ------------------------------------------------------------------------------------------------------


ACTIONS = [
    ("GET", "", None, Scope.AGENTS_MANAGE),
    ("DELETE", "", None, Scope.AGENTS_MANAGE),
    ("POST", "/renew", {}, Scope.AGENTS_REGISTER),
    ("POST", "/keys", {"public_key": jwk(NEW)}, Scope.AGENTS_REGISTER),
]


@pytest.mark.parametrize(("method", "path", "body", "scope"), ACTIONS)
@on_both_databases
def test_a_strangers_agent_looks_like_none(
    desk: Desk, registry: OpenDesk, method: str, path: str, body: Any, scope: Scope
) -> None:
    registry.register(request())
    bob = desk.new_token("bob")
    reading = Scope.AGENTS_REGISTER if method == "GET" else scope  # a renewal begins with reading the agent
    lesser = desk.new_token("alice", tuple(set(Scope) - {scope, reading}))
    before = desk.rows()

    for token, agent_id in ((bob, AGENT), (None, "nobody"), (None, AGENT.upper()), (None, "é"), (None, "a" * 200)):
        response = registry.ask(method, f"/agents/{agent_id}{path}", body, token)
        assert_refused(response, 404, UNKNOWN)
        assert response.json()["detail"] == "The caller has no agent with this id."
    refused = registry.ask(method, f"/agents/{AGENT}{path}", body, lesser)
    assert_refused(refused, 403, ("token.scope", "request/headers/authorization"))
    unknown = registry.ask(method, f"/agents/{AGENT}{path}", body, "sdcard_x")
    assert_refused(unknown, 401, ("token.invalid", "request/headers/authorization"))

    assert desk.rows() == before


@on_both_databases
def test_a_status_change_with_odd_characters_finds_nothing(desk: Desk, registry: OpenDesk) -> None:
    registry.register(request())

    assert_refused(registry.ask("POST", "/agents/%00/revoke", {}), 404, ("request.not-found", "request/path"))
    for body in ({"batch_id": "\0"}, {"context": "\0"}):
        response = registry.ask("POST", f"/agents/{AGENT}/revoke", body)
        assert_refused(response, 422, ("request.malformed", f"request/{next(iter(body))}"))
    assert_refused(registry.get("/status/%00"), 404, ("request.not-found", "request/path"))


@on_both_databases
def test_an_owner_sees_all_agents_in_pages(desk: Desk, registry: OpenDesk) -> None:
    names = sorted(f"agent-{n}" for n in range(5))
    for n, name in enumerate(names):
        registry.register(request(name, public_key=jwk(key(30 + n))))
    registry.register(request("theirs", public_key=jwk(key(40))), desk.new_token("bob"))
    seen, path = [], "/agents?limit=2"
    for _ in range(4):
        page = registry.done("GET", path)
        assert set(page) == {"agents", "next_cursor"}
        seen.append([one["agent_id"] for one in page["agents"]])
        if page["next_cursor"] is None:
            break
        path = f"/agents?limit=2&cursor={page['next_cursor']}"

    assert seen == [names[:2], names[2:4], names[4:]]
    response = registry.ask("GET", "/agents?limit=5")
    assert response.json()["next_cursor"] is None
    assert response.headers["cache-control"] == "no-store"


@on_both_databases
def test_a_list_says_until_when_an_agent_has_a_good_card(desk: Desk, registry: OpenDesk) -> None:
    answer = registry.register(request())
    (listed,) = registry.done("GET", "/agents")["agents"]
    exp = answer["cards"][0]["exp"]
    assert listed == {"agent_id": AGENT, "card_format": "summary", "registered_at": NOW, "updated_at": NOW,
                      "expires_at": exp}  # fmt: skip

    registry.done("POST", f"/agents/{AGENT}/revoke", {})
    assert registry.done("GET", "/agents")["agents"][0]["expires_at"] is None
    registry.register(request())
    token = desk.new_token("alice", lifetime=15 * DAY)
    desk.clock.advance(14 * DAY)
    assert registry.done("GET", "/agents", token=token)["agents"][0]["expires_at"] is None


@on_both_databases
def test_a_token_for_some_agents_lists_those(desk: Desk, registry: OpenDesk) -> None:
    for n, name in enumerate(("a_b", "aXb", "A_c", "other")):
        registry.register(request(name, public_key=jwk(key(30 + n))))

    def listed(*prefixes: str) -> list[str]:
        token = desk.new_token("alice", limits={Limit.AGENT_ID_PREFIXES: prefixes})
        return [one["agent_id"] for one in registry.done("GET", "/agents", token=token)["agents"]]

    assert listed("a_") == ["a_b"]
    assert sorted(listed("A", "o")) == ["A_c", "other"]
    assert listed() == []


@pytest.mark.parametrize(
    ("query_part", "place"),
    [
        *((f"limit={value}", "limit") for value in ("0", "101", "-1", "1.0", "", "x", "1&limit=2", "%D9%A1", "1000")),
        *((f"cursor={value}", "cursor") for value in ("", "!", "YQ==", "YQ&cursor=YQ", "AA", "_w", "a" * 400)),
    ],
)
def test_a_page_that_is_none_is_refused(registry: OpenDesk, query_part: str, place: str) -> None:
    response = registry.ask("GET", f"/agents?{query_part}")

    assert_refused(response, 422, ("request.malformed", f"request/query/{place}"))


def test_a_misspelt_parameter_is_refused(registry: OpenDesk) -> None:
    assert_refused(registry.ask("GET", "/agents?limits=5"), 422, ("request.malformed", "request/query"))


@on_both_databases
def test_an_owner_sees_what_was_issued_and_no_card(desk: Desk, registry: OpenDesk) -> None:
    keys: dict[str, Any] = {"public_key": None, "public_keys": [jwk(), jwk(NEW)]}
    first = registry.register(request(**keys))
    registry.done("POST", f"/agents/{AGENT}/suspend", {"context": "public"})
    desk.clock.advance(60)
    second = registry.register(request(**keys))
    registry.done("POST", f"/agents/{AGENT}/revoke", {"context": "internal", "batch_id": first["batch_id"]})

    response = registry.ask("GET", f"/agents/{AGENT}")

    shown, exp = response.json(), first["cards"][0]["exp"]
    assert response.headers["cache-control"] == "no-store"
    assert {name: shown[name] for name in ("agent_id", "sub", "registered_at", "updated_at", "more_batches")} == {
        "agent_id": AGENT, "sub": f"agent:{AGENT}", "registered_at": NOW, "updated_at": NOW + 60, "more_batches": False
    }  # fmt: skip
    assert shown["disclosure_contexts"] == request()["disclosure_contexts"]
    assert shown["key_thumbprints"] == [HOLDER.public_key.thumbprint, NEW.public_key.thumbprint]
    assert [(one["batch_id"], one["issued_at"]) for one in shown["batches"]] == [
        (second["batch_id"], NOW + 60), (first["batch_id"], NOW)
    ]  # fmt: skip
    assert shown["batches"][1]["contexts"] == [
        {"context": "diagnostic", "valid": 2, "suspended": 0, "revoked": 0, "expires_at": exp},
        {"context": "internal", "valid": 0, "suspended": 0, "revoked": 2, "expires_at": exp},
        {"context": "public", "valid": 0, "suspended": 2, "revoked": 0, "expires_at": exp},
    ]
    assert all(card["sd_card"][:30] not in response.text for card in first["cards"] + second["cards"])


def test_expired_batches_are_not_shown_and_no_more_than_a_hundred(
    desk: Desk, registry: OpenDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("issuer_service.agents.lifecycle.MOST_BATCHES", 2)
    token = registry.token = desk.new_token("alice", lifetime=20 * DAY)
    ids = []
    for _ in range(3):
        ids.append(registry.register(request())["batch_id"])
        desk.clock.advance(1)
    shown = registry.done("GET", f"/agents/{AGENT}")
    assert ([one["batch_id"] for one in shown["batches"]], shown["more_batches"]) == (ids[:0:-1], True)

    desk.clock.advance(14 * DAY)

    assert registry.done("GET", f"/agents/{AGENT}", token=token)["batches"] == []


def test_an_agent_may_be_called_register(registry: OpenDesk) -> None:
    registry.register(request("register"))

    assert registry.done("GET", "/agents/register")["agent_id"] == "register"
    assert registry.done("DELETE", "/agents/register")["revoked"] == 3
