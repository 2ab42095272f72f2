"""Registrations: A2A cards, AgentCards and SD-Cards for partners."""

import json
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import Connection, event

from issuer_service.access import Limit, Scope
from issuer_service.agents import registration as service
from issuer_service.agents.reading import Registration, Terms, read_registration
from issuer_service.container import Bounds
from sdcard import Limits
from sdcard.encoding import JsonObject
from sdcard.io import statements
from sdcard.io.database import open_database
from sdcard.issuer import issuing_step
from sdcard.limits import DEFAULT_LIMITS
from sdcard.policy.document import read_policy
from sdcard.sdjwt.verification import read_unverified
from tests.issuer_service.agents.test_endpoints import accept
from tests.issuer_service.desk import (
    HOLDER,
    Desk,
    OpenDesk,
    assert_refused,
    jwk,
    on_both_databases,
    request,
    request_with_card,
)
from tests.postgres import query
from tests.sdcard.cards.agentcard.cards import MINIMAL, mcp, readme, whole
from tests.sdcard.cards.documents import changed
from tests.world import NOW, RecordingSalts, at_once, example, key

# -- Who an agent and a key belong to, and that a registration is all or nothing --------------------------------------


@on_both_databases
def test_an_agent_of_another_owner_is_taken(desk: Desk, registry: OpenDesk) -> None:
    registry.register(request())
    before = desk.rows()
    bob = desk.new_token("bob")
    before["tokens"] = desk.rows()["tokens"]

    response = registry.post(request(public_key=jwk(key(21))), authorization=f"Bearer {bob}")

    assert_refused(response, 409, ("agent.taken", "request/agent_id"))
    assert response.json()["findings"][0]["hint"] == ""
    assert "alice" not in response.text
    assert desk.rows() == before


@on_both_databases
def test_the_owner_registers_again_and_the_card_is_replaced(desk: Desk, registry: OpenDesk) -> None:
    first = registry.register(request())
    desk.clock.advance(60)

    second = registry.register(request_with_card())

    assert first["batch_id"] != second["batch_id"]
    counts = desk.counts()
    assert (counts["agents"], counts["batches"], counts["audit"], counts["holder_keys"]) == (1, 2, 2, 1)
    ((_, _, _, card_format, _, registered_at, updated_at, *_),) = desk.rows()["agents"]
    assert (card_format, updated_at - registered_at) == ("a2a/1.0", 60)


@on_both_databases
@pytest.mark.parametrize("subject", ["alice", "bob"])
def test_another_spelling_of_an_agent_is_taken(desk: Desk, registry: OpenDesk, subject: str) -> None:
    registry.register(request("Team-Router"))
    token = desk.new_token(subject)
    before = desk.rows()

    response = registry.post(request("team-ROUTER", public_key=jwk(key(21))), authorization=f"Bearer {token}")

    assert_refused(response, 409, ("agent.taken", "request/agent_id"))
    assert desk.rows() == before


@on_both_databases
def test_of_two_spellings_of_an_agent_that_are_asked_for_at_once_exactly_one_wins(
    desk: Desk, registry: OpenDesk
) -> None:
    asks = iter([request(f"{first}gent", public_key=jwk(key(n))) for n, first in enumerate("aAaAaAaA", 30)])

    statuses = at_once(lambda: registry.post(next(asks)).status_code, 8)

    assert sorted(statuses) == [201] * 4 + [409] * 4
    assert desk.counts()["agents"] == 1


@on_both_databases
@pytest.mark.parametrize(
    ("bounds", "most"), [(Bounds(), 1), (Bounds(batch_at_once_bytes=0), 2), (Bounds(batch_at_once_disclosures=0), 2)]
)
def test_few_batches_are_made_at_once_and_small_ones_one_by_one(desk: Desk, bounds: Bounds, most: int) -> None:
    salts = CountingSalts()
    asks = iter([request(f"agent-{n}", public_key=jwk(key(30 + n))) for n in range(8)])
    with desk.open(salts=salts, bounds=bounds) as registry:
        statuses = at_once(lambda: registry.post(next(asks)).status_code, 8)

    assert statuses == [201] * 8
    assert salts.most == most


