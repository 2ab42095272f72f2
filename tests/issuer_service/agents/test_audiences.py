"""Pairwise subjects: what Verifiers see names the agent nowhere, and the registry finds it all the same."""

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from issuer_service.access import Limit, Scope
from issuer_service.agents.audiences import Subjects
from issuer_service.container import Container
from issuer_service.discovery.records import Audience
from issuer_service.settings import SubjectPer
from sdcard import Misuse
from sdcard.delegation_chain import SD_AGENT_CARD_TYPE
from sdcard.encoding import JsonObject
from sdcard.pairwise import code_of
from sdcard.profile import AGENT_SD_JWT_02
from tests.issuer_service.delegation.office import OWNERS, Office, assert_error
from tests.issuer_service.desk import Desk, OpenDesk, assert_refused, jwk, on_both_databases, request, request_with_card
from tests.postgres import query
from tests.sdcard.cards.agentcard.cards import mcp, readme, whole
from tests.sdcard.cards.kno.cards import kno
from tests.world import RecordingSalts, example, key

CONTEXTS = [{"context": name} for name in ("public", "internal", "diagnostic", "federation", "full")]
PAIRWISE = re.compile("agent:pairwise[.][0-7][0-9A-HJKMNP-TV-Z]{25}")
PAIRWISE_OF_NOBODY = f"agent:pairwise.{'0' * 26}"
NAME = "very-telling-name"
LOOKED_IN = ("public", "internal", "federation")
per_context = pytest.mark.parametrize("per", [SubjectPer.CONTEXT], ids=str)
both = pytest.mark.parametrize("per", [SubjectPer.CONTEXT, SubjectPer.CARD], ids=str)


@pytest.fixture
def registry(desk: Desk, per: SubjectPer) -> Iterator[OpenDesk]:
    with desk.open(subject_per=per) as opened:
        yield opened


@pytest.fixture
def office(desk: Desk, registry: OpenDesk) -> Office:
    return Office(desk, registry)


def parts(text: str) -> str:
    """All that is in an SD-JWT, a JWT or a presentation, decoded."""
    pieces = re.split("[.~]", text)
    decoded = (base64.urlsafe_b64decode(piece + "=" * (-len(piece) % 4)) for piece in pieces)
    return "\n".join(one.decode("utf-8", "replace") for one in decoded)


def claims(sd_card: str) -> Any:
    return json.loads(parts(sd_card.split("~")[0]).split("\n")[1])


def subs(answer: Any) -> list[str]:
    """Return the `sub` of each SD-Card in an answer, which must be the answer's own."""
    found = [claims(one["sd_card"])["sub"] for one in answer["cards"]]
    assert found == [one["sub"] for one in answer["cards"]]
    return [str(one) for one in found]


def of(name: str, number: int = 40, **changes: Any) -> dict[str, Any]:
    return request(name, public_key=jwk(key(number)), **changes)


# -- what the name is


@pytest.mark.parametrize(("per", "distinct"), [(SubjectPer.AGENT, 1), (SubjectPer.CONTEXT, 3), (SubjectPer.CARD, 6)])
def test_an_agent_has_one_subject_for_what_the_setting_says(registry: OpenDesk, distinct: int) -> None:
    contexts = [{"context": name} for name in ("public", "internal", "diagnostic")]
    keys = [jwk(key(40)), jwk(key(41))]
    answer = registry.register(request("a", public_key=None, public_keys=keys, disclosure_contexts=contexts))
    found = subs(answer)
    assert len(set(found)) == distinct
    assert all(PAIRWISE.fullmatch(one) for one in found) is (distinct > 1)
    assert answer["sub"] == "agent:a"
    assert answer["linkable_by"] == (["cnf"] if distinct == 6 else ["cnf", "sub"])


@per_context
@on_both_databases
def test_the_subject_of_a_context_stays_for_renewals_registrations_and_discovery(registry: OpenDesk) -> None:
    first = registry.register(of("a"))
    again = registry.done("POST", "/agents/a/renew", {})
    later = registry.register(of("a", 41, version="2.1.1", disclosure_contexts=[{"context": "public"}]))
    found = registry.look_for(text="assistant").json()["results"]
    assert subs(again) == subs(first)
    assert subs(later) == subs(first)[:1]
    assert [f"agent:{one['agent_id']}" for one in found] == subs(first)[:1]
    assert claims(found[0]["sd_card"])["sub"] == subs(first)[0]


