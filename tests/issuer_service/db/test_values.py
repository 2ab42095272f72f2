"""A row that cannot be read is left out of its list and named in the log; the other rows are listed."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import create_engine, insert, text
from sqlalchemy.types import BigInteger

from issuer_service.agents import lifecycle_repository
from issuer_service.db import tables
from issuer_service.db.values import StoredJson
from issuer_service.delegation import repository as delegation_repository
from issuer_service.reviews import repository as review_repository
from issuer_service.tokens import find_token_row, read_tokens
from sdcard import Refused
from sdcard.io.database import Database
from tests.issuer_service.desk import Desk, ask, reading
from tests.world import NOW

NAMES = ("1" * 32, "2" * 32, "3" * 32)
TOKENS = tuple(name * 2 for name in NAMES)
MANY = 10


async def grants(database: Database) -> list[str]:
    return [one.grant_id for one in await database.read(delegation_repository.list_grants)]


async def approvals(database: Database) -> list[str]:
    return [one.approval_id for one in await database.read(delegation_repository.list_waiting, NOW, MANY)]


async def reviews(database: Database) -> list[str]:
    return [one.review_id for one in await database.read(review_repository.list_waiting, NOW, MANY)]


async def tokens(database: Database) -> list[str]:
    return [one.digest for one in await database.read(read_tokens) if one.subject == "listed"]


async def agents(database: Database) -> list[str]:
    return [one.agent_id for one in await database.read(lifecycle_repository.list_agents, "alice", None, "", MANY, NOW)]


async def batches(database: Database) -> list[str]:
    return [one.batch_id for one in await database.read(lifecycle_repository.issued_for, NAMES[0], MANY, NOW)]


LISTS: dict[str, Callable[[Database], Any]] = {
    one.__name__: one for one in (grants, approvals, reviews, tokens, agents, batches)
}
NOT_LISTED = {
    "agent_checks": "claimed and found one by one",
    "answers": "found one by one",
    "audit": "walked as it is found: `tests/sdcard/test_audit_chain.py`",
    "audit_head": "one row",
    "audit_waiting": "read one by one, and the chain takes none behind one that cannot be read",
    "cards": "counted by Batch",
    "delegations": "the links of one chain are one document",
    "discovery_cards": "pages of discovery: `tests/issuer_service/discovery/test_renewal.py`",
    "discovery_postings": "numbers",
    "domain_proofs": "found one by one",
    "heartbeats": "one row",
    "log_head": "one row",
    "log_leaves": "taken by batches, and found with their agent",
    "log_tiles": "found one by one",
    "holder_keys": "found one by one",
    "registry_keys": "the key ring: `tests/issuer_service/keys/test_opening.py`",
    "remembered": "found one by one",
    "secrets": "found one by one",
    "sessions": "found one by one",
    "status_entries": "one list is one document",
    "status_lists": "found one by one",
    "used_nonces": "found one by one",
}
LISTED = {"agents": "card_format registered_at updated_at", "batches": "issued_at"}
"""Columns of a list, where it does not have them all."""


NO_LONGER_ASKED_FOR = {(table, name) for table in ("approvals", "reviews") for name in ("state", "asked_at")}
"""Columns that choose the rows: with another value, a row is not of the list."""


def fill(desk: Desk) -> None:
    """Three rows of each list."""
    scopes = ["read"]
    ends = {"expires_at": NOW + 900}
    rows = {
        "grants": [
            {"grant_id": name, "delegator": f"d{name}", "target": "agent:b", "scopes": scopes, "sensitive": scopes}
            | {"created_at": NOW, **ends}
            for name in NAMES
        ],
        "approvals": [
            {"approval_id": name, "open_for": name, "client": "alice", "parties": ["agent:a"], "target": "agent:b"}
            | {"scopes": scopes, "interaction_id": None, "state": "pending", "asked_at": NOW, "decided_by": ""}
            | {"owners": [], **ends}
            for name in NAMES
        ],
        "reviews": [
            {"review_id": name, "open_for": name, "subject": "alice", "agent_id": "a", "contexts": []}
            | {"card_format": "agentcard", "card": "{}", "state": "pending", "reason": "", "decided_by": ""}
            | {"asked_at": NOW, **ends}
            for name in NAMES
        ],
        "tokens": [
            {"digest": name, "subject": "listed", "scopes": scopes, "limits": {"contexts": ["public"]}}
            | {"created_at": NOW, **ends}
            for name in TOKENS
        ],
        "agents": [
            {"agent_id": name, "folded_id": name, "subject": "alice", "card_format": "agentcard", "card": "{}"}
            | {"registered_at": NOW, "updated_at": NOW}
            for name in NAMES
        ],
        "batches": [{"batch_id": name, "agent_id": NAMES[0], "issued_at": NOW} for name in NAMES],
        "holder_keys": [{"thumbprint": "t", "agent_id": NAMES[0], "bound_at": NOW}],
        "cards": [{"digest": name, "batch_id": name, "context": "public", "thumbprint": "t", **ends} for name in NAMES],
    }
    for table, those in rows.items():
        execute(desk, insert(tables.metadata.tables[table]), those)


def execute(desk: Desk, statement: Any, rows: Any = None) -> None:
    engine = create_engine(desk.url.replace("+aiosqlite", ""))
    with engine.begin() as connection:
        connection.execute(statement, rows)
    engine.dispose()


def spoilt() -> list[tuple[str, str, str]]:
    """Each column of each list, with values that nothing of ours wrote, as SQL."""
    found = []
    for name in LISTS:
        table = tables.metadata.tables[name]
        for column in table.c:
            if column.name not in LISTED.get(name, column.name).split() or column.primary_key:
                continue
            if isinstance(column.type, StoredJson):
                found += [(name, column.name, one) for one in ("'['", "'5'", "'[1]'", "'\"read\"'", "'null'")]
            elif isinstance(column.type, BigInteger):
                found.append((name, column.name, "'abc'"))
            elif column.name not in ("open_for", "subject"):
                found.append((name, column.name, "CAST(x'ff' AS TEXT)"))
    return [one for one in found if one[:2] not in NO_LONGER_ASKED_FOR]


def test_every_table_is_a_list_or_is_said_not_to_be_one() -> None:
    assert LISTS.keys() | NOT_LISTED.keys() == set(tables.metadata.tables)


@pytest.mark.parametrize("table", LISTS)
def test_a_row_that_cannot_be_read_leaves_the_others(
    desk: Desk, table: str, caplog: pytest.LogCaptureFixture, subtests: pytest.Subtests
) -> None:
    """Put each value in, and the right one back: one database for all values of a list."""
    fill(desk)
    [key] = tables.metadata.tables[table].primary_key.columns
    name = sorted(TOKENS if table == "tokens" else NAMES)[0]
    for _, column, value in (one for one in spoilt() if one[0] == table):
        there = f"{table} WHERE {key.name} = '{name}'"
        execute(desk, text(f"CREATE TABLE kept AS SELECT {column} FROM {there}"))
        execute(desk, text(f"UPDATE {table} SET {column} = {value} WHERE {key.name} = '{name}'"))
        caplog.clear()

        with caplog.at_level(logging.ERROR):
            listed = ask(desk.url, LISTS[table])

        with subtests.test(column=column, value=value):
            assert len(listed) == 2
            assert name not in listed
            assert f"a row of {table} that cannot be read: '{name[:16]}'" in caplog.text
        execute(desk, text(f"UPDATE {table} SET {column} = (SELECT {column} FROM kept) WHERE {key.name} = '{name}'"))
        execute(desk, text("DROP TABLE kept"))
    assert len(ask(desk.url, LISTS[table])) == 3


def test_pages_are_full_while_there_are_more(desk: Desk) -> None:
    fill(desk)
    execute(desk, text(f"UPDATE approvals SET scopes = '[' WHERE approval_id = '{NAMES[1]}'"))
    execute(desk, text(f"UPDATE agents SET card_format = CAST(x'ff' AS TEXT) WHERE agent_id = '{NAMES[1]}'"))

    approved = ask(desk.url, reading(delegation_repository.list_waiting, NOW, 2))
    listed = ask(desk.url, reading(lifecycle_repository.list_agents, "alice", None, "", 2, NOW))

    assert [one.approval_id for one in approved] == [NAMES[0], NAMES[2]]
    assert [one.agent_id for one in listed] == [NAMES[0], NAMES[2]]


@pytest.mark.parametrize("scopes", ["[", "5", "null", "[1]"])
def test_one_row_that_is_asked_for_and_cannot_be_read_is_refused(desk: Desk, scopes: str) -> None:
    fill(desk)
    for table in ("grants", "approvals", "tokens"):
        execute(desk, text(f"UPDATE {table} SET scopes = :scopes"), {"scopes": scopes})
    asked: list[Callable[[Database], Any]] = [
        reading(delegation_repository.find_grant, f"d{NAMES[0]}", "agent:b", NOW),
        reading(delegation_repository.find_waiting, NAMES[0], NOW),
        lambda database: find_token_row(database, TOKENS[0]),
    ]
    for one in asked:
        with pytest.raises(Refused, match=r"store\.unavailable"):
            ask(desk.url, one)
