"""Rate limits, and fair shares of the worker threads."""

import asyncio
import math
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from sdcard.errors import Part, Refused, Where
from sdcard.instants import Instant
from sdcard.io.lookups import QUICK_CONNECTIONS
from sdcard.rules import Rule

# -- A limit on concurrent look-ups of one caller: a busy caller delays only itself -----------------------------------

AT_ONCE = QUICK_CONNECTIONS // 2
SECONDS = 2.0
"""Longest wait of a caller for its own look-ups."""


class Turns:
    """A limit on concurrent work, and on queued work of each subject.

    So the next subject does not wait long.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once, self._all = at_once, asyncio.Semaphore(at_once)
        self._own = WeakValueDictionary[str, asyncio.Semaphore]()

    @asynccontextmanager
    async def of(self, subject: str) -> AsyncIterator[None]:
        """Wait for the subject's turn."""
        own = self._own.get(subject)
        if own is None:
            own = self._own[subject] = asyncio.Semaphore(self._at_once)
        async with own, self._all:
            yield


class Shares:
    """The places of callers, for one event loop.

    Nothing is kept of who asks for nothing.
    """

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._places = WeakValueDictionary[str, asyncio.Semaphore]()

    def of(self, subject: str) -> AbstractAsyncContextManager[None]:
        """Occupy a place of the subject.

        Raises:
            Refused: ``store.slow`` when there is none for too long.
        """
        places = self._places.get(subject)
        if places is None:
            places = self._places[subject] = asyncio.Semaphore(AT_ONCE)
        return self._in_time(places) if places.locked() else places

    @asynccontextmanager
    async def _in_time(self, places: asyncio.Semaphore) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._seconds):
                await places.acquire()
        except TimeoutError:
            raise Refused(Rule.STORE_SLOW, Where(Part.REQUEST)) from None
        try:
            yield
        finally:
            places.release()


# -- Rate limits: token buckets in the memory of this process ---------------------------------------------------------
# N processes allow N times as much.
#
# Each key has a bucket that holds ten seconds' worth and fills at a steady rate. A request takes one, and one more
# for each ``UNIT_BYTES`` of its answer and of four times its body: its work grows with the card that it brings and
# the SD-Cards that it gets. Keys that were not heard of for longest are forgotten, and begin again with a full
# bucket: memory is bounded, and only a client with more addresses than are remembered gains by it.

MOST_KEYS = 10_000
UNIT_BYTES = 65_536
BODY_WEIGHT = 4
"""Reading and planning a card takes about four times as long as what is issued of it, byte for byte."""
_SECONDS_WORTH = 10
_LEAST_CAPACITY = 10


class RateLimited(Refused):
    """A refusal that says when to ask again."""

    def __init__(self, hint: str, seconds: float) -> None:
        super().__init__(Rule.RATE_EXCEEDED, Where(Part.REQUEST), hint)
        self.headers: Mapping[str, str] = {"Retry-After": str(max(1, math.ceil(seconds)))}


class Buckets:
    """A rate limit with a bucket for each key.

    ``hint`` explains a refusal; ``per_minute`` 0 is no limit.
    """

    def __init__(self, per_minute: int, hint: str, most_keys: int = MOST_KEYS) -> None:
        self._per_second = per_minute / 60
        self._capacity = max(_LEAST_CAPACITY, self._per_second * _SECONDS_WORTH)
        self._hint, self._most_keys = hint, most_keys
        self._levels: OrderedDict[str, tuple[float, Instant]] = OrderedDict()

    def take(self, key: str, now: Instant) -> None:
        """Take one.

        Raises:
            Refused: ``rate.exceeded`` (as ``RateLimited``) when there is none; then nothing is taken.
        """
        if self._per_second:
            self._keep(key, self._check(key, now) - 1, now)

    def check(self, key: str, now: Instant) -> None:
        """Take nothing.

        Raises:
            Refused: ``rate.exceeded`` (as ``RateLimited``) when there is none.
        """
        if self._per_second:
            self._check(key, now)

    def charge(self, key: str, units: int, now: Instant) -> None:
        """Take so many tokens, even more than are there, for work under way.

        The debt fills up first.
        """
        if self._per_second:
            self._keep(key, self._level(key, now) - units, now)

    def _check(self, key: str, now: Instant) -> float:
        level = self._level(key, now)
        if level < 1:
            raise RateLimited(self._hint, (1 - level) / self._per_second)
        return level

    def _level(self, key: str, now: Instant) -> float:
        level, since = self._levels.get(key, (self._capacity, now))
        if now < since:  # the clock was set back: count from here, or nothing would flow in until it is there again
            self._levels[key] = (level, now)
        return min(self._capacity, level + max(0, now - since) * self._per_second)

    def _keep(self, key: str, level: float, now: Instant) -> None:
        self._levels[key] = (level, now)
        self._levels.move_to_end(key)
        while len(self._levels) > self._most_keys:
            self._levels.popitem(last=False)

    def __len__(self) -> int:
        return len(self._levels)


@dataclass(frozen=True, slots=True)
class Rates:
    """The registry's rate limits.

    Attributes:
        addresses: requests of one address, whatever they ask for; with a good token, ``tokens`` limits them instead.
        tokens: requests with one token, or of one subject of an identity provider.
        failures: bad tokens from one address. Good tokens from there are served all the same.
        conflicts: agent ids and keys in one subject's registrations that are another agent's. Beyond it, the subject
            registers nothing for a while: to refuse only what is taken would tell as much as the conflict.
    """

    addresses: Buckets = field(default_factory=lambda: Rates.for_addresses(12_000))
    tokens: Buckets = field(default_factory=lambda: Rates.for_tokens(6_000))
    failures: Buckets = field(default_factory=lambda: Rates.for_failures(60))
    conflicts: Buckets = field(default_factory=lambda: Rates.for_conflicts(60))

    @staticmethod
    def for_addresses(per_minute: int) -> Buckets:
        """Limit the requests of one address."""
        return Buckets(per_minute, "Too many requests come from this address.")

    @staticmethod
    def for_tokens(per_minute: int) -> Buckets:
        """Limit the requests with one token."""
        return Buckets(per_minute, "Too many requests come with this token.")

    @staticmethod
    def for_failures(per_minute: int) -> Buckets:
        """Limit the bad tokens from one address."""
        return Buckets(per_minute, "Too many bad tokens come from this address.")

    @staticmethod
    def for_conflicts(per_minute: int) -> Buckets:
        """Limit the conflicts of one subject."""
        return Buckets(per_minute, "Too many registrations met an agent id or key that is not yours.")


UNLIMITED = Rates(Rates.for_addresses(0), Rates.for_tokens(0), Rates.for_failures(0), Rates.for_conflicts(0))
"""For a registry of a moment, which nobody else can reach."""
