"""Dropping status lists that no SD-Card needs, beside the serving, now and then.

Nothing that goes wrong here stops the registry or makes a request wait: it is logged, and tried again next time.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from issuer_service.wiring import Wiring

_log = logging.getLogger(__name__)

_SECONDS = 600.0


@asynccontextmanager
async def dropping_lists(wiring: Wiring) -> AsyncIterator[None]:
    """Drop expired lists for as long as the block lasts."""
    stop = asyncio.Event()
    task = asyncio.create_task(_keep_dropping(wiring, stop))
    try:
        yield
    finally:
        stop.set()
        await task


async def _keep_dropping(wiring: Wiring, stop: asyncio.Event) -> None:
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SECONDS):
                await stop.wait()
        if stop.is_set():
            return
        try:
            await drop_expired_lists(wiring)
        except Exception as error:  # whatever a database does: serving goes on
            _log.error("no status list was dropped: %s", type(error).__name__)


async def drop_expired_lists(wiring: Wiring) -> int:
    """Drop closed lists whose entries expired a while ago; return how many.

    Each list is dropped in a transaction of its own.

    Raises:
        Refused: ``store.unavailable``.
    """
    dropped = 0
    while await wiring.store.drop_expired_list(int(wiring.clock.now())):
        dropped += 1
    return dropped
