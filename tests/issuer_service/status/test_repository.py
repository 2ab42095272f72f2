"""Status entries: drawn at random from all open lists, given away once, and dropped with their lists."""

import asyncio
import math
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing

import pytest

from issuer_service.status import repository as status_lists
from issuer_service.status import repository as status_repository
from issuer_service.status import repository as statuses
from issuer_service.status.records import StatusRow, StatusTaken
from issuer_service.status.repository import LISTS
from sdcard.instants import MAX_SKEW
from sdcard.io.database import Database
from sdcard.issuer import DAY
from tests.issuer_service.desk import Desk, OpenDesk, ask, assert_refused, jwk, on_both_databases, request
from tests.postgres import query
from tests.world import NOW, RecordingSalts, at_once, key


def draw(url: str, count: int, seed: str = "draw") -> Sequence[StatusRow]:
    return ask(url, lambda database: status_repository.free_statuses(database, count, RecordingSalts(seed), NOW))


def is_fair(counted: Counter[int], kinds: int) -> bool:
    """Whether numbers from 0 on are equally frequent, by a chi-square test (Wilson and Hilferty).

    A fair draw fails it once in 10,000 times, as a normal value is larger than 3.72. Salts are seeded, so it does so
    always or never.
    """
    mean = counted.total() / kinds
    found = sum((counted[kind] - mean) ** 2 / mean for kind in range(kinds))
    free = kinds - 1
    spread = 2 / (9 * free)
    most: float = free * (1 - spread + 3.72 * math.sqrt(spread)) ** 3
    return found < most


def lists_of(desk: Desk) -> dict[str, int | None]:
    """Id → slot."""
    return {list_id: slot for list_id, slot in query(desk.url, "SELECT list_id, slot FROM status_lists")[0]}


