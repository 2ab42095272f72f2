"""Additions to a full record of used nonces, in three kinds of store.

The stores are memory, SQLite and PostgreSQL.

``python -m benchmarks.used_nonces [--entries N] [--rounds N] [--url URL]``. Half of the entries have expired when the
rounds begin, so each addition also makes room. For PostgreSQL a proxy counts round trips: how often the client sends
after the server has answered. Times are of this machine and moment.
"""

import argparse
import asyncio
import hashlib
import platform
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, insert, make_url, text

from sdcard.io.database import Database
from sdcard.io.replay_cache import MemoryChallengeRecord, _UsedNonces
from sdcard.io.sql_replay_cache import _CHALLENGES, SqlChallengeRecord, open_records
from sdcard.io.system import SystemSalts
from sdcard.io.used_nonces import CLOCK_DIFFERENCE

AUDIENCE = "https://verifier.example"
NOW = 1_800_000_000
LATER = NOW + CLOCK_DIFFERENCE + 301


def entries(count: int) -> Iterable[tuple[bytes, float]]:
    """Digests and ends: the first half expires before ``LATER``."""
    for number in range(count):
        until = NOW + 300 * 2 * number / count if 2 * number < count else LATER + 300
        yield hashlib.sha256(number.to_bytes(8)).digest(), until


def measure_memory(count: int, rounds: int) -> list[float]:
    """Seconds of each addition."""
    record = MemoryChallengeRecord(AUDIENCE, SystemSalts(), capacity=count)
    used: _UsedNonces = record._own.used
    for digest, until in entries(count):
        used.add(digest, until, NOW)
    took = []
    for _ in range(rounds):
        challenge = record.issue(LATER)
        began = time.perf_counter()
        assert record.consume(challenge, LATER)
        took.append(time.perf_counter() - began)
    return took


def _insert(rows: list[dict[str, Any]], connection: Connection) -> None:
    connection.execute(insert(_CHALLENGES), rows)


async def fill(database: Database, count: int) -> None:
    """Add rows in large steps, as if they had been answered."""
    rows = [{"digest": digest, "until": until, "slot": slot} for slot, (digest, until) in enumerate(entries(count))]
    for start in range(0, count, 50_000):
        some = rows[start : start + 50_000]
        await database.migrate(partial(_insert, some))
    if database.engine.dialect.name == "postgresql":
        name = _CHALLENGES.name
        await database.migrate(lambda connection: connection.execute(text(f"SELECT setval('{name}_slots', {count})")))
        await database.migrate(lambda connection: connection.execute(text(f"ANALYZE {name}")))


async def measure_sql(url: str, count: int, rounds: int, trips: "Trips | None" = None) -> tuple[list[float], float]:
    """Seconds of each addition, and round trips for each where they are counted."""
    database = await open_records(url)
    try:
        record = SqlChallengeRecord(database, AUDIENCE, SystemSalts(), capacity=count)
        await fill(database, count)
        challenges = [await record.issue(LATER) for _ in range(rounds + 10)]
        for challenge in challenges[rounds:]:
            assert await record.consume(challenge, LATER)
        before, took = trips.count if trips else 0, []
        for challenge in challenges[:rounds]:
            began = time.perf_counter()
            assert await record.consume(challenge, LATER)
            took.append(time.perf_counter() - began)
        return took, ((trips.count if trips else 0) - before) / rounds
    finally:
        await database.close()


class Trips:
    """Round trips through a proxy: how often the client sends after an answer."""

    def __init__(self) -> None:
        self.count = 0


@asynccontextmanager
async def proxied(url: str, trips: Trips) -> AsyncIterator[str]:
    """The URL of a proxy to the same server, which counts."""
    parsed = make_url(url)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(parsed.host, parsed.port or 5432)
        answered = True

        async def forward(source: asyncio.StreamReader, sink: asyncio.StreamWriter, asks: bool) -> None:
            nonlocal answered
            while data := await source.read(65_536):
                if asks and answered:
                    trips.count += 1
                answered = not asks
                sink.write(data)
                await sink.drain()
            sink.close()

        await asyncio.gather(forward(reader, back, True), forward(there, writer, False), return_exceptions=True)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        port = server.sockets[0].getsockname()[1]
        yield parsed.set(host="127.0.0.1", port=port).render_as_string(hide_password=False)
    finally:
        server.close()


def show(name: str, took: list[float], more: str = "") -> None:
    """Format a line: median and 99th percentile."""
    ordered = sorted(took)
    late = ordered[int(0.99 * len(ordered))]
    print(f"{name:10}  median {1e6 * statistics.median(ordered):9.1f} µs   99 % {1e6 * late:9.1f} µs   {more}")


async def measure_postgresql(url: str, count: int, rounds: int) -> None:
    """Through a proxy that counts round trips, and without it."""
    trips = Trips()
    async with proxied(url, trips) as counted:
        took, each = await measure_sql(counted, count, rounds, trips)
    show("PostgreSQL", took, f"{each:.2f} round trips for each")


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--entries", type=int, default=1_000_000, help="stored entries (default 1000000)")
    arguments.add_argument("--rounds", type=int, default=2_000, help="additions (default 2000)")
    arguments.add_argument("--url", help="an empty PostgreSQL database; without one PostgreSQL is left out")
    chosen = arguments.parse_args()
    processor = next((line.split(":")[1].strip() for line in _cpu() if line.startswith("model name")), "unknown")
    print(f"{chosen.entries:,} stored entries, {chosen.rounds:,} additions")
    print(f"{processor}, Python {platform.python_version()}")
    show("memory", measure_memory(chosen.entries, chosen.rounds))
    with tempfile.TemporaryDirectory() as folder:
        took, _ = asyncio.run(measure_sql(f"sqlite:///{folder}/records.sqlite", chosen.entries, chosen.rounds))
        show("SQLite", took, "one transaction, in the process")
    if chosen.url:
        asyncio.run(measure_postgresql(chosen.url, chosen.entries, chosen.rounds))


def _cpu() -> list[str]:
    file = Path("/proc/cpuinfo")
    return file.read_text().splitlines() if file.exists() else []


if __name__ == "__main__":
    main()
