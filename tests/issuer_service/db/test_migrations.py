"""Records that were there before there was a chain become the first ones of it, all of them or none."""

import asyncio
import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

from issuer_service.audit.records import AuditEvent, AuditRow
from issuer_service.audit.repository import append_audit
from issuer_service.db import migrations
from issuer_service.db.migrations import upgrade
from issuer_service.status import repository as status_repository
from sdcard.io.database import open_database
from sdcard.issuer import DAY
from tests.issuer_service.desk import Desk, ask, changing, request
from tests.postgres import Cluster, query
from tests.world import NOW

OLD = [(1, "alice"), (2, "bob"), (5, "carol"), (9, "dave")]
"""Numbers and actors: PostgreSQL leaves gaps where a transaction was rolled back."""


def prepare(url: str, revision: str) -> None:
    """The schema as an earlier version of the registry made it."""

    def to_revision(connection: Connection) -> None:
        config = Config()
        config.set_main_option("script_location", str(Path(migrations.__file__).parent))
        config.attributes["connection"] = connection
        command.upgrade(config, revision)

    async def run() -> None:
        database = open_database(url)
        await database.migrate(to_revision)
        await database.close()

    asyncio.run(run())


def empty(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database without tables, of the kind that the fixture's parameter names."""
    if request.param == "sqlite":
        (tmp_path / "registry.sqlite").touch()
        return f"sqlite+aiosqlite:///{tmp_path}/registry.sqlite"
    server: Cluster = request.getfixturevalue("postgres")
    return server.url(server.new_database())


@pytest.fixture(params=["sqlite", "postgresql"])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of the version before, with records."""
    url = empty(request, tmp_path)
    prepare(url, "r0002")
    disclosed = r"""{"public"\: ["name", "\u0000 \u2603"]}"""
    values = ", ".join(f"({n}, 'agent.registered', {NOW}, '{who}', 'a', 'b', '{disclosed}')" for n, who in OLD)
    query(url, f"INSERT INTO audit (sequence, event, at, subject, agent_id, batch_id, disclosed) VALUES {values}")
    return url


def test_they_are_numbered_in_their_order_and_chained(old: str, tmp_path: Path) -> None:
    upgrade(old)
    desk = Desk(tmp_path, old)

    verdict = desk.verdict()

    assert (verdict.findings, verdict.records) == ((), 4)
    records = desk.audit()
    assert [(record["sequence"], record["subject"]) for record in records] == [
        (number, who) for number, (_, who) in enumerate(OLD, 1)
    ]
    assert records[0]["disclosed"] == {"public": ["name", "\x00 ☃"]}


def test_the_chain_goes_on_from_them(old: str, tmp_path: Path) -> None:
    upgrade(old)
    entry = AuditRow(AuditEvent.CARDS_REVOKED, NOW, "alice", "a")

    async def add() -> None:
        database = open_database(old)
        await database.change(lambda connection: append_audit(connection, entry))
        await database.close()

    asyncio.run(add())

    desk = Desk(tmp_path, old)
    assert [record["sequence"] for record in desk.audit()] == [1, 2, 3, 4, 5]
    assert desk.verdict().findings == ()


def test_a_migration_that_fails_changes_nothing(tmp_path: Path) -> None:
    """On SQLite too, where tables are changed outside transactions unless one was begun."""
    file = tmp_path / "registry.sqlite"
    file.touch()
    url = f"sqlite+aiosqlite:///{file}"
    prepare(url, "r0002")

    def change(statement: str) -> None:
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute(statement)

    columns = "(sequence, event, at, subject, agent_id, batch_id, disclosed)"
    change(f"INSERT INTO audit {columns} VALUES (1, 'e', 1, 's', 'a', 'b', '{{}}'), (2, 'e', 1, 's', 'a', 'b', 'no')")
    before = _dump(file)

    with pytest.raises(json.JSONDecodeError):
        upgrade(url)

    assert _dump(file) == before
    change("DELETE FROM audit WHERE sequence = 2")
    upgrade(url)
    assert len(Desk(tmp_path, url).audit()) == 1


def _dump(file: Path) -> list[Any]:
    with closing(sqlite3.connect(file)) as connection:
        return list(connection.iterdump())


@pytest.fixture(params=["sqlite", "postgresql"])
def of_contexts(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A database with two lists of one context each: a card that is good, one that is revoked, one of nobody."""
    url = empty(request, tmp_path)
    prepare(url, "r0013")
    agent = "'a', 'a', 'alice', 'summary', '{}', 1, 1, NULL, NULL, 'not-proven', 'b', NULL, NULL"
    names = "agent_id, folded_id, subject, card_format, card, registered_at, updated_at, asked, deleted_at, possession"
    query(
        url,
        f"INSERT INTO agents ({names}, batch_id, card_version, content) VALUES ({agent})",
        "INSERT INTO holder_keys VALUES ('k', 'a', 1)",
        "INSERT INTO batches VALUES ('b', 'a', 1)",
        f"INSERT INTO status_lists VALUES ('{PUBLIC}', 'public', 'public', 2, 1), ('{FULL}', 'full', 'full', 1, 0)",
        f"INSERT INTO status_entries VALUES ('{PUBLIC}', 5, 1), ('{PUBLIC}', 9, 1), ('{FULL}', 7, 0)",
        "INSERT INTO cards (digest, batch_id, context, thumbprint, expires_at, status_list_id, status_index) VALUES"
        f" ('x', 'b', 'public', 'k', {NOW + DAY}, '{PUBLIC}', 5),"
        f" ('y', 'b', 'full', 'k', {NOW + 2 * DAY}, '{FULL}', 7)",
    )
    return url


PUBLIC, FULL = "a" * 32, "b" * 32


def test_rows_of_an_earlier_version_are_adopted_and_compared_from_then_on(of_contexts: str, tmp_path: Path) -> None:
    upgrade(of_contexts)
    desk = Desk(tmp_path, of_contexts)

    assert {one["event"] for one in desk.audit()} == {"state.adopted"}
    assert desk.differences() == []
    query(of_contexts, "UPDATE agents SET subject = 'mallory'")
    assert desk.differences() == [("audit.state-changed", "database/agents/a/subject")]


@pytest.fixture(params=["sqlite", "postgresql"])
def before_state(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A database of before records named the rows that they write, with a token and a grant."""
    url = empty(request, tmp_path)
    prepare(url, "r0008")
    query(
        url,
        f"INSERT INTO tokens VALUES ('{'d' * 64}', 'alice', '[\"read\"]', '{{}}', {NOW}, {NOW + DAY})",
        f"INSERT INTO grants VALUES ('{'e' * 32}', 'alice', 'agent:b', '[\"read\"]', '[]', {NOW}, {NOW + DAY})",
    )
    return url


def test_tokens_and_grants_of_before_are_adopted(before_state: str, tmp_path: Path) -> None:
    upgrade(before_state)
    desk = Desk(tmp_path, before_state)

    assert desk.verdict().findings == ()
    assert desk.differences() == []
    query(before_state, "DELETE FROM grants", "UPDATE tokens SET expires_at = 2")
    assert sorted(rule for rule, _ in desk.differences()) == ["audit.state-changed", "audit.state-missing"]


def test_lists_of_one_context_close_and_live_on_until_their_cards_have_expired(
    of_contexts: str, tmp_path: Path
) -> None:
    upgrade(of_contexts)
    now = int(time.time())

    lists, entries = query(
        of_contexts,
        "SELECT list_id, slot FROM status_lists ORDER BY list_id",
        'SELECT list_id, "index", status, expires_at, shown, public_at FROM status_entries ORDER BY list_id, "index"',
    )
    assert [tuple(row) for row in lists] == [(PUBLIC, None), (FULL, None)]
    (good, nobodys, full) = (tuple(row) for row in entries)
    assert good == (PUBLIC, 5, 1, NOW + DAY, None, None)
    assert full == (FULL, 7, 0, NOW + 2 * DAY, None, None)
    assert nobodys[:3] == (PUBLIC, 9, 1)
    assert now + 89 * DAY < nobodys[3] <= now + 90 * DAY, "no SD-Card lives longer"
    desk = Desk(tmp_path, of_contexts, recorded=True)
    assert desk.differences() == []
    with desk.open() as registry:
        assert [registry.get(f"/status/{list_id}").status_code for list_id in (PUBLIC, FULL)] == [200, 200]
        uris = {card["status"]["uri"] for card in registry.register(request("new"))["cards"]}
        assert not [uri for uri in uris if PUBLIC in uri or FULL in uri]
        desk.clock.advance(max(NOW, now) - NOW + 181 * DAY)
        assert ask(of_contexts, changing(status_repository.drop_expired, int(desk.clock.now()))) is True
        assert ask(of_contexts, changing(status_repository.drop_expired, int(desk.clock.now()))) is True
        assert ask(of_contexts, changing(status_repository.drop_expired, int(desk.clock.now()))) is False
        assert [registry.get(f"/status/{list_id}").status_code for list_id in (PUBLIC, FULL)] == [404, 404]
    assert desk.differences() == []
    assert desk.counts()["status_lists"] == 16
