"""``POST /agents/discover``: the draft's own requests, what each criterion finds, and what is refused."""

import asyncio
import json
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from issuer_service.access import Caller, Limit, Scope
from issuer_service.agents.registration import register_agent
from issuer_service.container import Container
from issuer_service.db.migrations import upgrade
from issuer_service.discovery import endpoints as service
from issuer_service.discovery import records
from issuer_service.discovery import repository as finding
from issuer_service.discovery.records import LIFETIME, START, open_cursor, seal_cursor
from issuer_service.status.service import REINSTATE, REVOKE, SUSPEND, change_statuses
from sdcard import DEFAULT_POLICY
from sdcard.encoding import decode_base64url
from sdcard.errors import Part, Where
from sdcard.io.database import open_database
from sdcard.issuer import AGENT_ID
from sdcard.limits import MOST_RESULTS
from tests.issuer_service.desk import Desk, OpenDesk, assert_refused, jwk, on_both_databases, request, request_with_card
from tests.issuer_service.discovery.seekers import found_cards, read, register, register_card, same_secret, status_of
from tests.postgres import query as sql
from tests.sdcard.cards.agentcard.cards import MINIMAL
from tests.sdcard.cards.kno.cards import kno
from tests.shared import shared_dir
from tests.world import NOW, RecordingSalts, example, key, raises_rule

# -- ``POST /agents/discover`` ----------------------------------------------------------------------------------------

# The draft's own requests, what each criterion finds, and what is refused.


def skills() -> Any:
    return example()["skills"]


def drafts(name: str) -> dict[str, Any]:
    examples = json.loads((shared_dir() / "spec" / "sd-card-examples.json").read_text(encoding="utf-8"))
    body: dict[str, Any] = examples[name]["body"]
    return body


@on_both_databases
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


@on_both_databases
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


@on_both_databases
def test_what_a_registration_does_not_disclose_finds_nobody(registry: OpenDesk, everywhere: str) -> None:
    register(registry, {"context": "internal", "disclose": ["skills.*.tags", "capabilities"]})

    assert registry.found("internal", everywhere, tags=["maps"], capabilities={"streaming": True}) == ["georoute"]
    assert registry.found("internal", everywhere, input_modes=["text/plain"]) == []
    assert registry.found("internal", everywhere, text="historical") == []


@on_both_databases
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


@on_both_databases
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


@on_both_databases
def test_everything_that_is_wrong_is_said_at_once_and_long_names_are_not(registry: OpenDesk) -> None:
    answer = registry.client.post(
        "/agents/discover",
        json={"query": {"colour": 1, "capabilities": {"x" * 300: 1}}, "max_results": 0},
        headers={"authorization": f"Bearer {registry.token}"},
    )

    places = {finding["where"] for finding in answer.json()["findings"]}
    assert places >= {"request/query/colour", "request/context", "request/max_results", "request/query/capabilities"}
    assert "x" * 65 not in answer.text


@on_both_databases
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


@on_both_databases
@pytest.mark.parametrize("claims", [{}, {"organization": "seeker", "roles": ["admin", "diagnostic"]}, {"roles": []}])
def test_what_a_requester_claims_permits_nothing(
    desk: Desk, registry: OpenDesk, everywhere: str, claims: dict[str, Any]
) -> None:
    register(registry)
    plain = desk.new_token("bob", (Scope.AGENTS_DISCOVER,))

    refused = registry.look_for("internal", plain, tags=["maps"], requester_claims=claims)
    assert_refused(refused, 403, ("token.limit", "request/context"))
    assert registry.found("internal", everywhere, tags=["maps"], requester_claims=claims) == ["georoute"]


@on_both_databases
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


@on_both_databases
def test_suspended_and_revoked_agents_are_left_out_at_once(registry: OpenDesk, everywhere: str) -> None:
    register(registry)
    headers, found = {"authorization": f"Bearer {registry.token}"}, {"skills": ["fleet-dispatch"]}

    def after(action: str, **asked: str) -> tuple[list[str], list[str]]:
        assert registry.client.post(f"/agents/georoute/{action}", json=asked, headers=headers).status_code == 200
        return registry.found("public", everywhere, **found), registry.found("internal", everywhere, **found)

    assert after("suspend") == ([], [])
    assert after("reinstate") == (["georoute"], ["georoute"])
    assert after("suspend", context="internal") == (["georoute"], [])
    assert after("revoke", context="public") == ([], [])
    assert after("reinstate") == ([], ["georoute"])
    assert after("revoke") == ([], [])
    assert after("reinstate") == ([], [])
    register(registry, "public")
    assert registry.found("public", everywhere, **found) == ["georoute"]


