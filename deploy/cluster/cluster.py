#!/usr/bin/env python3
"""A whole cluster on one machine: each host is a network namespace, each program the real one.

For tests and demonstrations: `python deploy/cluster/cluster.py FOLDER` as root starts it, and removes it on Ctrl-C. It
needs the Debian packages of ``PROGRAMS``, and the command ``sdcard``. On real hosts systemd starts the same programs
with the same files: docs/cluster.md.
"""

import base64
import contextlib
import fcntl
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from string import Template

HERE = Path(__file__).parent
DATABASES, APPLICATIONS = ("db1", "db2", "db3"), ("app1", "app2")
NETWORK = "198.18.77.0/24"  # RFC 2544: for tests, not routed
ADDRESSES = {host: f"198.18.77.{10 + number}" for number, host in enumerate((*DATABASES, *APPLICATIONS), 1)}
BRIDGE, PREFIX = "sdcard0", "sdcard-"
PROGRAMS = {
    "patroni": "patroni python3-etcd postgresql",
    "etcd": "etcd-server",
    "etcdctl": "etcd-client",
    "haproxy": "haproxy",
    "pgbouncer": "pgbouncer",
    "ip": "iproute2",
    "nft": "nftables",
    "setpriv": "util-linux",
}
ISSUER = "https://registry.example"
SERVE = [sys.executable, "-m", "sdcard", "serve"]


