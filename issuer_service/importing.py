"""Bulk import of agents from JSON Lines."""

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import BinaryIO

from issuer_service.access import Caller
from issuer_service.agents import repository as agents_repository
from issuer_service.agents.audiences import subjects_of
from issuer_service.agents.reading import Registration, Terms, asked_for, content_of, read_request
from issuer_service.agents.records import RegisteredRow, RegistrationRow
from issuer_service.agents.registration import Change, check_work, issue_batch, terms_of
from issuer_service.agents.schemas import REQUEST
from issuer_service.audit.records import AuditEvent, Possession
from issuer_service.container import Container, build_container
from issuer_service.discovery.postings_repository import DiscoverySecret
from issuer_service.keys.opening import open_vault
from issuer_service.keys.repository import KeyNotInUse
from issuer_service.reviews.records import needs_approval
from issuer_service.settings import ProofPolicy, Settings
from issuer_service.status import repository as status_repository
from issuer_service.status.records import StatusRow, StatusTaken
from sdcard.encoding import JsonObject, parse_json_object
from sdcard.errors import Finding, Misuse, Part, Refused, Where
from sdcard.instants import Clock
from sdcard.io.database import Database, open_database
from sdcard.lenient import lenient_document
from sdcard.rules import Rule
from sdcard.salts import SaltSource
from sdcard.spiffe import SPIFFE_ID

# -- A line of an import file → the registration request that it stands for. Pure -------------------------------------
# A line is a JSON object with ``card``, ``public_key``, and ``agent_id`` unless the card has one. What else a request
# says is the operator's: the contexts; and that nobody has proven the key.

_MEMBERS = ("agent_id", "card", "public_key")
_OF_CARD = ("name", "description", "version")


def read_line(line: bytes, contexts: Sequence[str], terms: Terms, most_bytes: int) -> Registration:
    """Read a line by the rules of a registration.

    Raises:
        Refused: ``limit.bytes`` for more than ``most_bytes``; ``request.malformed`` for members that a line does not
            have; as ``read_registration``.
    """
    if len(line.removesuffix(b"\n")) > most_bytes:
        raise Refused(Rule.LIMIT_BYTES, REQUEST, f"A line has at most {most_bytes} bytes.")
    given = parse_json_object(lenient_document(line), REQUEST, terms.limits.json_depth)
    unknown = [name for name in given if name not in _MEMBERS]
    if unknown:
        hint = f"A line has {', '.join(_MEMBERS)}, and nothing else."
        raise Refused.because([Finding(Rule.REQUEST, REQUEST.within(name[:64]), hint) for name in unknown])
    card = given.get("card")
    if not isinstance(card, dict):
        raise Refused(Rule.REQUEST, REQUEST.within("card"), "A line has a card, which is an object.")
    said = {name: card[name] for name in (*_OF_CARD, "agent_id") if name in card}
    request: JsonObject = {**said, **given, "disclosure_contexts": [{"context": context} for context in contexts]}
    return read_request(request, terms)


# -- Work of an import's process on some lines: everything up to the transaction --------------------------------------
# It reads and plans as a registration does, leaves out agents that are registered so already, and issues the Batches
# of the others with the status entries that it was given. It writes nothing.

_SPIFFE_ID = Where(Part.CARD, (SPIFFE_ID,))
_IMPORTED = Change(AuditEvent.AGENT_REGISTERED, Possession.NOT_PROVEN, None, None)


@dataclass(frozen=True, slots=True)
class ImportChunk:
    """Lines of the file, with their status entries.

    Attributes:
        lines: the lines with their numbers.
        subject: the owner of the agents.
        contexts: the contexts of each agent's SD-Cards.
        statuses: one entry for each line and context.
    """

    lines: tuple[tuple[int, bytes], ...]
    subject: str
    contexts: tuple[str, ...]
    statuses: Sequence[StatusRow]


@dataclass(frozen=True, slots=True)
class ImportResult:
    """Results of lines: rows to write in order, lines without work, and refusals."""

    rows: tuple[tuple[int, RegistrationRow], ...]
    there: tuple[int, ...]
    refused: tuple[tuple[int, tuple[Finding, ...]], ...]


@dataclass(frozen=True, slots=True)
class _Process:
    container: Container
    loop: asyncio.AbstractEventLoop


_process: list[_Process] = []
"""What this process is prepared with: one."""


def start(settings: Settings) -> None:
    """Prepare this process, once.

    Its parent stops it: an interrupt from the terminal reaches both.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    loop = asyncio.new_event_loop()
    _process.append(_Process(loop.run_until_complete(_open(settings)), loop))


def _end_with_parent() -> None:
    """End this worker when its parent ends.

    A killed process tells its workers nothing, and they would wait for ever.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None, "a pool starts this process"
    parent.join()
    os._exit(1)


async def _open(settings: Settings) -> Container:
    database = open_database(settings.database_url)
    try:
        return build_container(settings, await open_vault(settings, database))
    finally:
        await database.close()


def work(given: ImportChunk) -> ImportResult:
    """Do it, in a process that was prepared."""
    (process,) = _process
    return process.loop.run_until_complete(work_on(process.container, given))