@pytest.mark.parametrize("per", list(SubjectPer), ids=str)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_what_is_found_in_several_contexts_has_a_key_for_each_as_far_as_there_are_keys(
    desk: Desk, registry: OpenDesk, per: SubjectPer, count: int
) -> None:
    keys = [jwk(key(40 + number)) for number in range(count)]
    contexts = [{"context": "public"}, {"context": "internal"}]
    registry.register(request("a", public_key=None, public_keys=keys, disclosure_contexts=contexts))
    token = desk.new_token("stranger", limits={Limit.CONTEXTS: LOOKED_IN})
    found = [registry.look_for(one["context"], token, text="assistant").json()["results"] for one in contexts]
    bound = [claims(one[0]["sd_card"])["cnf"]["jwk"] for one in found]
    assert bound == [keys[0], keys[0] if per is SubjectPer.AGENT or count == 1 else keys[1]]


@pytest.mark.parametrize("per", [SubjectPer.CARD])
@on_both_databases
def test_the_subject_of_a_card_is_never_used_again(desk: Desk, registry: OpenDesk) -> None:
    seen = subs(registry.register(of("a"))) + subs(registry.done("POST", "/agents/a/renew", {}))
    for _ in range(2):
        found = registry.look_for(text="assistant").json()["results"]
        seen.append(claims(found[0]["sd_card"])["sub"])
        assert seen[-1] == f"agent:{found[0]['agent_id']}"
        desk.clock.advance(8 * 86_400)
        desk.token = registry.token = desk.new_token("alice")
    assert len(set(seen)) == len(seen) == 8


@per_context
def test_two_partners_are_told_two_subjects_and_two_agents_have_none_in_common(registry: OpenDesk) -> None:
    contexts = [{"context": "federation", "partner": one} for one in ("https://a.example", "https://b.example")]
    first = subs(registry.register(of("a", disclosure_contexts=[*contexts, {"context": "federation"}])))
    second = subs(registry.register(of("b", 41, disclosure_contexts=[*contexts, {"context": "federation"}])))
    assert len({*first, *second}) == 6


def test_the_subject_of_a_context_depends_on_every_part_and_on_the_secret() -> None:
    def named(secret: bytes, agent_id: str, *audience: str) -> str:
        return Subjects(SubjectPer.CONTEXT, secret, RecordingSalts()).id_of(agent_id, Audience(*audience))

    secret = b"s" * 32
    found = [
        named(secret, "a", "federation", ""),
        named(secret, "b", "federation", ""),
        named(secret, "a", "public", ""),
        named(secret, "a", "federation", "x"),
        named(b"t" * 32, "a", "federation", ""),
        named(secret, 'a","federation', "", ""),
    ]
    assert len(set(found)) == len(found)
    assert found[0] == named(secret, "a", "federation", "")


# -- nobody but the registry


CARDS: list[tuple[str, JsonObject]] = [
    (NAME, example()),
    (str(whole()["agent_id"]), whole()),
    (str(readme()["agent_id"]), readme()),
    (str(mcp()["agent_id"]), mcp()),
    (NAME, kno()),
]


def registration(agent_id: str, card: JsonObject) -> dict[str, Any]:
    changes = {"agent_id": agent_id, "disclosure_contexts": CONTEXTS, "public_key": jwk(key(40))}
    return request_with_card(card, **changes)


@both
@pytest.mark.parametrize(("agent_id", "card"), CARDS, ids=["a2a", "draft", "readme", "mcp", "kno"])
def test_nothing_that_a_verifier_sees_names_the_agent(
    desk: Desk, registry: OpenDesk, per: SubjectPer, agent_id: str, card: JsonObject
) -> None:
    own = {agent_id, str(card.get("id", agent_id)), str(card.get("agent_id", agent_id))}
    issued = registry.register(registration(agent_id, card))
    token = desk.new_token("stranger", limits={Limit.CONTEXTS: LOOKED_IN})
    found = [registry.look_for(one, token, text=card["name"]) for one in LOOKED_IN]
    seen = [parts(one["sd_card"]) for one in issued["cards"]]
    seen += [parts(one["sd_card"]) for answer in found for one in answer.json()["results"]]
    seen += [f"{answer.headers} {answer.text}" for answer in found]
    lists = {one["status"]["uri"] for one in issued["cards"]}
    seen += [parts(registry.get(one.removeprefix("https://registry.example")).text) for one in lists]
    seen += [registry.get(f"/.well-known/{one}").text for one in ("jwks.json", "jwt-vc-issuer")]
    assert all(answer.json()["results"] for answer in found)
    for text in seen:
        assert not [one for one in own if one.lower() in text.lower()]
    for one in issued["cards"]:
        said = claims(one["sd_card"])
        member = next((name for name in ("agent_id", "id") if name in said), None)
        assert member is None or said[member] == code_of(said["sub"].removeprefix("agent:"))