@on_both_databases
@pytest.mark.parametrize(
    ("bounds", "in_thread"),
    [(Bounds(), False), (Bounds(read_at_once_bytes=100), True), (Bounds(read_at_once_parts=10), True)],
)
def test_a_request_of_many_bytes_or_parts_is_read_in_a_thread(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, bounds: Bounds, in_thread: bool
) -> None:
    threads: list[str] = []

    def reading(body: bytes, terms: Terms) -> Registration:
        threads.append(threading.current_thread().name)
        return read_registration(body, terms)

    monkeypatch.setattr(service, "read_registration", reading)
    with desk.open(bounds=bounds) as registry:
        registry.register(request())

    assert [name.startswith("asyncio_") for name in threads] == [in_thread]


class CountingSalts(RecordingSalts):
    """Slow randomness that knows how many draw at once."""

    def __init__(self) -> None:
        super().__init__("counting")
        self.lock, self.present, self.most = threading.Lock(), 0, 0

    def draw(self, count: int) -> bytes:
        with self.lock:
            self.present += 1
            self.most = max(self.most, self.present)
        time.sleep(0.01)
        with self.lock:
            self.present -= 1
            return super().draw(count)


@on_both_databases
def test_the_owner_may_use_another_token(desk: Desk, registry: OpenDesk) -> None:
    registry.register(request())

    registry.register(request(), desk.new_token("alice"))


@on_both_databases
def test_the_owner_may_add_keys(desk: Desk, registry: OpenDesk) -> None:
    registry.register(request())

    registry.register(request(public_key=None, public_keys=[jwk(), jwk(key(21))]))

    assert desk.counts()["holder_keys"] == 2


@on_both_databases
def test_a_key_of_one_agent_is_refused_for_another(desk: Desk, registry: OpenDesk) -> None:
    registry.register(request())
    before = desk.rows()

    assert_refused(registry.post(request("second")), 409, ("key.bound-elsewhere", "request/public_key"))
    assert desk.rows() == before


@on_both_databases
def test_every_key_of_another_agent_is_named(desk: Desk, registry: OpenDesk) -> None:
    registry.register(request(public_key=None, public_keys=[jwk(key(21)), jwk(key(22))]))
    before = desk.rows()

    response = registry.post(request("second", public_key=None, public_keys=[jwk(key(n)) for n in (22, 23, 21)]))

    assert_refused(
        response,
        409,
        ("key.bound-elsewhere", "request/public_keys/0"),
        ("key.bound-elsewhere", "request/public_keys/2"),
    )
    assert desk.rows() == before


@on_both_databases
def test_of_two_subjects_who_ask_at_once_exactly_one_wins(desk: Desk, registry: OpenDesk) -> None:
    tokens = iter([desk.new_token("bob"), desk.new_token("carol")] * 5)
    signers = iter([key(n) for n in range(30, 40)])
    asks = [(next(tokens), request(public_key=jwk(next(signers)))) for _ in range(10)]
    waiting = iter(asks)

    def ask() -> tuple[str, int]:
        token, body = next(waiting)
        return token, registry.post(body, authorization=f"Bearer {token}").status_code

    answers = at_once(ask, 10)

    winners = {token for token, status in answers if status == 201}
    assert len(winners) == 1
    assert {status for token, status in answers if token not in winners} == {409}
    assert {status for token, status in answers if token in winners} == {201}
    assert desk.counts()["agents"] == 1


@on_both_databases
def test_of_two_agents_that_claim_one_key_at_once_exactly_one_wins(desk: Desk, registry: OpenDesk) -> None:
    names = iter([f"agent-{n}" for n in range(8)])

    statuses = at_once(lambda: registry.post(request(next(names))).status_code, 8)

    assert sorted(statuses) == [201] + [409] * 7
    assert (desk.counts()["agents"], desk.counts()["holder_keys"]) == (1, 1)


