"""Registries as processes of their own: killed amid registrations, and several of them on one database."""

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any, Self

import httpx2

from sdcard import Acceptance, TrustedIssuers, accept_sd_card
from sdcard.audit.checkpoints import verify_checkpoint
from sdcard.edge.key_files import create_key_file, load_signer
from sdcard.edge.system import SystemClock, SystemSalts
from tests.issuer_service.desk import Desk, jwk, on_both_databases, request, verdict_of
from tests.issuer_service.test_serving import SERVES, await_health, free_port
from tests.postgres import Cluster, query
from tests.world import at_once, key

ISSUER = "http://127.0.0.1:8080"
ROUNDS = int(os.environ.get("SDCARD_TEST_ROUNDS", "3"))
"""How often a registry is killed on each database."""


@contextmanager
def registries(folder: Path, url: str, count: int = 1) -> Iterator[list[tuple[str, "subprocess.Popen[bytes]"]]]:
    """So many processes, started together, on one database and with one key."""
    for name in ("issuer.jwk", "status.jwk", "audit.jwk"):
        if not (folder / name).exists():
            create_key_file(folder / name)
    own = {
        "SDCARD_AUDIT_CHECKPOINT_SECONDS": "1",
        "SDCARD_DATABASE_URL": url,
        "SDCARD_ISSUER": ISSUER,
        "SDCARD_ISSUER_KEY_FILE": str(folder / "issuer.jwk"),
        "SDCARD_STATUS_KEY_FILE": str(folder / "status.jwk"),
        "SDCARD_AUDIT_KEY_FILE": str(folder / "audit.jwk"),
        "SDCARD_AUDIT_CHECKPOINTS": str(folder / "audit.checkpoints"),
    }
    with ExitStack() as stack:
        started = []
        for port in [free_port() for _ in range(count)]:
            environment = {**os.environ, **own, "SDCARD_PORT": str(port)}
            server = stack.enter_context(subprocess.Popen([sys.executable, "-c", SERVES], env=environment))
            stack.callback(server.send_signal, signal.SIGTERM)
            started.append((f"http://127.0.0.1:{port}", server))
        for address, server in started:
            await_health(address, server)
        yield started


