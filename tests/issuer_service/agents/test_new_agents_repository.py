"""Registration of a new agent in PostgreSQL: the one statement writes what the transaction writes, or nothing."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, select, text, update

from issuer_service.agents.new_agents_repository import add_agent
from issuer_service.agents.records import IssuedNonce, RegistrationRow, StoredResponse
from issuer_service.agents.repository import record_registration
from issuer_service.audit.records import AuditEvent, Supersedes
from issuer_service.audit.repository import ChainKeys
from issuer_service.db.migrations import upgrade
from issuer_service.db.tables import audit_head, registry_keys, status_lists
from issuer_service.discovery.postings_repository import DiscoverySecret
from issuer_service.discovery.records import Audience, DiscoveryRow
from issuer_service.keys.repository import KeyState
from issuer_service.status.records import CardRow, StatusRow
from sdcard import Refused
from sdcard.errors import Part, Where
from sdcard.io.database import Database
from tests.issuer_service.agents.test_repository import KEY, everything, on, row
from tests.issuer_service.audit.test_repository import unfinished
from tests.issuer_service.audit.test_service import await_until
from tests.issuer_service.desk import chain, changing, differences, reading, recording, seed_keys
from tests.postgres import Cluster, query
from tests.world import NOW

AUDIENCE = Audience("public", "")
FOUND = DiscoveryRow(AUDIENCE, ("skills:a", "text:b"), None, {"kty": "EC"}, None, "decided")
NONCE = IssuedNonce("nonce", NOW + 60, b"key", Where(Part.REQUEST))
ANSWER = StoredResponse("digest", "alice", "request", b"sealed", NOW + 60, 1_000)


@pytest.fixture
def url(postgres: Cluster) -> str:
    """A registry with one key and one status list."""
    return prepared(postgres)


def prepared(server: Cluster) -> str:
    url = server.url(server.new_database("prepared"))
    seed_keys(url, replace(KEY, signs_until=NOW + 1))
    on(url, changing(lambda c: c.execute(status_lists.insert(), [{"list_id": "list", "slot": 0}]).rowcount))
    return url


def whole(agent_id: str = "agent", index: int = 0) -> RegistrationRow:
    """A registration with two keys, status entries, and what it is found by."""
    plain = row(agent_id, f"{agent_id} one", f"{agent_id} two")
    cards = [replace(card, status=StatusRow("list", 2 * index + n)) for n, card in enumerate(plain.cards)]
    return replace(plain, cards=tuple(cards), discovery=(FOUND,), interaction_id="☃", asked='{"a":"\\u0000"}')


def adding(new: RegistrationRow) -> Callable[[Database], Awaitable[bool]]:
    async def add(database: Database) -> bool:
        return await add_agent(database, new, await DiscoverySecret(database).current(), ChainKeys(database))

    return add


def alike(url: str) -> list[list[tuple[object, ...]]]:
    """Everything but the digests of the chain, whose key is random."""
    chain(url)
    query(
        url,
        "UPDATE audit SET digest = '', previous = '', state = ''",
        "UPDATE audit_head SET digest = '', state_key = ''",
    )
    return everything(url)


def test_the_number_of_its_record_is_drawn_after_it_has_waited(url: str) -> None:
    added = list[object]()
    thread = threading.Thread(target=lambda: added.append(on(url, adding(whole()))))
    waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    with unfinished(url, lambda c: c.execute(select(status_lists).with_for_update()).all()):
        thread.start()
        await_until(lambda: query(url, waits)[0][0][0] == 1)
        assert query(url, "SELECT is_called FROM audit_waiting_number_seq") == [[(False,)]]
    thread.join()

    assert added == [[True]]
    assert query(url, "SELECT number FROM audit_waiting") == [[(1,)]]


def test_the_statement_writes_what_the_transaction_writes(url: str, postgres: Cluster) -> None:
    other = prepared(postgres)
    secret = bytes(32)

    assert on(url, lambda d: add_agent(d, whole(), secret, ChainKeys(d))) == [True]
    assert on(other, changing(record_registration, whole(), secret)) == [None]

    assert differences(url, recorded=False) == differences(other, recorded=False) == []
    assert alike(url) == alike(other)


def test_many_processes_make_one_chain(url: str) -> None:
    agents = [whole(f"agent-{number}", number) for number in range(24)]

    assert on(url, *map(recording, agents)) == [None] * 24

    assert query(url, "SELECT count(*) FROM audit_waiting") == [[(24,)]]
    assert differences(url, recorded=False) == []


NOT_PLAIN = {
    "a renewal": replace(whole(), event=AuditEvent.AGENT_RENEWED),
    "made from a Batch": replace(whole(), made_from="batch"),
    "a revocation": replace(whole(), supersedes=Supersedes.REVOKE),
    "an answer to keep": replace(whole(), answer=ANSWER),
    "a nonce to use": replace(whole(), nonce=NONCE),
}
TAKEN = {
    "the agent": row("agent", "fresh", batch="second"),
    "another spelling": row("AGENT", "fresh", batch="second"),
    "a key": row("other", "agent two"),
    "a status entry": replace(
        row("other"), cards=(CardRow("x", "00" * 32, "public", "key of other", NOW + 1, StatusRow("list", 1)),)
    ),
    "a Batch": row("other", batch="batch of agent"),
    "an SD-Card": replace(row("other"), cards=(replace(whole().cards[0], thumbprint="key of other", status=None),)),
}


@pytest.mark.parametrize("new", NOT_PLAIN.values(), ids=NOT_PLAIN)
def test_anything_but_a_plain_registration_is_declined(url: str, new: RegistrationRow) -> None:
    before = everything(url)

    assert on(url, adding(new)) == [False]

    assert everything(url) == before


@pytest.mark.parametrize("new", TAKEN.values(), ids=TAKEN)
def test_what_another_agent_has_is_declined(url: str, new: RegistrationRow) -> None:
    assert on(url, adding(whole())) == [True]
    before = everything(url)

    assert on(url, adding(new)) == [False]

    assert everything(url) == before


UNUSUAL = {
    "no list": delete(status_lists),
    "a key that is retired": update(registry_keys).values(state=KeyState.RETIRED.value, active_for=None),
    "a key that is noted for less": update(registry_keys).values(signs_until=NOW),
    "no head": delete(audit_head),
}


@pytest.mark.parametrize("change", UNUSUAL.values(), ids=UNUSUAL)
def test_an_unusual_state_is_declined(url: str, change: Any) -> None:
    on(url, changing(lambda c: c.execute(change).rowcount))
    before = everything(url)

    assert on(url, adding(whole())) == [False]

    assert everything(url) == before


def test_another_key_of_the_digests_is_declined_and_read_again(url: str) -> None:
    async def work(database: Database) -> list[bool]:
        state_key, secret = ChainKeys(database), await DiscoverySecret(database).current()
        await state_key.current()
        await database.change(lambda c: c.execute(update(audit_head).values(state_key=b"x" * 32)).rowcount)
        return [await add_agent(database, whole(), secret, state_key) for _ in range(2)]

    assert on(url, work) == [[False, True]]


def test_a_database_that_was_not_adopted_has_records_without_digests(url: str) -> None:
    on(url, changing(lambda c: c.execute(update(audit_head).values(state_key=None)).rowcount))

    assert on(url, adding(whole())) == [True]

    chain(url)
    assert query(url, "SELECT state FROM audit") == [[(None,)]]


def test_the_head_of_the_chain_is_taken_last(url: str) -> None:
    """A transaction that has the status list, and wants the head, must not wait for one that has the head."""

    async def work(database: Database) -> bool:
        secret = await DiscoverySecret(database).current()
        async with asyncio.TaskGroup() as tasks:
            adding = asyncio.Event()

            async def add() -> bool:
                await adding.wait()
                return await add_agent(database, whole(), secret, ChainKeys(database))

            added = tasks.create_task(add())
            engine: Any = database._engine
            async with engine.begin() as other:
                await other.execute(select(status_lists).with_for_update())
                adding.set()
                waits = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
                while not await database.read(lambda c: c.execute(waits).scalar()):
                    assert not added.done()
                    await asyncio.sleep(0.01)
                await other.execute(select(audit_head).with_for_update(nowait=True))
        return added.result()

    assert on(url, work) == [True]


def test_a_database_that_is_away_is_refused_and_not_asked_again(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(database: Database) -> None:
        secret, state_key = await DiscoverySecret(database).current(), ChainKeys(database)
        await state_key.current()

        async def broken(*_: object) -> None:
            raise ConnectionResetError

        monkeypatch.setattr("sdcard.io.lookups._Lane._ask", broken)
        await add_agent(database, whole(), secret, state_key)

    (refused,) = on(url, work)
    assert isinstance(refused, Refused)


def test_sqlite_declines_without_a_statement(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/registry.sqlite"
    upgrade(url)

    assert on(url, adding(whole())) == [False]
    assert on(url, reading(lambda c: c.execute(select(audit_head.c.sequence)).scalar())) == [0]