@on_both_databases
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


@on_both_databases
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


@on_both_databases
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


# -- Pages of discovery, and the oracle attack ------------------------------------------------------------------------

# -- What the answer to a discovery request is put together from ------------------------------------------------------


def test_what_an_answer_is_put_together_from_is_written_in_json_as_it_is() -> None:
    signed = [one for one in map(chr, range(0x10000)) if re.fullmatch(AGENT_ID, "a" + one)]
    assert json.dumps("".join([*signed, "~."])) == f'"{"".join(signed)}~."'


# -- Pages: what a cursor continues, that nobody comes twice, and what the order does not tell ------------------------

ROUTE = {"text": "route"}


def name(number: int) -> str:
    return f"agent-{number:02}"


def pages(registry: OpenDesk, size: int, text: str = "route") -> Iterator[list[str]]:
    """Page by page, to the end."""
    cursor: dict[str, Any] = {}
    while True:
        answer = registry.look_for("public", max_results=size, text=text, **cursor).json()
        yield [one["agent_id"] for one in answer["results"]]
        if answer["next_cursor"] is None:
            return
        cursor = {"cursor": answer["next_cursor"]}


@on_both_databases
def test_pages_hold_everybody_once(registry: OpenDesk) -> None:
    for number in range(23):
        register(registry, "public", agent_id=name(number))

    whole = list(pages(registry, 100))
    assert [len(page) for page in whole] == [23]
    for size in (1, 5, 10, 22, 23):
        sizes = [size] * (23 // size) + ([23 % size] if 23 % size else [])
        assert [len(page) for page in pages(registry, size)] == sizes
        assert list(chain(*pages(registry, size))) == whole[0]
    assert sorted(whole[0]) == [name(number) for number in range(23)]
    assert len(next(pages(registry, 20))) == len(registry.found("public", **ROUTE)) == 20


@on_both_databases
def test_who_comes_back_stands_where_it_stood(registry: OpenDesk) -> None:
    for number in range(8):
        register(registry, "public", agent_id=name(number))
    turning = pages(registry, 3)
    first = next(turning)

    register(registry, "public", agent_id=first[0], name="Renamed", version="9.0.0")
    register(registry, "public", agent_id=name(9))
    gone = next(name(number) for number in range(8) if name(number) not in first)
    headers = {"authorization": f"Bearer {registry.token}"}
    registry.client.post(f"/agents/{gone}/revoke", json={}, headers=headers)
    rest = list(chain(*turning))

    assert not {*first, gone} & {*rest}
    assert {*first, *rest} >= {name(number) for number in range(8)} - {gone}
    assert len(rest) == len(set(rest))


@pytest.fixture
def cursor(registry: OpenDesk) -> str:
    """Return a cursor of a token that may search everywhere, after the first of two agents in *public*."""
    for number in range(2):
        register(registry, "public", "internal", agent_id=name(number))
    text = registry.look_for("public", max_results=1, skills=["fleet-dispatch"], text="route advanced").json()[
        "next_cursor"
    ]
    assert isinstance(text, str)
    return text


def test_a_cursor_continues_the_query_it_came_with(registry: OpenDesk, cursor: str) -> None:
    queries: list[dict[str, Any]] = [
        {"skills": ["fleet-dispatch"], "text": "route advanced"},
        {"skills": ["FLEET-dispatch", "fleet-dispatch"], "text": "Advanced, ROUTE"},
        {"skills": ["fleet-dispatch"], "text": "route advanced", "availability": "24/7"},
    ]
    for asked in queries:
        for size in (1, 100):
            answer = registry.look_for("public", cursor=cursor, max_results=size, **asked).json()
            assert (len(answer["results"]), answer["next_cursor"]) == (1, None)


def test_a_cursor_continues_nothing_else(desk: Desk, registry: OpenDesk, cursor: str, everywhere: str) -> None:
    asked: dict[str, Any] = {"skills": ["fleet-dispatch"], "text": "route advanced", "cursor": cursor}
    stranger = desk.new_token("bob", (Scope.AGENTS_DISCOVER,))
    same_subject = desk.new_token("alice", (Scope.AGENTS_DISCOVER,))
    at_first = registry.look_for("internal", everywhere, max_results=1, **ROUTE).json()["next_cursor"]
    swapped = cursor[:10] + ("A" if cursor[10] != "A" else "B") + cursor[11:]
    refused = [
        registry.look_for("public", stranger, **asked),
        registry.look_for("public", same_subject, **asked),
        registry.look_for("public", everywhere, **{**asked, "cursor": at_first, "skills": ["fleet-dispatch"]}),
        registry.look_for("public", everywhere, **ROUTE, cursor=at_first),
        registry.look_for("public", **{**asked, "text": "route"}),
        registry.look_for("public", **{**asked, "tags": ["fleet"]}),
        *(
            registry.look_for("public", **{**asked, "cursor": one})
            for one in (swapped, cursor[:-1], cursor + "A", "AAAA", "é")
        ),
    ]
    desk.clock.advance(LIFETIME - 1)
    assert registry.look_for("public", **asked).status_code == 200
    desk.clock.advance(1)
    refused.append(registry.look_for("public", **asked))

    for answer in refused:
        assert_refused(answer, 422, ("cursor.invalid", "request/cursor"))
    assert len({answer.content for answer in refused}) == 1, "nobody learns why"


def test_a_cursor_tells_nothing() -> None:
    salts, secret = RecordingSalts(), bytes(32)
    cursors = [seal_cursor(position, b"for", secret, NOW, salts) for position in (0, 0, 2**63 - 1, START)]

    assert len(set(cursors)) == 4
    assert {len(one) for one in cursors} == {64}
    assert [open_cursor(one, b"for", secret, NOW) for one in cursors] == [0, 0, 2**63 - 1, START]
    for binding, key_bytes in ((b"against", secret), (b"for", bytes(31) + b"\x01")):
        with raises_rule("cursor.invalid", "request/cursor"):
            open_cursor(cursors[0], binding, key_bytes, NOW)
    assert not any(
        int(position).to_bytes(8, "big") in decode_base64url(cursors[2], Where(Part.REQUEST))
        for position in (2**63 - 1,)
    )


@pytest.mark.parametrize(("ahead", "counts"), [(0, True), (60, True), (61, False), (3_600, False), (864_000, False)])
def test_a_cursor_that_was_made_in_the_future_does_not_count(ahead: int, counts: bool) -> None:
    cursor = seal_cursor(7, b"for", bytes(32), NOW + ahead, RecordingSalts())
    if counts:
        assert open_cursor(cursor, b"for", bytes(32), NOW) == 7
        return
    with raises_rule("cursor.invalid", "request/cursor"):
        open_cursor(cursor, b"for", bytes(32), NOW)


def test_order_depends_on_neither_time_nor_context_nor_what_is_hidden(tmp_path: Path, everywhere: str) -> None:
    orders = []
    for turn, numbers in enumerate((range(12), reversed(range(12)))):
        folder = tmp_path / str(turn)
        folder.mkdir()
        other = Desk(folder)
        same_secret(other)
        with other.open() as registry:
            for number in numbers:
                hidden = {"provider": {"organization": f"{turn}", "url": "https://x.example"}}
                register(registry, "public", "internal", agent_id=name(number), **hidden)
                other.clock.advance(250)
            token = other.new_token("x", tuple(Scope), {Limit.CONTEXTS: ["public", "internal"]})
            orders.append([registry.found(context, token, **ROUTE) for context in ("public", "internal")])

    assert orders[0] == orders[1]
    assert orders[0][0] != orders[0][1]
    assert orders[0][0] != sorted(orders[0][0])


def test_work_is_bounded_and_who_goes_on_gets_everybody(registry: OpenDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(13):
        words = "alpha beta" if number == 12 else ("alpha", "beta")[number % 2]
        register(registry, "public", agent_id=name(number), description=words)
    monkeypatch.setattr(finding, "MOST_EXAMINED", 4)
    monkeypatch.setattr(finding, "FEW_EXAMINED", 2)

    found = list(pages(registry, 100, "alpha beta"))

    assert len(found) == 2, "seven have either word, and a page looks at four"
    assert list(chain(*found)) == [name(12)]


def test_an_answer_is_bounded_in_size(registry: OpenDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        register(registry, "public", agent_id=name(number))
    two = len(registry.look_for(**ROUTE).json()["results"][0]["sd_card"]) * 2 + 20
    for most, expected in (two, [2, 2, 1]), (1, [1] * 5):
        for module in records, finding:
            monkeypatch.setattr(module, "MOST_CHARACTERS", most)
        assert [len(page) for page in pages(registry, 100)] == expected


# -- many at once, on two stores: two processes of one registry ------------------------------------------------------


@contextmanager
def two(desk: Desk) -> Iterator[list[Container]]:
    yield [desk.container(open_database(desk.url), salts=RecordingSalts(f"process {n}")) for n in range(2)]


OWNER = Caller("alice", "", {}, 0)
SEEKER = Caller("bob", "t", {Limit.CONTEXTS: tuple(DEFAULT_POLICY.contexts)}, 0)


def body(number: int) -> bytes:
    contexts = [{"context": "public"}, {"context": "internal"}]
    asked = request_with_card(agent_id=name(number), disclosure_contexts=contexts, public_key=jwk(key(200 + number)))
    return json.dumps(asked).encode()


async def walk(wirings: list[Container], context: str, size: int) -> list[str]:
    """Everybody on all pages, each page asked of another process."""
    found, cursor, turn = list[str](), dict[str, str](), 0
    while True:
        asked = {"query": ROUTE, "context": context, "max_results": size, **cursor}
        answer = json.loads(await service.discover(wirings[turn % 2], SEEKER, json.dumps(asked).encode()))
        found += [one["agent_id"] for one in answer["results"]]
        if answer["next_cursor"] is None:
            return found
        cursor, turn = {"cursor": answer["next_cursor"]}, turn + 1


@on_both_databases
def test_while_owners_change_everything_nobody_comes_twice_and_no_revoked_one_comes(desk: Desk) -> None:
    chance, revoked, seen = random.Random(7), set[str](), list[str]()

    async def owner(wirings: list[Container], number: int) -> None:
        container = wirings[number % 2]
        for _ in range(3):
            change = chance.choice([SUSPEND, REINSTATE])
            await change_statuses(container, OWNER, name(number), change, b"{}")
            await register_agent(container, OWNER, body(number))
        if number % 3 == 0:
            await change_statuses(container, OWNER, name(number), REVOKE, b"{}")
            revoked.add(name(number))

    async def seeker(wirings: list[Container], context: str) -> None:
        for size in (2, 3, 5):
            before = frozenset(revoked)
            found = await walk(wirings, context, size)
            assert len(found) == len(set(found))
            assert not before & set(found)
            seen.extend(found)

    async def work() -> None:
        with two(desk) as wirings:
            try:
                for number in range(12):
                    await register_agent(wirings[0], OWNER, body(number))
                seekers = [seeker(wirings, context) for context in ("public", "internal") * 2]
                await asyncio.gather(*(owner(wirings, number) for number in range(12)), *seekers)
                for context in ("public", "internal"):
                    assert set(await walk(wirings, context, 4)) == {name(n) for n in range(12) if n % 3}
            finally:
                for container in wirings:
                    await container.database.close()

    asyncio.run(work())

    assert seen
    assert len(revoked) == 4


@on_both_databases
def test_an_sd_card_that_is_made_while_its_agent_is_revoked_is_revoked_too(desk: Desk) -> None:
    async def work() -> None:
        with two(desk) as wirings:
            try:
                for number in range(16):
                    await register_agent(wirings[0], OWNER, body(number))
                walks = [walk(wirings[::step], context, 4) for context in ("public", "internal") for step in (1, -1)]
                changes = (change_statuses(wirings[n % 2], OWNER, name(n), REVOKE, b"{}") for n in range(16))
                await asyncio.gather(*walks, *changes)
                assert await walk(wirings, "public", 4) == []
            finally:
                for container in wirings:
                    await container.database.close()

    asyncio.run(work())

    ((statuses,),) = [[row for row in sql(desk.url, "SELECT status, count(*) FROM status_entries GROUP BY status")[0]]]
    assert statuses[0] == 1
    assert statuses[1] >= 32
    cards = sql(desk.url, "SELECT status_list_id, status_index FROM cards")[0]
    assert len(set(cards)) == len(cards) == statuses[1]


def test_the_secret_is_the_databases_own(tmp_path: Path) -> None:
    secrets = []
    for number in range(2):
        url = f"sqlite+aiosqlite:///{tmp_path}/{number}.sqlite"
        upgrade(url)
        ((rows),) = sql(url, "SELECT value FROM secrets WHERE name = 'discovery'")
        secrets.append(rows[0][0])

    assert secrets[0] != secrets[1]
    assert [len(one) for one in secrets] == [32, 32]