class Crowd:
    """Registers agents at several addresses at once, and keeps what was acknowledged."""

    def __init__(self, addresses: Sequence[str], token: str) -> None:
        self._addresses, self._token, self._lock = cycle(addresses), token, threading.Lock()
        self.acknowledged = list[dict[str, Any]]()
        self.refused = list[int]()
        self._client = httpx2.Client(trust_env=False, timeout=60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def register(self, body: dict[str, Any], token: str | None = None) -> int:
        """The status; 0 when the connection broke."""
        with self._lock:
            address = next(self._addresses)
        headers = {"authorization": f"Bearer {token or self._token}"}
        try:
            response = self._client.post(f"{address}/agents/register", json=body, headers=headers)
        except httpx2.TransportError:
            return 0
        with self._lock:
            if response.status_code == 201:
                self.acknowledged.append(response.json())
            else:
                self.refused.append(response.status_code)
        return response.status_code


def assert_whole(url: str, folder: Path, acknowledged: Sequence[dict[str, Any]]) -> None:
    """Every registration is there with all that belongs to it or not at all, and every acknowledged one is there."""
    agents, keys, batches, cards, audit, used, entries = query(
        url,
        "SELECT agent_id FROM agents",
        "SELECT thumbprint, agent_id FROM holder_keys",
        "SELECT batch_id, agent_id FROM batches",
        "SELECT digest, batch_id, thumbprint FROM cards",
        "SELECT batch_id, agent_id FROM audit",
        "SELECT status_list_id, status_index FROM cards",
        'SELECT list_id, "index" FROM status_entries',
    )
    assert sorted(audit) == sorted(batches)
    assert verdict_of(url).findings == ()
    assert {agent for _, agent in batches} == {agent for _, agent in keys} == {agent for (agent,) in agents}
    assert {batch for _, batch, _ in cards} == {batch for batch, _ in batches}
    assert len(cards) == 3 * len(batches)
    assert sorted(used) == sorted(entries)
    assert len(set(used)) == len(cards)
    stored, issuer = {card[0]: card for card in cards}, load_signer(folder / "issuer.jwk").public_key
    acceptance = Acceptance(issuers=TrustedIssuers.of(ISSUER, issuer))
    holders = {one.public_key.thumbprint: one.public_key for one in map(key, range(100, 400))}
    for answer in acknowledged:
        for card in answer["cards"]:
            digest = hashlib.sha256(card["sd_card"].partition("~")[0].encode()).hexdigest()
            assert stored[digest][1:] == (answer["batch_id"], card["key_thumbprint"])
            accept_sd_card(card["sd_card"], acceptance, holders[card["key_thumbprint"]], time.time())


def agent(number: int) -> dict[str, Any]:
    return request(f"agent-{number}", public_key=jwk(key(100 + number)))


def token_of(desk: Desk, subject: str = "alice") -> str:
    """One that holds by the system's clock."""
    desk.clock, desk.salts = SystemClock(), SystemSalts()  # type: ignore[assignment]  # these processes have their own
    return desk.new_token(subject)


@on_both_databases
def test_of_a_registry_that_is_killed_amid_registrations_all_that_was_acknowledged_is_there(
    desk: Desk, tmp_path: Path
) -> None:
    token, acknowledged, unanswered = token_of(desk), list[dict[str, Any]](), 0
    for number in range(ROUNDS):
        with (
            registries(tmp_path, desk.url) as [(address, server)],
            Crowd([address], token) as crowd,
            ThreadPoolExecutor(16) as pool,
        ):
            statuses = [pool.submit(crowd.register, agent(n)) for n in range(200)]
            while len(crowd.acknowledged) < 20 + 7 * number and server.poll() is None:
                time.sleep(0.001)
            server.kill()
            server.wait()
            unanswered += [one.result() for one in statuses].count(0)
        acknowledged += crowd.acknowledged
        assert crowd.refused == []
        await_silence(desk.url)
        assert_whole(desk.url, tmp_path, acknowledged)
    assert unanswered > 0

    with registries(tmp_path, desk.url) as [(address, _)], Crowd([address], token) as crowd:
        assert crowd.register(agent(0)) == 201


def await_silence(url: str) -> None:
    """PostgreSQL ends the sessions of a dead client as soon as it notices."""
    deadline = time.monotonic() + 10
    sessions = (
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'sdcard' AND datname = current_database()"
    )
    while url.startswith("postgresql") and query(url, sessions) != [[(0,)]]:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_four_processes_on_one_database_are_one_registry(postgres: Cluster, tmp_path: Path) -> None:
    url = postgres.url(postgres.new_database())

    with registries(tmp_path, url, count=4) as started:
        desk = Desk(tmp_path, url)
        tokens = [token_of(desk, f"subject-{n}") for n in range(8)]
        with Crowd([address for address, _ in started], tokens[0]) as crowd:
            numbers = iter(range(60))
            many = at_once(lambda: [crowd.register(agent(next(numbers))) for _ in range(5)], 12)
            wanted = iter([(request("wanted", public_key=jwk(key(200 + n))), token) for n, token in enumerate(tokens)])
            one_agent = at_once(lambda: crowd.register(*next(wanted)), 8)
            names = iter(f"other-{n}" for n in range(8))
            one_key = at_once(lambda: crowd.register(request(next(names), public_key=jwk(key(300)))), 8)

    assert [status for group in many for status in group] == [201] * 60
    assert sorted(one_agent) == sorted(one_key) == [201] + [409] * 7
    assert_whole(url, tmp_path, crowd.acknowledged)
    assert len(crowd.acknowledged) == 62
    signer = load_signer(tmp_path / "audit.jwk").public_key
    lines = (tmp_path / "audit.checkpoints").read_text().split()
    checkpoints = [verify_checkpoint(line, {signer.thumbprint: signer}) for line in lines]
    assert len(checkpoints) >= 4, "each of them made one at its end at least"
    verdict = verdict_of(url, *checkpoints)
    assert (verdict.findings, verdict.vouched) == ((), 62)


def test_no_command_shows_the_password_of_a_database(tmp_path: Path) -> None:
    create_key_file(tmp_path / "issuer.jwk")
    create_key_file(tmp_path / "status.jwk")
    create_key_file(tmp_path / "audit.jwk")
    for query_part in ("", "?sslmode=require"):
        url = f"postgresql+asyncpg://app:canary-password@127.0.0.1:{free_port()}/registry{query_part}"
        for command in (["serve", "--port", str(free_port())], ["token", "create", "--subject", "me"]):
            environment = {**os.environ, "SDCARD_DATABASE_URL": url}
            script = [sys.executable, "-c", "from sdcard.cli import main; main()", *command]
            done = subprocess.run(script, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60)
            assert "canary" not in done.stdout + done.stderr
            assert "Traceback" not in done.stderr
            assert done.returncode == 2, done.stderr
