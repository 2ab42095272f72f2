"""The registry at size: ``python -m benchmarks.scale WHAT``.

It is seeded, so each run has the same agents.

- ``write FILE --agents N``: agents with whole cards and keys, as JSON lines, for ``sdcard registry import``.
- ``fill URL --agents N``: agents that are only found: rows and postings without a signature, in bulk, beside what is
  there. How its time grows, fills of several sizes show, each of a new database.
- ``ask URL``: how long look-ups and pages take there, over queries of every frequency; and the worst ones there are.
- ``load URL --rate R``: a registry that serves this database, asked so often a second for ten seconds, whether or not
  it has answered yet; and a bare FastAPI endpoint of the same bytes, as fast as both can.
- ``worst URL``: the slowest question, asked by many at once, and what others notice of it.
- ``statuses``: making, publishing, reading and looking up status lists of up to a million entries.
- ``size URL``: bytes of each table, and of an agent.
"""

import argparse
import asyncio
import hashlib
import itertools
import json
import math
import os
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
from cryptography.hazmat.primitives.asymmetric import ec

from benchmarks import registry
from benchmarks.work import CARD
from issuer_service.agents.audiences import decided_by
from issuer_service.container import AuditCheckpoints, Container
from issuer_service.db.migrations import upgrade
from issuer_service.discovery import postings_repository as discovery
from issuer_service.discovery import repository as discovery_repository
from issuer_service.discovery.postings_repository import DiscoverySecret
from issuer_service.discovery.records import START, Audience, DiscoveryQuery
from issuer_service.keys.ring import KeyEncryptionKey, KeyRing, KeysInUse, Vault
from sdcard import InMemorySigner
from sdcard.errors import Part, Where
from sdcard.io.database import open_database
from sdcard.io.system import SystemClock
from sdcard.status_list import pack_statuses, parse_status_list

T = TypeVar("T")

