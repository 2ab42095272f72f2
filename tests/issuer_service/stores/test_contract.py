"""What every ``Store`` does: SQLite in memory, SQLite in a file, PostgreSQL."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from issuer_service.audit.verification import verify_database
from issuer_service.stores.migrations import upgrade
from issuer_service.stores.ports import AuditQuery, CardRow, KeyRow, RegistrationRow, Store, TokenRow
from issuer_service.stores.sql import open_store
from issuer_service.stores.tables import metadata
from sdcard import Refused, Where
from sdcard.errors import Part
from sdcard.rules import Rule
from tests.issuer_service.desk import TABLES
from tests.postgres import Cluster, query
from tests.world import NOW, raises_rule

T = TypeVar("T")
MEMORY = "sqlite+aiosqlite:///file:contract?mode=memory&cache=shared&uri=true"
TOKEN = TokenRow("d" * 64, "s" * 256, ("agents:register",), {"skill_ids": ("☃\x00", "𝔸"), "x": ()}, NOW, 2**53)


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "memory":
        with closing(sqlite3.connect("file:contract?mode=memory&cache=shared", uri=True)):  # it lives while one is open
            upgrade(MEMORY)
            yield MEMORY
    elif request.param == "sqlite":
        file = f"sqlite+aiosqlite:///{tmp_path}/registry.sqlite"
        upgrade(file)
        yield file
    else:
        server: Cluster = request.getfixturevalue("postgres")
        yield server.url(server.new_database("prepared"))


def row(agent_id: str = "agent", *thumbprints: str, subject: str = "alice", batch: str = "") -> RegistrationRow:
    """A registration with a card for each key."""
    names, batch_id = thumbprints or (f"key of {agent_id}",), batch or f"batch of {agent_id}"
    return RegistrationRow(
        at=NOW,
        subject=subject,
        agent_id=agent_id,
        card_format="summary",
        card='{"name":"\\u0000 ☃ 𝔸"}',
        keys=tuple(KeyRow(name, Where(Part.REQUEST, ("keys", n))) for n, name in enumerate(names)),
        batch_id=batch_id,
        cards=tuple(CardRow(f"{batch_id} {name}", "public", name, NOW + 1) for name in names),
        disclosed={"public": ("name", "\x00 ☃ 𝔸")},
    )


def on(url: str, *works: Callable[[Store], Awaitable[T]], patience: float = 10.0) -> list[T | BaseException]:
    """What becomes of works that start together, each on one of two stores: two processes of a registry.

    In memory SQLite does not let a second connection wait, and nobody else can have one.
    """

    async def work() -> list[T | BaseException]:
        stores = [open_store(url, patience) for _ in range(1 if url == MEMORY else 2)]
        try:
            asked = [one(stores[n % len(stores)]) for n, one in enumerate(works)]
            return await asyncio.gather(*asked, return_exceptions=True)
        finally:
            for store in stores:
                await store.close()

    return asyncio.run(work())


def record(url: str, *rows: RegistrationRow) -> list[Rule | None]:
    """The rule by which each was refused; all start together."""
    works: list[Callable[[Store], Awaitable[None]]] = [
        lambda store, one=one: store.record_registration(one)  # type: ignore[misc]  # mypy infers no default
        for one in rows
    ]
    return [_rule(outcome) for outcome in on(url, *works)]


def _rule(outcome: BaseException | None) -> Rule | None:
    if outcome is None or isinstance(outcome, Refused):
        return outcome.rule if outcome else None
    raise outcome


def everything(url: str) -> list[list[tuple[object, ...]]]:
    return query(url, *(f"SELECT * FROM {table} ORDER BY 1, 2" for table in TABLES))


def counts(url: str) -> dict[str, int]:
    """How many rows there are, where there are any."""
    found = zip(TABLES, everything(url), strict=True)
    return {table: len(rows) for table, rows in found if rows and table != "audit_head"}


def test_a_token_comes_back_as_it_was(url: str) -> None:
    on(url, lambda store: store.add_token(TOKEN))

    assert on(url, lambda store: store.find_token(TOKEN.digest)) == [TOKEN]
    assert on(url, lambda store: store.find_token("e" * 64)) == [None]


def test_a_registration_is_written_whole(url: str) -> None:
    assert record(url, row("agent", "one", "two")) == [None]

    expected = {"agents": 1, "audit": 1, "batches": 1, "cards": 2, "holder_keys": 2}
    assert counts(url) == expected
    assert query(url, "SELECT card FROM agents") == [[(row().card,)]]


def test_the_owner_registers_again(url: str) -> None:
    record(url, row("agent", "one"))

    assert record(url, row("agent", "two", "one", batch="second")) == [None]

    assert counts(url) == {"agents": 1, "audit": 2, "batches": 2, "cards": 3, "holder_keys": 2}


@pytest.mark.parametrize(
    ("second", "rule"),
    [
        (row("agent", "two", subject="bob", batch="second"), Rule.AGENT_OWNED),
        (row("AGENT", "two", batch="second"), Rule.AGENT_OWNED),
        (row("other", "fresh", "one"), Rule.KEY_BOUND_ELSEWHERE),
        (row("agent", "one"), Rule.STORE_UNAVAILABLE),
        (replace(row("other", "fresh"), batch_id="batch of agent"), Rule.STORE_UNAVAILABLE),
    ],
    ids=["another owner", "another spelling", "another agent's key", "the same again", "a Batch that is there"],
)
def test_what_is_refused_changes_nothing(url: str, second: RegistrationRow, rule: Rule) -> None:
    record(url, row("agent", "one"))
    before = everything(url)

    assert record(url, second) == [rule]

    assert everything(url) == before


def test_every_key_of_another_agent_is_named(url: str) -> None:
    record(url, row("agent", "one", "two"))

    (refusal,) = on(url, lambda store: store.record_registration(row("other", "two", "fresh", "one")))

    assert isinstance(refusal, Refused)
    assert [str(finding.where) for finding in refusal.findings] == ["request/keys/0", "request/keys/2"]


def test_of_those_who_want_one_agent_at_once_one_gets_it(url: str) -> None:
    asked = [row("agent", f"key {n}", subject=f"subject {n}", batch=f"batch {n}") for n in range(12)]

    outcomes = record(url, *asked)

    assert sorted(outcomes, key=str) == [None] + [Rule.AGENT_OWNED] * 11
    assert counts(url) == {"agents": 1, "audit": 1, "batches": 1, "cards": 1, "holder_keys": 1}


def test_of_those_who_want_the_same_keys_at_once_one_gets_all_in_whatever_order_they_ask(url: str) -> None:
    names = [f"key {n}" for n in range(40)]
    asked = [row(f"agent {n}", *(names if n % 2 else reversed(names))) for n in range(12)]

    outcomes = record(url, *asked)

    assert sorted(outcomes, key=str) == [None] + [Rule.KEY_BOUND_ELSEWHERE] * 11
    assert counts(url) == {"agents": 1, "audit": 1, "batches": 1, "cards": 40, "holder_keys": 40}


def test_one_owner_registers_many_times_at_once(url: str) -> None:
    assert record(url, *(row("agent", "one", f"key {n}", batch=f"batch {n}") for n in range(12))) == [None] * 12

    assert counts(url) == {"agents": 1, "audit": 12, "batches": 12, "cards": 24, "holder_keys": 13}


def test_audit_records_are_found_in_order_by_agent_and_page(url: str) -> None:
    record(url, *(row(f"agent {n % 2}", "key" if n % 2 else "other", batch=f"batch {n}") for n in range(5)))

    async def ask(store: Store, query: AuditQuery) -> list[int]:
        return [sequence for sequence, found in await store.audit_records(query) if found]

    def numbers(**asked: Any) -> list[int] | BaseException:
        return on(url, lambda store: ask(store, AuditQuery(**asked)))[0]

    assert numbers() == [1, 2, 3, 4, 5]
    assert numbers(after=2, limit=2) == [3, 4]
    assert numbers(after=2, up_to=3) == [3]
    assert numbers(since=NOW) == [1, 2, 3, 4, 5]
    assert numbers(since=NOW + 1) == numbers(interaction_id="none") == numbers(agent_id="nobody") == []
    zeros, ones = numbers(agent_id="agent 0"), numbers(agent_id="agent 1")
    assert isinstance(zeros, list)
    assert isinstance(ones, list)
    assert sorted(zeros + ones) == [1, 2, 3, 4, 5]
    assert (len(zeros), len(ones)) == (3, 2)


def test_whoever_writes_at_once_makes_one_chain(url: str) -> None:
    assert record(url, *(row(f"agent {n}") for n in range(30))) == [None] * 30

    (verdict,) = on(url, lambda store: verify_database(store, ()))

    assert not isinstance(verdict, BaseException)
    assert (verdict.findings, verdict.records) == ((), 30)
    assert on(url, lambda store: store.audit_head()) == [verdict.head]


def test_a_store_that_was_never_prepared_is_unavailable(url: str) -> None:
    assert on(url, lambda store: store.ping()) == [None]
    query(url, *(f"DROP TABLE {table}" for table in reversed(metadata.sorted_tables)))

    (refusal,) = on(url, lambda store: store.ping())

    assert isinstance(refusal, Refused)
    with raises_rule("store.unavailable", "request"):
        raise refusal
