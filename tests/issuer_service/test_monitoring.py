"""Health, readiness and metrics."""

import asyncio
import io
import json
import logging
import os
import shutil
import socket
import sqlite3
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from prometheus_client import REGISTRY, generate_latest
from pydantic import SecretStr, ValidationError
from sqlalchemy import Connection, text

from issuer_service.keys.repository import KeyUse
from issuer_service.monitoring import _KEPT_SECONDS, LogFormat, LogLevel, Metrics, Readiness, logging_to, offered
from issuer_service.server import bind, running
from issuer_service.settings import Settings
from sdcard import PublicKey
from sdcard.acceleration import KERNEL
from sdcard.io.database import open_database
from sdcard.jose.jws import Signer
from tests.issuer_service.desk import Desk, FixedKeys, OpenDesk, assert_refused, jwk, on_both_databases, request
from tests.issuer_service.test_rate_limit import limits
from tests.ports import free_port
from tests.postgres import Cluster, binaries, cluster, query
from tests.world import key, raises_rule

# -- ``/readyz``: which part does not work, and nothing of why --------------------------------------------------------

RULE = "registry.not-ready"


def ring(desk: Desk, signer: Signer) -> FixedKeys:
    """The registry's keys, with this signer for SD-Cards."""
    return FixedKeys({**desk.signers(), KeyUse.CARDS: signer})


@dataclass
class BadSigner:
    """Holds the Issuer's key, and does not sign with it."""

    public_key: PublicKey
    error: Exception | None = None
    calls: list[bytes] = field(default_factory=list)

    def sign(self, message: bytes) -> bytes:
        self.calls.append(message)
        if self.error is not None:
            raise self.error
        return key(10).sign(message + b"x")


@on_both_databases
def test_a_registry_that_works_is_ready(registry: OpenDesk) -> None:
    response = registry.get("/readyz")

    assert (response.status_code, response.json()) == (200, {"status": "ok"})
    assert response.headers["cache-control"] == "no-store"


def test_a_database_that_does_not_answer_is_named(desk: Desk, registry: OpenDesk) -> None:
    desk.file.rename(desk.file.with_suffix(".elsewhere"))

    response = registry.get("/readyz")

    assert_refused(response, 503, (RULE, "registry/database"))
    assert response.headers["retry-after"]
    assert "sqlite" not in response.text.lower()


@pytest.mark.parametrize(
    "statement", ["UPDATE alembic_version SET version_num = 'r0001'", "DROP TABLE alembic_version"]
)
def test_another_schema_is_named(desk: Desk, registry: OpenDesk, statement: str) -> None:
    with closing(sqlite3.connect(desk.file)) as connection, connection:
        connection.execute(statement)

    assert_refused(registry.get("/readyz"), 503, (RULE, "registry/migrations"))
    assert registry.get("/healthz").status_code == 200


@pytest.mark.parametrize("error", [None, OSError("canary"), RuntimeError("canary")])
def test_a_signer_that_cannot_sign_is_named(
    desk: Desk, caplog: pytest.LogCaptureFixture, error: Exception | None
) -> None:
    signer = BadSigner(desk.signer.public_key, error)
    with desk.open(keys=ring(desk, signer)) as registry:
        response = registry.get("/readyz")

    assert_refused(response, 503, (RULE, "registry/signer"))
    assert "canary" not in response.text + caplog.text
    assert (type(error).__name__ in caplog.text) is (error is not None)


def test_a_key_that_is_missing_is_named(desk: Desk) -> None:
    signers = desk.signers()
    with desk.open(keys=FixedKeys({use: signers[use] for use in signers if use is not KeyUse.STATUS})) as registry:
        assert_refused(registry.get("/readyz"), 503, (RULE, "registry/signer"))


def test_every_part_that_does_not_work_is_named(desk: Desk) -> None:
    with desk.open(keys=ring(desk, BadSigner(desk.signer.public_key))) as registry:
        desk.file.unlink()
        assert_refused(registry.get("/readyz"), 503, (RULE, "registry/database"), (RULE, "registry/signer"))


def test_many_who_ask_make_the_signer_work_once_and_recovery_is_seen(desk: Desk) -> None:
    signer = BadSigner(desk.signer.public_key)
    with desk.open(keys=ring(desk, signer)) as registry:
        assert {registry.get("/readyz").status_code for _ in range(20)} == {503}
        assert len(signer.calls) == 1
        assert b"." not in signer.calls[0]
        desk.clock.advance(_KEPT_SECONDS)
        registry.get("/readyz")
        assert len(signer.calls) == 2


