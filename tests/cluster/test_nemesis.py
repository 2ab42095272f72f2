"""Faults of a cluster under load: nothing acknowledged is lost, and nothing that counts once counts twice."""

import hashlib
import os
import shutil
import signal
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from deploy.cluster.cluster import ADDRESSES, APPLICATIONS, DATABASES, ISSUER, PROGRAMS, Cluster, cluster
from issuer_service.access import Scope, create_token
from issuer_service.db.state import NAME_LENGTH
from issuer_service.tokens import digest_of, withdraw_token
from sdcard.io.database import Database
from sdcard.io.system import SystemSalts
from tests.cluster.load import Load
from tests.groups import unavailable
from tests.issuer_service.desk import ask, differences
from tests.postgres import query

ROUNDS = int(os.environ.get("SDCARD_TEST_ROUNDS", "1"))
"""How often each fault happens."""
CLIENTS = 4


def kill_server(cluster: Cluster) -> None:
    cluster.signal(cluster.await_primary(60), "postgres", signal.SIGKILL)


def pause_host(cluster: Cluster) -> None:
    with cluster.paused(cluster.await_primary(60)):
        time.sleep(20)


def unplug_host(cluster: Cluster) -> None:
    with cluster.unplugged(cluster.await_primary(60)):
        time.sleep(30)


def hide_etcd(cluster: Cluster) -> None:
    with cluster.dropping(cluster.await_primary(60), "tcp dport 2379"):
        time.sleep(30)


def hide_standbys(cluster: Cluster) -> None:
    with cluster.dropping(cluster.await_primary(60), "tcp sport 5432"):
        time.sleep(8)


def kill_etcd_leader(cluster: Cluster) -> None:
    cluster.signal(cluster.etcd_leader(), "etcd", signal.SIGKILL)


def kill_pooler(cluster: Cluster) -> None:
    cluster.signal("app1", "pgbouncer", signal.SIGKILL)


def kill_balancer(cluster: Cluster) -> None:
    cluster.signal("app1", "haproxy", signal.SIGKILL)


def kill_registry(cluster: Cluster) -> None:
    cluster.running["app1", "registry-1"].kill()


SOON, LATER = 30, 75
"""Seconds without an acknowledged write at most, on a machine that does other things too: after the end of a process,
and after the loss of a host, which takes Patroni's ``ttl`` first. docs/cluster.md has what was measured."""
FAULTS: dict[str, tuple[Callable[[Cluster], None], float]] = {
    "kill -9 of the primary server": (kill_server, SOON),
    "host of the primary paused for 20 s": (pause_host, LATER),
    "host of the primary unplugged for 30 s": (unplug_host, LATER),
    "primary cut off from etcd for 30 s": (hide_etcd, LATER),
    "primary cut off from standbys and clients for 8 s": (hide_standbys, LATER),
    "kill -9 of etcd's leader": (kill_etcd_leader, SOON),
    "kill -9 of a PgBouncer": (kill_pooler, SOON),
    "kill -9 of an HAProxy": (kill_balancer, SOON),
    "kill -9 of a registry": (kill_registry, SOON),
}


@pytest.fixture
def started() -> Iterator[Cluster]:
    if os.geteuid() != 0:
        unavailable("needs root for network namespaces")
    path = f"{os.environ['PATH']}:/usr/sbin"
    missing = {package for program, package in PROGRAMS.items() if shutil.which(program, path=path) is None}
    if missing:
        unavailable(f"needs a cluster's programs: apt-get install {' '.join(sorted(missing))}")
    folder = Path(tempfile.mkdtemp(prefix="cluster"))
    folder.chmod(0o755)
    with cluster(folder) as made:
        yield made
    shutil.rmtree(folder)


def assert_nothing_is_lost(cluster: Cluster, load: Load, withdrawn: list[str]) -> None:
    url = cluster.direct_url()
    registered, revoked = dict(load.registered), set(load.revoked)  # before the database is read
    agents, cards, statuses = query(
        url,
        "SELECT agent_id FROM agents",
        "SELECT digest, status_list_id, status_index FROM cards",
        "SELECT digest, status FROM cards JOIN status_entries ON list_id = status_list_id "
        'AND status_entries."index" = status_index',
    )
    stored, status_of = {digest: (uri, index) for digest, uri, index in cards}, dict(map(tuple, statuses))
    assert registered.keys() <= {agent for (agent,) in agents}, "an acknowledged registration is lost"
    entries = list[tuple[str, int]]()
    for agent, answer in registered.items():
        for card in answer["cards"]:
            digest = hashlib.sha256(card["sd_card"].partition("~")[0].encode()).hexdigest()
            entry = (card["status"]["uri"].rpartition("/")[2], card["status"]["idx"])
            assert stored[digest] == entry
            entries.append(entry)
            if agent in revoked:
                assert status_of[digest] == 1, "an acknowledged revocation is lost"
    assert len(set(entries)) == len(entries), "a status index was used twice"
    assert len(set(stored.values())) == len(stored)
    assert load.twice == [], "a nonce was accepted twice"
    [valid] = query(url, "SELECT digest FROM tokens")
    assert {digest_of(token) for token in withdrawn}.isdisjoint(digest for (digest,) in valid)
    for host in APPLICATIONS:  # the last one only: there is a limit of bad tokens
        headers = {"authorization": f"Bearer {withdrawn[-1]}"}
        asked = httpx2.get(f"http://{ADDRESSES[host]}:8080/agents", headers=headers, trust_env=False, timeout=30)
        assert asked.status_code == 401, "a withdrawn token is accepted"
    assert differences(url) == [], "sdcard audit verify --state"
    recovering = [cluster.execute_at(host, "SELECT pg_is_in_recovery()").strip() for host in DATABASES]
    assert recovering.count("f") == 1, "there is one primary"


async def new_token(database: Database) -> str:
    now = time.time()
    return await create_token(database, "load", tuple(Scope), {}, int(now) + 7200, now, SystemSalts())


def withdraw(url: str, token: str) -> None:
    """Withdraw a token, until it is acknowledged."""

    async def work(database: Database) -> None:
        await withdraw_token(database, digest_of(token)[:NAME_LENGTH], time.time())

    ask(url, work)


def test_no_fault_of_a_cluster_loses_what_was_acknowledged_or_lets_it_happen_twice(
    started: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    url = started.direct_url()
    load = Load([f"http://{ADDRESSES[host]}:8080" for host in APPLICATIONS], ISSUER, ask(url, new_token))
    interruptions, withdrawn = defaultdict[str, list[float]](list), list[str]()
    with ThreadPoolExecutor(CLIENTS) as pool:
        clients = [pool.submit(load.run) for _ in range(CLIENTS)]
        try:
            for name, (fault, bound) in FAULTS.items() if ROUNDS == 1 else list(FAULTS.items()) * ROUNDS:
                withdrawn.append(ask(url, new_token))
                withdraw(url, withdrawn[-1])
                began = time.monotonic()
                fault(started)
                started.await_health(120)
                time.sleep(1)
                interruptions[name].append(load.interruption(began))
                assert load.errors == []
                assert_nothing_is_lost(started, load, withdrawn)
                assert interruptions[name][-1] < bound, name
        finally:
            load.stop()
            with capsys.disabled():
                print(f"\n{len(load.registered)} registrations, {len(load.revoked)} revocations, {load.proved} nonces")
                for name, seconds in interruptions.items():
                    print(f"| {name} | {len(seconds)} | {statistics.median(seconds):.1f} s | {max(seconds):.1f} s |")
        for one in clients:
            one.result()
    assert load.proved > 0
    assert load.revoked
