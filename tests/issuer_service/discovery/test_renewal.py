"""SD-Cards for discovery over time: renewed, and as the policy, the keys and the agreements are now."""

import asyncio
import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, update

from issuer_service import monitoring
from issuer_service.access import Limit, Scope
from issuer_service.db.tables import agents
from issuer_service.discovery import postings_repository
from issuer_service.discovery.records import Audience, DiscoveryQuery, RenewalRow
from issuer_service.discovery.renewal import renew
from issuer_service.keys.ring import STALE
from sdcard import Issuer, Refused
from sdcard.acceptance import IssuedSdCard
from sdcard.errors import Part, Where
from sdcard.io.database import open_database
from sdcard.issuer import DAY, issuing_step
from sdcard.jose.jws import Signer
from sdcard.policy.document import read_policy
from sdcard.rules import Rule
from tests.issuer_service.desk import Desk, FixedKeys, OpenDesk, assert_refused, finding, on_both_databases
from tests.issuer_service.discovery.seekers import found_cards, register, status_of
from tests.issuer_service.keys.test_service import add, remove, rotate
from tests.world import NOW, RecordingSalts

PARTNER = "https://partner.example"
DISCOVER = (Scope.AGENTS_DISCOVER,)
ROUTE = {"text": "route"}


def the_card(desk: Desk, registry: OpenDesk, token: str, context: str = "public") -> IssuedSdCard:
    (card,) = found_cards(desk, registry, context, token, **ROUTE).values()
    return card


def place(card: IssuedSdCard) -> Any:
    return json.dumps(status_of(card))


