"""A registry behind PgBouncer in transaction mode: each transaction has another session of the server."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import Connection, func, select

from issuer_service.db.migrations import upgrade
from sdcard import Misuse
from sdcard.io.database import Database, open_database
from sdcard.io.lookups import Lookup
from tests.issuer_service.desk import Desk, OpenDesk, ask, jwk, request
from tests.postgres import Cluster, pooler, query
from tests.world import key

SESSIONS = 3
CHANGED = """SELECT name, setting FROM pg_settings
WHERE source = 'session' AND setting <> reset_val AND name <> 'application_name'"""
PREPARED = "SELECT name FROM pg_prepared_statements WHERE name <> '' AND NOT from_sql"


@pytest.fixture
def pool(postgres: Cluster) -> Iterator[int]:
    with pooler(postgres, SESSIONS) as port:
        yield port


@pytest.fixture
def desk(postgres: Cluster, tmp_path: Path) -> Desk:
    return Desk(tmp_path, postgres.url(postgres.new_database("prepared")))


def through(pool: int, desk: Desk, options: str = "?pool_mode=transaction") -> str:
    return f"postgresql+asyncpg://app@127.0.0.1:{pool}/{desk.url.rpartition('/')[2]}{options}"


def use_everything(registry: OpenDesk) -> None:
    """Register many agents at once, renew and revoke; use a key, a nonce and an Idempotency-Key again and again."""
    bodies = [request(f"agent-{n}", public_key=jwk(key(100 + n))) for n in range(12)]
    again = request("again", public_key=jwk(key(99)))
    with ThreadPoolExecutor(8) as threads:
        assert {answer.status_code for answer in threads.map(registry.post, bodies)} == {201}
        same = list(threads.map(lambda _: registry.post(again, idempotency_key="one"), range(8)))
        taken = list(threads.map(lambda n: registry.post({**again, "agent_id": f"other-{n}"}).status_code, range(8)))
        pages = list(threads.map(lambda _: registry.found(text="assistant"), range(8)))
    assert {answer.status_code for answer in same} == {201}
    assert len({answer.content for answer in same}) == 1
    assert set(taken) == {409}
    assert all(sorted(page) == sorted(pages[0]) and len(page) > 10 for page in pages)
    registry.done("POST", "/agents/agent-1/revoke", {})
    assert registry.get("/readyz").status_code == 200


def test_a_registry_works_in_the_sessions_of_a_pooler_and_leaves_nothing_in_them(
    desk: Desk, postgres: Cluster, pool: int
) -> None:
    with desk.open(open_database(through(pool, desk))) as registry:
        use_everything(registry)
        with ThreadPoolExecutor(SESSIONS) as threads:
            left = list(threads.map(lambda _: query(through(pool, desk, ""), PREPARED, CHANGED)[1], range(9)))

    assert left == [[]] * 9
    assert desk.differences() == []
    assert desk.counts()["agents"] == 13
    upgrade(through(pool, desk))


@pytest.mark.parametrize("pooled", [False, True])
def test_a_transaction_sees_what_others_have_committed_whatever_the_default_is(
    desk: Desk, pool: int, pooled: bool
) -> None:
    name = desk.url.rpartition("/")[2]
    query(desk.url, f"ALTER DATABASE \"{name}\" SET default_transaction_isolation = 'repeatable read'")
    asked = select(func.current_setting("transaction_isolation"))

    async def levels(database: Database) -> list[object]:
        def work(connection: Connection) -> object:
            return connection.execute(asked).scalar_one()

        ways = database.read, database.change, database.migrate, database.read_long
        found = [await way(work) for way in ways]
        return [*found, (await database.look_up(Lookup(asked)))[0][0]]

    assert ask(through(pool, desk) if pooled else desk.url, levels) == [
        *["read committed"] * 3,
        "repeatable read",
        "read committed",
    ]


def test_a_pool_mode_that_is_none_is_a_misuse(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="database URL"):
        open_database("postgresql+asyncpg://app@127.0.0.1/registry?pool_mode=session")
