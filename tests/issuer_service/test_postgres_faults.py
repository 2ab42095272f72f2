"""A PostgreSQL server that stops, hangs, is full, locked or out of reach: refusals, and recovery without a restart."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest

from issuer_service.db.migrations import upgrade
from sdcard import Misuse
from sdcard.io.database import open_database
from tests.issuer_service.desk import Desk, OpenDesk, assert_refused, jwk, request
from tests.issuer_service.test_processes import ROUNDS
from tests.postgres import Cluster, cluster
from tests.world import key, raises_rule

pytestmark = pytest.mark.postgresql
UNAVAILABLE = ("store.unavailable", "request")


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    """A server that keeps what it committed, for tests that stop it."""
    with cluster(crash_safe=True) as own:
        yield own


@pytest.fixture
def desk(server: Cluster, tmp_path: Path) -> Desk:
    return Desk(tmp_path, server.url(server.new_database()))


def database_of(desk: Desk) -> str:
    return desk.url.rpartition("/")[2]


def assert_writes_are_refused(desk: Desk, registry: OpenDesk) -> None:
    before = desk.rows()
    response = registry.post(request())
    assert_refused(response, 503, UNAVAILABLE)
    assert int(response.headers["retry-after"]) > 0
    assert desk.rows() == before


@pytest.mark.slow
@pytest.mark.parametrize(("how", "rounds"), [(signal.SIGINT, 1), (signal.SIGKILL, ROUNDS)])
def test_a_server_that_stops_under_load_is_used_again_once_it_is_back(
    server: Cluster, desk: Desk, how: signal.Signals, rounds: int
) -> None:
    done, answers, lock = threading.Event(), list[tuple[int, int]](), threading.Lock()
    numbers = count(100)

    with desk.open(open_database(desk.url, patience=2.0)) as registry:

        def load() -> None:
            while not done.is_set():
                with lock:
                    number = next(numbers)
                response = registry.post(request(f"agent-{number}", public_key=jwk(key(number))))
                if response.status_code != 201:
                    assert_refused(response, 503, UNAVAILABLE)
                    assert int(response.headers["retry-after"]) > 0
                    done.wait(0.05)
                with lock:
                    answers.append((number, response.status_code))

        def await_answer(wanted: Callable[[int], bool], since: int) -> int:
            deadline = time.monotonic() + 60
            while not any(wanted(status) for _, status in answers[since:]):
                assert time.monotonic() < deadline
                time.sleep(0.02)
            return len(answers)

        with ThreadPoolExecutor(8) as pool:
            loads = [pool.submit(load) for _ in range(8)]
            try:
                seen = await_answer(lambda status: status == 201, 0)
                for _ in range(rounds):
                    server.stop(how)
                    seen = await_answer(lambda status: status == 503, seen)
                    server.start()
                    seen = await_answer(lambda status: status == 201, seen + 8)
                    assert desk.differences() == [], "sdcard audit verify --state"
            finally:
                done.set()
            for one in loads:
                one.result()
        assert registry.read().status_code == 404

    rows = desk.rows()
    stored = {agent_id for agent_id, *_ in rows["agents"]}
    assert {f"agent-{number}" for number, status in answers if status == 201} <= stored
    assert len(rows["audit"]) == len(rows["batches"]) == len(stored)
    assert len(rows["cards"]) == 3 * len(stored)


def test_a_change_waits_for_a_server_that_starts_again_soon(server: Cluster, desk: Desk) -> None:
    with desk.open() as registry, ThreadPoolExecutor(1) as pool:
        registry.register(request())
        server.stop()
        registered = pool.submit(registry.post, request("second", public_key=jwk(key(21))))
        time.sleep(0.2)
        server.start()
        assert registered.result().status_code == 201


def test_a_host_that_does_not_answer_leaves_time_for_the_others(server: Cluster, desk: Desk) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hosts = f"host=127.0.0.1:{silent.getsockname()[1]}&host=127.0.0.1:{server.port}"
        url = f"postgresql+asyncpg://app@/{database_of(desk)}?{hosts}&target_session_attrs=read-write"
        with desk.open(open_database(url, patience=2.0)) as registry:
            registry.register(request())
            began = time.monotonic()
            assert registry.read().status_code == 404
            assert time.monotonic() - began < 0.9, "the host that answered is asked first from then on"


def test_a_server_that_hangs_keeps_nobody_for_long(server: Cluster, desk: Desk) -> None:
    with desk.open(open_database(desk.url, patience=0.5)) as registry:
        registry.register(request())
        hung = server.pids()
        for pid in hung:
            os.kill(pid, signal.SIGSTOP)
        try:
            began = time.monotonic()
            assert_refused(registry.read(), 503, UNAVAILABLE)
            assert_refused(registry.post(request("second")), 503, UNAVAILABLE)
            assert time.monotonic() - began < 15
        finally:
            for pid in hung:
                os.kill(pid, signal.SIGCONT)

        registry.register(request("second", public_key=jwk(key(21))))


def test_a_database_that_is_read_only_is_unavailable_for_writing_alone(server: Cluster, desk: Desk) -> None:
    name = database_of(desk)
    server.execute("postgres", f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    with desk.open() as registry:
        assert_writes_are_refused(desk, registry)
        assert registry.read().status_code == 404


def test_a_role_that_may_not_write_is_refused_and_nothing_is_left(server: Cluster, desk: Desk) -> None:
    name = database_of(desk)
    server.execute(
        name, f"CREATE ROLE reader_{name} LOGIN", f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader_{name}"
    )
    with desk.open(open_database(server.url(name, f"reader_{name}"))) as registry:
        assert_writes_are_refused(desk, registry)
        assert registry.read().status_code == 404


@pytest.mark.parametrize("role", ["NOLOGIN", "LOGIN CONNECTION LIMIT 0"], ids=["no login", "too many connections"])
def test_a_server_that_lets_nobody_in_is_unavailable(server: Cluster, desk: Desk, role: str) -> None:
    name = database_of(desk)
    server.execute(name, f"CREATE ROLE outside_{name} {role}")
    url = server.url(name, f"outside_{name}")
    with desk.open(open_database(url)) as registry:
        assert_writes_are_refused(desk, registry)
        assert_refused(registry.read(), 503, UNAVAILABLE)
    with raises_rule(*UNAVAILABLE):
        upgrade(url)


def test_a_database_that_is_not_there_is_unavailable_and_the_log_says_why(
    server: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    with raises_rule(*UNAVAILABLE):
        upgrade(server.url("nowhere"))

    assert [record.getMessage() for record in caplog.records if record.name == "sdcard.io.database"] == [
        "the database is not available: InvalidCatalogNameError 3D000"
    ]


def test_a_lock_is_waited_for_and_then_no_longer(server: Cluster, desk: Desk) -> None:
    lock = ["-h", "127.0.0.1", "-p", str(server.port), "-U", "app", "-d", database_of(desk), "-q"]
    with (
        desk.open(open_database(desk.url, patience=0.5)) as registry,
        subprocess.Popen(["psql", *lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other,
    ):
        assert other.stdin is not None
        assert other.stdout is not None
        other.stdin.write(b"BEGIN; LOCK TABLE agents; SELECT 'locked';\n")
        other.stdin.flush()
        while b"locked" not in (line := other.stdout.readline()):
            assert line
        began = time.monotonic()
        assert_refused(registry.post(request()), 503, UNAVAILABLE)
        assert time.monotonic() - began < 5
        assert registry.read().status_code == 404
        other.stdin.close()
        other.wait(timeout=10)
        registry.register(request())


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """24 MiB: a database has 8 before anything is in it."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small disk")
    folder = Path(tempfile.mkdtemp(prefix="pgsmall"))
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        folder.rmdir()
        pytest.skip(f"may not mount a small disk: {mounted.stderr.decode().strip()}")
    try:
        shutil.chown(folder, "postgres", "postgres")
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        folder.rmdir()