@pytest.mark.parametrize("per", list(SubjectPer), ids=str)
@pytest.mark.parametrize("agent_id", ["pairwise.01HZQK3P8EMXR9V7T5N2W4J6C1", "Pairwise.x", "PAIRWISE.1"])
def test_nobody_registers_under_a_name_that_could_be_pairwise(desk: Desk, registry: OpenDesk, agent_id: str) -> None:
    before = desk.rows()
    assert_refused(registry.post(of(agent_id)), 422, ("agent-id.malformed", "request/agent_id"))
    assert desk.rows() == before


@both
def test_a_profile_that_shows_a_url_everywhere_does_not_go_with_pairwise_subjects(desk: Desk, per: SubjectPer) -> None:
    with pytest.raises(Misuse, match="url"):
        desk.container(subject_per=per, profile=AGENT_SD_JWT_02)
    assert isinstance(desk.container(profile=AGENT_SD_JWT_02), Container)


# -- what works as before


@both
@on_both_databases
def test_what_was_issued_under_another_setting_keeps_its_name_and_is_revoked(desk: Desk, per: SubjectPer) -> None:
    with desk.open() as before:
        old = before.register(of("a"))
        assert before.found(text="assistant") == ["a"]
    with desk.open(subject_per=per) as pairwise:
        new = pairwise.register(of("a", 41))
        (found,) = pairwise.found(text="assistant")
        assert found.startswith("pairwise.")
    with desk.open() as after:
        assert after.found(text="assistant") == ["a"]
        assert subs(after.done("POST", "/agents/a/renew", {})) == ["agent:a"] * 3
        revoked = after.done("POST", "/agents/a/revoke", {})
        assert revoked["changed"] == 9 + 3
        assert after.done("GET", "/agents/a")["sub"] == "agent:a"
        assert statuses_of(desk, old, new) == [1] * 6
    assert set(subs(old)) == {"agent:a"}
    assert all(map(PAIRWISE.fullmatch, subs(new)))
    assert desk.differences() == []


def statuses_of(desk: Desk, *answers: Any) -> list[Any]:
    entries = {(one["status"]["uri"].rpartition("/")[2], one["status"]["idx"]) for a in answers for one in a["cards"]}
    return [row[2] for row in desk.rows()["status_entries"] if row[:2] in entries]


@both
@on_both_databases
def test_revocation_suspension_and_deletion_find_every_card(desk: Desk, registry: OpenDesk) -> None:
    registry.register(of("a"))
    registry.done("POST", "/agents/a/renew", {})
    assert registry.found(text="assistant")
    assert registry.done("POST", "/agents/a/suspend", {"context": "internal"})["changed"] == 2
    assert registry.done("POST", "/agents/a/reinstate", {})["changed"] == 2
    assert registry.done("DELETE", "/agents/a")["revoked"] == 7
    assert registry.found(text="assistant") == []
    assert desk.differences() == []


@both
def test_an_idempotency_key_gives_the_same_subjects(registry: OpenDesk) -> None:
    first, second = (registry.post(of("a"), idempotency_key='"once"') for _ in range(2))
    assert first.text == second.text


@both
@on_both_databases
def test_the_audit_records_of_a_pairwise_id_are_those_of_its_agent(desk: Desk, registry: OpenDesk) -> None:
    found = subs(registry.register(of("a")))
    registry.register(of("b", 41))
    own = desk.audit(agent_id="a")
    assert own
    assert all(desk.audit(agent_id=one.removeprefix("agent:")) == own for one in found)
    assert desk.audit(agent_id="pairwise." + "0" * 26) == []
    assert desk.differences() == []


