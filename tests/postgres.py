"""A PostgreSQL server of our own on loopback: in a folder of its own, killed and started as tests like."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import CursorResult, Engine, NullPool, create_engine, make_url, text
from sqlalchemy.ext.asyncio import create_async_engine

from tests.groups import needs, unavailable
from tests.ports import free_port

_CAREFUL: Sequence[str] = ()
_HASTY: Sequence[str] = ("-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off")
_PATIENCE = 30.0


class Cluster:
    """A server. Its databases are made and dropped by tests."""

    def __init__(self, folder: Path, options: Sequence[str], primary: "Cluster | None" = None) -> None:
        self.folder, self._options, self._numbers = folder, options, count(1)
        self._binaries = binaries()
        self.port = free_port()
        data = ("-D", f"{folder}/d", "-U", "app", "--no-sync")
        if primary is None:
            self.run("initdb", *data, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8")
        else:
            self.run("pg_basebackup", *data, "-R", "-c", "fast", "-h", "127.0.0.1", "-p", str(primary.port))
        self.server: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        where = ("-c", "listen_addresses=127.0.0.1", "-c", f"port={self.port}")
        sockets = ("-c", f"unix_socket_directories={self.folder}")
        with (self.folder / "log").open("ab") as log:
            command = [str(self._binaries / "postgres"), "-D", f"{self.folder}/d", *where, *sockets, *self._options]
            self.server = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log, **_as_postgres())
        deadline = time.monotonic() + _PATIENCE
        while not self._answers():
            if self.server.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"PostgreSQL did not start: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.02)

    def stop(self, by: signal.Signals = signal.SIGINT) -> None:
        """SIGINT ends sessions and stops in order; SIGKILL is a crash."""
        if self.server is not None:
            sessions = self.pids()[1:]
            self.server.send_signal(by)
            self.server.wait(timeout=_PATIENCE)
            self.server = None
            deadline = time.monotonic() + _PATIENCE
            while any(map(_runs, sessions)):  # they hold the shared memory that the next start wants
                assert time.monotonic() < deadline
                time.sleep(0.01)

    def pids(self) -> list[int]:
        """The server and all its sessions, for signals to everybody at once."""
        assert self.server is not None
        children = Path(f"/proc/{self.server.pid}/task/{self.server.pid}/children").read_text().split()
        return [self.server.pid, *map(int, children)]

    def url(self, database: str, user: str = "app") -> str:
        """Return the URL for the registry. Its password must not be shown."""
        return f"postgresql+asyncpg://{user}:canary-password@127.0.0.1:{self.port}/{database}"

    def new_database(self, template: str = "template0") -> str:
        """The name of a database that nobody has."""
        name = f"test{next(self._numbers)}"
        self.execute("postgres", f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    def execute(self, database: str, *statements: str) -> list[list[tuple[Any, ...]]]:
        """The rows of each statement. Each is a transaction of its own."""
        return query(self.url(database), *statements)

    def _answers(self) -> bool:
        ready = ("-q", "-h", "127.0.0.1", "-p", str(self.port), "-U", "app")
        return subprocess.run([str(self._binaries / "pg_isready"), *ready], check=False).returncode == 0

    def run(self, program: str, *arguments: str) -> None:
        """Run one of PostgreSQL's programs as the user of the server."""
        command = [str(self._binaries / program), *arguments]
        subprocess.run(command, check=True, cwd=self.folder, capture_output=True, **_as_postgres())

    def follow(self, primary: "Cluster") -> None:
        """Have the primary wait with each commit until it is on the disk of this standby too."""
        primary.execute("postgres", "ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
        deadline = time.monotonic() + _PATIENCE
        while primary.execute("postgres", "SELECT sync_state FROM pg_stat_replication") != [[("sync",)]]:
            assert time.monotonic() < deadline, "the standby does not follow"
            time.sleep(0.05)

    def promote(self) -> None:
        """Make this standby a primary."""
        assert self.execute("postgres", "SELECT pg_promote()") == [[(True,)]]


@contextmanager
def cluster(*, crash_safe: bool, standby_of: Cluster | None = None) -> Iterator[Cluster]:
    """A server that answers. Those that are not crash safe are faster."""
    binaries()
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # not pytest's, which nobody but its owner may enter
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
    server = None
    try:
        server = Cluster(folder, _CAREFUL if crash_safe else _HASTY, standby_of)
        server.start()
        if standby_of is not None:
            server.follow(standby_of)
        yield server
    finally:
        if server is not None:
            server.stop(signal.SIGQUIT)  # at once: nothing in it is needed
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def pooler(server: Cluster, sessions: int) -> Iterator[int]:
    """The port of a PgBouncer that gives each transaction one of so many sessions of the server."""
    needs("postgresql")
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        unavailable("needs PgBouncer: apt-get install pgbouncer")
    folder, port = Path(tempfile.mkdtemp(prefix="pgb")), free_port()
    settings = {
        "listen_addr": "127.0.0.1",
        "listen_port": port,
        "unix_socket_dir": "",
        "auth_type": "any",
        "pool_mode": "transaction",
        "default_pool_size": sessions,
        "logfile": folder / "log",
    }
    lines = [f"[databases]\n* = host=127.0.0.1 port={server.port} user=app\n[pgbouncer]"]
    (folder / "ini").write_text("\n".join([*lines, *(f"{name} = {value}" for name, value in settings.items()), ""]))
    if os.geteuid() == 0:
        for path in (folder, folder / "ini"):
            shutil.chown(path, "postgres", "postgres")
    with subprocess.Popen([program, "-q", str(folder / "ini")], cwd=folder, **_as_postgres()) as running:
        try:
            deadline = time.monotonic() + _PATIENCE
            while running.poll() is None and not _listens(port):
                assert time.monotonic() < deadline, (folder / "log").read_text()
                time.sleep(0.02)
            assert running.poll() is None, (folder / "log").read_text()
            yield port
        finally:
            running.kill()
            running.wait()
            shutil.rmtree(folder, ignore_errors=True)


def _listens(port: int) -> bool:
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", port)) == 0


def query(url: str, *statements: str) -> list[list[tuple[Any, ...]]]:
    """The rows of each statement, on a connection of their own, whatever the database."""
    if url.startswith("sqlite"):
        with sqlite(url).connect() as connection:
            return [_rows(connection.execute(text(statement))) for statement in statements]

    async def ask() -> list[list[tuple[Any, ...]]]:
        engine = create_async_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
        try:
            async with engine.connect() as connection:
                return [_rows(await connection.execute(text(statement))) for statement in statements]
        finally:
            await engine.dispose()

    return asyncio.run(ask())


def sqlite(url: str) -> Engine:
    """Return an engine without event loop, thread or open connection: those cost tests a third of their time."""
    return _engine(url, os.getcwd())


@lru_cache(maxsize=8)
def _engine(url: str, _: str) -> Engine:
    """An engine for files relative to the working directory of the time."""
    return create_engine(make_url(url).set(drivername="sqlite"), isolation_level="AUTOCOMMIT", poolclass=NullPool)


def _rows(result: CursorResult[Any]) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in result] if result.returns_rows else []


def binaries() -> Path:
    """Return the folder of PostgreSQL's programs."""
    needs("postgresql")
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    known = found[-1] if found else shutil.which("initdb")
    if known is not None:
        return Path(known).resolve().parent
    return unavailable("needs PostgreSQL's initdb and postgres: apt-get install postgresql")


def _runs(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _as_postgres() -> dict[str, Any]:
    """PostgreSQL refuses to run as root."""
    return {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
