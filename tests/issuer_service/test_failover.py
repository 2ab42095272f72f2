"""A standby takes over amid registrations: what was acknowledged is there, and what was used once stays used."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from sdcard.io.database import open_database
from sdcard.io.sql_replay_cache import SqlReplayRecord, open_records
from sdcard.key_binding import NonceUse
from tests.issuer_service.desk import Desk, assert_refused, jwk, request
from tests.issuer_service.test_processes import Crowd, agent, assert_whole, proven, registries, token_of
from tests.postgres import Cluster, cluster
from tests.world import key

pytestmark = [pytest.mark.postgresql, pytest.mark.slow]

DEADLINE = 120.0
USE = NonceUse("thumbprint", "https://verifier.example", "nonce")


@pytest.fixture
def servers() -> Iterator[tuple[Cluster, Cluster]]:
    """A primary, and a standby that has every commit before the primary says that it is one."""
    with cluster(crash_safe=True) as primary, cluster(crash_safe=True, standby_of=primary) as standby:
        yield primary, standby


def both(database: str, *servers: Cluster) -> str:
    """The URL of whichever of the servers can be written to."""
    hosts = "&".join(f"host=127.0.0.1:{server.port}" for server in servers)
    return f"postgresql+asyncpg://app:canary-password@/{database}?{hosts}&target_session_attrs=read-write"


class Load:
    """Agents that are registered one after the other, some revoked again; each request until it is acknowledged."""

    def __init__(self, crowd: Crowd) -> None:
        self.crowd, self.done, self.ended = crowd, threading.Event(), time.monotonic() + DEADLINE
        self.numbers = iter(range(280))
        self.registered, self.revoked, self.statuses = list[dict[str, Any]](), set[str](), list[int]()
        self._lock = threading.Lock()

    def run(self) -> None:
        while not self.done.is_set():
            with self._lock:
                number = next(self.numbers)
            body = agent(number)
            self.registered.append(self._until_acknowledged("/agents/register", body).json())
            if number % 4 == 0:
                self._until_acknowledged(f"/agents/{body['agent_id']}/revoke", {})
                self.revoked.add(body["agent_id"])

    def until(self, count: int) -> int:
        """Wait for so many more registrations; how many answers there were until then."""
        wanted = len(self.registered) + count
        while len(self.registered) < wanted:
            assert time.monotonic() < self.ended, self.statuses[-20:]
            time.sleep(0.01)
        return len(self.statuses)

    def _until_acknowledged(self, path: str, body: dict[str, Any]) -> httpx2.Response:
        while True:
            response = self.crowd.ask("POST", path, body)
            self.statuses.append(response.status_code)
            if response.status_code in (200, 201):
                return response
            assert response.status_code == 503, response.text
            assert time.monotonic() < self.ended
            time.sleep(0.1)


def first_use(url: str) -> bool:
    """Whether a Verifier's record on this database calls it the first use."""

    async def ask() -> bool:
        database = await open_records(url)
        try:
            return await SqlReplayRecord(database).first_use(USE, time.time() + 300, time.time())
        finally:
            await database.close()

    return asyncio.run(ask())


def test_a_registry_goes_on_at_a_promoted_standby_and_nothing_acknowledged_is_lost_or_used_twice(
    servers: tuple[Cluster, Cluster], tmp_path: Path
) -> None:
    primary, standby = servers
    name = primary.new_database()
    token, url = token_of(Desk(tmp_path, primary.url(name))), both(name, primary, standby)

    with (
        registries(tmp_path, url, count=2) as started,
        Crowd([address for address, _ in started], token) as crowd,
        ThreadPoolExecutor(8) as pool,
    ):
        spent, unspent = (crowd.ask("POST", "/nonces").json()["nonce"] for _ in range(2))
        assert crowd.register(proven(290, spent)) == 201
        assert first_use(url)
        load = Load(crowd)
        loads = [pool.submit(load.run) for _ in range(8)]
        try:
            load.until(40)
            primary.stop(signal.SIGKILL)
            while 503 not in load.statuses:
                time.sleep(0.01)
            standby.promote()
            load.until(40)
        finally:
            load.done.set()
        for one in loads:
            one.result()

        assert crowd.register(proven(291, spent)) == 422, "a nonce counts once, also at another server"
        assert crowd.register(proven(292, unspent)) == 422, "another server draws another key"
        assert crowd.register(proven(292, crowd.ask("POST", "/nonces").json()["nonce"])) == 201
        assert not first_use(url)

    assert load.revoked
    assert_whole(standby.url(name), [*load.registered, *crowd.acknowledged], load.revoked)


@pytest.mark.parametrize("headers", [{}, {"idempotency_key": "one"}], ids=["in one statement", "in a transaction"])
def test_a_commit_that_waits_for_the_standby_is_never_cut_short(
    servers: tuple[Cluster, Cluster], tmp_path: Path, headers: dict[str, str]
) -> None:
    """A cancelled COMMIT succeeds on the primary alone, and the standby that takes over does not have it."""
    primary, standby = servers
    desk = Desk(tmp_path, primary.url(primary.new_database()))
    with desk.open(open_database(desk.url, patience=0.3, look_up_seconds=0.3)) as registry:
        registry.register(request("before", public_key=jwk(key(22))))
        halted = standby.pids()
        for pid in halted:
            os.kill(pid, signal.SIGSTOP)
        try:
            for _ in range(2):
                assert_refused(registry.post(request("new"), **headers), 503, ("store.unavailable", "request"))
            time.sleep(1)
            assert [agent for agent, *_ in desk.rows()["agents"]] == ["before"], "what waits is not to be seen"
        finally:
            for pid in halted:
                os.kill(pid, signal.SIGCONT)
        ended = time.monotonic() + 30
        while (again := registry.post(request("new"), **headers)).status_code == 503:
            assert time.monotonic() < ended
        assert again.status_code == 201
    assert sorted(agent for agent, *_ in desk.rows()["agents"]) == ["before", "new"]
    assert desk.differences() == []
