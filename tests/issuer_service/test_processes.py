"""Registries as processes of their own: killed amid registrations, and several of them on one database."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any, Self

import httpx2
import pytest

from issuer_service.keys import repository as keys_repository
from issuer_service.keys.repository import KeyUse
from sdcard import Acceptance, TrustedIssuers, Where, accept_sd_card
from sdcard.audit_chain import verify_checkpoint
from sdcard.encoding import encode_base64url
from sdcard.errors import Part
from sdcard.io.key_files import create_private_file
from sdcard.jose.keys import parse_public_jwk
from sdcard.possession import prove_possession
from tests.command_line import Sdcard
from tests.issuer_service.desk import (
    KEK_SECRET,
    VAULT,
    Desk,
    ask,
    chain,
    differences,
    jwk,
    on_both_databases,
    reading,
    request,
    verdict_of,
)
from tests.issuer_service.test_server import SERVES, await_health
from tests.ports import free_port
from tests.postgres import Cluster, query
from tests.shared import shared_dir
from tests.world import MovableClock, at_once, key

ISSUER = "http://127.0.0.1:8080"
ONE_CONTEXT = {"disclosure_contexts": [{"context": "public"}]}
ROUNDS = int(os.environ.get("SDCARD_TEST_ROUNDS", "3"))
"""How often a registry is killed on each database, and a PostgreSQL server under a registry."""


@contextmanager
def registries(
    folder: Path, url: str, count: int = 1, program: str = SERVES
) -> Iterator[list[tuple[str, "subprocess.Popen[bytes]"]]]:
    """Start that many processes at once on one database; the first makes the keys."""
    if not (folder / "key-encryption.key").exists():
        create_private_file(folder / "key-encryption.key", encode_base64url(KEK_SECRET))
    own = {
        "SDCARD_AUDIT_CHECKPOINT_SECONDS": "1",
        "SDCARD_DATABASE_URL": url,
        "SDCARD_ISSUER": ISSUER,
        "SDCARD_KEY_ENCRYPTION_KEY_FILE": str(folder / "key-encryption.key"),
        "SDCARD_AUDIT_CHECKPOINTS": str(folder / "audit.checkpoints"),
    }
    with ExitStack() as stack:
        started = []
        for port in [free_port() for _ in range(count)]:
            environment = {**os.environ, **own, "SDCARD_PORT": str(port)}
            server = stack.enter_context(subprocess.Popen([sys.executable, "-c", program], env=environment))
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

    def register(self, body: dict[str, Any], token: str | None = None, **headers: str) -> int:
        """The status; 0 when the connection broke."""
        try:
            response = self.ask("POST", "/agents/register", body, token, **headers)
        except httpx2.TransportError:
            return 0
        with self._lock:
            if response.status_code == 201:
                self.acknowledged.append(response.json())
            else:
                self.refused.append(response.status_code)
        return response.status_code

    def ask(
        self, method: str, path: str, body: dict[str, Any] | None = None, token: str | None = None, **headers: str
    ) -> httpx2.Response:
        """Anything, at the next address."""
        with self._lock:
            address = next(self._addresses)
        sent = {"authorization": f"Bearer {token or self._token}"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        return self._client.request(method, address + path, json=body, headers=sent)


def assert_whole(url: str, acknowledged: Sequence[dict[str, Any]], revoked: Collection[str] = ()) -> None:
    """Every registration is there with all that belongs to it or not at all, and every acknowledged one is there.

    Args:
        url: of the database.
        acknowledged: the answers to registrations.
        revoked: the agents of which nothing may be good any longer.
    """
    chain(url)
    agents, keys, batches, cards, audit, used, entries, own = query(
        url,
        "SELECT agent_id FROM agents",
        "SELECT thumbprint, agent_id FROM holder_keys",
        "SELECT batch_id, agent_id FROM batches",
        "SELECT digest, batch_id, thumbprint FROM cards",
        "SELECT batch_id, agent_id FROM audit WHERE event = 'agent.registered'",
        "SELECT status_list_id, status_index FROM cards",
        'SELECT list_id, "index" FROM status_entries',
        "SELECT kid, public_jwk FROM registry_keys WHERE use = 'cards' AND state = 'active'",
    )
    assert sorted(audit) == sorted(batches)
    assert differences(url, recorded=False) == [], "sdcard audit verify --state"
    assert {agent for _, agent in batches} == {agent for _, agent in keys} == {agent for (agent,) in agents}
    assert {batch for _, batch, _ in cards} == {batch for batch, _ in batches}
    assert len(cards) == 3 * len(batches)
    assert sorted(used) == sorted(entries)
    assert len(set(used)) == len(cards)
    good, last = query(
        url,
        "SELECT DISTINCT batch_id FROM cards JOIN status_entries ON list_id = status_list_id"
        ' AND status_entries."index" = status_index WHERE status = 0',
        "SELECT batch_id, agent_id FROM agents",
    )
    expected = sorted((batch,) for batch, agent in last if agent not in revoked)
    assert sorted(good) == expected, "of each agent the last Batch is good and no other"
    stored, [(kid, jwk_text)] = {card[0]: card for card in cards}, own
    issuer = parse_public_jwk(json.loads(jwk_text) if isinstance(jwk_text, str) else jwk_text, Where(Part.KEY))
    assert issuer.thumbprint == kid
    acceptance = Acceptance(issuers=TrustedIssuers.of(ISSUER, issuer))
    holders = {one.public_key.thumbprint: one.public_key for one in map(key, range(100, 400))}
    for answer in acknowledged:
        for card in answer["cards"]:
            digest = hashlib.sha256(card["sd_card"].partition("~")[0].encode()).hexdigest()
            assert stored[digest][1:] == (answer["batch_id"], card["key_thumbprint"])
            accept_sd_card(card["sd_card"], acceptance, holders[card["key_thumbprint"]], time.time())


def agent(number: int) -> dict[str, Any]:
    return request(f"agent-{number}", public_key=jwk(key(100 + number)), supersedes="revoke")


def token_of(desk: Desk, subject: str = "alice") -> str:
    """Make a token that is valid by the system's clock, which these processes use."""
    desk.clock = MovableClock(time.time())
    return desk.new_token(subject)