SKILLS = 1_000
"""Different ones, of which the n-th most frequent is had by a share of agents that falls with n (Zipf)."""
WORDS = 5_000
AUDIENCES = (Audience("public", ""), Audience("internal", ""))
AT_ONCE = 100_000
FILLER = "x" * 2_000
CACHE_KIB = 262_144
FOREVER = 2**40
_NUMBERS = range(1, SKILLS + 1)
_SKILL_WEIGHTS = list(itertools.accumulate(1 / n for n in _NUMBERS))
_WORD_WEIGHTS = list(itertools.accumulate(1 / n for n in range(1, WORDS + 1)))


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The slope of a straight line through logarithms: 1 is linear, 0 is flat."""
    return statistics.linear_regression([math.log(one) for one in sizes], [math.log(one) for one in costs]).slope


# -- agents with cards -----------------------------------------------------------------------------------------------


def write(file: Path, agents: int, seed: int) -> None:
    """Agents with whole cards.

    Keys follow from the seed: nobody may use them for anything else.
    """
    with file.open("w") as stream:
        for number in range(agents):
            stream.write(json.dumps(_line(number, seed)) + "\n")


def _line(number: int, seed: int) -> dict[str, Any]:
    chosen, card = random.Random(f"{seed}/{number}"), json.loads(CARD)
    card["name"] = f"Agent {number}"
    ids = dict[int, None]()  # each once: a card has no two skills of one id
    while len(ids) < len(card["skills"]):
        ids.update(dict.fromkeys(chosen.choices(_NUMBERS, cum_weights=_SKILL_WEIGHTS)))
    for skill, skill_id in zip(card["skills"], ids, strict=True):
        skill["id"] = f"skill-{skill_id}"
        skill["tags"] = sorted(
            {f"word{n}" for n in chosen.choices(range(1, WORDS + 1), cum_weights=_WORD_WEIGHTS, k=3)}
        )
    key = ec.derive_private_key(chosen.getrandbits(255) + 1, ec.SECP256R1())
    return {"agent_id": f"imported-{number}", "card": card, "public_key": dict(InMemorySigner(key).public_key.to_jwk())}


# -- agents that are only found --------------------------------------------------------------------------------------


def _found_rows(numbers: range, seed: int, secret: bytes, decided: str) -> Iterator[tuple[tuple[Any, ...], ...]]:
    """Yield each agent's rows of four tables.

    They are agents, batches, discovery_cards (without filler) and discovery_postings.
    """
    for number in numbers:
        chosen, name = random.Random(f"{seed}/{number}"), f"filled-{number}"
        skills = {f"skills:skill-{n}" for n in chosen.choices(_NUMBERS, cum_weights=_SKILL_WEIGHTS, k=2)}
        words = {f"text:word{n}" for n in chosen.choices(range(1, WORDS + 1), cum_weights=_WORD_WEIGHTS, k=3)}
        terms = ("text:agent", *sorted(skills | words))
        batch = hashlib.sha256(f"{seed}/{number}".encode()).hexdigest()[:32]
        agent = (name, name, "benchmark", "a2a-1.0", "{}", 1, 1, None, None, batch, None, None, None)
        cards, postings = [], []
        for audience in AUDIENCES:
            position = discovery.place(secret, name, audience)
            hashes = discovery.hash_terms(secret, audience, terms)
            packed = b"".join(term.to_bytes(8, "big") for term in hashes)
            size = len(name) + len(FILLER)
            found = (position, name, batch, audience.context, "", 0, None, decided, FOREVER, FOREVER, size)
            cards.append((*found, "{}", None, packed, name))
            postings += [(term, position) for term in hashes]
        yield (agent,), ((batch, name, 1),), tuple(cards), tuple(postings)


TABLES = {
    "agents": ("agent_id", "folded_id", "subject", "card_format", "card", "registered_at", "updated_at", "asked",
               "possession", "batch_id", "card_version", "content", "deleted_at"),
    "batches": ("batch_id", "agent_id", "issued_at"),
    "discovery_cards": ("position", "agent_id", "batch_id", "context", "partner", "status", "until", "decided_by",
                        "renew_at", "expires_at", "size", "holder_key", "disclose", "terms", "sd_card"),
    "discovery_postings": ("term", "position"),
}  # fmt: skip


async def fill(url: str, agents: int, seed: int) -> None:
    """Make all rows, and write each table in the order of its key.

    This is how an index is built.

    In the order in which they are made, nearly each row of a large table is written to other pages than all others of
    its transaction, and each row of a small one is not.
    """
    database = open_database(url)
    secret = await DiscoverySecret(database).current()
    (first,) = await database.read(lambda c: c.exec_driver_sql("SELECT count(*) FROM agents").one())
    await database.close()
    put, close = await (_sqlite if url.startswith("sqlite") else _postgresql)(url)
    ring = KeyRing(database, Vault(KeyEncryptionKey(bytes(32))), SystemClock())  # opens nothing
    decided = decided_by(
        Container(registry.ISSUER, ring, database, AuditCheckpoints(Path())), KeysInUse({}, {}, frozenset())
    )
    began = time.process_time(), time.perf_counter()

    def tell(what: str) -> None:
        busy, took = time.process_time() - began[0], time.perf_counter() - began[1]
        _print(f"{what:20}  {took:8.1f} s, of processor time {busy:8.1f} s")

    with closing(sqlite3.connect("", isolation_level=None)) as aside:  # a file without a name, which ends with it
        aside.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
        for table, columns in TABLES.items():
            aside.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
        aside.execute("BEGIN")
        for made in _found_rows(range(first, first + agents), seed, secret, decided):
            for table, rows in zip(TABLES, made, strict=True):
                aside.executemany(_insertion(table), rows)
        aside.execute("COMMIT")
        tell("made")
        for table in TABLES:
            in_order = aside.execute(f"SELECT * FROM {table} ORDER BY 1, 2")
            while part := in_order.fetchmany(AT_ONCE):
                is_filled = table == "discovery_cards"
                await put(table, [(*row[:-1], row[-1] + FILLER) for row in part] if is_filled else part)
            tell(table)
    await close()
    tell(f"{agents} agents")


def _insertion(table: str) -> str:
    columns = TABLES[table]
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


async def _sqlite(url: str) -> tuple[Callable[[str, list[Any]], Any], Callable[[], Any]]:
    connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    for pragma in ("journal_mode=WAL", "synchronous=FULL", f"cache_size=-{CACHE_KIB}"):
        connection.execute(f"PRAGMA {pragma}")

    async def put(table: str, rows: list[Any]) -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(_insertion(table), rows)
        connection.execute("COMMIT")

    async def close() -> None:
        connection.execute("ANALYZE")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()

    return put, close


async def _postgresql(url: str) -> tuple[Callable[[str, list[Any]], Any], Callable[[], Any]]:
    connection = await asyncpg.connect(url.replace("postgresql+asyncpg", "postgresql"))

    async def put(table: str, rows: list[Any]) -> None:
        await connection.copy_records_to_table(table, records=rows, columns=TABLES[table])

    async def close() -> None:
        await connection.execute("VACUUM ANALYZE")
        await connection.close()

    return put, close


# -- asking ----------------------------------------------------------------------------------------------------------

QUESTIONS: dict[str, Callable[[int], tuple[str, ...]]] = {
    "a skill that few have": lambda n: (f"skills:skill-{SKILLS - n % 100}",),
    "a frequent skill": lambda n: (f"skills:skill-{1 + n % 10}",),
    "a skill and a word": lambda n: (f"skills:skill-{1 + n % 50}", f"text:word{1 + n % 20}"),
    "a word that all have": lambda n: ("text:agent",),
    "two that rarely meet": lambda n: (f"skills:skill-{900 + n % 100}", f"text:word{4000 + n % 900}"),
    "worst: many frequent ones": lambda n: ("text:agent", *(f"text:word{k}" for k in range(1, 31)), "skills:skill-1"),
    "nobody": lambda n: (f"skills:none-{n}",),
}


async def ask(url: str, rounds: int) -> None:
    """Pages of ten, each question with other values, each from another place on."""
    database, chosen = open_database(url), random.Random(7)
    secret = await DiscoverySecret(database).current()
    for name, terms in QUESTIONS.items():
        times, costs = [], []
        for number in range(rounds):
            after = chosen.getrandbits(62) if number % 2 else START
            query = DiscoveryQuery(AUDIENCES[number % 2], terms(number), after, 10, 10)
            began, busy = time.perf_counter(), time.process_time()
            await discovery_repository.find_agents(database, secret, query)
            times.append(time.perf_counter() - began)
            costs.append(time.process_time() - busy)
        times.sort()
        cost = 1e3 * statistics.median(costs)
        p50, p95, last = (1e3 * times[min(rounds - 1, int(share * rounds))] for share in (0.5, 0.95, 1))
        _print(f"{name:28} CPU {cost:7.3f} ms  p50 {p50:7.3f} ms  p95 {p95:7.3f} ms  longest {last:7.3f} ms")
    await database.close()


# -- a registry that serves it ---------------------------------------------------------------------------------------


async def load(url: str, rate: int) -> None:
    """Requests begin when they are due, and their time runs from then on."""
    with tempfile.TemporaryDirectory() as name, registry._registry(Path(name), url) as server:
        token = await registry._token(url)
        asked = [_question(token, n) for n in range(200)]
        await registry._rate(server, [(one, 200) for one in asked], 4)
        busy = server.cpu()
        times = await _open_loop(server.port, asked, rate)
        busy = 1e6 * (server.cpu() - busy) / len(times)
        p50, p95, p99 = (1e3 * times[int(share * len(times))] for share in (0.5, 0.95, 0.99))
        _print(f"{rate} a second: p50 {p50:.1f} ms, p95 {p95:.1f} ms, p99 {p99:.1f} ms of {len(times)} answers")
        _print(f"processor time of a request: {busy:.0f} µs; others that wanted a processor: {os.getloadavg()[0]:.1f}")
        connection = registry.Connection(*await asyncio.open_connection("127.0.0.1", server.port))
        answer = await connection.ask(asked[0], 200)
        connection.close()
        Path(name, "answer.json").write_bytes(answer)
        with registry._serving(registry._BARE, [str(Path(name, "answer.json"))], dict(os.environ)) as other:
            for clients in (1, 8):
                pairs = [
                    (await _cost(other, asked[0], clients), await _cost(server, asked[0], clients)) for _ in range(20)
                ]
                for name, of in ("rate", 0), ("processor time", 1):
                    floor, ours = (min(one[place][of] for one in pairs) for place in (0, 1))
                    ratio = statistics.median(one[0][of] / one[1][of] for one in pairs)
                    _print(
                        f"{clients} at once, {name}: bare {floor:.0f} µs, ours {ours:.0f} µs, {ratio:.2f} of its rate"
                    )
        _print(f"{len(answer)} bytes an answer")


async def _cost(server: registry.Server, request: bytes, clients: int, count: int = 200) -> tuple[float, float]:
    """Microseconds a request, by the clock and by the server's processor."""
    busy = server.cpu()
    rate = await registry._rate(server, [(request, 200)] * count, clients)
    return 1e6 / rate, 1e6 * (server.cpu() - busy) / count


