"""The registry under load: ``python -m benchmarks.registry``.

Ratios within one run, on both databases.

A registry runs in a process of its own, as ``sdcard serve`` does, and is asked over loopback by keep-alive connections
with no more HTTP of their own than they need. Beside it, in the same run:

- a registration's floor: one signature for each SD-Card with ``cryptography`` alone, and one durable transaction that
  inserts the very rows that a registration wrote, all indices kept, by the driver alone;
- discovery's floor: a bare FastAPI endpoint in a process like the registry's that answers the same bytes.

At last, the memory of the registry's process after many requests of all kinds, against its memory after a tenth.
"""

import argparse
import asyncio
import itertools
import json
import os
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from sqlalchemy import Table

from benchmarks.work import CARD
from issuer_service.access import Scope, create_token
from issuer_service.db.migrations import upgrade
from issuer_service.db.tables import metadata
from sdcard import InMemorySigner
from sdcard.encoding import encode_base64url
from sdcard.io.database import open_database
from sdcard.io.key_files import create_private_file
from sdcard.io.system import SystemClock, SystemSalts
from tests.postgres import cluster, query

ISSUER = "http://127.0.0.1:8080"
CONTEXTS = ("public", "internal")
WARM = 50
NUMBERS = itertools.count(1)
Rows = dict[str, list[tuple[Any, ...]]]
Driver = tuple[Callable[[Rows], Awaitable[None]], Callable[[], Awaitable[None]]]

_SERVES = """
import sys
from issuer_service.settings import Settings
from issuer_service.server import serve
serve(Settings(port=int(sys.argv[1])))
"""
_BARE = """
import sys, uvicorn
from fastapi import FastAPI, Response
app, answer = FastAPI(), open(sys.argv[2], "rb").read()
@app.post("/agents/discover")
async def same() -> Response:
    return Response(answer, 200, {"Cache-Control": "no-store"}, "application/json")
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", access_log=False, loop="uvloop")
"""


@dataclass(frozen=True, slots=True)
class Server:
    """A process that serves HTTP on loopback."""

    port: int
    process: "subprocess.Popen[bytes]"

    def cpu(self) -> float:
        """Processor seconds of the thread that answers, with its kernel time."""
        return int(Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[0]) / 1e9

    def memory(self) -> int:
        """Bytes that the process holds now."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")


class Connection:
    """A keep-alive connection: requests one after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def ask(self, request: bytes, status: int) -> bytes:
        """The body of the answer, which must have this status."""
        found, body = await self.send(request)
        assert found == status, body
        return body

    async def send(self, request: bytes) -> tuple[int, bytes]:
        """Status and body of the answer."""
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
        return int(head[9:12]), await self._reader.readexactly(int(fields[b"content-length"]))

    def close(self) -> None:
        self._writer.close()


