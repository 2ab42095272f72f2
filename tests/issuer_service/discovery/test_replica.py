"""Public discovery from a real standby whose replay stops: it serves within its bound, and is refused beyond it."""

import asyncio
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from issuer_service.access import Limit, Scope
from issuer_service.discovery.replica import Replica, open_replica
from issuer_service.monitoring import Metrics
from issuer_service.settings import Settings, shown_value
from issuer_service.tokens import find_token, token_name, withdraw_token
from sdcard import Misuse, Refused
from sdcard.io.database import Database, open_database
from tests.issuer_service.desk import Desk, OpenDesk, ask, assert_refused
from tests.issuer_service.discovery.seekers import register
from tests.postgres import Cluster, cluster, query

STANDBY = "postgresql+asyncpg://reader:canary-password@standby.example/sdcard"


@pytest.fixture
def servers() -> Iterator[tuple[Cluster, Cluster]]:
    with cluster(crash_safe=True) as primary, cluster(crash_safe=True, standby_of=primary) as standby:
        yield primary, standby


def listed(registry: OpenDesk) -> list[str]:
    answer = registry.client.get("/catalogue")
    assert answer.status_code == 200, answer.text
    return sorted(one["agent_id"] for one in answer.json()["results"])


class Watched:
    """A registry with a replica, whose heartbeat is written when the test says so."""

    def __init__(self, desk: Desk, primary: str, standby: str) -> None:
        self.desk, self.primary, self.standby = desk, primary, standby
        self.metrics = Metrics()
        self.replica = Replica(open_database(standby), 60, self.metrics)

    def beat(self) -> None:
        """Write the heartbeat, as a process does in the background."""

        async def work() -> None:
            primary, standby = open_database(self.primary), open_database(self.standby)
            try:
                await Replica(standby, 60, self.metrics).keep(primary, self.desk.clock)
            finally:
                await primary.close()
                await standby.close()

        asyncio.run(work())

    def caught_up(self) -> None:
        """Wait until the standby shows all that the primary has."""
        asked = "SELECT (SELECT max(sequence) FROM audit), (SELECT max(at) FROM heartbeats)"
        deadline = time.monotonic() + 30
        while query(self.standby, asked) != query(self.primary, asked):
            assert time.monotonic() < deadline
            time.sleep(0.02)

    @property
    def lag(self) -> Any:
        return self.metrics.registry.get_sample_value("sdcard_replica_lag_seconds")


def withdraw(desk: Desk) -> None:
    """Withdraw the token of the desk."""

    async def work(database: Database) -> None:
        now = desk.clock.now()
        await withdraw_token(database, token_name(await find_token(database, desk.token, now)), now)

    ask(desk.url, work)


@pytest.mark.postgresql
@pytest.mark.slow
def test_a_standby_that_no_longer_replays_serves_within_its_bound_and_is_refused_beyond_it(
    servers: tuple[Cluster, Cluster], tmp_path: Path
) -> None:
    primary, standby = servers
    name = primary.new_database()
    desk = Desk(tmp_path, primary.url(name))
    watched = Watched(desk, primary.url(name), standby.url(name))
    with desk.open(catalogue=True, replica=watched.replica, metrics=watched.metrics) as registry:
        assert_refused(registry.client.get("/catalogue"), 503, ("store.behind", "request"))
        for agent in ("one", "two"):
            register(registry, "public", "internal", agent_id=agent)
        watched.beat()
        watched.caught_up()
        assert listed(registry) == ["one", "two"], "the primary issues what is not issued yet"
        watched.caught_up()
        assert listed(registry) == sorted(registry.found(skills=["route-optimizer-traffic"])) == ["one", "two"]

        standby.execute("postgres", "SELECT pg_wal_replay_pause()")
        register(registry, "public", "internal", agent_id="three")
        registry.done("POST", "/agents/one/suspend", {})
        for seconds in (1, 30, 29):
            desk.clock.advance(seconds)
            watched.beat()
            assert listed(registry) == ["one", "two"], "the standby's own rows"
            assert sorted(registry.found(skills=["route-optimizer-traffic"])) == ["one", "two"]
        assert watched.lag == 60
        desk.clock.advance(1)
        for refused in (registry.client.get("/catalogue"), registry.look_for(skills=["route-optimizer-traffic"])):
            assert_refused(refused, 503, ("store.behind", "request"))
            assert refused.headers["retry-after"]
            assert refused.json()["type"] == "urn:sd-card:rule:store.behind"

        register(registry, "public", "internal", agent_id="four")
        all_contexts = desk.new_token("seeker", (Scope.AGENTS_DISCOVER,), {Limit.CONTEXTS: ["public", "internal"]})
        inside = registry.found("internal", all_contexts, skills=["route-optimizer-traffic"])
        assert sorted(inside) == ["four", "three", "two"], (
            "the primary's rows, for a token that the standby does not have"
        )
        assert registry.ask("GET", "/agents/four").status_code == 200
        withdraw(desk)
        assert registry.ask("GET", "/agents/four").status_code == 401, "at once"

        standby.execute("postgres", "SELECT pg_wal_replay_resume()")
        watched.beat()
        watched.caught_up()
        assert listed(registry) == ["four", "three", "two"]

        standby.stop()
        assert_refused(registry.client.get("/catalogue"), 503, ("store.unavailable", "request"))
        assert watched.lag == math.inf
        assert registry.found("internal", all_contexts, skills=["route-optimizer-traffic"])


