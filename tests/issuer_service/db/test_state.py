"""The tables are as the audit chain says: every column of every table is compared, or there is a reason."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Boolean, Column, Connection, Integer, LargeBinary, Table, delete, insert, select, update

from issuer_service.db import migrations
from issuer_service.db.migrations import upgrade
from issuer_service.db.state import COMPARED, NOT_COMPARED, REPLAYED, pack
from issuer_service.db.state_check import compare_state
from issuer_service.db.tables import metadata
from issuer_service.db.values import StoredJson
from sdcard import Misuse
from tests.issuer_service.audit.populated import populate
from tests.issuer_service.desk import Desk, ask, jwk
from tests.issuer_service.desk import request as registration
from tests.postgres import query
from tests.world import key

Found: TypeAlias = tuple[str, tuple[str | int, ...]]
CHECKED = sorted({*COMPARED, *REPLAYED})


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def populated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Desk:
    folder = tmp_path_factory.mktemp("state")
    if request.param == "sqlite":
        desk = Desk(folder, recorded=True)
    else:
        server = request.getfixturevalue("postgres")
        desk = Desk(folder, server.url(server.new_database("prepared")), recorded=True)
    populate(desk)
    return desk


class _UndoneError(Exception):
    """Ends a transaction that must not be committed."""


def tampered(desk: Desk, *tampering: Callable[[Connection], None]) -> list[list[Found]]:
    """Rule and place of what is found after each of these changes of the tables. Each is undone."""
    found = list[list[Found]]()

    def work(connection: Connection) -> None:
        _disarm(connection)
        for tamper in tampering:
            with connection.begin_nested() as undone:
                tamper(connection)
                _, state = compare_state(connection, lambda _: None)
                found.append([(str(one.rule), one.where.path) for one in state.findings])
                undone.rollback()
        raise _UndoneError

    with pytest.raises(_UndoneError):
        ask(desk.url, lambda database: database.migrate(work))
    return found


def _disarm(connection: Connection) -> None:
    """Let the database take anything."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
        connection.exec_driver_sql("PRAGMA ignore_check_constraints = ON")
    else:
        connection.exec_driver_sql("SET LOCAL session_replication_role = replica")
        connection.exec_driver_sql("ALTER TABLE registry_keys DROP CONSTRAINT ck_registry_keys_active_for")


def a_row(connection: Connection, table: Table) -> dict[str, Any]:
    """The last row, by all its columns. Of the log's leaves the last one of an audit record."""
    asked = select(table).order_by(*table.primary_key.columns)
    if table.name == "log_leaves":
        asked = asked.where(table.c.card.is_(None), table.c.salt.is_not(None))
    return dict(connection.execute(asked).mappings().all()[-1])


def this(table: Table, row: dict[str, Any]) -> list[Any]:
    return [column == row[column.name] for column in table.primary_key.columns]


def another(column: Column[Any], value: Any) -> Any:
    """Another value that the column takes. Where a smaller one is no harm, or another row has it, a larger one."""
    if column.name in ("public_at", "slot", "level", "log") and value is not None:
        return value + 100
    if isinstance(column.type, StoredJson):
        return {"another": 1}
    if isinstance(column.type, Boolean):
        return not value
    if isinstance(column.type, LargeBinary):
        return bytes(8) + bytes(value or b"")
    if isinstance(column.type, Integer):
        return 1 if value is None else value - 1
    length = getattr(column.type, "length", None) or 10
    return "x" if value is None else ("x" + value)[:length] if len(value) < length else "x" * length


@given(
    st.dictionaries(
        st.sampled_from(COMPARED["cards"].columns),
        st.text() | st.integers() | st.booleans() | st.none() | st.binary() | st.lists(st.text() | st.integers()),
    ),
    st.text(),
)
def test_a_digest_is_over_the_json_of_its_column(row: dict[str, Any], name: str) -> None:
    """Every later version compares what any version wrote."""
    cards, rows = COMPARED["cards"], [{**dict.fromkeys(COMPARED["cards"].columns), **row}]

    def written(column: str) -> bytes:
        value = rows[0][column]
        plain = ["bytes", value.hex()] if isinstance(value, bytes) else value
        return json.dumps(["cards", column, name, [plain]], sort_keys=True, separators=(",", ":")).encode()

    digests = [hashlib.blake2b(written(one), key=bytes(32), digest_size=16).digest() for one in cards.columns]
    assert pack(bytes(32), cards, name, rows) == b"".join(digests)


def test_every_column_of_every_table_is_compared_or_has_a_reason() -> None:
    decided = [(table, column) for table, one in COMPARED.items() for column in (*one.columns, *one.apart)]
    for reasons in (REPLAYED, NOT_COMPARED):
        decided += [(table, column) for table, columns in reasons.items() for column in columns]
    assert sorted(decided) == sorted(
        (name, column)
        for name, table in metadata.tables.items()
        for column in metadata.tables[name].c.keys()  # noqa: SIM118 -- names, not columns
    )