_BATCHES = "SELECT batch_id FROM batches WHERE agent_id = 'a'"


@both
@on_both_databases
def test_a_card_that_was_given_another_agents_subject_is_found(desk: Desk, registry: OpenDesk) -> None:
    registry.register(of("a"))
    registry.register(of("b", 41))
    query(desk.url, f"UPDATE cards SET subject = 'pairwise.x' WHERE batch_id IN ({_BATCHES})")
    assert {rule for rule, _ in desk.differences()} == {"audit.state-changed"}
    assert {place.rpartition("/")[2] for _, place in desk.differences()} == {"subject"}


# -- delegation


def told(office: Office, token: str) -> str:
    """All that a delegated token says, and what introspection says of it to each who may ask."""
    answers = [office.post("/introspect", owner, {"token": token}).text for owner in OWNERS.values()]
    return parts(token) + " ".join(answers)


@both
@on_both_databases
def test_a_chain_of_delegations_names_nobody_by_their_own_name(desk: Desk, office: Office) -> None:
    names = {name: claims(card)["sub"] for name, card in office.cards.items()}
    for one, other in ("ab", "bc", "cd"):
        office.grant(one, names[other])
    first = office.issued(office.show("a", names["b"], "read write", interaction_id="task-1"))
    second = office.issued(office.hand_on(first, "bob", names["c"], "read write"))
    third = office.issued(office.hand_on(second, "carol", names["d"]))
    for token in (first, second, third):
        assert not re.search('"agent:[abcd]"', told(office, token))
        assert office.active(token, "alice")
    said = json.loads(parts(third).split("\n")[1])
    assert (said["sub"], said["aud"]) == (names["a"], names["d"])
    assert PAIRWISE.fullmatch(said["act"]["sub"])
    assert PAIRWISE.fullmatch(said["act"]["act"]["sub"])
    recorded = [one["disclosed"]["chain"] for one in desk.audit() if one["event"] == "delegation.issued"]
    assert recorded == [["agent:a"], ["agent:a", "agent:b"], ["agent:a", "agent:b", "agent:c"]]
    assert desk.differences() == []

    office.registry.done("POST", "/agents/b/revoke", {}, office.tokens["bob"])
    assert [office.active(token, "alice") for token in (first, second, third)] == [False] * 3
    assert desk.differences() == []


@both
def test_an_agent_that_was_named_by_its_own_name_hands_on_under_another(office: Office) -> None:
    office.grant("a", "b")
    office.grant("b", "c")
    first = office.issued(office.show("a", "b"))
    second, third = (office.issued(office.hand_on(first, "bob", "c")) for _ in range(2))
    actors = [json.loads(parts(token).split("\n")[1])["act"]["sub"] for token in (second, third)]
    assert all(map(PAIRWISE.fullmatch, actors))
    assert actors[0] != actors[1]
    assert office.read(second, "c").chain.subject == claims(office.cards["a"])["sub"]


@both
@on_both_databases
def test_an_agent_acts_for_a_person_under_the_name_that_it_showed(desk: Desk, office: Office) -> None:
    shown: dict[str, Any] = {"actor_token": office.presentation("a"), "actor_token_type": SD_AGENT_CARD_TYPE}
    person = desk.new_token("paula", [Scope.AGENTS_DISCOVER, Scope.TOKENS_EXCHANGE])
    scope = Scope.AGENTS_DISCOVER.value
    for one, other in (("a", "d"), ("d", "c")):
        office.grant(one, other, scopes=[scope])
    first = office.issued(office.exchange("alice", subject_token=person, target="d", scope=scope, **shown))
    second = office.issued(office.hand_on(first, "dave", "c", scope))
    said = json.loads(parts(second).split("\n")[1])
    assert said["sub"] == "paula"
    assert said["act"]["act"] == {"sub": claims(office.cards["a"])["sub"]}
    assert PAIRWISE.fullmatch(said["act"]["sub"])
    recorded = [one["disclosed"]["chain"] for one in desk.audit() if one["event"] == "delegation.issued"]
    assert recorded == [["paula", "agent:a"], ["paula", "agent:a", "agent:d"]]


