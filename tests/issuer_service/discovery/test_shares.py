"""Whoever asks much that is slow to answer waits for themselves, and nobody else does."""

import asyncio

import pytest

from issuer_service.discovery.shares import AT_ONCE, MOST_REMEMBERED, Shares
from sdcard.edge.lookups import QUICK_CONNECTIONS
from sdcard.errors import Refused
from sdcard.rules import Rule


def test_one_callers_places_leave_some_for_others() -> None:
    working, most = {"greedy": 0, "modest": 0}, {"greedy": 0, "modest": 0}

    async def ask(shares: Shares, subject: str) -> None:
        async with shares.of(subject):
            working[subject] += 1
            most[subject] = max(most[subject], working[subject])
            await asyncio.sleep(0.001)
            working[subject] -= 1

    async def run() -> None:
        shares = Shares()
        await asyncio.gather(*(ask(shares, "greedy") for _ in range(30)), ask(shares, "modest"))

    asyncio.run(run())
    assert most == {"greedy": AT_ONCE, "modest": 1}
    assert AT_ONCE < QUICK_CONNECTIONS


def test_of_many_callers_few_are_remembered_and_none_that_asks_is_forgotten() -> None:
    async def ask(shares: Shares, subject: str) -> None:
        async with shares.of(subject):
            pass

    async def run() -> set[str]:
        shares = Shares(0.02)
        async with shares.of("asks"), shares.of("asks"):
            for number in range(4 * MOST_REMEMBERED):
                await ask(shares, f"caller {number}")
            with pytest.raises(Refused):
                await ask(shares, "asks")
        return set(shares._places)

    assert AT_ONCE == 2
    latest = {f"caller {number}" for number in range(3 * MOST_REMEMBERED, 4 * MOST_REMEMBERED)}
    assert asyncio.run(run()) - {"asks"} == latest


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