@pytest.mark.slow
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
        assert_whole(desk.url, acknowledged)
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
    assert_whole(url, crowd.acknowledged)
    assert len(crowd.acknowledged) == 62
    rows = ask(url, reading(keys_repository.read_keys))
    [signer] = [VAULT.public_key(row) for row in rows if row.use is KeyUse.AUDIT]
    lines = (tmp_path / "audit.checkpoints").read_text().split()
    checkpoints = [verify_checkpoint(line, {signer.thumbprint: signer}) for line in lines]
    assert len(checkpoints) >= 4, "each of them made one at its end at least"
    verdict = verdict_of(url, *checkpoints)
    assert (verdict.findings, verdict.vouched) == ((), 62 + len(rows) + 1), "status lists were opened once"


def test_one_key_or_nonce_at_four_processes_registers_once(postgres: Cluster, tmp_path: Path) -> None:
    """BUG-079: a nonce that is sent to several workers counts once."""
    url = postgres.url(postgres.new_database())

    with registries(tmp_path, url, count=4) as started:
        token = token_of(Desk(tmp_path, url))
        with Crowd([address for address, _ in started], token) as crowd:
            same = at_once(lambda: crowd.ask("POST", "/agents/register", agent(0), idempotency_key="one"), 16)
            nonce = crowd.ask("POST", "/nonces").json()["nonce"]
            asks = iter([proven(number, nonce) for number in range(1, 9)])
            proofs = at_once(lambda: crowd.register(next(asks)), 8)

    assert {response.status_code for response in same} == {201}
    assert len({response.content for response in same}) == 1
    assert sorted(proofs) == [201] + [422] * 7
    assert_whole(url, [same[0].json(), *crowd.acknowledged])
    assert query(url, "SELECT count(*) FROM batches") == [[(2,)]]


def proven(number: int, nonce: str) -> dict[str, Any]:
    body = agent(number)
    proof = prove_possession(key(100 + number), ISSUER, body["agent_id"], nonce, time.time())
    return {**body, "proofs": [proof]}


@pytest.mark.slow
def test_two_processes_on_one_file_serve_a_hundred_at_once(tmp_path: Path) -> None:
    """BUG-077."""
    described = json.loads((shared_dir() / "cases" / "BUG-077.json").read_text(encoding="utf-8"))
    asked, expected = described["input"], described["expected"]
    desk = Desk(tmp_path)
    token = token_of(desk)

    with (
        registries(tmp_path, desk.url, count=asked["workers"]) as started,
        Crowd([address for address, _ in started], token) as crowd,
    ):
        numbers = iter(range(asked["n"]))
        statuses = at_once(lambda: crowd.register({**agent(next(numbers)), **ONE_CONTEXT}), asked["n"])

    assert len([status for status in statuses if status >= 500]) == expected["http_5xx"]
    assert statuses.count(201) == expected["registered"] == len(crowd.acknowledged)


@pytest.mark.parametrize("options", [pytest.param("", marks=pytest.mark.slow), "?sslmode=require"])
def test_no_command_shows_the_password_of_a_database(
    options: str, sdcard: Sdcard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"postgresql+asyncpg://app:canary-password@127.0.0.1:{free_port()}/registry{options}"
    monkeypatch.setenv("SDCARD_DATABASE_URL", url)

    told = sdcard("token", "create", "--subject", "me")
    script = [sys.executable, "-c", "from sdcard.cli import main; main()", "serve", "--port", str(free_port())]
    served = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True, timeout=60)

    assert "canary" not in told.out + told.err + served.stdout + served.stderr
    assert "Traceback" not in told.err + served.stderr
    assert (told.status, served.returncode) == (2, 2), (told, served.stderr)
