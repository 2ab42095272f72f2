"""A limit on concurrent look-ups of one caller: a busy caller delays only itself."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from weakref import WeakValueDictionary

from sdcard.edge.lookups import QUICK_CONNECTIONS
from sdcard.errors import Part, Refused, Where
from sdcard.rules import Rule

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
