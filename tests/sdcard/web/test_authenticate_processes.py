"""Two processes that share a record in a database: a presentation gets through at one of them, once."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2
import pytest

from sdcard import Unchecked
from sdcard.io.sql_replay_cache import SqlChallengeRecord, open_records
from sdcard.io.system import SystemSalts
from sdcard.web.authenticate import SdCardMiddleware
from tests.issuer_service.test_serving import free_port
from tests.sdcard.web.protecting import policy, presenter, shows
from tests.shared import ROOT
from tests.world import World

AUDIENCE = "https://verifier.example/tasks"


class _App:
    """Opens the record in the process, and on the loop, that serves."""

    def __init__(self) -> None:
        self._demanding: asyncio.Task[SdCardMiddleware] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._demanding is None:
            self._demanding = asyncio.create_task(self._open())
        await (await self._demanding)(scope, receive, send)

    async def _open(self) -> SdCardMiddleware:
        world = World()
        record = SqlChallengeRecord(await open_records(os.environ["RECORDS"]), AUDIENCE, SystemSalts())
        status = Unchecked("a test")
        return SdCardMiddleware(
            shows, policy=policy(world), audience=AUDIENCE, challenges=record, status=status, clock=world.clock
        )


app = _App()


def test_of_a_hundred_copies_at_two_processes_one_gets_through(world: World, tmp_path: Path) -> None:
    port = free_port()
    environment = {**os.environ, "RECORDS": f"sqlite+aiosqlite:///{tmp_path}/records.sqlite"}
    options = ["--workers", "2", "--port", str(port), "--lifespan", "off", "--log-level", "critical"]
    command = [sys.executable, "-m", "uvicorn", f"{__name__}:app", *options]
    url = f"http://127.0.0.1:{port}"

    async def together() -> "Counter[tuple[int, str]]":
        limits = httpx2.Limits(max_connections=20)
        async with httpx2.AsyncClient(trust_env=False, timeout=60, limits=limits) as client:
            challenge = (await client.get(f"{url}/task")).headers.get_list("www-authenticate")
            value = presenter(world, url, AUDIENCE).answer(challenge, None)
            headers = {"Authorization": str(value)}
            answers = await asyncio.gather(*(client.get(f"{url}/task", headers=headers) for _ in range(100)))
        return Counter((answer.status_code, answer.json().get("rule", "")) for answer in answers)

    with subprocess.Popen(command, env=environment, cwd=ROOT) as server:
        try:
            _await(url, server)
            assert asyncio.run(together()) == {(200, ""): 1, (401, "kb.replayed"): 99}
        finally:
            server.send_signal(signal.SIGTERM)


def _await(url: str, server: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and server.poll() is None:
        try:
            httpx2.get(url, trust_env=False)
            return
        except httpx2.TransportError:
            time.sleep(0.05)
    pytest.fail("the app did not start")