def beaten(desk: Desk, ahead: int) -> None:
    """Write a heartbeat that is so far ahead of the clock."""
    query(
        desk.url, f"INSERT OR REPLACE INTO heartbeats (name, at) VALUES ('registry', {int(desk.clock.now()) + ahead})"
    )


def test_a_heartbeat_from_the_future_stays_unusable_until_another_one_arrives(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    replica = Replica(open_database(desk.url), 60, Metrics())
    with desk.open(catalogue=True, replica=replica) as registry:
        beaten(desk, 61)
        assert_refused(registry.client.get("/catalogue"), 503, ("store.behind", "request"))
        for _ in range(3):
            desk.clock.advance(30)
            assert_refused(registry.client.get("/catalogue"), 503, ("store.behind", "request"))
        beaten(desk, 60)
        assert listed(registry) == []
        desk.clock.advance(120)
        assert listed(registry) == [], "the permitted skew is added to the bound"
        desk.clock.advance(1)
        assert_refused(registry.client.get("/catalogue"), 503, ("store.behind", "request"))


def test_a_replica_of_another_registry_serves_nothing_and_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "other").mkdir()
    desk, other = Desk(tmp_path), Desk(tmp_path / "other")
    beaten(other, 0)
    with desk.open(catalogue=True, replica=Replica(open_database(other.url), 60, Metrics())) as registry:
        for refused in (registry.client.get("/catalogue"), registry.look_for(skills=["route-optimizer-traffic"])):
            assert_refused(refused, 503, ("store.unavailable", "request"))
    assert "SDCARD_REPLICA_URL names a database of another registry" in caplog.text


def test_the_metric_of_the_lag_has_no_bound_after_an_error_and_is_not_there_without_a_replica(tmp_path: Path) -> None:
    desk, metrics = Desk(tmp_path), Metrics()
    name = "sdcard_replica_lag_seconds"
    assert name.encode() not in metrics.text()[0]

    async def measured(database: Database) -> Any:
        return await Replica(database, 60, metrics).measure(desk.clock.now())

    for ahead, age in ((-7, 7), (61, None)):
        beaten(desk, ahead)
        assert ask(desk.url, measured) == age
        assert metrics.registry.get_sample_value(name) == (math.inf if age is None else age)
    beaten(desk, 0)
    assert ask(desk.url, measured) == 0
    query(desk.url, "ALTER TABLE heartbeats RENAME TO away")
    with pytest.raises(Refused, match=r"store\.unavailable"):
        ask(desk.url, measured)
    assert metrics.registry.get_sample_value(name) == math.inf


@pytest.mark.postgresql
@pytest.mark.slow
def test_a_heartbeat_is_written_in_the_background_by_one_process_of_all(
    servers: tuple[Cluster, Cluster], tmp_path: Path
) -> None:
    primary, standby = servers
    name = primary.new_database()
    desk = Desk(tmp_path, primary.url(name))
    watched = Watched(desk, primary.url(name), standby.url(name))
    written = list[Any]()
    for seconds in (0, 3, 1, 10, 1_000, -1_000, -30, 31):
        desk.clock.advance(seconds)
        watched.beat()
        written += [int(row[0] - desk.clock.now()) for row in query(desk.url, "SELECT at FROM heartbeats")[0]]
    assert written == [0, -3, 0, 0, 0, 0, 30, -1], "one that is too far ahead is replaced"
    query(desk.url, "DELETE FROM heartbeats")
    with desk.open(replica=watched.replica, metrics=watched.metrics):
        deadline = time.monotonic() + 30
        while query(desk.url, "SELECT at FROM heartbeats") == [[]]:
            assert time.monotonic() < deadline
            time.sleep(0.1)


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///other.sqlite",
        "postgresql+asyncpg://reader@/sdcard?host=a:5432&host=b:5432",
        "postgresql+asyncpg://reader@/sdcard?host=a,b",
        "postgresql+asyncpg://reader@db2,db3/sdcard",
        "postgresql+asyncpg://reader@db2:5432,db3:5432/sdcard",
        "postgresql+asyncpg://reader@/sdcard",
        "postgresql+asyncpg://reader@/sdcard?host=",
        "mysql://reader@a/sdcard",
        "nonsense",
    ],
)
def test_a_replica_is_one_server(url: str) -> None:
    with pytest.raises(Misuse):
        open_replica(Settings(replica_url=url), Metrics())


def test_a_replica_is_asked_for_and_its_password_is_not_shown() -> None:
    assert open_replica(Settings(), Metrics()) is None
    replica = open_replica(Settings(replica_url=STANDBY, replica_seconds=30), Metrics())
    assert replica is not None
    assert (replica.most_seconds, replica.database.is_remote) == (30, True)
    assert shown_value(Settings(replica_url=STANDBY), "replica_url") == STANDBY.replace("canary-password", "***")
