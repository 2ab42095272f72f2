"""The audit chain of records that wait, its checkpoints and its verification."""

import asyncio
import contextlib
import errno
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

from sqlalchemy import Connection

from issuer_service.access import Caller, agent_prefixes
from issuer_service.audit import repository
from issuer_service.audit.records import AuditFound, AuditQuery, StateVerdict
from issuer_service.container import Container
from issuer_service.db.state_check import compare_state
from issuer_service.keys.repository import KeyUse
from sdcard.audit_chain import START, ChainVerifier, Checkpoint, Head, Verdict, issue_checkpoint
from sdcard.errors import Part, Refused, Where
from sdcard.instants import Instant
from sdcard.io.database import Database
from sdcard.jose.jws import Signer
from sdcard.profile import MAX_INTERACTION, is_interaction_id
from sdcard.rules import Rule

# -- The thread of an interaction: its audit records across agents, in order ------------------------------------------

MOST_RECORDS = 100
"""Of one page."""
_INTERACTION = Where(Part.REQUEST, ("interaction_id",))


async def read_thread(
    container: Container, caller: Caller, interaction_id: str, after: int
) -> tuple[tuple[AuditFound, ...], bool, int]:
    """Read an interaction's records after number ``after``, of all owners.

    Also return whether there are more, and how many records of the registry are left out, because they wait.

    Those that wait are added to the chain first, if it can take them, so that pages miss none. They are as they are
    found: whether the chain is whole, ``sdcard audit verify`` says. That the caller's token is for reading them was
    checked before.

    Raises:
        Refused: ``request.malformed``; ``token.limit`` for a token that is for some agents only.
    """
    if not is_interaction_id(interaction_id):
        hint = f"An interaction id has 1 to {MAX_INTERACTION} visible ASCII characters."
        raise Refused(Rule.REQUEST, _INTERACTION, hint)
    if agent_prefixes(caller) is not None:
        raise Refused(Rule.TOKEN_LIMIT, _INTERACTION, "An interaction may include other owners' agents.")
    with contextlib.suppress(Refused):
        await chain_waiting(container.database)
    query = AuditQuery(after=after, interaction_id=interaction_id, limit=MOST_RECORDS + 1)
    found = await container.database.read(repository.read_records, query)
    waiting = await container.database.read(repository.count_waiting)
    return tuple(found[:MOST_RECORDS]), len(found) > MOST_RECORDS, waiting


# -- The chain of records that wait -----------------------------------------------------------------------------------


async def chain_waiting(database: Database) -> None:
    """Add the records that wait to the chain, a few in each transaction.

    Any number of processes may do so at once. One that is killed leaves whole transactions behind.

    Raises:
        Refused: ``store.unavailable``, also for a record that the chain cannot take. It has those before.
    """
    if await database.read(repository.count_waiting):
        while await database.change(repository.chain_waiting):
            pass


def chaining(container: Container) -> Callable[[], Awaitable[None]]:
    """Return a function that adds what waits, and shows the rest in the metrics."""
    oldest, since = None, container.clock.now()

    async def add() -> None:
        nonlocal oldest, since
        try:
            await chain_waiting(container.database)
        finally:
            number = await container.database.read(repository.first_waiting)
            now, count = container.clock.now(), await container.database.read(repository.count_waiting)
            if number is None or number != oldest:
                oldest, since = number, now
            container.metrics.show_unchained(count, now - since)

    return add


# -- Checkpoints of the audit chain, appended to a file while the registry runs ---------------------------------------

_log = logging.getLogger(__name__)

_LONGEST_SECONDS = 10.0
"""For one checkpoint, so that a database that is gone does not hold up a stop."""


def checkpointing(container: Container) -> Callable[[], Awaitable[None]]:
    """Return a function that adds a checkpoint whenever the chain has grown."""
    last = START

    async def add() -> None:
        nonlocal last
        async with asyncio.timeout(_LONGEST_SECONDS):
            signer, now = (await container.keys.current()).signer(KeyUse.AUDIT), container.clock.now()
            file, issuer = container.audit.file, container.issuer_url
            last = await make_checkpoint(container.database, file, signer, issuer, now, last)

    return add