def forgets_adoption(migration: str) -> bool:
    """Whether a migration changes a compared table, and does not have its rows adopted. A new table has no rows."""
    changed = (table for table in COMPARED if f'op.create_table(\n        "{table}"' not in migration)
    return any(f'"{table}"' in migration for table in changed) and "state_key = NULL" not in migration


def test_a_migration_of_a_compared_table_adopts_it() -> None:
    folder = Path(migrations.__file__).parent / "versions"
    first, *later = sorted(folder.glob("r*.py"))
    assert forgets_adoption(first.read_text()), "nothing is adopted before there are rows"
    assert [path.name for path in later if forgets_adoption(path.read_text())] == []


def test_the_registry_itself_leaves_the_tables_as_the_chain_says(populated: Desk) -> None:
    assert populated.differences() == []
    counts = populated.counts()
    assert [table for table in CHECKED if not counts[table]] == [], "each table has a row to tamper with"


@pytest.mark.parametrize("name", CHECKED)
def test_another_value_in_any_column_is_found_there(populated: Desk, name: str) -> None:
    table = metadata.tables[name]
    columns = [column for column in table.c if column.name not in NOT_COMPARED.get(name, ())]

    def changing(column: Column[Any]) -> Callable[[Connection], None]:
        def tamper(connection: Connection) -> None:
            row = a_row(connection, table)
            changed = update(table).where(*this(table, row)).values({column: another(column, row[column.name])})
            assert connection.execute(changed).rowcount == 1

        return tamper

    for column, found in zip(columns, tampered(populated, *map(changing, columns)), strict=True):
        in_table = [(rule, path) for rule, path in found if path[0] == name]
        is_named = any(path[-1] == column.name for _, path in in_table)
        is_other_row = {"audit.state-added", "audit.state-missing"} <= {rule for rule, _ in in_table}
        assert is_named or is_other_row, f"{name}.{column.name}: {found}"


@pytest.mark.parametrize("name", CHECKED)
def test_a_row_that_is_gone_is_found(populated: Desk, name: str) -> None:
    table = metadata.tables[name]

    def tamper(connection: Connection) -> None:
        assert connection.execute(delete(table).where(*this(table, a_row(connection, table)))).rowcount == 1

    (found,) = tampered(populated, tamper)
    found = [(rule, path) for rule, path in found if path[0] == name]
    assert found
    assert {rule for rule, _ in found} <= {"audit.state-missing", "audit.state-changed"}


@pytest.mark.parametrize("name", CHECKED)
def test_a_row_that_was_put_in_is_found(populated: Desk, name: str) -> None:
    table = metadata.tables[name]
    unique = {"open_for", "active_for", "folded_id", "delegator", "slot"}

    def tamper(connection: Connection) -> None:
        row = a_row(connection, table)
        fresh = {
            column.name: another(column, row[column.name])
            for column in table.c
            if column.primary_key or (column.name in unique and row[column.name] is not None)
        }
        connection.execute(insert(table).values({**row, **fresh}))

    (found,) = tampered(populated, tamper)
    found = [(rule, path) for rule, path in found if path[0] == name]
    assert found
    assert {rule for rule, _ in found} <= {"audit.state-added", "audit.state-changed"}


def test_a_database_from_before_is_adopted_as_it_is(populated: Desk) -> None:
    """The last test of this database: the state begins anew."""
    query(populated.url, "UPDATE audit_head SET state_key = NULL", "DELETE FROM grants")
    with pytest.raises(Misuse, match="db upgrade"):
        populated.differences()

    upgrade(populated.url)

    assert populated.differences() == []
    (adopted,) = {one["event"] for one in populated.audit() if '"adopts"' in one.get("state", "")}
    assert adopted == "state.adopted"
    query(populated.url, "UPDATE agents SET subject = 'mallory' WHERE agent_id = 'renewed'")
    query(populated.url, "UPDATE holder_keys SET bound_at = 0", "UPDATE discovery_cards SET status = 0")
    found = {(rule, place.split("/")[1]) for rule, place in populated.differences()}
    assert {("audit.state-changed", "agents"), ("audit.state-changed", "holder_keys")} <= found
    upgrade(populated.url)
    assert populated.differences(), "nothing is adopted twice"


def test_what_is_done_after_an_adoption_is_replayed_too(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    with desk.open() as registry:
        for number in range(3):
            registry.register(registration(f"agent-{number}", public_key=jwk(key(30 + number))))
        registry.done("POST", "/agents/agent-1/suspend", {})
        assert registry.ask("DELETE", "/agents/agent-2").status_code < 300
        query(desk.url, "UPDATE audit_head SET state_key = NULL")
        upgrade(desk.url)
        desk.recorded = True
        registry.register(registration("agent-0", public_key=jwk(key(40)), supersedes="revoke"))
        registry.done("POST", "/agents/agent-1/reinstate", {"context": "public"})
        assert registry.found(text="assistant")
        assert registry.ask("DELETE", "/agents/agent-1").status_code < 300

    assert desk.differences() == []
    query(desk.url, "UPDATE status_entries SET status = 0 WHERE status = 1")
    assert {rule for rule, _ in desk.differences()} == {"audit.state-changed"}
