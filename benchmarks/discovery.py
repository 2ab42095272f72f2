"""Discovery compared with a bare FastAPI endpoint of the same bytes.

Both are measured in one run. So are registrations with and without discovery.

``python -m benchmarks.discovery [--agents N] [--rounds N] [--url URL]``. Both are asked as ASGI applications, in turn,
by a client that has no HTTP of its own. So what differs is what the registry does: token, query, postings, SD-Cards,
on a fresh SQLite database or the empty one at a URL. Everybody was found once before. Times are of this machine and
moment; the ratio within one run is what means something.
"""

import argparse
import asyncio
import json
import random
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from fastapi import FastAPI, Response
from starlette.types import ASGIApp, Message

from benchmarks.work import CARD, ISSUER
from issuer_service.access import Caller, Scope, create_token
from issuer_service.agents import registration
from issuer_service.agents.audiences import discovery_rows
from issuer_service.app import create_app
from issuer_service.container import AuditCheckpoints, Container
from issuer_service.db.migrations import upgrade
from issuer_service.keys.ring import KeyRing, Vault, create_key_encryption_key
from issuer_service.keys.service import make_missing
from sdcard import InMemorySigner
from sdcard.io.database import open_database
from sdcard.io.system import SystemClock, SystemSalts

QUERIES: Mapping[str, dict[str, Any]] = {
    "one skill of a hundred": {"skills": ["common-7"]},
    "that skill and two words": {"skills": ["common-7"], "text": "route planning"},
    "a word that all have": {"text": "planning"},
    "nobody": {"skills": ["nobody-has-this"]},
}
_RESULTS = 10


def _no_rows(*_: object) -> tuple[()]:
    """Compute no entries: the agent cannot be found."""
    return ()


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--agents", type=int, default=2000, help="agents (default 2000)")
    arguments.add_argument("--rounds", type=int, default=300, help="requests of each kind (default 300)")
    arguments.add_argument("--url", help="an empty database; a fresh SQLite file by default")
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = chosen.url or f"sqlite:///{Path(folder, 'registry.sqlite')}"
        upgrade(url)
        asyncio.run(_run(url, Path(folder), chosen.agents, chosen.rounds))


async def _run(url: str, folder: Path, agents: int, rounds: int) -> None:
    database, vault = open_database(url), Vault(create_key_encryption_key(folder / "key-encryption.key"))
    await make_missing(database, vault, SystemClock().now())
    keys = KeyRing(database, vault, SystemClock())
    container = Container(ISSUER, keys, database, AuditCheckpoints(folder / "audit.checkpoints"))
    now = container.clock.now()
    token = await create_token(database, "seeker", [Scope.AGENTS_DISCOVER], {}, int(now) + 86_400, now, SystemSalts())
    found = discovery_rows
    registering: dict[str, list[float]] = {"with": [], "without": []}
    for number in range(agents):
        kind = "with" if number % 10 else "without"
        setattr(registration, "discovery_rows", found if number % 10 else _no_rows)  # noqa: B010 - it is imported there
        started = time.perf_counter()
        await registration.register_agent(container, Caller("owner", "", {}, 0), _registration(number))
        registering[kind].append(time.perf_counter() - started)
    print(f"{agents} agents, {_RESULTS} results a page, {rounds} requests of each kind; medians")
    with_it, without = (statistics.median(registering[kind]) * 1e3 for kind in ("with", "without"))
    print(f"a registration {with_it:.2f} ms, without what it is found by {without:.2f} ms: {with_it / without:.2f}")
    print(f"{'query':28}{'registry':>10}{'bare':>10}{'ratio':>8}{'per second':>12}{'bytes':>9}")
    for name, query in QUERIES.items():
        await _compare(name, create_app(container), token, query, rounds)
    await database.close()


def _registration(number: int) -> bytes:
    card = json.loads(CARD)
    card["skills"][0]["id"] = f"common-{random.Random(number).randrange(100)}"
    body = {
        "agent_id": f"agent-{number}",
        **{name: card[name] for name in ("name", "description", "version")},
        "public_key": dict(_signer().public_key.to_jwk()),
        "disclosure_contexts": [{"context": "public"}, {"context": "internal"}],
        "card": card,
    }
    return json.dumps(body).encode()


async def _compare(name: str, registry: ASGIApp, token: str, query: dict[str, Any], rounds: int) -> None:
    body = json.dumps({"query": query, "context": "public", "max_results": _RESULTS}).encode()
    answer = await _ask(registry, body, token)  # what has to be made is made now
    bare = FastAPI()

    @bare.post("/agents/discover")
    async def same() -> Response:
        return Response(answer, 200, {"Cache-Control": "no-store"}, "application/json")

    times: dict[str, list[float]] = {"registry": [], "bare": []}
    for _ in range(rounds):
        for kind, app in (("registry", registry), ("bare", bare)):
            started = time.perf_counter()
            await _ask(app, body, token)
            times[kind].append(time.perf_counter() - started)
    ours, floor = (statistics.median(times[kind]) * 1e3 for kind in ("registry", "bare"))
    print(f"{name:28}{ours:8.2f}ms{floor:8.2f}ms{ours / floor:8.1f}{1e3 / ours:12.0f}{len(answer):9}")


async def _ask(app: ASGIApp, body: bytes, token: str) -> bytes:
    headers = [(b"content-type", b"application/json"), (b"authorization", f"Bearer {token}".encode())]
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": "/agents/discover", "raw_path": b"/agents/discover", "query_string": b"", "root_path": "",
        "headers": headers, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
    }  # fmt: skip
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    assert sent[0]["status"] == 200, sent
    return b"".join(message.get("body", b"") for message in sent)


def _signer() -> InMemorySigner:
    return InMemorySigner(ec.generate_private_key(ec.SECP256R1()))


if __name__ == "__main__":
    main()