@on_both_databases
def test_a_hundred_registrations_at_once_all_succeed(desk: Desk, registry: OpenDesk) -> None:
    asks = iter([request(f"agent-{n}", public_key=jwk(key(100 + n))) for n in range(100)])

    def ask() -> list[int]:
        return [registry.post(next(asks)).status_code for _ in range(5)]

    statuses = at_once(ask, 20)

    assert [status for group in statuses for status in group] == [201] * 100
    assert (desk.counts()["agents"], desk.counts()["audit"]) == (100, 100)


@on_both_databases
@pytest.mark.parametrize("table", ["audit_waiting", "agents", "holder_keys", "batches", "cards", "COMMIT"])
def test_a_crash_between_signing_and_the_end_leaves_nothing(
    desk: Desk, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = open_database(desk.url)
    execute = statements.execute

    def crash(*_: object) -> None:
        raise RuntimeError("a canary that nobody may see")

    def crash_at_table(connection: Connection, text: str, arguments: Sequence[tuple[object, ...]]) -> Any:
        return crash() if f"INSERT INTO {table} " in text else execute(connection, text, arguments)

    if table == "COMMIT":
        event.listen(database.engine, "commit", crash)
    monkeypatch.setattr(statements, "execute", crash_at_table)
    before = desk.rows()

    with desk.open(database) as registry:
        response = registry.post(request_with_card())

    assert_refused(response, 500, ("registry.failed", "request"))
    assert "canary" not in response.text
    assert desk.rows() == before


@on_both_databases
def test_after_a_crash_the_same_request_succeeds(desk: Desk) -> None:
    database = open_database(desk.url)
    crashes = [True]

    def crash(*_: object) -> None:
        if crashes.pop() if crashes else False:
            raise RuntimeError

    event.listen(database.engine, "commit", crash)
    with desk.open(database) as registry:
        assert registry.post(request()).status_code == 500
        assert registry.post(request()).status_code == 201


@on_both_databases
def test_a_card_that_would_be_too_large_to_present_is_not_issued(desk: Desk) -> None:
    before = desk.rows()
    with desk.open(limits=Limits(presentation_bytes=34_672)) as registry:
        assert_refused(registry.post(request_with_card()), 413, ("limit.bytes", "card"))
        assert registry.post(request()).status_code == 201
    assert len(desk.rows()["agents"]) == len(before["agents"]) + 1


@on_both_databases
@pytest.mark.parametrize(("missing", "status"), [(0, 201), (1, 413)])
def test_no_card_has_more_disclosures_than_a_verifier_reads(desk: Desk, missing: int, status: int) -> None:
    with desk.open() as registry:
        (issued,) = registry.register(request_with_card())["cards"]
    count = issued["sd_card"].count("~") - 1

    with desk.open(limits=Limits(disclosures=count - missing)) as registry:
        assert registry.post(request_with_card()).status_code == status


@on_both_databases
def test_the_key_of_another_holder_is_no_matter_of_the_card(registry: OpenDesk) -> None:
    registry.register(request_with_card(example(), public_key=jwk(HOLDER)))
    registry.register(request_with_card(example(), agent_id="second", public_key=jwk(key(21))))


@on_both_databases
def test_many_small_sd_cards_are_no_small_batch(desk: Desk) -> None:
    partners = [{"context": "federation", "partner": str(number)} for number in range(16)]
    asks = iter([
        request(f"agent-{n}", name="", description="", version="", public_key=None, disclosure_contexts=partners,
                public_keys=[jwk(key(60 + 4 * n + number)) for number in range(4)])
        for n in range(3)
    ])  # fmt: skip
    salts = CountingSalts()
    with desk.open(salts=salts) as registry:
        statuses = at_once(lambda: registry.post(next(asks)).status_code, 3)

    assert statuses == [201] * 3
    assert salts.most > 1, "each in a thread"


# -- AgentCards at the registry ---------------------------------------------------------------------------------------

# Taken as they are, in agreement with the request, and within the limits of the token.

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


# -- SD-Cards for partners --------------------------------------------------------------------------------------------

# The agreement decides, the answer says so, and nothing in the SD-Card does.

PARTNER = "https://partner.example"
NEXT = (NOW // issuing_step() + 1) * issuing_step()
"""The next instant at which SD-Cards end."""
POLICY = read_policy(
    {
        "contexts": {"mine": {"claims": {"provider": "plain"}}},
        "agreements": [
            {"partner": PARTNER, "discloses": ["provider", "skills"], "expires": NEXT},
            {"partner": "alice", "discloses": ["iconUrl"], "expires": NEXT},
            {"partner": "past", "discloses": ["provider"], "expires": NOW},
            {"partner": "coming", "discloses": ["provider"], "not_before": NOW + 1, "expires": NEXT},
        ],
    }
)


FIRST = "request/disclosure_contexts/0"


def asking(*contexts: dict[str, Any]) -> dict[str, Any]:
    return request_with_card(disclosure_contexts=list(contexts))


def federation(partner: str, **others: Any) -> dict[str, Any]:
    return {"context": "federation", "partner": partner, **others}


def test_the_answer_says_which_agreement_decided(desk: Desk) -> None:
    with desk.open(policy=POLICY) as registry:
        answer = registry.register(asking(federation(PARTNER), {"context": "public"}, {"context": "mine"}))
        members = [accept(registry, card).issued.members for card in answer["cards"]]

    first, *others = answer["cards"]
    assert (first["context"], first["agreement"]) == ("federation", {"partner": PARTNER, "expires": NEXT})
    assert first["exp"] == NEXT
    assert [card["agreement"] for card in others] == [None, None]
    assert members[0].keys() - members[1].keys() == {"provider"}
    assert PARTNER not in first["sd_card"]


def test_several_partners_can_be_asked_for_at_once_and_the_audit_record_names_them(desk: Desk) -> None:
    with desk.open(policy=POLICY) as registry:
        answer = registry.register(asking(federation(PARTNER), federation("alice"), {"context": "federation"}))

    assert [(card["agreement"] or {}).get("partner") for card in answer["cards"]] == [PARTNER, "alice", None]
    (record,) = desk.audit()
    assert {audience: "provider" in claims for audience, claims in record["disclosed"].items()} == {
        f"federation {PARTNER}": True,
        "federation alice": False,
        "federation": False,
    }


def test_whatever_several_entries_without_an_agreement_show_is_in_one_audit_record(desk: Desk) -> None:
    with desk.open(policy=POLICY) as registry:
        registry.register(asking(federation("past", disclose=["iconUrl"]), federation("other", disclose=["provider"])))

    (record,) = desk.audit()
    assert set(record["disclosed"]["federation"]) >= {"iconUrl", "provider"}


@pytest.mark.parametrize("partner", ["past", "coming", "nobody", PARTNER + "/", "é\n"])
def test_past_coming_and_unknown_agreements_look_alike(desk: Desk, partner: str) -> None:
    with desk.open(policy=POLICY) as registry:
        answer = registry.register(asking({"context": "public"}, federation(partner)))
        public, card = (accept(registry, one).issued.members for one in answer["cards"])

    warning = next(one for one in answer["findings"] if one["rule"] == "agreement.none-in-force")
    assert (warning["level"], warning["where"]) == ("warning", "request/disclosure_contexts/1/partner")
    assert "shows what it would show to anybody" in warning["hint"]
    assert partner not in warning["hint"]
    assert card == public
    assert answer["cards"][1]["agreement"] is None


def test_federation_without_a_partner_says_that_it_equals_public(registry: OpenDesk) -> None:
    answer = registry.register(asking({"context": "public"}, {"context": "federation"}))
    (warning,) = [one for one in answer["findings"] if one["rule"].startswith("agreement")]
    assert (warning["rule"], warning["level"], warning["where"]) == (
        "agreement.none-in-force", "warning", "request/disclosure_contexts/1/context"
    )  # fmt: skip
    assert "as public does" in warning["hint"]


@pytest.mark.parametrize(
    ("contexts", "expected"),
    [
        ([{"context": "public", "partner": PARTNER}], ("agreement.unexpected", f"{FIRST}/partner")),
        ([{"context": "mine", "partner": "nobody"}], ("agreement.unexpected", f"{FIRST}/partner")),
        ([{"context": "publik", "partner": PARTNER}], ("context.unknown", f"{FIRST}/context")),
        ([federation("")], ("request.malformed", f"{FIRST}/partner")),
        ([federation("p" * 257)], ("request.malformed", f"{FIRST}/partner")),
        ([{"context": "federation", "partner": None}], ("request.malformed", f"{FIRST}/partner")),
        ([{"context": "federation", "partner": [PARTNER]}], ("request.malformed", f"{FIRST}/partner")),
        ([federation(PARTNER), federation(PARTNER)], ("context.repeated", "request/disclosure_contexts/1/context")),
        ([{"context": "federation"}] * 2, ("context.repeated", "request/disclosure_contexts/1/context")),
        ([federation(PARTNER, disclose=["skills", "iconUrl"])], ("disclose.beyond-ceiling", f"{FIRST}/disclose/1")),
    ],
)
def test_a_partner_that_cannot_be_meant_is_refused(
    desk: Desk, contexts: list[dict[str, Any]], expected: tuple[str, str]
) -> None:
    with desk.open(policy=POLICY) as registry:
        assert_refused(registry.post(asking(*contexts)), 422, expected)
    assert desk.counts()["batches"] == 0


# -- SPIFFE IDs, which a limit of the token permits (decision 0051) ----------------------------------------------------

SPIFFE = "spiffe://example.org/ns/prod/planner"
NOT_PERMITTED = ("token.limit", "card/spiffe_id")


def with_id(spiffe_id: str = SPIFFE, **changes: Any) -> dict[str, Any]:
    return request_with_card({**example(), "spiffe_id": spiffe_id, **changes.pop("card", {})}, **changes)


def permitting(desk: Desk, *entries: str, subject: str = "alice", **more: Any) -> str:
    return desk.new_token(subject, limits={Limit.SPIFFE_IDS: [*entries]}, **more)


def spiffe_ids_of(answer: Any) -> dict[str, Any]:
    """Context → the SPIFFE ID that its SD-Card can show."""
    return {
        one["context"]: read_unverified(one["sd_card"], DEFAULT_LIMITS).processed.claims.get("spiffe_id")
        for one in answer["cards"]
    }


def named(*names: str) -> list[dict[str, str]]:
    return [{"context": name} for name in names]


def test_a_token_without_the_limit_permits_no_id(desk: Desk, registry: OpenDesk) -> None:
    before = desk.rows()

    assert_refused(registry.post(with_id()), 403, NOT_PERMITTED)
    assert desk.rows() == before
    registry.register(request_with_card())


@pytest.mark.parametrize(
    ("entries", "is_good"),
    [
        ([SPIFFE], True),
        (["spiffe://example.org/"], True),
        (["spiffe://other.example/", "spiffe://example.org/ns/prod/"], True),
        ([], False),
        (["spiffe://example.org/ns/prod"], False),
        (["spiffe://example.org/ns/pro/"], False),
        (["spiffe://example.com/"], False),
        ([f"{SPIFFE}/"], False),
    ],
)
def test_the_limit_decides_which_ids_a_card_may_have(
    desk: Desk, registry: OpenDesk, entries: list[str], is_good: bool
) -> None:
    response = registry.post(with_id(), authorization=f"Bearer {permitting(desk, *entries)}")

    if is_good:
        assert response.status_code == 201
    else:
        assert_refused(response, 403, NOT_PERMITTED)


def test_a_malformed_id_is_refused_before_the_limit(desk: Desk, registry: OpenDesk) -> None:
    token = permitting(desk, "spiffe://example.org/")

    response = registry.post(with_id("spiffe://example.org/a/../b"), authorization=f"Bearer {token}")

    assert_refused(response, 422, ("card.member-value", "card/spiffe_id"))


def test_public_and_internal_cards_do_not_contain_it(desk: Desk, registry: OpenDesk) -> None:
    body = with_id(disclosure_contexts=named("public", "internal", "diagnostic", "full"))

    answer = registry.register(body, permitting(desk, SPIFFE))

    assert spiffe_ids_of(answer) == {"public": None, "internal": None, "diagnostic": SPIFFE, "full": SPIFFE}
    (record,) = desk.audit(agent_id="ai-assistant-v2")
    assert "spiffe_id" not in json.dumps(record["disclosed"]["public"])
    assert "spiffe_id" in record["disclosed"]["diagnostic"]


@on_both_databases
def test_each_renewal_and_change_of_keys_needs_a_token_that_permits_it(desk: Desk, registry: OpenDesk) -> None:
    token = permitting(desk, SPIFFE)
    registry.register(with_id(), token)
    narrower = permitting(desk, "spiffe://example.org/other/")

    assert spiffe_ids_of(registry.done("POST", "/agents/ai-assistant-v2/renew", {}, token)) == {"full": SPIFFE}
    for bearer in (registry.token, narrower):
        assert_refused(registry.ask("POST", "/agents/ai-assistant-v2/renew", {}, bearer), 403, NOT_PERMITTED)


def test_another_id_is_a_change_of_the_card(desk: Desk, registry: OpenDesk) -> None:
    token = permitting(desk, "spiffe://example.org/")
    registry.register(with_id(), token)
    other = "spiffe://example.org/other"

    refused = registry.post(with_id(other), authorization=f"Bearer {token}")
    changed = registry.register(with_id(other, card={"version": "9.9.9"}), token)

    assert (refused.status_code, refused.json()["rule"]) == (409, "agent.version-reused")
    assert spiffe_ids_of(changed) == {"full": other}


def test_the_limit_of_one_owner_gives_nobody_else_the_agent(desk: Desk, registry: OpenDesk) -> None:
    registry.register(with_id(), permitting(desk, SPIFFE))
    response = registry.post(with_id(), authorization=f"Bearer {permitting(desk, SPIFFE, subject='bob')}")

    assert (response.status_code, response.json()["rule"]) == (409, "agent.taken")


@pytest.mark.parametrize(
    "stored",
    [SPIFFE, "spiffe://victim.example/ns/prod/admin", "spiffe://victim.example/ns/../admin", {"a": ["b"]}, [1]],
)
def test_sd_cards_for_discovery_do_not_contain_it_whatever_is_stored(
    desk: Desk, registry: OpenDesk, stored: Any
) -> None:
    """They are signed without the owner's token, which permits it."""
    asked = [{"context": "public", "disclose": ["*", "spiffe_id"]}, {"context": "internal"}, {"context": "diagnostic"}]
    answer = registry.register(with_id(disclosure_contexts=asked), permitting(desk, SPIFFE))
    query(desk.url, f"UPDATE agents SET card = json_set(card, '$.spiffe_id', json('{json.dumps(stored)}'))")
    contexts = ["public", "internal", "diagnostic"]
    seeker = desk.new_token("seeker", scopes=(Scope.AGENTS_DISCOVER,), limits={Limit.CONTEXTS: contexts})

    assert spiffe_ids_of(answer) == {"public": SPIFFE, "internal": None, "diagnostic": SPIFFE}
    for context in contexts:
        (one,) = registry.look_for(context, seeker, skills=["route-optimizer-traffic"]).json()["results"]
        claims = read_unverified(one["sd_card"], DEFAULT_LIMITS).processed.claims
        assert "skills" in claims
        assert "spiffe" not in json.dumps(claims)


def test_an_owner_may_have_it_shown_in_any_context_of_the_default_policy(desk: Desk, registry: OpenDesk) -> None:
    for entry in ("spiffe_id", "*"):
        body = with_id(disclosure_contexts=[{"context": "public", "disclose": [entry]}])
        assert spiffe_ids_of(registry.register(body, permitting(desk, SPIFFE))) == {"public": SPIFFE}


def test_a_permitted_id_gets_no_note(desk: Desk, registry: OpenDesk) -> None:
    answer = registry.register(with_id(card={"x_own": 1}), permitting(desk, SPIFFE))

    noted = {one["where"] for one in answer["findings"] if one["rule"] == "card.member-unknown"}
    assert noted == {"card/x_own"}


def test_a_registration_without_a_card_has_no_id(desk: Desk, registry: OpenDesk) -> None:
    response = registry.post(request(spiffe_id=SPIFFE), authorization=f"Bearer {permitting(desk, SPIFFE)}")

    assert_refused(response, 422, ("request.malformed", "request/spiffe_id"))