async def make_checkpoint(
    database: Database, file: Path, signer: Signer, issuer: str, now: Instant, last: Head = START
) -> Head:
    """Sign the head of the chain, append it to the file, and return the head.

    What waits is added to the chain first. Nothing is appended if the head is still the last checkpoint.

    Raises:
        Refused: ``store.unavailable``; ``audit.head-differs`` when the head is missing.
        OSError: when the file cannot be written.
    """
    if await database.read(repository.read_head) is not None:
        await chain_waiting(database)
    head = await database.read_replicated(repository.read_head)
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

    Several processes can share the file, because a line is one write at the end. A line that a full disk truncated is
    ended before the next one. Concurrent writers can therefore add an empty line, which readers ignore.

    Raises:
        OSError: when the line was not written completely.
    """
    with open(os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600), "rb", buffering=0) as opened:
        size = os.fstat(opened.fileno()).st_size
        torn = size > 0 and os.pread(opened.fileno(), 1, size - 1) != b"\n"
        line = f"{chr(10) if torn else ''}{text}\n".encode("ascii")
        if os.write(opened.fileno(), line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(opened.fileno())


# -- Verification of the audit chain in a database during writes, page by page ----------------------------------------


async def verify_database(
    database: Database, checkpoints: Sequence[Checkpoint], tell: Callable[[int], None]
) -> Verdict:
    """Verify the whole chain, and report the number of each record.

    The pages are read in separate transactions. This is safe, because records never change and each is written together
    with the head. The head is read last, and the chain is verified up to it.

    Raises:
        Refused: ``store.unavailable``.
    """
    verifier = ChainVerifier(checkpoints)
    last = await _follow(verifier, database, AuditQuery(), tell)
    head, later = await database.read_long(repository.read_end, verifier.newest)
    if head is not None:
        await _follow(verifier, database, AuditQuery(after=last, up_to=head.sequence), tell)
    verifier.expect(later)
    return await _finish(verifier, head, database)


async def verify_state(
    database: Database, checkpoints: Sequence[Checkpoint], tell: Callable[[int], None]
) -> tuple[Verdict, StateVerdict]:
    """Verify the whole chain and compare the tables with it, in one snapshot.

    Raises:
        Misuse: when the database was not adopted.
        Refused: ``store.unavailable``.
    """
    verifier = ChainVerifier(checkpoints)

    def take(found: AuditFound) -> None:
        sequence, record = found
        if record is None:
            verifier.add_unreadable()
        else:
            verifier.add(record)
        tell(sequence)

    def compare(connection: Connection) -> tuple[Head | None, StateVerdict]:
        head, state = compare_state(connection, take)
        verifier.expect(repository.read_end(connection, verifier.newest)[1])
        return head, state

    head, state = await database.read_long(compare)
    return await _finish(verifier, head, database), state


async def _finish(verifier: ChainVerifier, head: Head | None, database: Database) -> Verdict:
    """Return the verdict, which also tells how many records wait for the chain."""
    verdict = verifier.finish_at(head)
    if not (waiting := await database.read(repository.count_waiting)):
        return verdict
    unknown = f"Whether records that wait for the chain were changed or removed. {waiting} wait."
    return replace(verdict, not_known=(*verdict.not_known, unknown))


async def _follow(
    verifier: ChainVerifier, database: Database, query: AuditQuery, tell: Callable[[int], None]
) -> int | None:
    """The number of the last record."""
    last = query.after
    async for sequence, record in _read_pages(database, query):
        last = sequence
        if record is None:
            verifier.add_unreadable()
        else:
            verifier.add(record)
        tell(sequence)
    return last


async def find_records(database: Database, query: AuditQuery) -> AsyncIterator[AuditFound]:
    """Return all records of a query.

    Those that wait are added to the chain first, if the database can be written and the chain can take them.

    Raises:
        Refused: ``store.unavailable``.
    """
    with contextlib.suppress(Refused):
        await chain_waiting(database)
    async for found in _read_pages(database, query):
        yield found


async def _read_pages(database: Database, query: AuditQuery) -> AsyncIterator[AuditFound]:
    """Return all records of a query, in pages of the query's limit."""
    while page := await database.read(repository.read_records, query):
        for found in page:
            yield found
        query = replace(query, after=page[-1][0])
