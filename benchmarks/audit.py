"""Cost of the audit chain: ``python -m benchmarks.audit``.

A registration's transaction is written again and again, with its audit record in the chain and with the same row beside
it: no row that waits, no canonical text, no digest, no head that is moved. All records are in the chain when the time
ends. Both databases are durable. The two take turns within one run, so that a slow moment hits both, and only their
ratio means anything.

Registrations that open entries of one status list wait for each other on PostgreSQL already; those without status
entries, which the registry never makes, show the chain alone.
"""

import argparse
import asyncio
import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, insert

from issuer_service.agents.records import KeyRow, RegistrationRow
from issuer_service.agents.repository import write_all
from issuer_service.audit.records import AuditRow
from issuer_service.audit.repository import append_audit
from issuer_service.audit.service import chain_waiting
from issuer_service.db.migrations import upgrade
from issuer_service.db.tables import audit, status_lists
from issuer_service.discovery.postings_repository import DiscoverySecret
from issuer_service.status.records import CardRow, StatusRow
from sdcard.errors import Part, Where
from sdcard.io.database import Database, open_database
from tests.issuer_service.desk import key_row, seed_keys
from tests.postgres import cluster
from tests.world import key as signer_of

CONTEXTS = ("public", "internal", "diagnostic")
PATHS = tuple(f"skills.*.member-{number}" for number in range(20))
KEY = key_row(signer_of(1))
NUMBERS = itertools.count(1)
Write = Callable[[Connection, AuditRow], None]


def main() -> None:
    """Measure both databases and print."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=15, help="rounds (default 15)")
    arguments.add_argument("--count", type=int, default=100, help="transactions of each kind in a round (default 100)")
    chosen = arguments.parse_args()
    sys.stdout.write(f"{'':<46}{'chained':>10}{'beside':>10}{'ratio':>8}{'quartiles':>14}\n")
    for name, url in databases():
        for writers, has_statuses in ((1, True), (10, True), (10, False)):
            rates = asyncio.run(measure(url, writers, has_statuses, chosen.rounds, chosen.count))
            chained, beside = (statistics.median(one) for one in zip(*rates, strict=True))
            low, ratio, high = statistics.quantiles([one / other for one, other in rates], n=4)
            what = f"{name}, {writers} writers{'' if has_statuses else ', no status entries'}"
            sys.stdout.write(f"{what:<46}{chained:>8.0f}/s{beside:>8.0f}/s{ratio:>8.2f}{low:>8.2f}–{high:.2f}\n")


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def databases() -> Iterator[tuple[str, str]]:
    """A fresh one of each kind."""
    with _folder() as folder:
        url = f"sqlite:///{folder}/registry.sqlite"
        upgrade(url)
        seed_keys(url, KEY)
        yield "SQLite", url
    with cluster(crash_safe=True) as server:
        url = server.url(server.new_database())
        upgrade(url)
        seed_keys(url, KEY)
        yield "PostgreSQL", url


async def measure(url: str, writers: int, has_statuses: bool, rounds: int, count: int) -> list[tuple[float, float]]:
    """Transactions a second in each round: chained, beside."""
    database = open_database(url)
    try:
        contexts = [f"{context}-{next(NUMBERS)}" for context in CONTEXTS]  # whose lists are fresh
        lists = {context: f"{next(NUMBERS):032x}" if has_statuses else "" for context in contexts}
        if has_statuses:
            rows = [{"list_id": one, "slot": None} for one in lists.values()]
            await database.change(lambda connection: connection.execute(insert(status_lists), rows).rowcount)
        await _write(database, chain, registration(lists))
        rates = []
        for number in range(rounds + 1):
            kinds = (chain, write_beside) if number % 2 else (write_beside, chain)
            rate = {kind: await _rate(database, kind, lists, writers, count) for kind in kinds}
            rates.append((rate[chain], rate[write_beside]))
        return rates[1:]  # the first one makes connections
    finally:
        await database.close()


async def _rate(database: Database, kind: Write, lists: dict[str, str], writers: int, count: int) -> float:
    waiting = iter([registration(lists) for _ in range(count)])

    async def writer() -> None:
        for row in waiting:
            await _write(database, kind, row)

    began = time.perf_counter()
    await asyncio.gather(*(writer() for _ in range(writers)))
    await chain_waiting(database)
    return count / (time.perf_counter() - began)


async def _write(database: Database, kind: Write, row: RegistrationRow) -> None:
    secret = await DiscoverySecret(database).current()

    def work(connection: Connection) -> None:
        [entry] = write_all(connection, [row], secret)
        kind(connection, entry)

    await database.change(work)


def chain(connection: Connection, entry: AuditRow) -> None:
    """Append as the registry does."""
    append_audit(connection, entry)


def write_beside(connection: Connection, entry: AuditRow) -> None:
    """The same row, of no chain."""
    values = {name: getattr(entry, name) for name in ("at", "subject", "agent_id", "batch_id")}
    disclosed = {context: list(paths) for context, paths in entry.disclosed.items()}
    own = {"sequence": 10**9 + next(NUMBERS), "previous": "0" * 64, "digest": "0" * 64}
    connection.execute(insert(audit).values(**values, **own, event=entry.event.value, disclosed=disclosed))


def registration(lists: dict[str, str]) -> RegistrationRow:
    """A new agent with one key and an SD-Card for each of three contexts."""
    number = next(NUMBERS)
    name = f"{number:032x}"
    statuses = {context: StatusRow(list_id, number) for context, list_id in lists.items() if list_id}
    key = KeyRow(f"key-{number}", Where(Part.REQUEST))
    cards = tuple(
        CardRow(f"{context} {number}", "00" * 32, context, key.thumbprint, 2**31, statuses.get(context))
        for context in lists
    )
    return RegistrationRow(
        at=1_800_000_000,
        public_at=1_800_000_060,
        subject="team",
        agent_id=f"agent-{number}",
        card_format="a2a/1.0",
        card='{"name": "' + "x" * 2000 + '"}',
        keys=(key,),
        batch_id=name,
        kid=KEY.kid,
        cards=cards,
        disclosed=dict.fromkeys(lists, PATHS),
    )


if __name__ == "__main__":
    main()