class Cluster:
    """The hosts, and a supervisor that starts a program again when it ends, as systemd does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.passwords = {name: secrets.token_hex(16) for name in ("superuser", "replication", "registry")}
        self.running = dict[tuple[str, str], "subprocess.Popen[bytes]"]()
        self._commands = dict[tuple[str, str], list[str]]()
        self._ended = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise, daemon=True)

    # -- Start and stop ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start all of it, and wait until both application hosts take writes."""
        self._make_network()
        for host in ADDRESSES:
            self._write_files(host)
        self._supervisor.start()
        for host in DATABASES:
            self._run(host, "etcd", ["etcd", "--config-file", str(self._data(host) / "etcd.conf.yml")])
        for host in DATABASES:
            self._run(host, "patroni", ["patroni", str(self._data(host) / "patroni.yml")])
        self.await_primary(120)
        self._await(lambda: len(self._standbys()) == 2, 120, "standbys follow")
        self.execute(
            f"CREATE ROLE sdcard LOGIN PASSWORD '{self.passwords['registry']}'",
            "ALTER ROLE sdcard SET jit = off",
            "CREATE DATABASE sdcard OWNER sdcard TEMPLATE template0 ENCODING 'UTF8'",
        )
        for host in APPLICATIONS:
            self._run(host, "haproxy", ["haproxy", "-db", "-f", str(self._data(host) / "haproxy.cfg")])
            self._run(host, "pgbouncer", ["pgbouncer", "-q", str(self._data(host) / "pgbouncer.ini")])
            for name, port in (("registry-1", 8081), ("registry-2", 8082)):
                self._run(host, name, [*SERVE, "--port", str(port)])
        for host in APPLICATIONS:
            self._await(partial(self.answers, host), 120, f"{host} serves")

    def stop(self) -> None:
        """End every process of the namespaces, and remove them."""
        self._ended.set()
        if self._supervisor.is_alive():
            self._supervisor.join()
        remove_hosts()
        for process in self.running.values():
            process.wait()

    def _make_network(self) -> None:
        remove_hosts()
        _ip("link", "add", BRIDGE, "type", "bridge")
        _ip("address", "add", f"{ADDRESSES['db1'].rpartition('.')[0]}.1/24", "dev", BRIDGE)
        _ip("link", "set", BRIDGE, "up")
        for host, address in ADDRESSES.items():
            space = PREFIX + host
            _ip("netns", "add", space)
            _ip("link", "add", f"sd-{host}", "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("link", "set", f"sd-{host}", "master", BRIDGE, "up")
            _ip("-n", space, "address", "add", f"{address}/24", "dev", "eth0")
            for link in ("lo", "eth0"):
                _ip("-n", space, "link", "set", link, "up")

    def _write_files(self, host: str) -> None:
        data = self._data(host)
        data.mkdir(parents=True)
        postgresql = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parts[-2]))[-1]
        values = {
            **{name: address for name, address in ADDRESSES.items() if name in DATABASES},
            **{f"{name}_password": password for name, password in self.passwords.items()},
            "host": host,
            "address": ADDRESSES[host],
            "network": NETWORK,
            "data": str(data),
            "postgresql": str(postgresql),
        }
        names = ("etcd.conf.yml", "patroni.yml") if host in DATABASES else ("haproxy.cfg", "pgbouncer.ini")
        for name in names:
            text = Template((HERE / name).read_text(encoding="utf-8")).substitute(values)
            (data / name).write_text(text, encoding="utf-8")
        (data / "userlist.txt").write_text(f'"sdcard" "{self.passwords["registry"]}"\n', encoding="utf-8")
        for path in (data, *data.iterdir()):
            path.chmod(0o700 if path.is_dir() else 0o600)
            shutil.chown(path, "postgres", "postgres")
        key = self.folder / "key-encryption.key"  # the same on both application hosts
        if not key.exists():
            key.touch(0o600)
            key.write_text(base64.urlsafe_b64encode(secrets.token_bytes(32)).decode().rstrip("="), encoding="utf-8")

    # -- Processes -----------------------------------------------------------------------------------------------------

    def _run(self, host: str, name: str, command: Sequence[str]) -> None:
        user = (
            [] if name.startswith("registry") else ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
        )
        self._commands[host, name] = ["ip", "netns", "exec", PREFIX + host, *user, *command]
        self._launch(host, name)

    def _launch(self, host: str, name: str) -> None:
        own = {
            "SDCARD_AUDIT_CHECKPOINTS": str(self.folder / f"{host}.checkpoints"),
            "SDCARD_DATABASE_URL": self.url("127.0.0.1:6432", "pool_mode=transaction"),
            "SDCARD_ISSUER": ISSUER,
            "SDCARD_KEY_ENCRYPTION_KEY_FILE": str(self.folder / "key-encryption.key"),
        }
        environment = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin", **own}
        with (self.folder / f"{host}-{name}.log").open("ab") as log:
            self.running[host, name] = subprocess.Popen(
                self._commands[host, name], env=environment, stdout=log, stderr=log, cwd=self.folder
            )

    def _supervise(self) -> None:
        while not self._ended.wait(1):
            for (host, name), process in list(self.running.items()):
                if process.poll() is not None and not self._ended.is_set():
                    self._launch(host, name)

    # -- Faults --------------------------------------------------------------------------------------------------------

    def signal(self, host: str, name: str, what: signal.Signals) -> None:
        """Send a signal to all processes of a host whose name begins so."""
        for pid in pids(host, name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, what)

    @contextmanager
    def paused(self, host: str) -> Iterator[None]:
        """Stop every process of a host, as a virtual machine that is moved."""
        self.signal(host, "", signal.SIGSTOP)
        try:
            yield
        finally:
            self.signal(host, "", signal.SIGCONT)

    @contextmanager
    def unplugged(self, host: str) -> Iterator[None]:
        """Cut a host off from all others."""
        _ip("link", "set", f"sd-{host}", "down")
        try:
            yield
        finally:
            _ip("link", "set", f"sd-{host}", "up")

    @contextmanager
    def dropping(self, host: str, rule: str) -> Iterator[None]:
        """Drop what a rule of nftables matches, on its way out of a host."""
        inside = ["ip", "netns", "exec", PREFIX + host, "nft"]
        chain = f"type filter hook output priority 0\n{rule} drop"
        table = f"table inet fault {{\nchain out {{\n{chain}\n}}\n}}\n"
        subprocess.run([*inside, "-f", "-"], check=True, input=table, text=True)
        try:
            yield
        finally:
            subprocess.run([*inside, "delete", "table", "inet", "fault"], check=True)

    # -- State ---------------------------------------------------------------------------------------------------------

    def url(self, hosts: str, options: str) -> str:
        """Return a database URL of the registry's role. ``hosts``: of poolers or servers."""
        places = "&".join(f"host={place}" for place in hosts.split(","))
        return f"postgresql+asyncpg://sdcard:{self.passwords['registry']}@/sdcard?{places}&{options}"

    def direct_url(self) -> str:
        """Return the URL of the three servers, for whichever is the primary."""
        hosts = ",".join(f"{ADDRESSES[host]}:5432" for host in DATABASES)
        return self.url(hosts, "target_session_attrs=read-write")

    def primary(self) -> str | None:
        """Return the host that Patroni calls the primary."""
        return next((host for host in DATABASES if _status(f"http://{ADDRESSES[host]}:8008/primary") == 200), None)

    def etcd_leader(self) -> str:
        """Return the host of etcd's leader."""
        asked = ["etcdctl", "--endpoints", ",".join(f"{ADDRESSES[host]}:2379" for host in DATABASES)]
        environment = {**os.environ, "ETCDCTL_API": "3"}
        told = subprocess.run(
            [*asked, "endpoint", "status"], check=False, capture_output=True, text=True, env=environment
        ).stdout
        leader = next(line.split(":")[0] for line in told.splitlines() if line.split(", ")[4] == "true")
        return next(host for host, address in ADDRESSES.items() if address == leader)

    def answers(self, host: str) -> bool:
        """Whether an application host has a registry that can write."""
        return _status(f"http://{ADDRESSES[host]}:8080/readyz") == 200

    def await_primary(self, seconds: float) -> str:
        """Wait for a primary."""
        self._await(lambda: self.primary() is not None, seconds, "a primary")
        return self.primary() or ""

    def await_health(self, seconds: float) -> None:
        """Wait until a primary, a synchronous standby, another standby and both application hosts are well."""
        self._await(self._is_healthy, seconds, "the cluster is whole again")

    def _is_healthy(self) -> bool:
        return self.primary() is not None and len(self._standbys()) == 2 and all(map(self.answers, APPLICATIONS))

    def _standbys(self) -> list[str]:
        found = self.execute("SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'").split()
        return found if "sync" in found else []

    def execute(self, *statements: str) -> str:
        """Run statements as the superuser of the primary; nothing when there is none."""
        primary = self.primary()
        return "" if primary is None else self.execute_at(primary, *statements)

    def execute_at(self, host: str, *statements: str) -> str:
        """Run statements as the superuser of a server."""
        command = ["psql", "-qAt", "-h", ADDRESSES[host], "-U", "postgres", "-d", "postgres"]
        environment = {**os.environ, "PGPASSWORD": self.passwords["superuser"], "PGCONNECT_TIMEOUT": "3"}
        for statement in statements:
            command += ["-c", statement]
        told = subprocess.run(command, check=False, capture_output=True, text=True, env=environment, timeout=30)
        return told.stdout

    def _await(self, holds: Callable[[], bool], seconds: float, what: str) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}: not within {seconds:.0f} seconds; the logs are in {self.folder}")
            time.sleep(0.3)

    def _data(self, host: str) -> Path:
        return self.folder / host


