"""Work of an import's process on some lines: everything up to the transaction.

It reads and plans as a registration does, leaves out agents that are registered so already, and issues the Batches of
the others with the status entries that it was given. It writes nothing.
"""

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from issuer_service.access import Caller
from issuer_service.importing.lines import read_line
from issuer_service.keys.opening import open_vault
from issuer_service.registration.reading import Registration
from issuer_service.registration.service import (
    Change,
    asked_for,
    check_work,
    content_of,
    issue_batch,
    subjects_of,
    terms_of,
)
from issuer_service.settings import ProofPolicy, Settings
from issuer_service.stores.rows.agents import RegisteredRow, RegistrationRow
from issuer_service.stores.rows.audit import AuditEvent, Possession
from issuer_service.stores.rows.statuses import StatusRow
from issuer_service.stores.sql import open_store
from issuer_service.wiring import Wiring, build_wiring
from sdcard.errors import Finding, Refused
from sdcard.rules import Rule

_IMPORTED = Change(AuditEvent.AGENT_REGISTERED, Possession.NOT_PROVEN, None, None)


@dataclass(frozen=True, slots=True)
class Lines:
    """Some lines of the file, and where their status entries are.

    Attributes:
        lines: each with its number.
        subject: who will own the agents.
        contexts: in which each is disclosed.
        statuses: as many entries as there are lines and contexts.
    """

    lines: tuple[tuple[int, bytes], ...]
    subject: str
    contexts: tuple[str, ...]
    statuses: Sequence[StatusRow]


@dataclass(frozen=True, slots=True)
class Worked:
    """Results of lines: rows to write in order, lines without work, and refusals."""

    rows: tuple[tuple[int, RegistrationRow], ...]
    there: tuple[int, ...]
    refused: tuple[tuple[int, tuple[Finding, ...]], ...]


@dataclass(frozen=True, slots=True)
class _Process:
    wiring: Wiring
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


async def _open(settings: Settings) -> Wiring:
    store = open_store(settings.database_url)
    try:
        return build_wiring(settings, await open_vault(settings, store))
    finally:
        await store.close()


def work(given: Lines) -> Worked:
    """Do it, in a process that was prepared."""
    (process,) = _process
    return process.loop.run_until_complete(work_on(process.wiring, given))


async def work_on(wiring: Wiring, given: Lines) -> Worked:
    """Do it with this wiring."""
    now = wiring.clock.now()
    terms, keys = await terms_of(wiring, now, ProofPolicy.ACCEPTED), await wiring.keys.current()
    caller, read = Caller(given.subject, "", {}), list[tuple[int, Registration]]()
    refused = list[tuple[int, tuple[Finding, ...]]]()
    for number, line in given.lines:
        try:
            registration = read_line(line, given.contexts, terms, wiring.bounds.body_bytes)
            check_work(registration, wiring.bounds)
            read.append((number, registration))
        except Refused as refusal:
            refused.append((number, tuple(refusal.findings)))
    known = dict(await wiring.store.registered([one.agent_id for _, one in read]))
    new, there = list[tuple[int, Registration]](), list[int]()
    for number, registration in read:
        as_asked = RegisteredRow(given.subject, content_of(registration.card), asked_for(registration))
        if known.get(registration.agent_id) == as_asked:
            there.append(number)
        else:
            known[registration.agent_id] = as_asked  # for a later line of the same agent
            new.append((number, registration))
    rows, subjects = [], await subjects_of(wiring)
    for place, (number, registration) in enumerate(new):
        entries = given.statuses[place * len(given.contexts) : (place + 1) * len(given.contexts)]
        try:
            row, _ = issue_batch(wiring, keys, subjects, caller, registration, _IMPORTED, entries, now)
        except Refused as refusal:
            if refusal.rule in (Rule.SIGNER_UNAVAILABLE, Rule.STORE_UNAVAILABLE):
                raise
            refused.append((number, tuple(refusal.findings)))
        else:
            rows.append((number, row))
    return Worked(tuple(rows), tuple(there), tuple(refused))