@on_both_databases
def test_an_sd_card_is_renewed_when_half_of_its_life_is_over(desk: Desk, registry: OpenDesk, everywhere: str) -> None:
    register(registry, "public")
    first = the_card(desk, registry, everywhere)
    desk.clock.advance((first.expires_at - NOW) // 2 - 1)
    assert place(the_card(desk, registry, everywhere)) == place(first)
    desk.clock.advance(1)
    second = the_card(desk, registry, everywhere)
    desk.clock.advance(100 * DAY)
    third = the_card(desk, registry, everywhere)

    assert first.expires_at < second.expires_at < third.expires_at
    assert len({place(card) for card in (first, second, third)}) == 3
    assert first.members == second.members == third.members
    assert desk.counts()["discovery_cards"] == 1
    changed = registry.client.post(
        "/agents/georoute/revoke", json={}, headers={"authorization": f"Bearer {everywhere}"}
    )
    assert_refused(changed, 403, ("token.scope", "request/headers/authorization"))


def test_both_that_hold_can_be_revoked(desk: Desk, registry: OpenDesk, everywhere: str) -> None:
    register(registry, "public")
    owner = desk.new_token("alice", lifetime=10**8)
    the_card(desk, registry, everywhere)
    desk.clock.advance(7 * DAY)
    the_card(desk, registry, everywhere)

    changed = registry.client.post("/agents/georoute/revoke", json={}, headers={"authorization": f"Bearer {owner}"})

    assert changed.json()["changed"] == 3
    assert {row[2] for row in desk.rows()["status_entries"]} == {1}


UNAVAILABLE = Refused(Rule.STORE_UNAVAILABLE, Where(Part.REQUEST))


@contextmanager
def read_only(desk: Desk) -> Iterator[OpenDesk]:
    """A registry whose database cannot write just now."""

    def refuse(*_: object) -> None:
        raise Refused(Rule.STORE_UNAVAILABLE, Where(Part.REQUEST))

    with desk.open() as registry, pytest.MonkeyPatch.context() as patched:
        patched.setattr(postings_repository, "renew", refuse)
        patched.setattr(monitoring, "check_commit", refuse)
        yield registry


def test_what_still_holds_is_given_when_it_cannot_be_renewed(desk: Desk, everywhere: str) -> None:
    with desk.open() as registry:
        register(registry, "public")
        first = the_card(desk, registry, everywhere)
    with read_only(desk) as registry:
        desk.clock.advance(7 * DAY)
        assert place(the_card(desk, registry, everywhere)) == place(first)
        desk.clock.advance(7 * DAY)
        assert_refused(registry.look_for("public", everywhere, **ROUTE), 503, ("store.unavailable", "request"))


@contextmanager
def refusing_to_write(
    desk: Desk, refused: Collection[str] = ("agent-1",), failure: Exception = UNAVAILABLE
) -> Iterator[OpenDesk]:
    """A registry whose database cannot write one agent, or some."""
    renew = postings_repository.renew

    def renew_others(connection: Connection, secret: bytes, renewals: Sequence[RenewalRow]) -> None:
        if any(one.agent_id in refused for one in renewals):
            raise failure
        renew(connection, secret, renewals)

    with desk.open() as registry, pytest.MonkeyPatch.context() as patched:
        patched.setattr(postings_repository, "renew", renew_others)
        yield registry


ALL = [f"agent-{number}" for number in range(3)]
OTHERS = ["agent-0", "agent-2"]


def found_page_by_page(registry: OpenDesk, token: str) -> list[str]:
    """Every agent that pages of one show, to the end."""
    found, cursor = list[str](), None
    for _ in range(10):
        more: dict[str, Any] = {} if cursor is None else {"cursor": cursor}
        answer = registry.look_for("public", token, max_results=1, **ROUTE, **more).json()
        found += [one["agent_id"] for one in answer["results"]]
        cursor = answer["next_cursor"]
        if cursor is None:
            return sorted(found)
    raise AssertionError("pages do not end")


@pytest.mark.parametrize(
    "failure", [Refused(Rule.STORE_UNAVAILABLE, Where(Part.REQUEST)), ValueError("canary"), LookupError("canary")]
)
def test_an_agent_that_cannot_be_written_leaves_the_others_of_its_page(
    desk: Desk, everywhere: str, failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    with refusing_to_write(desk, failure=failure) as registry:
        for name in ALL:
            register(registry, "public", agent_id=name)
        assert sorted(registry.found("public", everywhere, **ROUTE)) == OTHERS
    assert "agent-1" in caplog.text
    assert "canary" not in caplog.text


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_agents_that_the_database_refuses_hide_no_others(
    desk: Desk, everywhere: str, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever the pages are: a page that holds only agents that are refused is empty, and leads on."""
    names = [f"agent-{number}" for number in range(6)]
    with refusing_to_write(desk, names[:count]) as registry:
        for name in names:
            register(registry, "public", agent_id=name)
        assert found_page_by_page(registry, everywhere) == names[count:]
        assert sorted(registry.found("public", everywhere, **ROUTE)) == names[count:]
    assert all(name in caplog.text for name in names[:count])


def test_a_page_of_agents_that_are_all_refused_is_empty(desk: Desk, everywhere: str) -> None:
    with refusing_to_write(desk) as registry:
        register(registry, "public", agent_id="agent-1")
        assert registry.found("public", everywhere, **ROUTE) == []


class FailingSigner:
    """A signer of which every signature fails, or only those of SD-Cards."""

    def __init__(self, signer: Signer, everything: bool) -> None:
        self.public_key, self._signer, self._everything = signer.public_key, signer, everything

    def sign(self, message: bytes) -> bytes:
        if self._everything or b"." in message:
            raise Refused(Rule.SIGNER_UNAVAILABLE, Where(Part.KEY))
        return self._signer.sign(message)


@pytest.mark.parametrize(("everything", "status"), [(True, 503), (False, 200)])
def test_only_a_signer_that_is_down_is_an_outage(desk: Desk, everywhere: str, everything: bool, status: int) -> None:
    with desk.open() as registry:
        register(registry, "public")
    keys = FixedKeys({use: FailingSigner(one, everything) for use, one in desk.signers().items()})
    with desk.open(keys=keys) as registry:
        answer = registry.look_for("public", everywhere, **ROUTE)
    assert answer.status_code == status
    assert status == 503 or answer.json()["results"] == []


@pytest.mark.parametrize("damage", [{"card_format": "unheard/9"}, {"card": "no JSON"}], ids=["format", "text"])
def test_an_agent_whose_row_is_damaged_leaves_the_others_of_its_page(
    desk: Desk, everywhere: str, damage: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    with desk.open() as registry:
        for name in ALL:
            register(registry, "public", agent_id=name)
    with create_engine(desk.url.replace("+aiosqlite", "")).begin() as connection:
        connection.execute(update(agents).where(agents.c.agent_id == "agent-1").values(damage))
    with desk.open() as registry:
        assert found_page_by_page(registry, everywhere) == OTHERS
        assert sorted(registry.found("public", everywhere, **ROUTE)) == OTHERS
    assert "agent-1" in caplog.text


def test_an_agent_that_cannot_be_renewed_is_left_out_while_others_still_hold(desk: Desk, everywhere: str) -> None:
    with desk.open() as registry:
        for name in OTHERS:
            register(registry, "public", agent_id=name)
        assert sorted(registry.found("public", everywhere, **ROUTE)) == OTHERS
        register(registry, "public", agent_id="agent-1")
    with read_only(desk) as registry:
        assert sorted(registry.found("public", everywhere, **ROUTE)) == OTHERS


@on_both_databases
def test_of_two_processes_that_renew_at_once_one_writes(desk: Desk, registry: OpenDesk, everywhere: str) -> None:
    for number in range(4):
        register(registry, "public", agent_id=f"agent-{number}")

    async def work() -> None:
        wirings = [desk.container(open_database(desk.url), salts=RecordingSalts(str(n))) for n in range(4)]
        asked = DiscoveryQuery(Audience("public", ""), ("text:route",), -1, 10, NOW)
        try:
            rows = (await finding(asked)(wirings[0].database)).rows
            assert len(rows) == 4
            await asyncio.gather(*(renew(container, [row.position for row in rows], NOW) for container in wirings))
        finally:
            for container in wirings:
                await container.database.close()

    asyncio.run(work())

    assert desk.counts()["cards"] == desk.counts()["status_entries"] == 8
    assert len(found_cards(desk, registry, "public", everywhere, **ROUTE)) == 4


def narrowed(*withheld: str) -> Any:
    claims: Any = {"skills": "selective", **dict.fromkeys(withheld, "withheld")}
    return read_policy({"contexts": {"internal": {"claims": claims, "contains": []}}})


@on_both_databases
def test_a_narrower_policy_holds_for_what_was_registered_before(desk: Desk, everywhere: str) -> None:
    with desk.open() as registry:
        register(registry, "internal")
        register(registry, {"context": "internal", "disclose": ["provider"]}, agent_id="unlucky")
        assert sorted(registry.found("internal", everywhere, **ROUTE)) == ["georoute", "unlucky"]
        assert registry.found("internal", everywhere, input_modes=["text/plain"]) == ["georoute"]
    with desk.open(policy=narrowed("skills.*.tags", "provider")) as registry:
        assert registry.found("internal", everywhere, tags=["maps"]) == []
        card = the_card(desk, registry, everywhere, "internal")
        assert "provider" not in card.members
        assert "tags" not in json.dumps(card.members)
        assert registry.found("internal", everywhere, input_modes=["text/plain"]) == ["georoute"]
        assert registry.found("internal", everywhere, capabilities={"streaming": True}) == []
    with desk.open() as registry:
        assert registry.found("internal", everywhere, tags=["maps"]) == [], "it is found by that once it was found"
        assert registry.found("internal", everywhere, **ROUTE) == ["georoute"]
        assert registry.found("internal", everywhere, tags=["maps"]) == ["georoute"]


def test_sd_cards_outlive_a_rotation_and_not_the_removal_of_their_key(desk: Desk, everywhere: str) -> None:
    with desk.open() as registry:
        register(registry, "public")
        first = the_card(desk, registry, everywhere)
        add(desk)
        old, _ = rotate(desk, at_once=True)
        desk.clock.advance(STALE)
        assert place(the_card(desk, registry, everywhere)) == place(first)

        remove(desk, old)
        desk.clock.advance(STALE)
        again = the_card(desk, registry, everywhere)
        assert place(again) != place(first)
        assert place(the_card(desk, registry, everywhere)) == place(again)


# -- partners ---------------------------------------------------------------------------------------------------------

STEP = issuing_step()
NEXT = (NOW // STEP + 1) * STEP
"""The next instant at which SD-Cards end."""

AGREED = read_policy(
    {
        "agreements": [
            {"partner": PARTNER, "discloses": ["skills.*", "provider"], "expires": NEXT + STEP + 1800},
            {"partner": "other", "discloses": ["skills"], "expires": NOW + 30 * DAY},
            {"partner": "coming", "discloses": ["provider"], "not_before": NOW + 10, "expires": NOW + 30 * DAY},
        ]
    }
)
FOR_PARTNER = {"context": "federation", "partner": PARTNER}


@on_both_databases
def test_a_partner_finds_what_was_agreed_and_nobody_else_does(desk: Desk) -> None:
    federation = {Limit.CONTEXTS: ["federation", "public"]}
    partner, other, coming, stranger = (
        desk.new_token(subject, DISCOVER, federation, lifetime=30 * DAY)
        for subject in (PARTNER, "other", "coming", "stranger")
    )
    with desk.open(policy=AGREED) as registry:
        register(registry, FOR_PARTNER, {"context": "federation", "partner": "other"}, "federation", agent_id="both")
        register(registry, FOR_PARTNER, agent_id="one")
        register(registry, "federation", agent_id="general")
        register(registry, {"context": "federation", "partner": "coming"}, agent_id="early")

        def found(token: str, **asked: Any) -> list[str]:
            return sorted(registry.found("federation", token, **asked))

        assert found(partner, tags=["maps"]) == ["both", "one"]
        assert found(other, text="fleet") == ["both"]
        assert found(other, tags=["maps"]) == []
        for token in (stranger, coming):
            assert found(token, text="fleet") == ["both", "early", "general"]
            assert found(token, tags=["maps"]) == []
        cards = found_cards(desk, registry, "federation", partner, tags=["maps"])
        assert all("Example Geo Services" in json.dumps(card.members) for card in cards.values())
        assert {card.expires_at for card in cards.values()} == {NEXT + STEP}

        claims = {"organization": PARTNER}
        assert found(partner, text="fleet", requester_claims=claims) == ["both", "one"]
        assert found(partner, text="fleet", requester_claims={"organization": "x"}) == ["both", "early", "general"]
        assert found(stranger, tags=["maps"], requester_claims=claims) == []

        desk.clock.advance(NEXT + STEP - 1 - NOW)
        assert found(partner, tags=["maps"]) == ["both", "one"]
        desk.clock.advance(1)
        assert found(partner, tags=["maps"]) == [], "the agreement does not last to the end of another step"
        assert found(partner, text="fleet") == ["both", "early", "general"]


def test_an_agreement_that_was_taken_back_shows_nothing_more(desk: Desk) -> None:
    token = desk.new_token(PARTNER, DISCOVER, {Limit.CONTEXTS: ["federation"]})
    with desk.open(policy=AGREED) as registry:
        register(registry, FOR_PARTNER)
        assert registry.found("federation", token, tags=["maps"]) == ["georoute"]
    later = read_policy({"agreements": [{"partner": PARTNER, "discloses": ["skills"], "expires": NOW + 30 * DAY}]})
    with desk.open(policy=later) as registry:
        assert registry.found("federation", token, tags=["maps"]) == []
        assert registry.found("federation", token, text="fleet") == ["georoute"]
    with desk.open() as registry:
        assert registry.found("federation", token, text="fleet") == []


def test_the_answers_do_not_tell_who_else_is_a_partner(desk: Desk) -> None:
    token = desk.new_token("stranger", DISCOVER, {Limit.CONTEXTS: ["federation"]})
    with desk.open(policy=AGREED) as registry:
        register(registry, FOR_PARTNER, "federation")
        whole = registry.look_for("federation", token, **ROUTE).text
        assert PARTNER not in whole

    assert Issuer("https://registry.example", desk.signer.public_key).identifier in repr(desk.rows()["audit"])


@pytest.mark.parametrize("count", [1, 3])
def test_a_wiring_names_what_decides_the_same_way_each_time(desk: Desk, count: int) -> None:
    names = {desk.container(open_database(desk.url), policy=AGREED).decided_by for _ in range(count)}
    others = {
        desk.container(open_database(desk.url)).decided_by,
        desk.container(open_database(desk.url), policy=narrowed()).decided_by,
        desk.container(open_database(desk.url), policy=narrowed("provider")).decided_by,
        desk.container(open_database(desk.url), issuer="https://other.example").decided_by,
    }

    assert len(names) == 1
    assert len(names | others) == 5
