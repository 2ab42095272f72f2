"""A registry signs a SPIFFE ID only if the operator permits it to the token of the request."""

import json
from typing import Any

import pytest

from issuer_service.access import Limit, Scope
from sdcard.limits import DEFAULT_LIMITS
from sdcard.sdjwt.verification import read_unverified
from tests.issuer_service.desk import Desk, OpenDesk, assert_refused, on_both_databases, request, request_with_card
from tests.world import example

ID = "spiffe://example.org/ns/prod/planner"
AGENT = "ai-assistant-v2"
BEYOND = ("token.limit", "card/spiffe_id")


def asked(spiffe_id: str = ID, **changes: Any) -> dict[str, Any]:
    return request_with_card({**example(), "spiffe_id": spiffe_id, **changes.pop("card", {})}, **changes)


def granted(desk: Desk, *entries: str, subject: str = "alice", **more: Any) -> str:
    return desk.new_token(subject, limits={Limit.SPIFFE_IDS: [*entries]}, **more)


def ids_of(answer: Any) -> dict[str, Any]:
    """Context → the SPIFFE ID that its SD-Card can show."""
    return {
        one["context"]: read_unverified(one["sd_card"], DEFAULT_LIMITS).processed.claims.get("spiffe_id")
        for one in answer["cards"]
    }


def contexts(*names: str) -> list[dict[str, str]]:
    return [{"context": name} for name in names]


def test_a_token_without_the_limit_permits_no_id(desk: Desk, registry: OpenDesk) -> None:
    before = desk.rows()

    assert_refused(registry.post(asked()), 403, BEYOND)
    assert desk.rows() == before
    registry.register(request_with_card())


@pytest.mark.parametrize(
    ("entries", "is_good"),
    [
        ([ID], True),
        (["spiffe://example.org/"], True),
        (["spiffe://other.example/", "spiffe://example.org/ns/prod/"], True),
        ([], False),
        (["spiffe://example.org/ns/prod"], False),
        (["spiffe://example.org/ns/pro/"], False),
        (["spiffe://example.com/"], False),
        ([f"{ID}/"], False),
    ],
)
def test_the_limit_decides_which_ids_a_card_may_have(
    desk: Desk, registry: OpenDesk, entries: list[str], is_good: bool
) -> None:
    response = registry.post(asked(), authorization=f"Bearer {granted(desk, *entries)}")

    if is_good:
        assert response.status_code == 201
    else:
        assert_refused(response, 403, BEYOND)


def test_a_malformed_id_is_refused_before_the_limit(desk: Desk, registry: OpenDesk) -> None:
    token = granted(desk, "spiffe://example.org/")

    response = registry.post(asked("spiffe://example.org/a/../b"), authorization=f"Bearer {token}")

    assert_refused(response, 422, ("card.member-value", "card/spiffe_id"))


def test_public_and_internal_cards_do_not_contain_it(desk: Desk, registry: OpenDesk) -> None:
    body = asked(disclosure_contexts=contexts("public", "internal", "diagnostic", "full"))

    answer = registry.register(body, granted(desk, ID))

    assert ids_of(answer) == {"public": None, "internal": None, "diagnostic": ID, "full": ID}
    (record,) = desk.audit(agent_id=AGENT)
    assert "spiffe_id" not in json.dumps(record["disclosed"]["public"])
    assert "spiffe_id" in record["disclosed"]["diagnostic"]


@on_both_databases
def test_each_renewal_and_change_of_keys_needs_a_token_that_permits_it(desk: Desk, registry: OpenDesk) -> None:
    token = granted(desk, ID)
    registry.register(asked(), token)
    narrower = granted(desk, "spiffe://example.org/other/")

    assert ids_of(registry.done("POST", f"/agents/{AGENT}/renew", {}, token)) == {"full": ID}
    for bearer in (registry.token, narrower):
        assert_refused(registry.ask("POST", f"/agents/{AGENT}/renew", {}, bearer), 403, BEYOND)


def test_another_id_is_a_change_of_the_card(desk: Desk, registry: OpenDesk) -> None:
    token = granted(desk, "spiffe://example.org/")
    registry.register(asked(), token)
    other = "spiffe://example.org/other"

    refused = registry.post(asked(other), authorization=f"Bearer {token}")
    changed = registry.register(asked(other, card={"version": "9.9.9"}), token)

    assert (refused.status_code, refused.json()["rule"]) == (409, "agent.version-reused")
    assert ids_of(changed) == {"full": other}


def test_the_limit_of_one_owner_gives_nobody_else_the_agent(desk: Desk, registry: OpenDesk) -> None:
    registry.register(asked(), granted(desk, ID))
    response = registry.post(asked(), authorization=f"Bearer {granted(desk, ID, subject='bob')}")

    assert (response.status_code, response.json()["rule"]) == (409, "agent.taken")


def test_discovery_shows_it_where_the_policy_does(desk: Desk, registry: OpenDesk) -> None:
    registry.register(asked(disclosure_contexts=contexts("public", "internal", "diagnostic")), granted(desk, ID))
    seeker = desk.new_token(
        "seeker", scopes=(Scope.AGENTS_DISCOVER,), limits={Limit.CONTEXTS: ["public", "internal", "diagnostic"]}
    )

    def found(context: str) -> Any:
        (one,) = registry.look_for(context, seeker, skills=["route-optimizer-traffic"]).json()["results"]
        return read_unverified(one["sd_card"], DEFAULT_LIMITS).processed.claims.get("spiffe_id")

    assert {name: found(name) for name in ("public", "internal", "diagnostic")} == {
        "public": None,
        "internal": None,
        "diagnostic": ID,
    }


def test_a_registration_without_a_card_has_no_id(desk: Desk, registry: OpenDesk) -> None:
    response = registry.post(request(spiffe_id=ID), authorization=f"Bearer {granted(desk, ID)}")

    assert_refused(response, 422, ("request.malformed", "request/spiffe_id"))