@both
def test_a_loop_is_found_behind_pairwise_names(office: Office) -> None:
    names = {name: claims(card)["sub"] for name, card in office.cards.items()}
    for one, other in ("aa", "ab", "ba", "bc", "ca", "cb"):
        office.grant(one, other)
        office.grant(one, names[other])
    for target in ("a", names["a"]):
        assert_error(office.show("a", target), "invalid_target", "delegation.cycle")
    first = office.issued(office.show("a", "b"))
    for target in ("a", names["a"]):
        assert_error(office.hand_on(first, "bob", target), "invalid_target", "delegation.cycle")
    second = office.issued(office.hand_on(first, "bob", names["c"]))
    for target in ("a", names["a"], "b", names["b"]):
        assert_error(office.hand_on(second, "carol", target), "invalid_target", "delegation.cycle")


@both
@on_both_databases
def test_nobody_resolves_a_name_by_asking_for_tokens(office: Office) -> None:
    """A grant for an agent is none for its other names, and a loop is not told of where there is no grant."""
    again = office.registry.done("POST", "/agents/a/renew", {}, office.tokens["alice"])
    others = {one["sub"] for one in again["cards"]} | {claims(office.cards["a"])["sub"]}
    office.grant("b", "a")
    office.grant("a", "b")
    office.grant("c", next(iter(others)))
    first = office.issued(office.show("a", "b"))
    unknown = [office.show("b", PAIRWISE_OF_NOBODY), office.hand_on(first, "bob", PAIRWISE_OF_NOBODY)]
    assert_error(unknown[0], "invalid_target", "delegation.no-grant")
    for name in others - {office.read(first, "b").chain.subject}:
        assert [office.show("b", name).text, office.hand_on(first, "bob", name).text] == [one.text for one in unknown]


@both
def test_the_limits_of_a_clients_token_tell_nothing_of_a_pairwise_name(office: Office) -> None:
    names = {name: claims(card)["sub"] for name, card in office.cards.items()}
    for name in "bc":
        office.grant("a", names[name])
    tokens = [office.issued(office.show("a", names[name])) for name in "bc"]
    office.tokens["eve"] = office.desk.new_token("eve", limits={Limit.AGENT_ID_PREFIXES: ["b"]})
    answers = [office.hand_on(token, "eve", "d") for token in tokens]
    assert_error(answers[0], "invalid_request", "delegation.other-agent")
    assert answers[0].text == answers[1].text


@both
def test_another_agents_card_and_an_unknown_name_are_refused_as_without_pairwise_names(office: Office) -> None:
    office.grant("a", "b")
    others = office.show("a", "b", subject_token=office.presentation("b"))
    assert_error(others, "invalid_request", "delegation.other-agent")
    without_grant = office.show("a", claims(office.cards["c"])["sub"])
    unknown = office.show("a", PAIRWISE_OF_NOBODY)
    assert_error(without_grant, "invalid_target", "delegation.no-grant")
    assert (unknown.status_code, unknown.text) == (without_grant.status_code, without_grant.text)


@both
@on_both_databases
def test_people_approve_what_they_know_by_name_and_no_owner_of_a_party_can(office: Office) -> None:
    target = claims(office.cards["b"])["sub"]
    office.grant("a", target, sensitive=["pay"])
    waiting = office.show("a", target, "pay").json()
    approver = office.desk.new_token("chief")
    (shown,) = office.registry.done("GET", "/delegations/approvals", token=approver)["approvals"]
    assert (shown["chain"], shown["target"]) == (["agent:a"], "agent:b")
    path = f"/delegations/approvals/{waiting['approval_handle']}/approve"
    assert_refused(
        office.registry.ask("POST", path, token=office.tokens["bob"]), 403, ("approval.self", "request/approval_id")
    )
    office.registry.done("POST", path, token=approver)
    office.cards["a"] = office.registry.done("POST", "/agents/a/renew", {}, office.tokens["alice"])["cards"][0][
        "sd_card"
    ]
    office.issued(office.show("a", target, "pay", approval_handle=waiting["approval_handle"]))


@both
def test_a_grant_to_a_pairwise_name_of_who_hands_on_is_one_for_its_agent(office: Office) -> None:
    office.grant(claims(office.cards["a"])["sub"], "b")
    office.cards["a"] = office.registry.done("POST", "/agents/a/renew", {}, office.tokens["alice"])["cards"][0][
        "sd_card"
    ]
    token = office.issued(office.show("a", "b"))
    assert office.active(token, "bob")
