"""An import: lines to processes, their results to the database in batches.

One process chooses status entries and writes, so that no two want the same ones, and the others do all that takes
processor time. What is committed the database alone knows: started again, whatever ended it, an import leaves out what
is there.
"""

import asyncio
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import BinaryIO

from issuer_service.importing.work import Lines, Worked, start, work
from issuer_service.registration.schemas import REQUEST
from issuer_service.settings import Settings
from issuer_service.stores.ports import Store
from issuer_service.stores.rows.agents import RegistrationRow
from issuer_service.stores.rows.keys import KeyNotInUse
from issuer_service.stores.rows.statuses import StatusRow, StatusTaken
from sdcard.errors import Finding, Misuse, Refused
from sdcard.instants import Clock
from sdcard.rules import Rule
from sdcard.salts import SaltSource

AT_ONCE = 200
"""Lines of one transaction. A registry that serves beside it waits for one."""
PATIENCE = 300.0
"""Seconds in which a transaction has its turn and is over. Nobody waits for an answer, and a disk may be busy."""
_AHEAD = 2
"""Pieces of work for each process: one that it does, and the next."""
_ATTEMPTS = 5


@dataclass(slots=True)
class Outcome:
    """Result of an import. ``read``: bytes of the file."""

    registered: int = 0
    there: int = 0
    refused: int = 0
    read: int = 0


@dataclass(frozen=True, slots=True)
class Importing:
    """Target of an import.

    Attributes:
        store: of the registry.
        salts, clock: randomness and time for status entries.
        subject: who owns the agents.
        contexts: in which each agent is disclosed.
        most_bytes: of a line.
        tell: called after each transaction, with what was done so far.
        refuse: called for each line that was refused, with its number and why.
        pending: status entries that are given out and not written yet.
    """

    store: Store
    salts: SaltSource
    clock: Clock
    subject: str
    contexts: tuple[str, ...]
    most_bytes: int
    tell: Callable[[Outcome], None]
    refuse: Callable[[int, Sequence[Finding]], None]
    pending: set[StatusRow] = field(default_factory=set, repr=False)


async def import_agents(asked: Importing, file: BinaryIO, settings: Settings, workers: int) -> Outcome:
    """Register the agents of a file of JSON lines, with several processes.

    The workers run beside this process.

    Raises:
        Misuse: for contexts that are none, or named twice.
        Refused: ``store.unavailable`` or ``signer.unavailable``; what was told before is done, and stays so.
    """
    if not asked.contexts or len(set(asked.contexts)) < len(asked.contexts):
        raise Misuse("name at least one context, and each once")
    outcome = Outcome()
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, spawn, start, (settings,)) as pool:
        pieces = _pieces(file, asked.most_bytes)
        running = set[asyncio.Task[None]]()
        try:
            for first, lines in pieces:
                running.add(asyncio.ensure_future(_register(asked, pool, outcome, first, lines)))
                if len(running) == workers * _AHEAD:
                    done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                    for one in done:
                        one.result()
            await asyncio.gather(*running)
        except BaseException:  # whatever it was: nothing more is begun
            for one in running:
                one.cancel()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return outcome


def _pieces(file: BinaryIO, most_bytes: int) -> Iterator[tuple[int, tuple[bytes, ...]]]:
    """Yield lines in groups, with the number of the first.

    Of a line that is too long, only that it is.
    """
    number, lines = 1, list[bytes]()
    while line := file.readline(most_bytes + 2):
        while not line.endswith(b"\n") and len(line) > most_bytes and (rest := file.readline(most_bytes)):
            line = line[: most_bytes + 1] + rest[-1:]
        lines.append(line)
        if len(lines) == AT_ONCE:
            yield number, tuple(lines)
            number, lines = number + len(lines), []
    if lines:
        yield number, tuple(lines)


async def _register(asked: Importing, pool: Executor, outcome: Outcome, first: int, lines: tuple[bytes, ...]) -> None:
    left = dict(enumerate(lines, first))
    for _ in range(_ATTEMPTS):
        statuses = await _choose(asked, len(left) * len(asked.contexts))
        given = Lines(tuple(left.items()), asked.subject, asked.contexts, statuses)
        try:
            worked = await asyncio.get_running_loop().run_in_executor(pool, work, given)
            await _write(asked, outcome, worked, left)
        except (StatusTaken, KeyNotInUse):
            await asyncio.sleep(1)  # a process may know a key for a moment that signs no more
            continue
        finally:
            asked.pending.difference_update(statuses)
        for number, findings in worked.refused:
            _refuse(asked, outcome, number, findings)
        outcome.there += len(worked.there)
        outcome.read += sum(map(len, lines))
        asked.tell(outcome)
        return
    raise Refused(Rule.STORE_UNAVAILABLE, REQUEST)


async def _choose(asked: Importing, count: int) -> Sequence[StatusRow]:
    """Entries that no SD-Card has, and that this import has not given out."""
    found = list[StatusRow]()
    while len(found) < count:
        drawn = await asked.store.free_statuses(count - len(found), asked.salts, int(asked.clock.now()))
        fresh = [one for one in drawn if one not in asked.pending]
        asked.pending.update(fresh)
        found += fresh
    return found


async def _write(asked: Importing, outcome: Outcome, worked: Worked, left: dict[int, bytes]) -> None:
    """Write all in one transaction; on a refusal, write each in its own."""
    rows = [row for _, row in worked.rows]
    if not rows:
        return
    try:
        written = await asked.store.record_registrations(rows)
        outcome.registered += written
        outcome.there += len(rows) - written
    except Refused as refusal:
        if refusal.rule is Rule.STORE_UNAVAILABLE:
            raise
        for number, row in worked.rows:
            await _write_one(asked, outcome, number, row)
            del left[number]


async def _write_one(asked: Importing, outcome: Outcome, number: int, row: RegistrationRow) -> None:
    try:
        written = await asked.store.record_registrations([row])
        outcome.registered += written
        outcome.there += 1 - written
    except Refused as refusal:
        if refusal.rule is Rule.STORE_UNAVAILABLE:
            raise
        _refuse(asked, outcome, number, refusal.findings)


def _refuse(asked: Importing, outcome: Outcome, number: int, findings: Sequence[Finding]) -> None:
    outcome.refused += 1
    asked.refuse(number, findings)
