"""Checkpoints of the audit chain, appended to a file while the registry runs.

A checkpoint is made at intervals and at shutdown.

Nothing that goes wrong here stops the registry or makes anybody wait: it is logged, and tried again next time.
"""

import asyncio
import contextlib
import errno
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from issuer_service.stores.ports import Store
from issuer_service.stores.rows.keys import KeyUse
from issuer_service.wiring import Wiring
from sdcard.audit.checkpoints import issue_checkpoint
from sdcard.audit.records import START, Head
from sdcard.errors import Part, Refused, Where
from sdcard.instants import Instant
from sdcard.jose.signer import Signer
from sdcard.rules import Rule

_log = logging.getLogger(__name__)

_LONGEST_SECONDS = 10.0
"""For one checkpoint, so that a database that is gone does not hold up a stop."""


@asynccontextmanager
async def keeping_checkpoints(wiring: Wiring) -> AsyncIterator[None]:
    """Make checkpoints for as long as the block lasts, and one more at its end."""
    stop = asyncio.Event()
    task = asyncio.create_task(_keep(wiring, stop))
    try:
        yield
    finally:
        stop.set()
        await task


async def _keep(wiring: Wiring, stop: asyncio.Event) -> None:
    last = START
    while not stop.is_set():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wiring.audit.seconds):
                await stop.wait()
        try:
            async with asyncio.timeout(_LONGEST_SECONDS):
                signer = (await wiring.keys.current()).signer(KeyUse.AUDIT)
                now = wiring.clock.now()
                last = await make_checkpoint(wiring.store, wiring.audit.file, signer, wiring.issuer_url, now, last)
        except Exception as error:  # whatever a database, disk or remote signer does: serving goes on
            _log.error("no audit checkpoint was made: %s", _cause(error))


async def make_checkpoint(
    store: Store, file: Path, signer: Signer, issuer: str, now: Instant, last: Head = START
) -> Head:
    """Sign the head of the chain, append it to the file, and return the head.

    Nothing is appended if the head is still the last checkpoint.

    Raises:
        Refused: ``store.unavailable``; ``audit.head-differs`` when there is no head.
        OSError: when the file cannot be written.
    """
    head = await store.audit_head()
    if head is None:
        raise Refused(Rule.AUDIT_HEAD, Where(Part.AUDIT), "The head is not there; `sdcard audit verify` says more.")
    if head.sequence < last.sequence:
        _log.error("the audit chain went back from record %d to %d", last.sequence, head.sequence)
    if head != last:
        await asyncio.to_thread(_write, head, file, signer, issuer, int(now))
    return head


def _write(head: Head, file: Path, signer: Signer, issuer: str, at: int) -> None:
    append_line(file, issue_checkpoint(head, issuer, signer, at))


def append_line(file: Path, text: str) -> None:
    """Append a line to a file durably: it is on the disk on return.

    A missing file is created with permissions for its owner alone.

    A line is one write at the end, so that several processes can share the file, and what a full disk cut short is
    never joined with the next line. Who looks while another one writes may add an empty line, which means nothing.

    Raises:
        OSError: when it was not written whole.
    """
    with open(os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600), "rb", buffering=0) as opened:
        size = os.fstat(opened.fileno()).st_size
        torn = size > 0 and os.pread(opened.fileno(), 1, size - 1) != b"\n"
        line = f"{chr(10) if torn else ''}{text}\n".encode("ascii")
        if os.write(opened.fileno(), line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(opened.fileno())


def _cause(error: Exception) -> str:
    """Describe an error for the log.

    A foreign message is never logged, because it could quote anything.
    """
    if isinstance(error, Refused):
        return str(error.rule)
    said = error.strerror if isinstance(error, OSError) else None
    return f"{type(error).__name__} {said or ''}".strip()