async def worst(url: str, seconds: int = 15) -> None:
    """Send the slowest query from 24 clients, and quick ones from another.

    The 24 clients send without pause.
    """
    slow: Counter[int] = Counter()
    longest, times, ends_at = 0.0, list[float](), math.inf
    with tempfile.TemporaryDirectory() as name, registry._registry(Path(name), url) as server:
        token = await registry._token(url)
        text = " ".join(f"word{number}" for number in range(1, 32))
        body = {"query": {"text": text, "skills": ["skill-1"]}, "context": "public", "max_results": 10}
        question = registry._request("POST", "/agents/discover", token, json.dumps(body).encode())

        async def asks() -> None:
            nonlocal longest
            connection = registry.Connection(*await asyncio.open_connection("127.0.0.1", server.port))
            while time.perf_counter() < ends_at:
                began = time.perf_counter()
                slow[(await connection.send(question))[0]] += 1
                longest = max(longest, time.perf_counter() - began)
            connection.close()

        quick = registry.Connection(*await asyncio.open_connection("127.0.0.1", server.port))
        await quick.ask(_question(token, 99), 200)
        began = time.perf_counter()
        alone, _ = await quick.send(question)
        quick.close()
        _print(f"the slowest one alone: {alone} after {1e3 * (time.perf_counter() - began):.0f} ms")
        ends_at = time.perf_counter() + seconds
        asking = asyncio.gather(*(asks() for _ in range(24)))
        while time.perf_counter() < ends_at:
            await asyncio.sleep(0.1)
            began = time.perf_counter()
            quick = registry.Connection(*await asyncio.open_connection("127.0.0.1", server.port))
            await quick.ask(_question(token, len(times)), 200)
            quick.close()
            times.append(1e3 * (time.perf_counter() - began))
        await asking
    times.sort()
    _print(
        f"24 at once: {dict(slow)}, longest {longest:.1f} s; others meanwhile: p50 {times[len(times) // 2]:.0f} ms, "
        f"p95 {times[int(0.95 * len(times))]:.0f} ms of {len(times)}, all 200"
    )


