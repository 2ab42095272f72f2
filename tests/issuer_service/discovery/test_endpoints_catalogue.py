"""``GET /catalogue``: what everybody may know, in pages that caches can keep."""

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from issuer_service.rate_limit import RateLimits
from sdcard.issuer import DAY
from sdcard.limits import MOST_RESULTS
from tests.issuer_service.desk import Desk, OpenDesk, assert_refused, on_both_databases
from tests.issuer_service.discovery.seekers import read, register


@pytest.fixture
def registry(desk: Desk) -> Iterator[OpenDesk]:
    with desk.open(catalogue=True) as opened:
        yield opened


def get(registry: OpenDesk, query: str = "", **headers: str) -> httpx2.Response:
    return registry.client.get(f"/catalogue{query}", headers={k.replace("_", "-"): v for k, v in headers.items()})


def listed(registry: OpenDesk, limit: int = 2) -> list[str]:
    """The ids of all pages."""
    found, after = list[str](), ""
    while True:
        answer = get(registry, f"?limit={limit}{after}")
        assert answer.status_code == 200, answer.text
        page: dict[str, Any] = answer.json()
        found += [one["agent_id"] for one in page["results"]]
        if page["next_cursor"] is None:
            return found
        assert len(page["results"]) == limit
        after = f"&cursor={page['next_cursor']}"


def test_there_is_no_catalogue_unless_the_operator_wants_one(desk: Desk) -> None:
    with desk.open() as registry:
        register(registry, "public")
        here, nowhere = get(registry), registry.client.get("/nothing")

    assert here.status_code == nowhere.status_code == 404
    assert here.json() == nowhere.json()


@on_both_databases
def test_everybody_reads_the_agents_of_public_in_pages(desk: Desk, registry: OpenDesk) -> None:
    names = [f"agent-{number}" for number in range(5)]
    for name in names:
        register(registry, "public", "internal", agent_id=name)
    register(registry, "internal", agent_id="hidden")

    assert sorted(listed(registry)) == names
    assert listed(registry) == listed(registry, 1) == listed(registry, 100), "in one order, whatever the page"
    first = get(registry, "?limit=1")
    assert first.headers["cache-control"] == "public, max-age=60"
    assert first.headers["access-control-allow-origin"] == "*"
    card = read(desk, registry, first.json()["results"][0]["sd_card"])
    assert "capabilities" not in card.members


@on_both_databases
def test_a_page_that_did_not_change_is_not_sent_again(desk: Desk, registry: OpenDesk) -> None:
    for number in range(3):
        register(registry, "public", agent_id=f"agent-{number}")
    page = get(registry, "?limit=2")

    for sent in (page.headers["etag"], f'"x", W/{page.headers["etag"]}', "*"):
        same = get(registry, "?limit=2", if_none_match=sent)
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", page.headers["etag"])
    assert get(registry, "?limit=2").content == page.content
    assert get(registry, "?limit=3", if_none_match=page.headers["etag"]).status_code == 200
    registry.done("POST", f"/agents/{page.json()['results'][0]['agent_id']}/suspend", {})
    assert get(registry, "?limit=2", if_none_match=page.headers["etag"]).status_code == 200


@on_both_databases
def test_agents_that_were_suspended_revoked_or_deleted_or_have_expired_are_not_listed(
    desk: Desk, registry: OpenDesk
) -> None:
    for name in ("good", "suspended", "revoked", "deleted", "only-public", "again"):
        register(registry, "public", "internal", agent_id=name)
    register(registry, "internal", agent_id="inside")
    assert len(listed(registry)) == 6

    registry.done("POST", "/agents/suspended/suspend", {})
    registry.done("POST", "/agents/revoked/revoke", {})
    registry.done("POST", "/agents/only-public/suspend", {"context": "public"})
    registry.done("POST", "/agents/again/revoke", {})
    assert registry.ask("DELETE", "/agents/deleted").status_code == 200
    assert listed(registry) == ["good"]
    registry.done("POST", "/agents/suspended/reinstate", {})
    register(registry, "public", agent_id="again")
    assert sorted(listed(registry)) == ["again", "good", "suspended"]

    desk.clock.advance(60 * DAY)
    assert listed(registry) == [], "their own SD-Cards have expired"
    registry.token = desk.token = desk.new_token("alice")
    registry.done("POST", "/agents/good/renew", {})
    assert listed(registry) == ["good"]
    desk.delete_ended()
    assert listed(registry) == ["good"]


@pytest.mark.parametrize(
    ("query", "rule", "place"),
    [
        ("limit=0", "request.malformed", "query/limit"),
        (f"limit={MOST_RESULTS + 1}", "request.malformed", "query/limit"),
        ("limit=1&limit=2", "request.malformed", "query"),
        ("limit=%31%20", "request.malformed", "query/limit"),
        ("text=secret", "request.malformed", "query"),
        ("cursor=", "cursor.invalid", "query/cursor"),
        ("cursor=AAAAAAAAAA", "cursor.invalid", "query/cursor"),
        ("cursor=_________38", "cursor.invalid", "query/cursor"),
        ("cursor=AAAAAAAAAAB", "cursor.invalid", "query/cursor"),
    ],
)
def test_a_request_of_another_shape_is_refused_at_its_place(
    registry: OpenDesk, query: str, rule: str, place: str
) -> None:
    assert_refused(get(registry, f"?{query}"), 422, (rule, f"request/{place}"))


def test_a_crowd_of_strangers_is_slowed_down_by_its_address(desk: Desk) -> None:
    limits = RateLimits(addresses=RateLimits.for_addresses(60))
    with desk.open(catalogue=True, rates=limits) as registry:
        answers = [get(registry).status_code for _ in range(12)]

    assert answers == [200] * 10 + [429] * 2