def test_every_list_and_every_index_is_equally_likely(desk: Desk) -> None:
    drawn = draw(desk.url, 20_000)
    slots = lists_of(desk)

    assert len(set(drawn)) == len(drawn)
    assert is_fair(Counter(slots[one.list_id] or 0 for one in drawn), LISTS)
    assert is_fair(Counter(one.index // 512 for one in drawn), 256)
    assert is_fair(Counter(one.index % 256 for one in drawn), 256)
    pairs = Counter(16 * (slots[one.list_id] or 0) + one.index // (1 << 13) for one in drawn)
    assert is_fair(pairs, 16 * LISTS), "list and index do not depend on each other"


def test_the_list_tells_nothing_of_the_context(desk: Desk) -> None:
    contexts = ["public", "internal", "diagnostic", "full"]
    keys = [jwk(key(100 + number)) for number in range(16)]
    counted = {context: Counter[int]() for context in [*contexts, "discovery"]}
    asked = [{"context": context} for context in contexts]
    with desk.open() as registry:
        for number in range(6):
            body = request(f"agent-{number}", public_key=None, public_keys=keys, disclosure_contexts=asked)
            registry.register(body)
            keys = [jwk(key(200 + 16 * number + n)) for n in range(16)]
        registry.found(text="assistant")
    slots = lists_of(desk)
    (rows,) = query(desk.url, "SELECT context, status_list_id, for_discovery FROM cards")
    for context, list_id, for_discovery in rows:
        counted["discovery" if for_discovery else context][slots[list_id] or 0] += 1

    assert [context for context in contexts if not is_fair(counted[context], LISTS)] == []
    assert counted["discovery"].total() == 6
    assert all(len(counted[context]) == LISTS for context in contexts), "each list has entries of every context"
    assert not [path for path in slots if any(context in path for context in contexts)]


@on_both_databases
def test_the_first_registrations_at_once_open_each_list_once_and_never_share_an_entry(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statuses, "LIST_SIZE", 256)
    query(desk.url, "DELETE FROM status_lists")
    one = [{"context": "public"}]

    with desk.open() as registry:
        numbers = iter(range(12))

        def register() -> int:
            number = next(numbers)
            keys = [jwk(key(100 + 4 * number + n)) for n in range(4)]
            body = request(f"agent-{number}", public_key=None, public_keys=keys, disclosure_contexts=one)
            return registry.post(body).status_code

        answers = at_once(register, 12)

    assert answers == [201] * 12
    rows = desk.rows()
    assert sorted(slot for _, slot in rows["status_lists"]) == list(range(LISTS))
    assert len({row[:2] for row in rows["status_entries"]}) == len(rows["cards"]) == 48
    opened = [record for record in desk.audit() if record["event"] == "status-lists.opened"]
    assert len(opened) == 1
    desk.recorded = True
    assert [(rule, at) for rule, at in desk.differences() if "status" in at] == []


def fill(desk: Desk, registry: OpenDesk, monkeypatch: pytest.MonkeyPatch, agents: int = 60) -> None:
    """Register until many small lists are half full."""
    monkeypatch.setattr(statuses, "LIST_SIZE", 8)
    monkeypatch.setattr(statuses, "COUNTED_EACH", 1)
    monkeypatch.setattr(status_lists, "MOST_USED", 4)
    for number in range(agents):
        body = request(f"agent-{number}", public_key=jwk(key(30 + number)))
        registry.register({**body, "disclosure_contexts": [{"context": "public"}]})


def test_a_list_that_is_half_full_closes_and_another_opens_in_its_slot(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    query(desk.url, "DELETE FROM status_lists")
    with desk.open() as registry:
        fill(desk, registry, monkeypatch)

    slots = lists_of(desk)
    used = Counter(row[0] for row in desk.rows()["status_entries"])
    assert sorted(slot for slot in slots.values() if slot is not None) == list(range(LISTS))
    closed = [list_id for list_id, slot in slots.items() if slot is None]
    assert closed
    assert {used[list_id] for list_id in closed} <= {4, 5}, "the entry that made it close is its last one"
    assert max(used.values()) <= 5
    desk.recorded = True
    assert [(rule, at) for rule, at in desk.differences() if "status" in at] == []
    with closing(sqlite3.connect(desk.file)) as connection, pytest.raises(sqlite3.IntegrityError):
        connection.execute("INSERT INTO status_entries SELECT * FROM status_entries LIMIT 1")


@on_both_databases
def test_two_that_close_a_list_at_once_open_one_in_its_slot(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_lists, "MOST_USED", 0)
    first = next(iter(lists_of(desk)))

    async def close(database: Database) -> None:
        closing = (status_lists.replace_full(database, first, f"{n:032x}", NOW) for n in range(8))
        await asyncio.gather(*closing)

    ask(desk.url, close)

    slots = lists_of(desk)
    assert len(slots) == LISTS + 1
    assert slots[first] is None
    assert sorted(slot for slot in slots.values() if slot is not None) == list(range(LISTS))


@on_both_databases
def test_a_list_whose_entries_have_expired_is_dropped_and_never_there_again(desk: Desk) -> None:
    with desk.open() as registry:
        answer = registry.register(request())
        uri, expires = answer["cards"][0]["status"]["uri"], answer["cards"][0]["exp"]
        listed = uri.rpartition("/")[2]
        query(desk.url, f"UPDATE status_lists SET slot = NULL WHERE list_id = '{listed}'")
        desk.clock.advance(expires + MAX_SKEW - desk.clock.now() - 1)
        assert registry.get(f"/status/{listed}").status_code == 200
        desk.clock.advance(1)
        gone = ("request.not-found", "request/path")
        assert_refused(registry.get(f"/status/{listed}"), 404, gone)
        desk.clock.advance(-10)
        assert registry.get(f"/status/{listed}").status_code == 200, "a clock that was ahead took it away for a while"
        desk.clock.advance(90 * DAY + 9 - MAX_SKEW)
        desk.delete_ended()
        assert listed in lists_of(desk)
        desk.clock.advance(1)

        desk.delete_ended()

        assert_refused(registry.get(f"/status/{listed}"), 404, gone)
        desk.token = registry.token = desk.new_token("alice")
        registry.done("POST", "/agents/ai-assistant-v2/renew", {})
        assert "status_lists" not in desk.delete_ended()
    assert lists_of(desk).keys() & {listed} == set()
    assert not [row for row in desk.rows()["status_entries"] if row[0] == listed]
    dropped = [record for record in desk.audit() if record["event"] == "status-list.dropped"]
    assert sum(listed in record["state"] for record in dropped) == 1
    assert desk.differences() == []
    assert all(one.list_id != listed for one in draw(desk.url, 500, "later"))


def test_an_open_list_is_not_dropped(desk: Desk) -> None:
    desk.clock.advance(1000 * DAY)
    assert "status_lists" not in desk.delete_ended()
    assert len(lists_of(desk)) == LISTS


def test_a_list_that_was_dropped_too_early_is_missed(desk: Desk) -> None:
    with desk.open() as registry:
        listed = registry.register(request())["cards"][0]["status"]["uri"].rpartition("/")[2]
    query(desk.url, f"UPDATE status_lists SET slot = NULL WHERE list_id = '{listed}'")
    desk.clock.advance(20 * DAY)
    query(desk.url, "UPDATE status_entries SET expires_at = 0")
    desk.delete_ended()

    found = {rule for rule, at in desk.differences() if at.startswith(f"database/status_entries/{listed}")}

    assert found == {"audit.state-missing"}


def test_a_registry_that_loses_an_entry_again_and_again_writes_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk.open() as registry:
        registry.register(request())
        before = desk.rows()

        def lost(*_: object) -> None:
            raise StatusTaken

        monkeypatch.setattr(statuses, "claim_statuses", lost)
        assert_refused(registry.post(request("second", public_key=jwk(key(50)))), 503, ("store.unavailable", "request"))

    assert desk.rows() == before