def _question(token: str, number: int) -> bytes:
    body = {"query": {"skills": [f"skill-{1 + number % 100}"]}, "context": "public", "max_results": 10}
    return registry._request("POST", "/agents/discover", token, json.dumps(body).encode())


async def _open_loop(port: int, asked: Sequence[bytes], rate: int, seconds: int = 10) -> list[float]:
    idle: asyncio.Queue[registry.Connection] = asyncio.Queue()
    for _ in range(64):
        idle.put_nowait(registry.Connection(*await asyncio.open_connection("127.0.0.1", port)))
    begin, times = time.perf_counter() + 0.1, list[float]()

    async def one(number: int, due: float) -> None:
        await asyncio.sleep(max(0, due - time.perf_counter()))
        connection = await idle.get()
        await connection.ask(asked[number % len(asked)], 200)
        times.append(time.perf_counter() - due)
        idle.put_nowait(connection)

    await asyncio.gather(*(one(number, begin + number / rate) for number in range(rate * seconds)))
    while not idle.empty():
        idle.get_nowait().close()
    return sorted(times)


# -- status lists ----------------------------------------------------------------------------------------------------


def status_lists() -> None:
    """Measure lists with one revoked entry in a hundred.

    The figures are CPU time and the exponents that fit.
    """
    steps: dict[str, list[float]] = {"pack and compress": [], "read": [], "look all up": []}
    sizes = (10_000, 100_000, 1_000_000)
    for entries in sizes:
        revoked = dict.fromkeys(random.Random(entries).sample(range(entries), entries // 100), 1)
        packed = _timed(steps["pack and compress"], lambda: pack_statuses(revoked, entries, 1))  # noqa: B023
        claim = packed.to_claim()
        read = _timed(steps["read"], lambda: parse_status_list(claim, Where(Part.STATUS_LIST), 2**20))  # noqa: B023
        _timed(steps["look all up"], lambda: sum(read.status(one) or 0 for one in range(entries)))  # noqa: B023
    for name, costs in steps.items():
        shown = "  ".join(f"{size}: {1e3 * cost:.2f} ms" for size, cost in zip(sizes, costs, strict=True))
        _print(f"{name:20}{shown}  exponent {exponent(sizes, costs):.2f}")


def _timed(costs: list[float], do: Callable[[], T]) -> T:
    best, result = math.inf, do()
    for _ in range(3):
        began = time.process_time()
        result = do()
        best = min(best, time.process_time() - began)
    costs.append(best)
    return result


# -- how much --------------------------------------------------------------------------------------------------------


async def size(url: str) -> None:
    """Bytes of each table with its indices."""
    database = open_database(url)
    if url.startswith("sqlite"):
        asked = "SELECT name, sum(pgsize) FROM dbstat GROUP BY name ORDER BY 2 DESC"
    else:
        asked = "SELECT relname, pg_total_relation_size(relid) FROM pg_catalog.pg_statio_user_tables ORDER BY 2 DESC"
    try:
        rows = await database.read(lambda c: list(c.exec_driver_sql(asked)))
        (agents,) = await database.read(lambda c: c.exec_driver_sql("SELECT count(*) FROM agents").one())
    finally:
        await database.close()
    total = sum(row[1] for row in rows)
    for name, these in rows:
        if these > total / 200:
            _print(f"{name:36}{these / 1e6:10.1f} MB{these / max(1, agents):10.0f} B an agent")
    _print(f"{'together':36}{total / 1e6:10.1f} MB{total / max(1, agents):10.0f} B an agent, {agents} agents")


def main() -> None:
    """Do one of these."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("write", "fill", "ask", "load", "worst", "statuses", "size"))
    parser.add_argument("where", nargs="?", default="", help="a file, or the URL of a database")
    parser.add_argument("--agents", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--rate", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    if chosen.what == "write":
        write(Path(chosen.where), chosen.agents, chosen.seed)
    elif chosen.what == "fill":
        upgrade(chosen.where)
        asyncio.run(fill(chosen.where, chosen.agents, chosen.seed))
    elif chosen.what == "ask":
        asyncio.run(ask(chosen.where, chosen.rounds))
    elif chosen.what == "load":
        asyncio.run(load(chosen.where, chosen.rate))
    elif chosen.what == "worst":
        asyncio.run(worst(chosen.where))
    elif chosen.what == "statuses":
        status_lists()
    else:
        asyncio.run(size(chosen.where))


if __name__ == "__main__":
    main()
