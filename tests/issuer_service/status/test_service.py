"""Changes of statuses become public at instants that all lists share, and in the registry itself at once."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection

from issuer_service.access import Limit, Scope
from issuer_service.agents import lifecycle_repository
from issuer_service.container import StatusPublishing
from issuer_service.status.service import published_list
from sdcard.issuer import DAY
from sdcard.limits import DEFAULT_LIMITS
from sdcard.status_list import StatusListToken, verify_status_list_token
from tests.issuer_service.desk import Desk, OpenDesk, jwk, on_both_databases, request
from tests.postgres import query
from tests.world import ISSUER, NOW, decode_part, key

AGENT = "ai-assistant-v2"
OTHER = request("other", public_key=jwk(key(90)))


def every_list(desk: Desk) -> list[str]:
    return sorted(row[0] for row in desk.rows()["status_lists"])


def looks(desk: Desk, registry: OpenDesk) -> dict[str, StatusListToken]:
    """Fetch all lists, as any client can."""
    found = {}
    for list_id in every_list(desk):
        text, uri = registry.get(f"/status/{list_id}").text, f"{ISSUER}/status/{list_id}"
        signed_by = desk.status_signer.public_key
        found[list_id] = verify_status_list_token(text, uri, signed_by, desk.clock.now(), DEFAULT_LIMITS)
    return found


def shown(desk: Desk, registry: OpenDesk) -> set[tuple[str, int, int]]:
    """List, index and status of all that is not valid."""
    (entries,) = query(desk.url, 'SELECT list_id, "index" FROM status_entries')
    found = looks(desk, registry)
    statuses = ((list_id, index, found[list_id].statuses.status(index)) for list_id, index in entries)
    return {(list_id, index, status) for list_id, index, status in statuses if status}


def of(answer: Any, status: int) -> set[tuple[str, int, int]]:
    """Return the same as ``shown`` for a Batch."""
    places = [card["status"] for card in answer["cards"]]
    return {(place["uri"].rpartition("/")[2], place["idx"], status) for place in places}


def change(registry: OpenDesk, action: str, agent: str = AGENT) -> Any:
    return registry.done("POST", f"/agents/{agent}/{action}", {})


@contextmanager
def wrong_clock(desk: Desk, seconds: float) -> Iterator[None]:
    desk.clock.advance(seconds)
    yield
    desk.clock.advance(-seconds)


# -- the schedule -----------------------------------------------------------------------------------------------------


@given(st.floats(0, 2**40), st.integers(1, 3600), st.integers(1, 43_200))
def test_a_change_is_public_at_the_first_instant_that_is_far_enough_away(at: float, period: int, ttl: int) -> None:
    status = StatusPublishing(ttl, 2 * ttl, period)
    public_at = status.public_at(at)

    assert status.period <= ttl
    assert public_at % status.period == 0
    lead = min(10, status.period)
    assert lead - 1 < public_at - at <= lead + status.period
    assert status.public_at(at + 1) >= public_at
    assert status.instant(public_at) == public_at
    assert status.instant(public_at - 0.01) < public_at


@pytest.mark.parametrize(("second", "shown_after"), [(0, 60), (49, 60), (51, 120), (59, 120)])
def test_lists_show_a_change_from_the_moment_that_the_answer_says(
    desk: Desk, registry: OpenDesk, second: int, shown_after: int
) -> None:
    answer = registry.register(request())
    desk.clock.advance(second)

    public_at = change(registry, "revoke")["public_at"]

    assert public_at == NOW + shown_after
    for left in (public_at - desk.clock.now() - 1, 0.9):
        desk.clock.advance(left)
        assert shown(desk, registry) == set()
    desk.clock.advance(0.1)
    assert shown(desk, registry) == of(answer, 1)


def test_between_two_instants_no_list_changes_and_at_each_all_of_them_do(desk: Desk, registry: OpenDesk) -> None:
    registry.register(request())
    lists = every_list(desk)

    def tokens() -> dict[str, tuple[str, str]]:
        found = {list_id: registry.get(f"/status/{list_id}") for list_id in lists}
        return {list_id: (one.text, one.headers["etag"]) for list_id, one in found.items()}

    before = tokens()
    change(registry, "revoke")
    desk.clock.advance(59)
    assert tokens() == before, "the revocation waits"
    desk.clock.advance(1)
    after = tokens()

    assert all(after[list_id][0] != before[list_id][0] for list_id in lists)
    assert all(after[list_id][1] != before[list_id][1] for list_id in lists)
    claims = [decode_part(text.split(".")[1]) for text, _ in after.values()]
    assert {(one["iat"], one["ttl"], one["exp"]) for one in claims} == {(NOW + 60, 300, NOW + 60 + 300 + 86_400)}


def test_agents_that_are_revoked_within_a_minute_change_between_the_same_two_looks(
    desk: Desk, registry: OpenDesk
) -> None:
    answers = [registry.register(request(f"agent-{n}", public_key=jwk(key(60 + n)))) for n in range(4)]
    flips = list[int]()
    for second in range(130):
        if second in (3, 17, 30, 44):
            change(registry, "revoke", f"agent-{(3, 17, 30, 44).index(second)}")
        if second % 7 == 0 or second in (59, 60, 61):
            flips.append(len(shown(desk, registry)))
        desk.clock.advance(1)

    assert set(flips) == {0, sum(len(answer["cards"]) for answer in answers)}
    assert flips == sorted(flips)


def test_a_suspension_that_ends_within_the_minute_is_never_public(desk: Desk, registry: OpenDesk) -> None:
    registry.register(request())
    for action in ("suspend", "reinstate"):
        change(registry, action)
    for _ in range(12):
        desk.clock.advance(10)
        assert shown(desk, registry) == set()
    assert desk.differences() == []


def test_of_two_changes_the_second_becomes_public_with_the_first(desk: Desk, registry: OpenDesk) -> None:
    answer = registry.register(request())
    desk.clock.advance(45)
    first = change(registry, "suspend")["public_at"]
    desk.clock.advance(10)
    second = change(registry, "revoke")["public_at"]

    assert (first, second) == (NOW + 60, NOW + 120)
    desk.clock.advance(5)
    assert shown(desk, registry) == of(answer, 1), "sooner than the second answer says, never later than the first"
    assert desk.differences() == []


def test_what_was_public_stays_so_while_the_next_change_waits(desk: Desk, registry: OpenDesk) -> None:
    answer = registry.register(request())
    change(registry, "suspend")
    desk.publish()
    change(registry, "reinstate")

    assert shown(desk, registry) == of(answer, 2)
    desk.publish()
    assert shown(desk, registry) == set()
    assert desk.differences() == []


def renew(registry: OpenDesk) -> Any:
    return registry.done("POST", f"/agents/{AGENT}/renew", {"supersedes": "revoke"})


def change_keys(registry: OpenDesk) -> Any:
    return registry.done("POST", f"/agents/{AGENT}/keys", {"public_key": jwk(key(91))})


def register_again(registry: OpenDesk) -> Any:
    return registry.register(request(supersedes="revoke"))


def delete(registry: OpenDesk) -> Any:
    return registry.done("DELETE", f"/agents/{AGENT}")


REVOKING: dict[str, Callable[[OpenDesk], Any]] = {
    "revoke": lambda registry: change(registry, "revoke"),
    **{one.__name__: one for one in (renew, change_keys, register_again, delete)},
}


@on_both_databases
@pytest.mark.parametrize("way", REVOKING)
def test_whatever_revokes_follows_the_schedule(desk: Desk, registry: OpenDesk, way: str) -> None:
    answer = registry.register(request())
    registry.register(OTHER)
    desk.clock.advance(20)

    told = REVOKING[way](registry)

    assert told.get("public_at") in ({None} if "batch_id" in told else {NOW + 60})
    desk.clock.advance(39)
    assert shown(desk, registry) == set()
    desk.clock.advance(1)
    assert shown(desk, registry) == of(answer, 1)
    assert desk.differences() == []


# -- the registry itself, its processes, and its clock ----------------------------------------------------------------


def test_the_registry_itself_goes_by_a_revocation_at_once(desk: Desk, registry: OpenDesk) -> None:
    registry.register(request())
    seeker = desk.new_token("seeker", (Scope.AGENTS_DISCOVER,), {Limit.CONTEXTS: ["public"]})
    assert registry.found("public", seeker, text="assistant") == [AGENT]

    change(registry, "revoke")

    assert registry.found("public", seeker, text="assistant") == []
    contexts = registry.done("GET", f"/agents/{AGENT}")["batches"][0]["contexts"]
    assert {(one["valid"], one["revoked"]) for one in contexts} == {(0, 1)}
    assert registry.done("GET", "/agents")["agents"][0]["expires_at"] is None
    assert shown(desk, registry) == set()


@on_both_databases
def test_processes_and_restarts_show_the_same(desk: Desk) -> None:
    with desk.open() as one, desk.open() as other:
        answer = one.register(request())
        assert shown(desk, other) == set()
        desk.clock.advance(30)
        change(one, "revoke")
        assert shown(desk, one) == shown(desk, other) == set()
    with desk.open() as restarted:
        assert shown(desk, restarted) == set(), "a process that has made no token yet shows no more than the others"
        desk.clock.advance(30)
        with desk.open() as another:
            assert shown(desk, restarted) == shown(desk, another) == of(answer, 1)


def test_an_answer_that_comes_late_promises_no_more_than_is_kept(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction that waited for long is committed after a process has published the instant it was meant for."""
    committed = lifecycle_repository.change_statuses

    def late(connection: Connection, row: Any) -> int:
        desk.clock.advance(65)
        with desk.open() as other:
            assert shown(desk, other) == set()
        return committed(connection, row)

    with desk.open() as registry:
        answer = registry.register(request())
        shown(desk, registry)
        monkeypatch.setattr(lifecycle_repository, "change_statuses", late)
        public_at = change(registry, "revoke")["public_at"]
        assert public_at == NOW + 120
        desk.clock.advance(public_at - desk.clock.now())
        assert shown(desk, registry) == of(answer, 1)


@on_both_databases
@pytest.mark.parametrize("ahead", [-10 * DAY, -3600, -90, 90, 3600, 10 * DAY])
def test_a_change_by_a_wrong_clock_is_public_soon_after_it_is_right_and_for_ever(desk: Desk, ahead: int) -> None:
    desk.token = desk.new_token("alice", lifetime=100 * DAY)
    desk.clock.advance(30 * DAY)
    with desk.open() as registry:
        answer = registry.register(request())
        with wrong_clock(desk, ahead):
            change(registry, "revoke")
        desk.clock.advance(120 + 90)
        assert shown(desk, registry) == of(answer, 1)
        left = ahead - 330  # until shortly before that time comes
        desk.clock.advance(max(0, left))
        for _ in range(12):
            desk.clock.advance(30)
            assert shown(desk, registry) == of(answer, 1)
    assert desk.differences() == []


def test_many_who_ask_at_an_instant_get_one_token(desk: Desk) -> None:
    one = every_list(desk)[0]

    async def ask() -> set[bytes]:
        container = desk.container()
        try:
            found = await asyncio.gather(*(published_list(container, one) for _ in range(20)))
        finally:
            await container.database.close()
        return {one.token for one in found}

    assert len(asyncio.run(ask())) == 1