async def work_on(container: Container, given: ImportChunk) -> ImportResult:
    """Do it with this container."""
    now = container.clock.now()
    terms, keys = await terms_of(container, now, ProofPolicy.ACCEPTED), await container.keys.current()
    caller = Caller(given.subject, "", {}, 0)
    read: list[tuple[int, Registration]] = []
    refused: list[tuple[int, tuple[Finding, ...]]] = []
    for number, line in given.lines:
        try:
            registration = read_line(line, given.contexts, terms, container.bounds.body_bytes)
            if SPIFFE_ID in registration.card.document:
                raise Refused(Rule.TOKEN_LIMIT, _SPIFFE_ID, "An import permits no SPIFFE ID; register over HTTP.")
            check_work(registration, container.bounds)
            if needs_approval(container.approval_for, registration.card):
                raise Refused(Rule.APPROVAL_PENDING, REQUEST, "Register this agent over HTTP; an import asks nobody.")
            read.append((number, registration))
        except Refused as refusal:
            refused.append((number, tuple(refusal.findings)))
    known = dict(await container.database.read(agents_repository.find_registered, [one.agent_id for _, one in read]))
    new: list[tuple[int, Registration]] = []
    there: list[int] = []
    for number, registration in read:
        as_asked = RegisteredRow(given.subject, content_of(registration.card), asked_for(registration))
        if known.get(registration.agent_id) == as_asked:
            there.append(number)
        else:
            known[registration.agent_id] = as_asked  # for a later line of the same agent
            new.append((number, registration))
    rows, subjects = [], await subjects_of(container)
    for place, (number, registration) in enumerate(new):
        entries = given.statuses[place * len(given.contexts) : (place + 1) * len(given.contexts)]
        try:
            row, _ = issue_batch(container, keys, subjects, caller, registration, _IMPORTED, entries, now)
        except Refused as refusal:
            if refusal.rule in (Rule.SIGNER_UNAVAILABLE, Rule.STORE_UNAVAILABLE):
                raise
            refused.append((number, tuple(refusal.findings)))
        else:
            rows.append((number, row))
    return ImportResult(tuple(rows), tuple(there), tuple(refused))


# -- An import: lines to processes, their results to the database in batches ------------------------------------------
# One process chooses status entries and writes, so that no two want the same ones, and the others do all that takes
# processor time. What is committed the database alone knows: started again, whatever ended it, an import leaves out
# what is there.

AT_ONCE = 200
"""Lines of one transaction. A registry that serves beside it waits for one."""
PATIENCE = 300.0
"""Timeout of a transaction in seconds. It is long, because no client waits and a disk may be busy."""
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
        salts, clock: randomness and time for status entries.
        subject: the owner of the agents.
        contexts: the contexts of each agent's SD-Cards.
        most_bytes: of a line.
        tell: called after each transaction, with the progress.
        refuse: called for each refused line, with its number and the reason.
        pending: status entries that are assigned and not written yet.
    """

    database: Database
    salts: SaltSource
    clock: Clock
    subject: str
    contexts: tuple[str, ...]
    most_bytes: int
    tell: Callable[[Outcome], None]
    refuse: Callable[[int, Sequence[Finding]], None]
    pending: set[StatusRow] = field(default_factory=set, repr=False)
    discovery_secret: DiscoverySecret = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "discovery_secret", DiscoverySecret(self.database))


async def import_agents(asked: Importing, file: BinaryIO, settings: Settings, workers: int) -> Outcome:
    """Register the agents of a file of JSON lines, with several processes.

    The workers run beside this process.

    Raises:
        Misuse: for unknown or repeated contexts.
        Refused: ``store.unavailable`` or ``signer.unavailable``. Reported progress is durable.
    """
    if not asked.contexts or len(set(asked.contexts)) < len(asked.contexts):
        raise Misuse("name at least one context, and each once")
    outcome = Outcome()
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, spawn, start, (settings,)) as pool:
        pieces = _pieces(file, asked.most_bytes)
        running: set[asyncio.Task[None]] = set()
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
    number = 1
    lines: list[bytes] = []
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
        given = ImportChunk(tuple(left.items()), asked.subject, asked.contexts, statuses)
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
    found: list[StatusRow] = []
    while len(found) < count:
        drawn = await status_repository.free_statuses(
            asked.database, count - len(found), asked.salts, int(asked.clock.now())
        )
        fresh = [one for one in drawn if one not in asked.pending]
        asked.pending.update(fresh)
        found += fresh
    return found


async def _write(asked: Importing, outcome: Outcome, worked: ImportResult, left: dict[int, bytes]) -> None:
    """Write all in one transaction; on a refusal, write each in its own."""
    rows = [row for _, row in worked.rows]
    if not rows:
        return
    try:
        written = await _record(asked, rows)
        outcome.registered += written
        outcome.there += len(rows) - written
    except Refused as refusal:
        if refusal.rule is Rule.STORE_UNAVAILABLE:
            raise
        for number, row in worked.rows:
            await _write_one(asked, outcome, number, row)
            del left[number]


async def _record(asked: Importing, rows: Sequence[RegistrationRow]) -> int:
    secret = await asked.discovery_secret.current()
    return await asked.database.change(agents_repository.record_registrations, rows, secret)


async def _write_one(asked: Importing, outcome: Outcome, number: int, row: RegistrationRow) -> None:
    try:
        written = await _record(asked, [row])
        outcome.registered += written
        outcome.there += 1 - written
    except Refused as refusal:
        if refusal.rule is Rule.STORE_UNAVAILABLE:
            raise
        _refuse(asked, outcome, number, refusal.findings)


def _refuse(asked: Importing, outcome: Outcome, number: int, findings: Sequence[Finding]) -> None:
    outcome.refused += 1
    asked.refuse(number, findings)
