"""Approval of registrations: what waits, who decides, what an approval covers, and races."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from issuer_service.access import Limit, Scope
from issuer_service.delegation import repository as delegation_repository
from issuer_service.delegation.records import Decider, GrantRow
from issuer_service.reviews import repository
from issuer_service.reviews.records import ReviewDecision, ReviewState
from sdcard.acceptance import Acceptance
from sdcard.encoding import decode_base64url
from sdcard.errors import Part, Refused, Where
from sdcard.holder import accept_sd_card
from sdcard.issuer import DAY
from sdcard.issuer_checks import IssuerCheck
from sdcard.rules import Rule
from sdcard.trust import TrustedIssuers
from tests.issuer_service.agents.test_repository import on, row
from tests.issuer_service.desk import (
    HOLDER,
    Desk,
    OpenDesk,
    ask,
    assert_refused,
    changing,
    jwk,
    on_both_databases,
    recording,
    request,
    request_with_card,
)
from tests.postgres import query
from tests.world import ISSUER, example, key, raises_rule

ALL: Any = {"approval_for": frozenset("*")}
EXAMPLE: Any = example()
SKILL = EXAMPLE["skills"][0]["id"]


class People:
    """A registry that demands approval, its owner ``alice`` and the person ``paul``."""

    def __init__(self, desk: Desk, registry: OpenDesk) -> None:
        self.desk, self.registry = desk, registry
        registry.token = desk.new_token("alice", lifetime=400 * DAY)
        self.paul = desk.new_token("paul", lifetime=400 * DAY)

    def wait(self, body: dict[str, Any] | None = None, path: str = "/agents/register") -> str:
        """The request for approval that a registration is answered with."""
        response = self.registry.ask("POST", path, body or request())
        assert response.status_code == 202, response.text
        assert response.json()["state"] == "pending"
        return str(response.json()["review_id"])

    def decide(self, review: str, word: str = "approve", by: str | None = None) -> httpx2.Response:
        body = {"reason": "No contract yet."} if word == "reject" else None
        return self.registry.ask("POST", f"/reviews/{review}/{word}", body, by or self.paul)

    def approve(self, body: dict[str, Any] | None = None, path: str = "/agents/register") -> Any:
        """The Batch of a registration that a person approves."""
        assert self.decide(self.wait(body, path)).status_code == 200
        return self.registry.done("POST", path, body or request())

    def waiting(self) -> list[str]:
        found = self.registry.done("GET", "/reviews", token=self.paul)["reviews"]
        return [one["review_id"] for one in found]


def states(desk: Desk) -> list[str]:
    return [state for (state,) in query(desk.url, "SELECT state FROM reviews ORDER BY asked_at, state")[0]]


def codes(answer: Any) -> list[list[str]]:
    """The codes in each SD-Card of a Batch."""
    texts = [one["sd_card"].split(".")[1] for one in answer["cards"]]
    return [json.loads(decode_base64url(one, Where(Part.ISSUER_JWT)))["issuer_checks"] for one in texts]


# -- from a request to the Batch --------------------------------------------------------------------------------------


@on_both_databases
def test_nothing_is_issued_before_a_person_approves_and_the_same_request_gets_the_batch(desk: Desk) -> None:
    with desk.open(**ALL) as registry:
        people = People(desk, registry)
        waiting = registry.post(request(), idempotency_key='"one"')
        assert waiting.status_code == 202
        review = waiting.json()["review_id"]
        assert registry.post(request(), idempotency_key='"one"').json() == waiting.json(), "asked again while it waits"
        counts = desk.counts()
        assert [counts[one] for one in ("agents", "holder_keys", "cards", "batches", "answers", "reviews")] == [
            *[0] * 5,
            1,
        ]

        shown = registry.done("GET", f"/reviews/{review}", token=people.paul)
        assert (shown["owner"], shown["agent_id"], shown["is_registered"]) == ("alice", "ai-assistant-v2", False)
        assert shown["card"]["version"] == "2.1.0"
        disclosed = {one["context"]: sorted(one["disclose"]) for one in request()["disclosure_contexts"]}
        assert shown["contexts"] == [
            {"context": name, "partner": None, "disclose": entries, "keys": [HOLDER.public_key.thumbprint]}
            for name, entries in sorted(disclosed.items())
        ]
        assert people.waiting() == [review]
        assert people.decide(review).json()["state"] == "approved"
        assert people.waiting() == []

        batch = registry.post(request(), idempotency_key='"one"')
        assert batch.status_code == 201
        assert codes(batch.json()) == [["approved"]] * 3
        assert registry.post(request(), idempotency_key='"one"').text == batch.text
    assert states(desk) == ["in-force"]
    records = [one for one in desk.audit() if one["agent_id"]]
    assert [(one["event"], one["subject"], one.get("checks")) for one in records] == [
        ("review.asked", "alice", None),
        ("review.approved", "paul", None),
        ("agent.registered", "alice", "approved"),
    ]
    assert desk.differences() == []


def test_without_the_setting_nobody_is_asked(desk: Desk) -> None:
    with desk.open() as registry:
        assert codes(registry.register(request())) == [[]] * 3
    assert states(desk) == []


@on_both_databases
def test_a_rejection_has_a_reason_and_refuses_the_same_registration_for_a_month(desk: Desk) -> None:
    with desk.open(**ALL) as registry:
        people = People(desk, registry)
        review = people.wait()
        path = f"/reviews/{review}/reject"
        assert_refused(
            registry.ask("POST", path, {"reason": ""}, people.paul), 422, ("request.malformed", "request/reason")
        )
        assert_refused(
            registry.ask("POST", path, {"reason": "a\nb"}, people.paul), 422, ("request.malformed", "request/reason")
        )
        assert people.decide(review, "reject").json()["reason"] == "No contract yet."

        again = registry.post(request())
        assert_refused(again, 422, ("approval.denied", "request"))
        assert again.json()["findings"][0]["hint"] == "The reason: No contract yet."
        assert_refused(people.decide(review), 404, ("approval.decided", "request/review_id"))
        assert people.wait(request(version="2.1.1")) != review, "another registration may be asked for"
        desk.clock.advance(30 * DAY + 60)
        assert people.wait() != review
    assert desk.differences() == []


@on_both_databases
def test_what_would_be_refused_anyway_is_not_asked(desk: Desk) -> None:
    with desk.open() as registry:
        registry.register(request())
        registry.register(request("other", public_key=jwk(key(30))), desk.new_token("bob"))
    with desk.open(**ALL) as registry:
        changed = request(description="Other", public_key=jwk(key(31)))
        assert_refused(registry.post(changed), 409, ("agent.version-reused", "request/version"))
        assert_refused(
            registry.post(request("OTHER", public_key=jwk(key(31)))), 409, ("agent.taken", "request/agent_id")
        )
        foreign = request("new", public_key=jwk(key(30)))
        assert_refused(registry.post(foreign), 409, ("key.bound-elsewhere", "request/public_key"))
        assert_refused(registry.post(request("new", version=1)), 422, ("request.malformed", "request/version"))
    assert desk.counts()["reviews"] == 0


def test_a_person_sees_what_would_change(desk: Desk) -> None:
    with desk.open(**ALL) as registry:
        people = People(desk, registry)
        people.approve(request_with_card(agent_id="a"))
        changed = {**EXAMPLE, "version": "9", "provider": {"organization": "P", "url": "https://192.0.2.7/"}}
        review = people.wait(request_with_card(changed, agent_id="a", public_key=jwk(key(21))))
        shown = registry.done("GET", f"/reviews/{review}", token=people.paul)
    assert (shown["is_registered"], shown["changes"]) == (True, ["provider", "version", "public_keys"])
    assert shown["hosts"] == ["georoute-agent.example.com", "192.0.2.7"]


@pytest.mark.parametrize(
    ("before", "after"), [(True, 1), (1, 1.0), ([0], [False]), ({"n": [True]}, {"n": [1]})], ids=str
)
def test_a_value_of_another_type_is_a_change(desk: Desk, before: Any, after: Any) -> None:
    with desk.open(**ALL) as registry:
        people = People(desk, registry)
        people.approve(request_with_card({**EXAMPLE, "x-own": before}, agent_id="a"))
        review = people.wait(request_with_card({**EXAMPLE, "x-own": after, "version": "9"}, agent_id="a"))
        shown = registry.done("GET", f"/reviews/{review}", token=people.paul)
    assert shown["changes"] == ["version", "x-own"]


def test_another_card_format_is_a_change(desk: Desk) -> None:
    with desk.open(**ALL) as registry:
        people = People(desk, registry)
        people.approve(request_with_card(agent_id="a"))
    with desk.open(**ALL) as registry:
        query(desk.url, "UPDATE agents SET card_format = 'a2a/0.3'")
        people.registry = registry
        review = people.wait(request_with_card({**EXAMPLE, "version": "9"}, agent_id="a"))
        shown = registry.done("GET", f"/reviews/{review}", token=people.paul)
    assert shown["changes"] == ["card_format", "version"]


def test_of_a_registration_of_long_ago_keys_and_contexts_may_change(desk: Desk) -> None:
    with desk.open(**ALL) as registry:
        people = People(desk, registry)
        people.approve(request_with_card(agent_id="a"))
        query(desk.url, "UPDATE agents SET asked = NULL")
        review = people.wait(request_with_card({**EXAMPLE, "version": "9"}, agent_id="a"))
        shown = registry.done("GET", f"/reviews/{review}", token=people.paul)
    assert (shown["is_registered"], shown["changes"]) == (True, ["version", "public_keys", "disclosure_contexts"])


def test_an_owner_waits_for_a_bounded_number_and_each_agent_for_one(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("issuer_service.reviews.repository.MOST_OPEN", 2)
    with desk.open(**ALL) as registry:
        people = People(desk, registry)
        for version in ("1", "2", "3"):
            last = people.wait(request(version=version))
        assert people.waiting() == [last]
        people.wait(request("b", public_key=jwk(key(30))))
        assert_refused(registry.post(request("c", public_key=jwk(key(31)))), 429, ("rate.exceeded", "request"))
        bob = registry.post(request("d", public_key=jwk(key(32))), authorization=f"Bearer {desk.new_token('bob')}")
        assert bob.status_code == 202


# -- what an approval covers, and when it ends ------------------------------------------------------------------------


@on_both_databases
def test_an_unchanged_agent_is_renewed_and_registered_again_without_a_new_approval(desk: Desk) -> None:
    with desk.open(**ALL) as registry:
        people = People(desk, registry)
        people.approve()
        for _ in range(3):
            desk.clock.advance(60 * DAY)
            assert codes(registry.done("POST", "/agents/ai-assistant-v2/renew", {})) == [["approved"]] * 3
            desk.delete_ended()
        assert codes(registry.register(request())) == [["approved"]] * 3
    assert states(desk) == ["in-force"]
    assert desk.differences() == []


@pytest.mark.parametrize(
    "change",
    [
        {"description": "Another purpose", "version": "2.1.1"},
        {"public_key": jwk(key(21))},
        {"public_key": None, "public_keys": [jwk(), jwk(key(21))]},
        {"disclosure_contexts": [{"context": "public"}]},
    ],
    ids=["card", "key", "one more key", "contexts"],
)
def test_a_change_needs_a_new_approval(desk: Desk, change: dict[str, Any]) -> None:
    with desk.open(**ALL) as registry:
        people = People(desk, registry)
        people.approve()
        review = people.wait(request(**change))
        assert codes(registry.done("POST", "/agents/ai-assistant-v2/renew", {})) == [["approved"]] * 3, "as it is"
        people.decide(review)
        registry.register(request(**change))
        assert states(desk) == ["ended", "in-force"]
        people.wait(request(version="2.1.2"))
        for rows in (1, 1, 0):  # the ended one after a month, and after a month more the one that nobody decided
            desk.clock.advance(31 * DAY)
            assert desk.delete_ended().get("reviews", 0) == rows
    assert states(desk) == ["in-force"]
    assert desk.differences() == []


@on_both_databases
def test_a_key_in_another_context_needs_a_new_approval(desk: Desk) -> None:
    first, second = (jwk(one) for one in sorted((key(20), key(21)), key=lambda one: one.public_key.thumbprint))

    def of(public: int, internal: int, *keys: Any) -> dict[str, Any]:
        contexts = [{"context": "public", "keys": [public]}, {"context": "internal", "keys": [internal]}]
        return request(public_key=None, public_keys=list(keys), disclosure_contexts=contexts)

    with desk.open(**ALL) as registry:
        people = People(desk, registry)
        people.approve(of(0, 1, first, second))
        assert codes(registry.register(of(1, 0, second, first))) == [["approved"]] * 2, "the same, in another order"
        reordered = of(0, 1, first, second)
        reordered["disclosure_contexts"].reverse()
        assert codes(registry.register(reordered)) == [["approved"]] * 2
        for changed in (of(1, 0, first, second), of(0, 1, second, first)):
            review = people.wait(changed)
            shown = registry.done("GET", f"/reviews/{review}", token=people.paul)
            assert shown["changes"] == ["disclosure_contexts"]
            low, high = sorted(one.public_key.thumbprint for one in (key(20), key(21)))
            assert {one["context"]: one["keys"] for one in shown["contexts"]} == {"internal": [low], "public": [high]}
        assert len(people.waiting()) == 1, "both ask for the same"
        batch = people.approve(changed)
        assert codes(batch) == [["approved"]] * 2
        low, high = sorted(card["key_thumbprint"] for card in batch["cards"])
        assert {card["context"]: card["key_thumbprint"] for card in batch["cards"]} == {"internal": low, "public": high}
    assert states(desk) == ["ended", "in-force"]
    assert desk.differences() == []


def test_contexts_of_partners_are_covered(desk: Desk) -> None:
    contexts = [{"context": "federation", "partner": one} for one in ("https://p.example", "https://q.example")]
    with desk.open(**ALL) as registry:
        people = People(desk, registry)
        people.approve(request(disclosure_contexts=contexts[:1]))
        review = people.wait(request(disclosure_contexts=contexts[1:]))
        shown = registry.done("GET", f"/reviews/{review}", token=people.paul)
    assert shown["changes"] == ["disclosure_contexts"]
    assert [(one["context"], one["partner"]) for one in shown["contexts"]] == [("federation", "https://q.example")]


@on_both_databases
def test_what_a_context_discloses_is_covered(desk: Desk) -> None:
    def of(*disclose: str) -> dict[str, Any]:
        return request_with_card(agent_id="a", disclosure_contexts=[{"context": "internal", "disclose": [*disclose]}])

    default = request_with_card(agent_id="a", disclosure_contexts=[{"context": "internal"}])
    with desk.open(**ALL) as registry:
        people = People(desk, registry)
        people.approve(default)
        for changed, disclose in (
            (of("skills"), ["skills"]),
            (of("skills", "provider"), ["provider", "skills"]),
            (of(), []),
            (default, None),
        ):
            if changed is not default:  # the one in force
                shown = registry.done("GET", f"/reviews/{people.wait(changed)}", token=people.paul)
                assert shown["changes"] == ["disclosure_contexts"]
                assert [one["disclose"] for one in shown["contexts"]] == [disclose]
        people.approve(of("skills", "provider"))
        assert codes(registry.register(of("provider", "skills", "provider"))) == [["approved"]], "in another order"
        assert codes(registry.done("POST", "/agents/a/renew", {})) == [["approved"]]
        shown = registry.done("GET", f"/reviews/{people.wait(default)}", token=people.paul)
        assert shown["changes"] == ["disclosure_contexts"]
    assert desk.differences() == []


def test_keys_and_disclosure_that_change_together_are_both_named(desk: Desk) -> None:
    with desk.open(**ALL) as registry:
        people = People(desk, registry)
        people.approve(request(disclosure_contexts=[{"context": "internal"}]))
        contexts = [{"context": "internal", "disclose": ["skills"]}]
        review = people.wait(request(public_key=jwk(key(21)), disclosure_contexts=contexts))
        shown = registry.done("GET", f"/reviews/{review}", token=people.paul)
    assert shown["changes"] == ["public_keys", "disclosure_contexts"]


def test_other_keys_need_a_new_approval(desk: Desk) -> None:
    with desk.open(**ALL) as registry:
        people = People(desk, registry)
        people.approve()
        changed = people.approve({"public_key": jwk(key(21))}, "/agents/ai-assistant-v2/keys")
        assert codes(changed) == [["approved"]] * 3
        people.wait({"public_key": jwk()}, "/agents/ai-assistant-v2/keys")
    assert desk.differences() == []


def test_hosts_and_skills_are_covered_as_parts_of_the_card(desk: Desk) -> None:
    with desk.open(**ALL) as registry:
        people = People(desk, registry)
        people.approve(request_with_card(agent_id="a"))
        (interface, *others), (skill, *more) = EXAMPLE["supportedInterfaces"], EXAMPLE["skills"]
        host = {"supportedInterfaces": [{**interface, "url": "https://elsewhere.example/"}, *others]}
        skills = {"skills": [{**skill, "description": "Something else"}, *more]}
        for number, part in enumerate((host, skills)):
            people.wait(request_with_card({**EXAMPLE, **part, "version": f"9.{number}"}, agent_id="a"))


@on_both_databases
def test_listed_skills_alone_need_approval(desk: Desk) -> None:
    without = {**EXAMPLE, "version": "0.9", "skills": EXAMPLE["skills"][1:]}
    with desk.open(approval_for=frozenset({SKILL, "pay"})) as registry:
        people = People(desk, registry)
        plain = request_with_card(without, agent_id="a")
        assert codes(registry.register(plain)) == [[]]
        assert codes(people.approve(request_with_card(agent_id="a"))) == [["approved"]]
        registry.register(plain)
        assert states(desk) == ["ended"]
        people.wait(request_with_card(agent_id="a"))
    assert desk.differences() == []


WIDE = "".join(chr(ord(one) + 0xFEE0) for one in SKILL)


@pytest.mark.parametrize("skill", [{"id": SKILL}, {"id": "other", "name": SKILL}], ids=["id", "name"])
@pytest.mark.parametrize(
    "spelt", [str.upper, lambda one: f" {one}", lambda one: f"{one}\u00a0", lambda one: WIDE], ids=range(4)
)
def test_no_spelling_of_a_listed_skill_evades_approval_and_is_found_as_it(
    desk: Desk, skill: dict[str, str], spelt: Callable[[str], str]
) -> None:
    (given, *_), (part, text) = EXAMPLE["skills"], [*skill.items()][-1]
    card = {**EXAMPLE, "skills": [{**given, "id": "other", "name": "Other", part: spelt(text)}]}
    evading = request_with_card(card, agent_id="a", disclosure_contexts=[{"context": "public"}])
    with desk.open() as registry:
        registry.register(evading)
        assert registry.found(skills=[SKILL]) == ["a"]
    for listed in (SKILL, spelt(SKILL)):
        with desk.open(approval_for=frozenset({listed})) as registry:
            assert registry.found(skills=[SKILL]) == []
            People(desk, registry).wait(evading)


def test_a_skill_that_only_contains_a_listed_one_needs_no_approval(desk: Desk) -> None:
    given = EXAMPLE["skills"][0]
    card = {**EXAMPLE, "skills": [{**given, "id": f"{SKILL}-2", "name": "Other", "description": SKILL}]}
    with desk.open(approval_for=frozenset({SKILL})) as registry:
        assert codes(registry.register(request_with_card(card, agent_id="a"))) == [[]]


def test_an_approval_that_is_not_used_for_a_month_has_ended(desk: Desk) -> None:
    with desk.open(**ALL) as registry:
        people = People(desk, registry)
        people.decide(people.wait())
        desk.clock.advance(30 * DAY + 60)
        people.wait()
        assert states(desk) == ["ended", "pending"]


@on_both_databases
def test_a_deleted_agent_has_no_approval(desk: Desk) -> None:
    with desk.open(**ALL) as registry:
        people = People(desk, registry)
        people.approve()
        people.wait(request(version="2.1.1"))
        registry.done("DELETE", "/agents/ai-assistant-v2")
        assert states(desk) == []
        people.wait()
    assert desk.differences() == []


def test_an_approval_that_ended_between_signature_and_transaction_issues_nothing(desk: Desk) -> None:
    late = replace(row("late"), kid=desk.signer.public_key.thumbprint, checks=(IssuerCheck.APPROVED,))
    with raises_rule(Rule.APPROVAL_PENDING, "request"):
        ask(desk.url, recording(late))
    assert desk.counts()["agents"] == 0


def test_agents_from_before_the_setting_are_not_found_until_they_are_approved(desk: Desk) -> None:
    with desk.open() as registry:
        registry.register(request())
    with desk.open(**ALL) as registry:
        people = People(desk, registry)
        assert registry.found(text="assistant") == []
        people.approve()
        found = registry.look_for(text="assistant").json()["results"]
        assert codes({"cards": found}) == [["approved"]]
    assert desk.differences() == []


def test_a_verifier_that_requires_an_approval_refuses_a_card_without_it(desk: Desk) -> None:
    trust = TrustedIssuers.of(ISSUER, desk.signer.public_key)
    demanding = Acceptance(issuers=trust, required_checks=("approved",))
    with desk.open() as registry:
        card = registry.register(request())["cards"][0]["sd_card"]
    with raises_rule(Rule.POLICY_CHECK, "issuer-jwt/issuer_checks"):
        accept_sd_card(card, demanding, HOLDER.public_key, desk.clock.now())
    with desk.open(**ALL) as registry:
        card = People(desk, registry).approve()["cards"][0]["sd_card"]
    assert accept_sd_card(card, demanding, HOLDER.public_key, desk.clock.now()).issued.issuer_checks == ("approved",)


# -- who decides ------------------------------------------------------------------------------------------------------


@on_both_databases
def test_nobody_approves_who_profits_from_it(desk: Desk) -> None:
    with desk.open() as registry:
        registry.register(request("b", public_key=jwk(key(30))), desk.new_token("bob"))
    mine, now = "agent:ai-assistant-v2", int(desk.clock.now())
    for number, (delegator, target) in enumerate([("team-x", mine), (mine, "agent:b")]):
        grant = GrantRow(str(number) * 32, delegator, target, ("read",), (), now, now + 1_000)
        ask(desk.url, changing(delegation_repository.add_grant, grant))
    with desk.open(**ALL) as registry:
        people = People(desk, registry)
        review = people.wait()
        for subject in ("alice", "ALICE ", "team-x", "bob"):
            token = desk.new_token(subject)
            assert_refused(people.decide(review, by=token), 403, ("approval.self", "request/review_id"))
        assert people.decide(review).status_code == 200
        other = people.wait(request(version="2.1.1"))
        assert people.decide(other, "reject", desk.new_token("bob")).status_code == 200, "to reject is no profit"


def test_who_may_decide_at_all(desk: Desk) -> None:
    with desk.open(**ALL) as registry:
        people = People(desk, registry)
        review = people.wait()
        others = tuple(one for one in Scope if one is not Scope.AGENTS_APPROVE)
        for token, rule in (
            (desk.new_token("paul", others), "token.scope"),
            (desk.new_token("paul", limits={Limit.AGENT_ID_PREFIXES: ["ai"]}), "token.limit"),
        ):
            for method, path in (
                ("GET", "/reviews"),
                ("GET", f"/reviews/{review}"),
                ("POST", f"/reviews/{review}/approve"),
                ("POST", f"/reviews/{review}/reject"),
            ):
                body = {"reason": "No."} if path.endswith("reject") else None
                answer = registry.ask(method, path, body, token)
                assert (answer.status_code, answer.json()["rule"]) == (403, rule), (method, path)
        assert people.waiting() == [review]
        assert_refused(people.decide("x"), 404, ("approval.decided", "request/review_id"))
        assert registry.ask("GET", "/reviews?x=1", token=people.paul).json()["rule"] == "request.malformed"


def test_pages_of_what_waits(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("issuer_service.reviews.service.MOST_LISTED", 2)
    with desk.open(**ALL) as registry:
        people = People(desk, registry)
        asked = [people.wait(request(f"a{n}", public_key=jwk(key(30 + n)))) for n in range(3)]
        first = registry.done("GET", "/reviews", token=people.paul)
        rest = registry.done("GET", f"/reviews?cursor={first['next_cursor']}", token=people.paul)
    assert [one["review_id"] for one in (*first["reviews"], *rest["reviews"])] == sorted(asked)
    assert rest["next_cursor"] is None


# -- races ------------------------------------------------------------------------------------------------------------


def at_once(url: str, *works: Any) -> list[Any]:
    """Run works in two processes at the same time: their results, or the rule of a refusal."""
    return [one.rule if isinstance(one, Refused) else one for one in on(url, *works)]


@on_both_databases
def test_of_two_people_at_once_one_decides(desk: Desk) -> None:
    with desk.open(**ALL) as registry:
        review = People(desk, registry).wait()
    now = int(desk.clock.now())
    one = ReviewDecision(review, Decider("paul"), ReviewState.APPROVED, "", now)
    other = ReviewDecision(review, Decider("petra"), ReviewState.REJECTED, "No.", now)
    results = at_once(desk.url, changing(repository.decide, one), changing(repository.decide, other))
    assert Rule.APPROVAL_DECIDED in results
    (decided,) = [one for one in results if one is not Rule.APPROVAL_DECIDED]
    assert states(desk) == [decided.state.value]
    assert desk.differences() == []


@on_both_databases
def test_an_approval_never_covers_a_change_that_was_asked_for_meanwhile(desk: Desk) -> None:
    other = request(version="2.1.1", description="Something else")
    with desk.open(**ALL) as registry:
        people = People(desk, registry)
        review = people.wait()
        with ThreadPoolExecutor(2) as threads:
            approving = threads.submit(people.decide, review)
            asking = threads.submit(registry.post, other)
        assert approving.result().status_code in (200, 404)
        assert asking.result().status_code == 202
        is_approved = approving.result().status_code == 200
        assert sorted(states(desk)) == (["approved", "pending"] if is_approved else ["ended", "pending"])
        assert registry.post(other).status_code == 202
        assert registry.post(request()).status_code == (201 if is_approved else 202)
    assert desk.differences() == []


@on_both_databases
def test_a_change_while_a_request_waits_ends_it(desk: Desk) -> None:
    with desk.open(**ALL) as registry:
        people = People(desk, registry)
        first = people.wait()
        second = people.wait(request(version="2.1.1"))
        assert_refused(people.decide(first), 404, ("approval.decided", "request/review_id"))
        assert people.waiting() == [second]
        assert people.wait() not in (first, second), "to go back is a change too"
