"""The console's pages about registrations that wait for a person."""

from collections.abc import Iterator

import pytest

from tests.issuer_service.console.visitor import Visitor, rule_of
from tests.issuer_service.desk import Desk, OpenDesk, jwk, request, request_with_card
from tests.world import example, key

BODY = request_with_card({**example(), "name": "<b>Name</b>\u202e"}, agent_id="a")


@pytest.fixture
def registry(desk: Desk) -> Iterator[OpenDesk]:
    with desk.open(console=True, approval_for=frozenset("*")) as opened:
        yield opened


@pytest.fixture
def paul(desk: Desk, registry: OpenDesk) -> Visitor:
    return Visitor(registry).signed_in(desk.new_token("paul"))


def test_a_person_approves_after_seeing_all_that_is_covered(registry: OpenDesk, paul: Visitor) -> None:
    review = registry.post(BODY).json()["review_id"]

    listed = paul.shown("/reviews")
    assert f"/console/reviews/{review}/approve" in listed
    asked = paul.shown(f"/reviews/{review}/approve")
    assert "The agent is not registered." in asked
    assert key(20).public_key.thumbprint in asked
    assert "&lt;b&gt;Name&lt;/b&gt;\\u202e" in asked
    assert "<b>Name" not in asked
    assert "\u202e" not in asked
    for skill in BODY["card"]["skills"]:
        assert skill["id"] in asked

    done = paul.post(f"/reviews/{review}/approve")

    assert (done.status_code, "a is approved." in done.text) == (200, True)
    assert "Nothing waits." in paul.shown("/reviews")
    assert registry.post(BODY).status_code == 201
    for again in (paul.get(f"/reviews/{review}/approve"), paul.post(f"/reviews/{review}/approve")):
        assert (again.status_code, rule_of(again)) == (404, "approval.decided")


def test_a_change_says_what_differs_and_a_rejection_needs_a_reason(registry: OpenDesk, paul: Visitor) -> None:
    first = registry.post(BODY).json()["review_id"]
    paul.post(f"/reviews/{first}/approve")
    registry.register(BODY)
    changed = {**BODY, "card": {**BODY["card"], "description": "Other", "version": "9"}}
    changed |= {"description": "Other", "version": "9"}
    review = registry.post(changed).json()["review_id"]

    asked = paul.shown(f"/reviews/{review}/reject")
    assert "<li><bdi>description</bdi></li><li><bdi>version</bdi></li>" in asked
    without = paul.post(f"/reviews/{review}/reject")
    assert (without.status_code, rule_of(without)) == (422, "request.malformed")
    assert "is rejected." in paul.post(f"/reviews/{review}/reject", reason="Too vague.").text
    assert registry.post(changed).json()["findings"][0]["hint"] == "The reason: Too vague."


def test_nobody_approves_their_own(desk: Desk, registry: OpenDesk) -> None:
    review = registry.post(BODY).json()["review_id"]
    alice = Visitor(registry).signed_in(desk.token)
    assert f"/console/reviews/{review}/approve" not in alice.shown("/reviews")
    answer = alice.post(f"/reviews/{review}/approve")
    assert (answer.status_code, rule_of(answer)) == (403, "approval.self")


def test_pages_lead_on(registry: OpenDesk, paul: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("issuer_service.reviews.service.MOST_LISTED", 1)
    for number in range(2):
        registry.post(request(f"agent-{number}", public_key=jwk(key(30 + number))))
    first = paul.shown("/reviews")
    cursor = first.partition("/console/reviews?cursor=")[2].partition('"')[0]
    rest = paul.shown(f"/reviews?cursor={cursor}")
    assert {"agent-0" in first, "agent-0" in rest} == {True, False}
    assert ("First page" in rest, "Next page" in rest) == (True, False)