def fill(file: Path) -> None:
    """Take every block that is left."""
    with file.open("wb", buffering=0) as stream, contextlib.suppress(OSError):
        while True:
            stream.write(b"a" * 4096)


def test_a_full_disk_is_a_refusal_with_nothing_half_done(small_disk: Path, tmp_path: Path) -> None:
    with cluster(crash_safe=True) as server:
        server.execute(
            "postgres",
            f"CREATE TABLESPACE small LOCATION '{small_disk}'",
            "CREATE DATABASE small TEMPLATE template0 TABLESPACE small",
        )
        desk = Desk(tmp_path, server.url("small"))
        with desk.open() as registry:
            fill(small_disk / "filler")
            statuses = list[int]()
            for number in range(100, 160):
                big = "d" * 50_000
                response = registry.post(request(f"agent-{number}", public_key=jwk(key(number)), description=big))
                statuses.append(response.status_code)
                if response.status_code != 201:
                    assert_refused(response, 503, UNAVAILABLE)
                    break
            assert statuses[-1] == 503
            (small_disk / "filler").unlink()
            registry.register(request("after", public_key=jwk(key(30))))
        counts = desk.counts()
        assert counts["agents"] == counts["audit"] == counts["batches"] == statuses.count(201) + 1
        assert counts["cards"] == 3 * counts["agents"]


def test_a_database_of_another_encoding_is_a_misuse(server: Cluster) -> None:
    server.execute("postgres", "CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")

    with pytest.raises(Misuse, match="UTF8"):
        upgrade(server.url("latin"))