def main() -> None:
    """Measure both databases and print."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--agents", type=int, default=400, help="registrations in a round (default 400)")
    arguments.add_argument("--rounds", type=int, default=3, help="rounds (default 3)")
    arguments.add_argument("--requests", type=int, default=50_000, help="requests for the memory (default 50000)")
    chosen = arguments.parse_args()
    for name, url, floor_url in databases():
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(_run(name, url, floor_url, Path(folder), chosen))


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def databases() -> Iterator[tuple[str, str, str]]:
    """Two fresh and durable ones of each kind: for the registry and for the floor."""
    with _folder() as folder:
        urls = [f"sqlite:///{folder}/{name}.sqlite" for name in ("registry", "floor")]
        for url in urls:
            upgrade(url)
        yield "SQLite", urls[0], urls[1]
    with cluster(crash_safe=True) as server:
        urls = [server.url(server.new_database()) for _ in range(2)]
        for url in urls:
            upgrade(url)
        yield "PostgreSQL", urls[0], urls[1]


async def _run(name: str, url: str, floor_url: str, folder: Path, chosen: argparse.Namespace) -> None:
    with _registry(folder, url) as server:
        token = await _token(url)
        await _registrations(server, token, WARM, 1)
        ratios: dict[int, list[tuple[float, float]]] = {1: [], 8: []}
        for _ in range(chosen.rounds):
            for clients, measured in ratios.items():
                before = await asyncio.to_thread(_dump, url)
                rate = await _registrations(server, token, chosen.agents, clients)
                floor = await _floor(floor_url, _written(before, await asyncio.to_thread(_dump, url)), chosen.agents)
                measured.append((rate, floor))
        for clients, measured in ratios.items():
            _print(f"{name}, registering, {clients} at once", measured)
        await _discovery(name, server, token, folder, chosen.rounds)
        await _memory(name, server, token, chosen.requests)


def _print(what: str, measured: Sequence[tuple[float, float]]) -> None:
    rate, floor = (statistics.median(one) for one in zip(*measured, strict=True))
    ratios = [one / other for one, other in measured]
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    sys.stdout.write(f"{what:<44}{rate:>8.0f}/s{floor:>10.0f}/s{statistics.median(ratios):>8.2f}   {spread}\n")
    sys.stdout.flush()


@contextmanager
def _registry(folder: Path, url: str) -> Iterator[Server]:
    create_private_file(
        folder / "key-encryption.key", encode_base64url(bytes(32))
    )  # opens a database that is measured again
    settings = {
        "SDCARD_DATABASE_URL": url,
        "SDCARD_ISSUER": ISSUER,
        "SDCARD_KEY_ENCRYPTION_KEY_FILE": str(folder / "key-encryption.key"),
        "SDCARD_AUDIT_CHECKPOINTS": str(folder / "audit.checkpoints"),
        "SDCARD_ADDRESS_REQUESTS_PER_MINUTE": "0",
        "SDCARD_BAD_TOKENS_PER_MINUTE": "0",
        "SDCARD_TOKEN_REQUESTS_PER_MINUTE": "0",
        "SDCARD_LOG_LEVEL": "warning",
    }
    with _serving(_SERVES, [], {**os.environ, **settings}) as server:
        yield server


@contextmanager
def _serving(script: str, arguments: Sequence[str], environment: dict[str, str]) -> Iterator[Server]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen([sys.executable, "-c", script, str(port), *arguments], env=environment) as process:
        try:
            for _ in range(600):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            yield Server(port, process)
        finally:
            process.terminate()


async def _token(url: str) -> str:
    database, now = open_database(url), SystemClock().now()
    try:
        return await create_token(database, "load", list(Scope), {}, int(now) + 86_400, now, SystemSalts())
    finally:
        await database.close()


def _request(method: str, path: str, token: str = "", body: bytes = b"") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}"]
    if token:
        lines += [f"Authorization: Bearer {token}", "Content-Type: application/json"]
    return "\r\n".join([*lines, "", ""]).encode() + body


def _registration(token: str) -> bytes:
    card, number = json.loads(CARD), next(NUMBERS)
    card["skills"][0]["id"] = f"common-{number % 100}"
    body = {
        "agent_id": f"agent-{number}",
        **{name: card[name] for name in ("name", "description", "version")},
        "public_key": dict(InMemorySigner(ec.generate_private_key(ec.SECP256R1())).public_key.to_jwk()),
        "disclosure_contexts": [{"context": context} for context in CONTEXTS],
        "card": card,
    }
    return _request("POST", "/agents/register", token, json.dumps(body).encode())


async def _rate(server: Server, requests: Sequence[tuple[bytes, int]], clients: int) -> float:
    """Answers a second, of so many connections together."""
    waiting = iter(requests)

    async def client(connection: Connection) -> None:
        for request, status in waiting:
            await connection.ask(request, status)

    connections = [Connection(*await asyncio.open_connection("127.0.0.1", server.port)) for _ in range(clients)]
    began = time.perf_counter()
    await asyncio.gather(*map(client, connections))
    taken = time.perf_counter() - began
    for connection in connections:
        connection.close()
    return len(requests) / taken


async def _registrations(server: Server, token: str, count: int, clients: int) -> float:
    return await _rate(server, [(_registration(token), 201) for _ in range(count)], clients)


def _dump(url: str) -> Rows:
    """Every row of every table, in the order in which they came."""
    if url.startswith("sqlite"):
        with sqlite3.connect(_file(url)) as connection:
            return {name: connection.execute(f'SELECT * FROM "{name}"').fetchall() for name in metadata.tables}
    return dict(zip(metadata.tables, query(url, *(f'SELECT * FROM "{name}"' for name in metadata.tables)), strict=True))


def _written(before: Rows, after: Rows) -> Rows:
    """Select the new rows.

    Rows that were only changed, such as the head of the audit chain, do not count.
    """
    written = {
        table.name: [row for row in after[table.name] if _identity(table, row) not in known]
        for table in metadata.sorted_tables
        for known in [{_identity(table, row) for row in before[table.name]}]
    }
    return {**written, **_as_they_came(written)}


def _as_they_came(written: Rows) -> Rows:
    """Order the rows of two tables by their transactions.

    SQLite gives these tables in the order of their keys. Written in that order, the rows of one transaction would be
    neighbours, and would touch a third of the pages that the rows of one agent do.
    """
    agents = {row[0]: number for number, row in enumerate(written["agents"])}
    places = {row[0]: agents[row[1]] for row in written["discovery_cards"]}
    cards = sorted(written["discovery_cards"], key=lambda row: places[row[0]])
    postings = sorted(written["discovery_postings"], key=lambda row: places[row[1]])
    return {"discovery_cards": cards, "discovery_postings": postings}


def _identity(table: Table, row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(value for column, value in zip(table.columns, row, strict=True) if column.primary_key)


async def _floor(url: str, written: Rows, count: int) -> float:
    """Repeat the necessary work of a registration, and return its rate a second.

    The work is its signatures and its rows, durably written.
    """
    key, message = ec.generate_private_key(ec.SECP256R1()), b"x" * 1_000
    shares = [
        {name: rows[number * len(rows) // count : (number + 1) * len(rows) // count] for name, rows in written.items()}
        for number in range(count)
    ]
    write, close = await (_sqlite if url.startswith("sqlite") else _postgresql)(url)
    began = time.perf_counter()
    for share in shares:
        for _ in CONTEXTS:
            key.sign(message, ec.ECDSA(SHA256()))
        await write(share)
    taken = time.perf_counter() - began
    await close()
    return count / taken


async def _sqlite(url: str) -> Driver:
    connection = sqlite3.connect(_file(url), isolation_level=None)
    for pragma in ("journal_mode=WAL", "synchronous=FULL"):
        connection.execute(f"PRAGMA {pragma}")

    async def write(share: Rows) -> None:
        connection.execute("BEGIN IMMEDIATE")
        for name, rows in share.items():
            if rows:
                marks = ", ".join("?" * len(rows[0]))
                connection.executemany(f'INSERT INTO "{name}" VALUES ({marks})', rows)
        connection.execute("COMMIT")

    async def close() -> None:
        connection.close()

    return write, close


async def _postgresql(url: str) -> Driver:
    connection = await asyncpg.connect(url.replace("postgresql+asyncpg", "postgresql"))
    await connection.execute("SET session_replication_role = replica")  # rows stand without those they refer to

    await connection.set_type_codec("json", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")

    async def write(share: Rows) -> None:
        async with connection.transaction():
            for name, rows in share.items():
                if rows:
                    marks = ", ".join(f"${number}" for number, _ in enumerate(rows[0], 1))
                    await connection.executemany(f'INSERT INTO "{name}" VALUES ({marks})', rows)

    async def close() -> None:
        await connection.close()

    return write, close


def _file(url: str) -> str:
    return url.removeprefix("sqlite:///")


def _question(token: str, number: int) -> bytes:
    body = {"query": {"skills": [f"common-{number % 100}"]}, "context": "public", "max_results": 10}
    return _request("POST", "/agents/discover", token, json.dumps(body).encode())


async def _discovery(name: str, server: Server, token: str, folder: Path, rounds: int) -> None:
    asked = [(_question(token, number), 200) for number in range(200)]
    await _rate(server, asked, 1)  # what has to be made is made now
    connection = Connection(*await asyncio.open_connection("127.0.0.1", server.port))
    answer = await connection.ask(asked[7][0], 200)
    connection.close()
    folder.joinpath("answer.json").write_bytes(answer)
    with _serving(_BARE, [str(folder / "answer.json")], dict(os.environ)) as bare:
        for clients in (1, 8):
            measured = []
            for _ in range(rounds):
                floor = await _rate(bare, asked * 3, clients)
                measured.append((await _rate(server, asked, clients), floor))
            _print(f"{name}, discovering, {clients} at once, {len(answer)} bytes", measured)


async def _memory(name: str, server: Server, token: str, count: int) -> None:
    """Mix requests: of ten, six search, and the others are of four kinds.

    One registers, one asks for keys, one for health, and one is refused.
    """
    for number in range(10):
        requests = [
            request
            for one in range(count // 100)
            for request in (
                (_registration(token), 201),
                *((_question(token, 6 * one + n), 200) for n in range(6)),
                (_request("GET", "/.well-known/jwt-vc-issuer"), 200),
                (_request("GET", "/healthz"), 200),
                (_request("POST", "/agents/discover", "sdcard_nobody", b"{}"), 401),
            )
        ]
        await _rate(server, requests, 8)
        if number == 0:
            first = server.memory()
    last = server.memory()
    what = f"{name}, memory after {count} requests to {count // 10}"
    sys.stdout.write(f"{what:<44}{last / 2**20:>7.0f} MiB{first / 2**20:>6.0f} MiB{last / first:>8.2f}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