def pids(host: str, name: str = "") -> list[int]:
    """Return the processes of a host whose name begins so."""
    listed = subprocess.run(["ip", "netns", "pids", PREFIX + host], check=False, capture_output=True, text=True)
    found = []
    for pid in map(int, listed.stdout.split()):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").startswith(name):
                found.append(pid)
    return found


def remove_hosts() -> None:
    """End every process of the namespaces, and remove them and the bridge, if they are there."""
    for host in ADDRESSES:
        for pid in pids(host):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for command in (["netns", "delete", PREFIX + host], ["link", "delete", f"sd-{host}"]):
            subprocess.run(["ip", *command], check=False, capture_output=True)
    subprocess.run(["ip", "link", "delete", BRIDGE], check=False, capture_output=True)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def _status(url: str) -> int:
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=2) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """A cluster for as long as the block lasts. The folder is one that user postgres may enter."""
    made = Cluster(folder)
    with Path("/run/sdcard-cluster.lock").open("w") as lock:  # a machine has one
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            made.start()
            yield made
        finally:
            made.stop()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    home = Path(sys.argv[1]).absolute()
    home.mkdir(mode=0o755)
    with cluster(home) as started:
        print("registry:", *(f"http://{ADDRESSES[host]}:8080" for host in APPLICATIONS))
        print("database:", started.direct_url())
        print("patroni: patronictl -c", home / "db1" / "patroni.yml", "list")
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()
