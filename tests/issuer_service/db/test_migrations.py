"""Rows of an earlier version are adopted, and a failed migration changes nothing."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from issuer_service.db import migrations
from issuer_service.db.migrations import head, read_revision, upgrade
from sdcard.audit_chain import Checkpoint, Head
from sdcard.errors import Misuse, Refused
from sdcard.issuer import DAY
from tests.issuer_service.desk import Desk, chain
from tests.issuer_service.desk import request as request_of
from tests.postgres import Cluster, query
from tests.world import ISSUER, NOW


def empty(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database without tables, of the kind that the fixture's parameter names."""
    if request.param == "sqlite":
        (tmp_path / "registry.sqlite").touch()
        return f"sqlite+aiosqlite:///{tmp_path}/registry.sqlite"
    server: Cluster = request.getfixturevalue("postgres")
    return server.url(server.new_database())


FOLDER = Path(migrations.__file__).parent
LATER = """
from alembic import op

revision, down_revision, branch_labels, depends_on = "r9999", {before!r}, None, None


def upgrade() -> None:
    op.execute("ALTER TABLE tokens ADD COLUMN note TEXT")
    op.execute("UPDATE tokens SET note = subject")
    op.execute("{last}")
"""


def with_later(folder: Path, last: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Add a migration that ends with a statement to those that the registry finds."""
    before = head()
    copied = folder / "migrations"
    shutil.copytree(FOLDER, copied, dirs_exist_ok=True)
    (copied / "versions" / "r9999_later.py").write_text(LATER.format(before=before, last=last))
    monkeypatch.setattr(migrations, "__file__", str(copied / "__init__.py"))


def test_a_migration_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On SQLite too, where tables are changed outside transactions unless one was begun."""
    file = tmp_path / "registry.sqlite"
    url = f"sqlite+aiosqlite:///{file}"
    upgrade(url)
    query(url, f"INSERT INTO tokens VALUES ('{'d' * 64}', 'alice', '[\"read\"]', '{{}}', {NOW}, {NOW + DAY})")
    before = _dump(file)

    with_later(tmp_path, "UPDATE nothing SET note = 1", monkeypatch)
    with pytest.raises(Refused, match="unavailable"):
        upgrade(url)
    assert _dump(file) == before

    with_later(tmp_path, "UPDATE tokens SET note = note", monkeypatch)
    upgrade(url)
    assert read_revision(url) == "r9999"
    assert query(url, "SELECT note FROM tokens") == [[("alice",)]]


@pytest.mark.parametrize("revision", ["r0013", "r9999"])
def test_a_schema_that_no_migration_knows_is_refused(revision: str, tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/registry.sqlite"
    upgrade(url)
    query(url, f"UPDATE alembic_version SET version_num = '{revision}'")

    with pytest.raises(Misuse, match="of a later version of the registry, or of one before"):
        upgrade(url)


def _dump(file: Path) -> list[Any]:
    with closing(sqlite3.connect(file)) as connection:
        return list(connection.iterdump())


@pytest.fixture(params=["sqlite", "postgresql"])
def of_contexts(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A database with two closed lists: a card that is good, one that is revoked, one of nobody. No record has them."""
    url = empty(request, tmp_path)
    upgrade(url)
    agent = "'a', 'a', 'alice', 'summary', '{}', 1, 1, NULL, NULL, 'not-proven', 'b', NULL, NULL"
    names = "agent_id, folded_id, subject, card_format, card, registered_at, updated_at, asked, deleted_at, possession"
    query(
        url,
        f"INSERT INTO agents ({names}, batch_id, card_version, content) VALUES ({agent})",
        "INSERT INTO holder_keys VALUES ('k', 'a', 1)",
        "INSERT INTO batches VALUES ('b', 'a', 1)",
        f"INSERT INTO status_lists VALUES ('{PUBLIC}', NULL), ('{FULL}', NULL)",
        'INSERT INTO status_entries (list_id, "index", status, expires_at) VALUES'
        f" ('{PUBLIC}', 5, 1, {NOW + DAY}), ('{PUBLIC}', 9, 1, {NOW + 90 * DAY}), ('{FULL}', 7, 0, {NOW + 2 * DAY})",
        "INSERT INTO cards (digest, batch_id, context, thumbprint, expires_at, status_list_id, status_index) VALUES"
        f" ('x', 'b', 'public', 'k', {NOW + DAY}, '{PUBLIC}', 5),"
        f" ('y', 'b', 'full', 'k', {NOW + 2 * DAY}, '{FULL}', 7)",
        "UPDATE audit_head SET state_key = NULL",
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
    """A database with a token and a grant that no record has, as after a migration of their tables."""
    url = empty(request, tmp_path)
    upgrade(url)
    query(
        url,
        f"INSERT INTO tokens VALUES ('{'d' * 64}', 'alice', '[\"read\"]', '{{}}', {NOW}, {NOW + DAY})",
        f"INSERT INTO grants VALUES ('{'e' * 32}', 'alice', 'agent:b', '[\"read\"]', '[]', {NOW}, {NOW + DAY})",
        "UPDATE audit_head SET state_key = NULL",
    )
    return url


def test_tokens_and_grants_of_before_are_adopted(before_state: str, tmp_path: Path) -> None:
    upgrade(before_state)
    desk = Desk(tmp_path, before_state)

    assert desk.verdict().findings == ()
    assert desk.differences() == []
    query(before_state, "DELETE FROM grants", "UPDATE tokens SET expires_at = 2")
    assert sorted(rule for rule, _ in desk.differences()) == ["audit.state-changed", "audit.state-missing"]


def test_closed_lists_live_on_until_their_cards_have_expired(of_contexts: str, tmp_path: Path) -> None:
    upgrade(of_contexts)
    desk = Desk(tmp_path, of_contexts, recorded=True)
    assert desk.differences() == []
    with desk.open() as registry:
        assert [registry.get(f"/status/{list_id}").status_code for list_id in (PUBLIC, FULL)] == [200, 200]
        uris = {card["status"]["uri"] for card in registry.register(request_of("new"))["cards"]}
        assert not [uri for uri in uris if PUBLIC in uri or FULL in uri]
        desk.clock.advance(181 * DAY)
        assert desk.delete_ended()["status_lists"] >= 2
        assert "status_lists" not in desk.delete_ended()
        assert [registry.get(f"/status/{list_id}").status_code for list_id in (PUBLIC, FULL)] == [404, 404]
    assert desk.differences() == []
    assert desk.counts()["status_lists"] == 16


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_registry_of_version_0_1_goes_on_with_its_chain(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    request.param = kind
    desk = Desk(tmp_path, empty(request, tmp_path), recorded=True)  # with audit records of keys and a token
    chain(desk.url)
    last = desk.audit()[-1]
    seen = Checkpoint(ISSUER, NOW, Head(last["sequence"], last["digest"]))
    later = ("ix_batches_issued_at", "ix_cards_expires_at", "ix_discovery_cards_public")
    columns = ("audit DROP COLUMN checks", "audit DROP COLUMN leaf", "audit_head DROP COLUMN log_key")
    query(desk.url, *(f"ALTER TABLE {one}" for one in columns), *(f"DROP INDEX {name}" for name in later))
    tables = (
        "agent_checks",
        "domain_proofs",
        "reviews",
        "log_leaves",
        "log_tiles",
        "log_head",
        "heartbeats",
        "audit_waiting",
    )
    query(desk.url, *(f"DROP TABLE {name}" for name in tables))
    query(desk.url, "UPDATE alembic_version SET version_num = 'r0014'")

    upgrade(desk.url)
    with desk.open() as registry:
        registry.register(request_of())

    assert [one.get("checks") for one in desk.audit()][-2:] == [None, ""]
    verdict = desk.verdict(seen)
    assert (verdict.findings, verdict.vouched) == ((), last["sequence"])
    assert desk.differences() == []
