"""A caller with many slow look-ups delays only itself."""

import asyncio

import pytest

from issuer_service.rate_limit import AT_ONCE, Shares, Turns
from sdcard.errors import Refused
from sdcard.io.lookups import QUICK_CONNECTIONS
from sdcard.rules import Rule


def test_one_callers_places_leave_some_for_others_and_are_forgotten() -> None:
    working, most = {"greedy": 0, "modest": 0}, {"greedy": 0, "modest": 0}

    async def ask(shares: Shares, subject: str) -> None:
        async with shares.of(subject):
            working[subject] += 1
            most[subject] = max(most[subject], working[subject])
            await asyncio.sleep(0.001)
            working[subject] -= 1

    async def run() -> int:
        shares = Shares()
        await asyncio.gather(*(ask(shares, "greedy") for _ in range(30)), ask(shares, "modest"))
        return len(shares._places)

    assert asyncio.run(run()) == 0
    assert most == {"greedy": AT_ONCE, "modest": 1}
    assert AT_ONCE < QUICK_CONNECTIONS


def test_who_waits_too_long_is_refused_and_a_cancelled_one_leaves_its_place() -> None:
    async def run() -> Refused:
        shares = Shares(0.02)

        async def hold() -> None:
            async with shares.of("greedy"):
                await asyncio.sleep(60)

        holding = [asyncio.ensure_future(hold()) for _ in range(AT_ONCE)]
        await asyncio.sleep(0)
        with pytest.raises(Refused) as refused:
            await hold()
        for one in holding:
            one.cancel()
        await asyncio.gather(*holding, return_exceptions=True)
        for _ in range(2 * AT_ONCE):
            async with shares.of("greedy"):
                pass
        return refused.value

    assert asyncio.run(run()).rule is Rule.STORE_SLOW


def test_a_subject_that_has_much_to_do_holds_up_another_for_no_more_than_its_share() -> None:
    async def work() -> list[str]:
        turns, done = Turns(2), list[str]()

        async def one(subject: str) -> None:
            async with turns.of(subject):
                await asyncio.sleep(0)
                done.append(subject)

        waiting = [asyncio.ensure_future(one("eve")) for _ in range(100)]
        await asyncio.sleep(0)
        await one("alice")
        before = len(done)
        await asyncio.gather(*waiting)
        return done[:before]

    done = asyncio.run(work())
    assert done[-1] == "alice"
    assert len(done) <= 6


def test_so_many_work_at_a_time_and_nothing_is_kept_of_them() -> None:
    async def work() -> tuple[int, int]:
        turns, now, most = Turns(2), 0, 0

        async def one(subject: str) -> None:
            nonlocal now, most
            async with turns.of(subject):
                now += 1
                most = max(most, now)
                await asyncio.sleep(0)
                now -= 1

        await asyncio.gather(*(one(str(number % 5)) for number in range(50)))
        return most, len(turns._own)

    assert asyncio.run(work()) == (2, 0)