def test_a_signer_that_hangs_is_asked_once(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("issuer_service.monitoring._PATIENCE", 0.05)
    freed, calls = threading.Event(), list[bytes]()

    class Hanging(BadSigner):
        def sign(self, message: bytes) -> bytes:
            calls.append(message)
            freed.wait(30)
            return key(10).sign(message)

    async def ask() -> None:
        database, readiness = open_database(desk.url), Readiness()
        keys = ring(desk, Hanging(desk.signer.public_key))
        for second in range(0, 30, 3):
            with raises_rule(RULE, "registry/signer"):
                await readiness.check(database, keys, second)
        assert len(calls) == 1
        freed.set()
        await asyncio.sleep(0.1)
        await readiness.check(database, keys, 100)
        await database.close()

    asyncio.run(ask())


# -- ``/readyz`` and ``/healthz`` on real faults -------------------------------------------------------------------

DATABASE = ("registry.not-ready", "registry/database")
READ_ONLY, FULL = "The database is read-only.", "The disk is full."
LOCKED, NO_CONNECTION = "A lock is not released in time.", "No connection is free."


def ready(desk: Desk, registry: OpenDesk) -> str:
    """Empty when the registry is ready; else why not. The last answer is not kept."""
    desk.clock.advance(_KEPT_SECONDS)
    response = registry.get("/readyz")
    assert registry.get("/healthz").status_code == 200
    if response.status_code == 200:
        return ""
    assert_refused(response, 503, DATABASE)
    return str(response.json()["findings"][0]["hint"])


def lives(registry: OpenDesk) -> bool:
    return registry.get("/healthz").status_code == 200


@contextmanager
def small_disk(megabytes: int) -> Iterator[Path]:
    """A file system in memory, of so many MB."""
    folder = Path(tempfile.mkdtemp(prefix="disk"))
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", folder], check=False)
    if mounted.returncode:
        folder.rmdir()
        pytest.skip("needs to mount a file system, as root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
        folder.rmdir()


def fill(folder: Path) -> Path:
    """A file that takes all the room there is."""
    file = folder / "filler"
    with file.open("wb", buffering=0) as opened:
        try:
            while True:
                opened.write(bytes(4096))
        except OSError:
            pass
    return file


# -- SQLite -----------------------------------------------------------------------------------------------------------


@on_both_databases
def test_being_asked_changes_nothing_but_commits(desk: Desk, registry: OpenDesk) -> None:
    registry.register(request())
    before = desk.rows()

    assert [ready(desk, registry) for _ in range(5)] == [""] * 5

    assert desk.rows() == before
    assert not desk.verdict().findings


def test_a_commit_is_written(desk: Desk, registry: OpenDesk) -> None:
    """SQLite writes nothing for a row that does not change."""
    log = desk.file.with_name(f"{desk.file.name}-wal")
    sizes = []
    for _ in range(3):
        assert ready(desk, registry) == ""
        sizes.append(log.stat().st_size)

    assert 0 < sizes[0] < sizes[1] < sizes[2]


def test_a_read_only_database_is_not_ready(desk: Desk) -> None:
    with desk.open(open_database(f"sqlite+aiosqlite:///file:{desk.file}?mode=ro&uri=true")) as registry:
        assert ready(desk, registry) == READ_ONLY
        assert registry.read().status_code == 404


@pytest.mark.servers
def test_a_full_disk_is_not_ready_until_there_is_room() -> None:
    with small_disk(2) as folder:
        desk = Desk(folder)
        with desk.open() as registry:
            assert ready(desk, registry) == ""
            registry.register(request())
            filler = fill(folder)
            assert ready(desk, registry) == FULL
            assert registry.post(request("second", public_key=jwk(key(31)))).status_code == 503
            assert ready(desk, registry) == FULL
            filler.unlink()
            assert ready(desk, registry) == ""
            registry.register(request("second", public_key=jwk(key(31))))


@pytest.mark.servers
def test_a_read_only_file_system_is_not_ready() -> None:
    with small_disk(2) as folder:
        desk = Desk(folder)
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        with desk.open() as registry:
            assert ready(desk, registry) == READ_ONLY
        subprocess.run(["mount", "-o", "remount,rw", folder], check=True)
        with desk.open() as registry:
            assert ready(desk, registry) == ""


@on_both_databases
def test_a_lock_that_is_kept_is_not_ready(desk: Desk) -> None:
    with desk.open(open_database(desk.url, patience=0.3)) as registry, locked(desk.url):
        assert ready(desk, registry) == LOCKED
        assert registry.read().status_code == 404


@contextmanager
def locked(url: str) -> Iterator[None]:
    """Hold a write transaction open."""
    begun, ended = threading.Event(), threading.Event()

    def hold(connection: Connection) -> None:
        connection.execute(text("UPDATE audit_head SET sequence = sequence"))
        begun.set()
        ended.wait(30)

    async def write() -> None:
        database = open_database(url)
        try:
            await database.change(hold)
        finally:
            await database.close()

    thread = threading.Thread(target=asyncio.run, args=(write(),))
    thread.start()
    assert begun.wait(10)
    try:
        yield
    finally:
        ended.set()
        thread.join()


@on_both_databases
def test_an_audit_chain_without_its_head_is_not_ready(desk: Desk, registry: OpenDesk) -> None:
    query(desk.url, "DELETE FROM audit_head")

    assert ready(desk, registry) == "The database does not answer."
    assert registry.post(request()).status_code == 503


def test_a_clock_that_jumps_keeps_no_answer(desk: Desk, registry: OpenDesk) -> None:
    for jump in (864_000, -864_000, 3_600, -3_600):
        assert registry.get("/readyz").status_code == 200
        hidden = desk.file.rename(desk.file.with_suffix(".hidden"))
        desk.clock.advance(jump)
        assert registry.get("/readyz").status_code == 503
        hidden.rename(desk.file)
        desk.clock.advance(_KEPT_SECONDS)


def test_a_database_that_is_gone_leaves_the_process_alive(desk: Desk, registry: OpenDesk) -> None:
    desk.file.unlink()

    assert ready(desk, registry) == "The database does not answer."


def test_a_pool_without_a_free_connection_leaves_the_process_alive(desk: Desk) -> None:
    database, ended = open_database(desk.url, patience=0.3), threading.Event()
    with desk.open(database) as registry:
        client = registry.client
        assert client.portal is not None  # type: ignore[attr-defined]

        def hold(_: Connection) -> None:
            ended.wait(30)

        busy = [client.portal.start_task_soon(database.read, hold) for _ in range(15)]  # type: ignore[attr-defined]
        await_until(lambda: database.connections_in_use() == 15)
        assert lives(registry)
        ended.set()
        for one in busy:
            one.result()
        assert ready(desk, registry) == ""


def await_until(holds: object) -> None:
    assert callable(holds)
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_process_is_alive_for_those_who_ask_beyond_the_limit_of_connections(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("issuer_service.server._MOST_CONNECTIONS", 4)
    listening = bind()
    with running(desk.container(), listening):
        address = ("127.0.0.1", int(listening.getsockname()[1]))
        idle = [socket.create_connection(address) for _ in range(8)]
        try:
            assert first_line(address, "/healthz") == b"HTTP/1.1 200 OK"
            assert first_line(address, "/readyz") == b"HTTP/1.1 503 Service Unavailable"
            assert first_line(address, "/healthz?x") == b"HTTP/1.1 200 OK"
        finally:
            for one in idle:
                one.close()


def first_line(address: tuple[str, int], path: str) -> bytes:
    with socket.create_connection(address, timeout=10) as client:
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        return client.makefile("rb").readline().strip()


# -- PostgreSQL -------------------------------------------------------------------------------------------------------


@pytest.fixture
def prepared(postgres: Cluster, tmp_path: Path) -> Desk:
    return Desk(tmp_path, postgres.url(postgres.new_database("prepared")))


def name_of(desk: Desk) -> str:
    return desk.url.rpartition("/")[2]


def test_a_default_of_read_only_transactions_is_not_ready(postgres: Cluster, prepared: Desk) -> None:
    postgres.execute("postgres", f"ALTER DATABASE {name_of(prepared)} SET default_transaction_read_only = on")
    with prepared.open() as registry:
        assert ready(prepared, registry) == READ_ONLY
        assert registry.read().status_code == 404


@pytest.mark.parametrize("default", ["off", "local", "remote_write", "on", "remote_apply"])
@pytest.mark.parametrize("of", ["DATABASE {name}", "ROLE app IN DATABASE {name}"])
def test_what_is_acknowledged_is_durable_whatever_the_default(
    postgres: Cluster, prepared: Desk, default: str, of: str
) -> None:
    named = of.format(name=name_of(prepared))
    postgres.execute("postgres", f"ALTER {named} SET synchronous_commit = {default}")

    async def settings() -> set[str]:
        database, asked = open_database(prepared.url), text("SELECT current_setting('synchronous_commit')")
        try:
            changing = await database.change(lambda connection: connection.execute(asked).scalar_one())
            return {changing, await database.migrate(lambda connection: connection.execute(asked).scalar_one())}
        finally:
            await database.close()

    assert asyncio.run(settings()) == {"remote_apply" if default == "remote_apply" else "on"}


def test_requests_wait_for_a_connection_while_the_server_has_few(postgres: Cluster, prepared: Desk) -> None:
    role = f"few_{name_of(prepared)}"
    statements = [f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 3"]
    statements += [f"GRANT ALL ON ALL {kind} IN SCHEMA public TO {role}" for kind in ("TABLES", "SEQUENCES")]
    postgres.execute(name_of(prepared), *statements)
    with prepared.open(open_database(postgres.url(name_of(prepared), role))) as registry:

        def register(number: int) -> int:
            return registry.post(request(f"agent-{number}", public_key=jwk(key(200 + number)))).status_code

        with ThreadPoolExecutor(12) as pool:
            assert set(pool.map(register, range(24))) == {201}
        assert ready(prepared, registry) == ""


def test_without_any_connection_requests_are_refused_and_the_process_lives(postgres: Cluster, prepared: Desk) -> None:
    role = f"none_{name_of(prepared)}"
    postgres.execute(name_of(prepared), f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 0")
    with prepared.open(open_database(postgres.url(name_of(prepared), role), patience=0.3)) as registry:
        assert ready(prepared, registry) == NO_CONNECTION
        assert registry.read().status_code == 503


@pytest.mark.postgresql
@pytest.mark.slow
def test_a_hot_standby_is_not_ready_until_it_is_promoted(tmp_path: Path) -> None:
    with cluster(crash_safe=True) as primary:
        desk = Desk(tmp_path, primary.url(primary.new_database()))
        with desk.open() as registry:
            registry.register(request())
        with standby_of(primary) as standby:
            stood = Desk.__new__(Desk)
            stood.__dict__.update(desk.__dict__, url=standby.url(name_of(desk)))
            with stood.open(open_database(stood.url)) as registry:
                assert ready(stood, registry) == READ_ONLY
                assert registry.read().status_code == 404
                standby.execute("postgres", "SELECT pg_promote()")
                assert ready(stood, registry) == ""
                registry.register(request("second", public_key=jwk(key(31))))


@contextmanager
def standby_of(primary: Cluster) -> Iterator[Cluster]:
    """A copy of a server that follows it, and answers readers."""
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
    copy = Cluster.__new__(Cluster)
    copy.__dict__.update(primary.__dict__, folder=folder, server=None)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        copy.port = int(listening.getsockname()[1])
    where = ("-h", "127.0.0.1", "-p", str(primary.port), "-U", "app")
    copy.run("pg_basebackup", *where, "-D", f"{folder}/d", "-R", "-X", "stream", "--no-sync", "-c", "fast")
    try:
        copy.start()
        yield copy
    finally:
        copy.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.postgresql
@pytest.mark.slow
def test_a_full_disk_of_postgresql_is_not_ready_until_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    binaries()
    with small_disk(160) as folder:
        folder.chmod(0o777)
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        with cluster(crash_safe=True) as server:
            monkeypatch.setattr(tempfile, "tempdir", None)
            desk = Desk(Path(tempfile.mkdtemp()), server.url(server.new_database()))
            with desk.open() as registry:
                registry.register(request())
                assert ready(desk, registry) == ""
                filler = fill(folder)
                assert ready(desk, registry) == FULL
                filler.unlink()
                assert ready(desk, registry) == ""


# -- Figures for Prometheus: what is counted, that labels are bounded, and where they are read ------------------------


def text_of(metrics: Metrics) -> str:
    return generate_latest(metrics.registry).decode()


def test_requests_cards_lists_and_refusals_are_counted(desk: Desk) -> None:
    metrics = Metrics()
    with desk.open(metrics=metrics, rates=limits(addresses=60)) as registry:
        uri = registry.register(request())["cards"][0]["status"]["uri"]
        for _ in range(3):
            registry.get(f"/status/{uri.rpartition('/')[2]}")
        registry.post(request("bad id"))
        registry.post(request(), authorization="Bearer wrong")
        registry.client.request("CANARY", "/canary?canary", headers={"x-request-id": "canary-canary"})
        for _ in range(10):
            registry.get("/canary")
        text = text_of(metrics)

    for line in (
        'sdcard_requests_total{method="POST",route="/agents/register",status="2xx"} 1.0',
        'sdcard_requests_total{method="POST",route="/agents/register",status="4xx"} 2.0',
        'sdcard_requests_total{method="other",route="none",status="4xx"} 1.0',
        'sdcard_requests_total{method="GET",route="/status/{list_id}",status="2xx"} 3.0',
        'sdcard_request_seconds_count{route="/agents/register"} 3.0',
        'sdcard_cards_issued_total{context="public"} 1.0',
        'sdcard_cards_issued_total{context="internal"} 1.0',
        "sdcard_status_lists_published_total 1.0",
        'sdcard_refusals_total{rule="agent-id.malformed"} 1.0',
        'sdcard_refusals_total{rule="token.invalid"} 1.0',
        'sdcard_refusals_total{rule="rate.exceeded"} 4.0',
        "sdcard_database_connections 0.0",
        f"sdcard_native_kernel {float(KERNEL is not None)}",
    ):
        assert line in text.splitlines()
    assert "process_resident_memory_bytes" in text
    assert "canary" not in text
    assert desk.token not in text


def test_a_refused_registration_counts_no_card(desk: Desk) -> None:
    metrics = Metrics()
    with desk.open(metrics=metrics) as registry:
        registry.register(request())
        before = text_of(metrics).count("sdcard_cards_issued_total")
        registry.post(request(), authorization=f"Bearer {desk.new_token('bob')}")

    assert 'sdcard_cards_issued_total{context="public"} 1.0' in text_of(metrics)
    assert text_of(metrics).count("sdcard_cards_issued_total") == before


def test_an_unreachable_database_is_counted(desk: Desk) -> None:
    metrics = Metrics()
    with desk.open(metrics=metrics) as registry:
        desk.file.unlink()
        registry.post(request())

    assert 'sdcard_refusals_total{rule="store.unavailable"} 1.0' in text_of(metrics)


@on_both_databases
def test_connections_in_use_are_seen(desk: Desk) -> None:
    async def look() -> list[int]:
        database = open_database(desk.url)
        during = await database.read(lambda _: database.connections_in_use())
        after = database.connections_in_use()
        await database.close()
        return [during, after]

    assert asyncio.run(look()) == [1, 0]


def test_two_registries_do_not_share_and_nothing_is_global(desk: Desk) -> None:
    first, second = Metrics(), Metrics()
    with desk.open(metrics=first) as registry:
        registry.register(request())

    assert "/agents/register" in text_of(first)
    assert "/agents/register" not in text_of(second)
    assert "sdcard" not in generate_latest(REGISTRY).decode()


def test_they_are_read_on_a_port_of_their_own_and_not_on_the_registrys(desk: Desk) -> None:
    metrics, port = Metrics(), free_port()
    with desk.open(metrics=metrics) as registry:
        assert registry.get("/metrics").status_code == 404
        with offered(metrics, port):
            text = httpx2.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text
            head = httpx2.head(f"http://127.0.0.1:{port}/metrics", trust_env=False)
            others = [httpx2.get(f"http://127.0.0.1:{port}{path}", trust_env=False) for path in ("/", "/metrics%0A")]
    assert [(one.status_code, one.content) for one in others] == [(404, b"")] * 2
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"].startswith("text/plain")
    assert int(head.headers["content-length"]) > 100
    assert 'sdcard_requests_total{method="GET",route="/metrics",status="4xx"} 1.0' in text
    with pytest.raises(httpx2.TransportError):
        httpx2.get(f"http://127.0.0.1:{port}/metrics", trust_env=False)
    with offered(metrics, None):
        pass


def test_a_token_shows_them_to_another_machine_also_without_a_database(desk: Desk) -> None:
    secret = "metrics-" + "0123456789abcdef" * 2
    with desk.open(metrics_token=secret, rates=limits(failures=60)) as registry:
        desk.file.unlink()
        assert_refused(registry.get("/metrics"), 401, ("token.missing", "request/headers/authorization"))
        for wrong in (secret[:-1], secret + "f", registry.token, *["guessed"] * 7):
            refused = registry.ask("GET", "/metrics", token=wrong)
            assert_refused(refused, 401, ("token.invalid", "request/headers/authorization"))
            assert refused.headers["www-authenticate"].startswith("Bearer")
        assert registry.ask("GET", "/metrics", token="guessed").status_code == 429
        shown, head = (registry.ask(method, "/metrics", token=secret) for method in ("GET", "HEAD"))

    assert (shown.status_code, head.status_code, head.content) == (200, 200, b"")
    assert shown.headers["cache-control"] == "no-store"
    assert shown.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'sdcard_requests_total{method="GET",route="/metrics",status="4xx"} 12.0' in shown.text
    assert secret not in shown.text
    with pytest.raises(ValidationError):
        Settings(metrics_token=SecretStr("short"))


def test_a_port_that_is_taken_is_said() -> None:
    with closing(bind()) as taken, pytest.raises(OSError, match="in use"), offered(Metrics(), taken.getsockname()[1]):
        pass


# -- Logs --------------------------------------------------------------------------------------------------------------


OURS = logging.getLogger("issuer_service.test")
FOREIGN = logging.getLogger("foreign.library")
HOSTILE = 'a\nb\r\u2028\x1b[31m\x00"}{\\'


def logged(act: Callable[[], None], form: LogFormat = "json", level: LogLevel = "info") -> list[str]:
    stream = io.StringIO()
    with logging_to(stream, form, level):
        act()
    return stream.getvalue().splitlines()


def one(act: Callable[[], None]) -> dict[str, Any]:
    (line,) = logged(act)
    document: dict[str, Any] = json.loads(line)
    return document


def test_an_event_is_one_json_object_with_time_level_and_origin() -> None:
    event = one(lambda: OURS.info("request", extra={"status": 201}))

    assert event.pop("timestamp").endswith("Z")
    assert event == {"event": "request", "level": "info", "logger": "issuer_service.test", "status": 201}


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_terminal_gets_lines_for_people_and_a_file_gets_json(is_terminal: bool) -> None:
    stream = io.StringIO()
    stream.isatty = lambda: is_terminal  # type: ignore[method-assign]
    with logging_to(stream, "auto", "info"):
        OURS.info("started")

    assert stream.getvalue().startswith("{") is not is_terminal
    assert "started" in stream.getvalue()


@pytest.mark.parametrize("form", ["json", "console"])
def test_hostile_text_stays_on_its_line_and_does_nothing_to_a_terminal(form: LogFormat) -> None:
    lines = logged(lambda: OURS.error("%s", HOSTILE, extra={"client": HOSTILE}), form)

    assert len(lines) == 1
    assert lines[0].isprintable()
    if form == "json":
        assert json.loads(lines[0])["client"] == HOSTILE


def fail() -> None:
    raise ValueError("canary-in-an-exception")


@pytest.mark.parametrize("log", [OURS, FOREIGN])
@pytest.mark.parametrize("form", ["json", "console"])
def test_an_exception_is_its_type_and_its_places(log: logging.Logger, form: LogFormat) -> None:
    def act() -> None:
        try:
            fail()
        except ValueError:
            log.exception("it failed", stack_info=True)

    (line,) = logged(act, form)

    assert "canary" not in line
    assert "ValueError" in line
    assert "fail:" in line


def test_of_a_message_of_another_library_the_first_line_is_kept() -> None:
    assert one(lambda: FOREIGN.error("a task failed\ncanary"))["event"] == "a task failed"
    assert len(one(lambda: FOREIGN.error("x" * 100_000))["event"]) < 3_000


def test_the_level_is_for_our_events_and_others_are_heard_when_they_warn() -> None:
    def act() -> None:
        for log in (OURS, FOREIGN):
            log.debug("debug")
            log.info("info")
            log.warning("warning")

    def heard(level: LogLevel) -> list[tuple[str, str]]:
        return [(event["logger"][:7], event["event"]) for event in map(json.loads, logged(act, level=level))]

    assert heard("info") == [("issuer_", "info"), ("issuer_", "warning"), ("foreign", "warning")]
    assert heard("debug")[0] == ("issuer_", "debug")
    assert heard("error") == [("foreign", "warning")]


def test_logging_is_as_before_when_the_block_is_over() -> None:
    root = logging.getLogger()
    before = (root.level, list(root.handlers), logging.getLogger("issuer_service").level)

    logged(lambda: None, level="debug")

    assert (root.level, root.handlers, logging.getLogger("issuer_service").level) == before
