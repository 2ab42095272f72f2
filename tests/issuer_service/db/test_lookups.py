"""A look-up that is slow is broken off, and holds up nobody."""

import asyncio
import time
from typing import Any

import pytest
from sqlalchemy import BigInteger, bindparam, func, literal, select

from issuer_service import tokens
from issuer_service.discovery import repository as finding
from sdcard.errors import Refused
from sdcard.io.database import open_database
from sdcard.io.lookups import AT_ONCE, SLOW_AT_ONCE, Lookup, SqliteLookups
from sdcard.rules import Rule
from tests.issuer_service.desk import Desk, on_both_databases

pytestmark = on_both_databases

_number = select(literal(1, BigInteger).label("n")).cte("numbers", recursive=True)
_numbers = _number.union_all(
    select(_number.c.n + 1).where(_number.c.n < bindparam("most", 10**12, type_=BigInteger, unique=False))
)
COUNTING = Lookup(select(func.count()).select_from(_numbers))
"""Takes as long as one likes, on any database."""


def test_one_that_is_longer_than_a_moment_gives_its_rows(desk: Desk) -> None:
    async def count() -> tuple[Any, float]:
        database = open_database(desk.url, look_up_seconds=60)
        try:
            await tokens.find_token(database, "")
            began = time.perf_counter()
            rows = await database.look_up(COUNTING, most=400_000)
            return rows[0][0], time.perf_counter() - began
        finally:
            await database.close()

    number, seconds = asyncio.run(count())
    assert number == 400_000
    assert seconds > AT_ONCE, "else the test does not test it"


def test_slow_ones_are_refused_in_time_and_quick_ones_go_on(desk: Desk) -> None:
    limit, quick = 1.0, list[float]()

    async def run() -> list[Any]:
        database = open_database(desk.url, look_up_seconds=limit)
        try:
            await tokens.find_token(database, "")
            slow = asyncio.gather(*(database.look_up(COUNTING) for _ in range(6)), return_exceptions=True)
            while not slow.done():
                began = time.perf_counter()
                assert await tokens.find_token(database, "") is None
                quick.append(time.perf_counter() - began)
                await asyncio.sleep(0.01)
            return await slow
        finally:
            await database.close()

    began = time.perf_counter()
    outcomes = asyncio.run(run())
    assert time.perf_counter() - began < 10 * limit
    assert [outcome.rule for outcome in outcomes if isinstance(outcome, Refused)] == [Rule.STORE_SLOW] * 6
    assert len(quick) > 5
    assert sorted(quick)[len(quick) // 2] < limit / 4, "most of them do not notice"


def test_those_whose_askers_left_leave_no_queue_behind(desk: Desk) -> None:
    limit = 0.5

    async def run() -> tuple[float, Any]:
        database = open_database(desk.url, look_up_seconds=limit)
        try:
            await tokens.find_token(database, "")
            for _ in range(12):
                left = [asyncio.create_task(database.look_up(COUNTING)) for _ in range(4)]
                await asyncio.sleep(0.02)
                for one in left:
                    one.cancel()
                await asyncio.gather(*left, return_exceptions=True)
            began = time.perf_counter()
            (outcome,) = await asyncio.gather(database.look_up(COUNTING, most=200_000), return_exceptions=True)
            assert await tokens.find_token(database, "") is None
            return time.perf_counter() - began, outcome
        finally:
            await database.close()

    seconds, outcome = asyncio.run(run())
    assert seconds < 3 * limit
    assert isinstance(outcome, Refused) or outcome[0][0] == 200_000


def test_a_question_that_is_slow_to_answer_is_a_503_that_says_when_to_come_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding, "_finding", lambda _: COUNTING)
    with desk.open(open_database(desk.url, look_up_seconds=0.2)) as registry:
        refused = registry.look_for(skills=["any"])
        assert (refused.status_code, refused.json()["rule"]) == (503, Rule.STORE_SLOW)
        assert int(refused.headers["Retry-After"]) > 0
        assert refused.headers["Content-Type"] == "application/problem+json"
        assert registry.read().status_code == 404


def test_who_will_write_waits_for_a_look_up_that_is_slow(desk: Desk) -> None:
    async def count() -> tuple[Any, Any]:
        database = open_database(desk.url, look_up_seconds=0.05)
        try:
            refused = await asyncio.gather(database.look_up(COUNTING, most=1_000_000), return_exceptions=True)
            return refused[0], await database.look_up_to_write(COUNTING, most=1_000_000)
        finally:
            await database.close()

    refused, rows = asyncio.run(count())
    assert isinstance(refused, Refused)
    assert refused.rule is Rule.STORE_SLOW
    assert rows[0][0] == 1_000_000


def test_many_at_the_beginning_need_no_thread_each(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    runs, run = list[str](), SqliteLookups._run

    def counted(self: SqliteLookups, text: str, arguments: tuple[object, ...]) -> Any:
        runs.append(text)
        return run(self, text, arguments)

    monkeypatch.setattr(SqliteLookups, "_run", counted)

    async def ask() -> list[Any]:
        database = open_database(desk.url, look_up_seconds=30)
        try:
            return await asyncio.gather(*(tokens.find_token(database, "") for _ in range(60)))
        finally:
            await database.close()

    assert asyncio.run(ask()) == [None] * 60
    assert len(runs) <= 2 * SLOW_AT_ONCE
