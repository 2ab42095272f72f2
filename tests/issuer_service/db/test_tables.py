"""The tables on every database: migrations, statements and slow look-ups."""

import asyncio
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import URL, BigInteger, Connection, bindparam, create_engine, func, insert, literal, select

from issuer_service import tokens
from issuer_service.agents.records import KeyRow, RegistrationRow
from issuer_service.db.migrations import upgrade
from issuer_service.db.tables import grants, metadata, secrets, sessions
from issuer_service.discovery import repository as finding
from issuer_service.status.records import CardRow
from sdcard import Misuse, Where
from sdcard.errors import Part, Refused
from sdcard.io.database import Database, open_database
from sdcard.io.lookups import AT_ONCE, SLOW_AT_ONCE, Lookup, SqliteLookups
from sdcard.io.statements import Additions, Statement
from sdcard.rules import Rule
from tests.issuer_service.desk import (
    TABLES,
    Desk,
    OpenDesk,
    ask,
    assert_refused,
    changing,
    jwk,
    on_both_databases,
    reading,
    recording,
    recording_all,
    request,
)
from tests.world import NOW, at_once, key, raises_rule

# -- The database: its schema, and what happens when it cannot be had -------------------------------------------------

UNAVAILABLE = ("store.unavailable", "request")
ROW = RegistrationRow(
    at=NOW,
    public_at=NOW,
    subject="alice",
    agent_id="agent",
    card_format="summary",
    card="{}",
    keys=(KeyRow("thumbprint", Where(Part.REQUEST, ("public_key",))),),
    batch_id="batch",
    kid=key(10).public_key.thumbprint,
    cards=(CardRow("digest", "00" * 32, "public", "thumbprint", NOW + 1),),
    disclosed={"public": ("name",)},
)


DIES_AT_COMMIT = """
import asyncio, os, sys
from sqlalchemy import event
from sdcard.io.database import open_database
from tests.issuer_service.db.test_tables import ROW
from tests.issuer_service.desk import recording

async def die() -> None:
    database = open_database(sys.argv[1])
    event.listen(database.engine, "commit", lambda _: os._exit(9))
    await recording(ROW)(database)

asyncio.run(die())
"""
"""Writes a whole registration and dies at the last moment."""


def run_on(desk: Desk, *rows: RegistrationRow) -> None:
    """Record the registrations one after another."""

    async def record() -> None:
        database = open_database(desk.url)
        try:
            for row in rows:
                await recording(row)(database)
        finally:
            await database.close()

    asyncio.run(record())


def test_the_migrations_make_the_tables_that_the_code_uses(desk: Desk) -> None:
    engine = create_engine(f"sqlite:///{desk.file}")
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    engine.dispose()
    assert set(metadata.tables) == {*TABLES, "secrets"}


def test_only_its_owner_reads_a_new_file(desk: Desk) -> None:
    assert desk.file.stat().st_mode & 0o077 == 0


def test_upgrading_again_changes_nothing(desk: Desk) -> None:
    before = desk.rows()

    upgrade(desk.url)

    assert desk.rows() == before


def test_the_file_is_in_wal_mode_and_connections_are_careful(desk: Desk) -> None:
    async def pragmas() -> list[object]:
        database = open_database(desk.url)
        names = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        try:
            return await database.read(
                lambda connection: [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names]
            )
        finally:
            await database.close()

    assert asyncio.run(pragmas()) == ["wal", 2, 1, 10_000]


def test_numbers_of_audit_records_are_never_used_again(desk: Desk) -> None:
    run_on(desk, ROW)
    assert [row[0] for row in desk.rows()["audit"]] == [1]
    with closing(sqlite3.connect(desk.file)) as connection, connection:
        connection.execute("DELETE FROM audit")

    run_on(desk, replace(ROW, batch_id="second", cards=(replace(ROW.cards[0], digest="second"),)))

    assert [row[0] for row in desk.rows()["audit"]] == [2]


def test_the_database_itself_refuses_a_second_owner_and_a_second_binding(desk: Desk) -> None:
    run_on(desk, ROW)
    into = "INSERT INTO agents (agent_id, folded_id, subject, card_format, card, registered_at, updated_at) SELECT"
    rest = "'bob', card_format, card, 0, 0 FROM agents"
    with closing(sqlite3.connect(desk.file)) as connection:
        for statement in (
            f"{into} agent_id, 'x', {rest}",
            f"{into} 'x', folded_id, {rest}",
            "INSERT INTO holder_keys SELECT thumbprint, agent_id, 0 FROM holder_keys",
        ):
            with pytest.raises(sqlite3.IntegrityError):
                connection.execute(statement)


def test_a_row_that_is_there_already_changes_nothing(desk: Desk) -> None:
    run_on(desk, ROW)
    before = desk.rows()

    with raises_rule(*UNAVAILABLE):
        run_on(desk, ROW)

    assert desk.rows() == before


def test_a_read_only_database_is_unavailable_for_writing_alone(desk: Desk) -> None:
    before = desk.rows()
    database = open_database(f"sqlite+aiosqlite:///file:{desk.file}?mode=ro&uri=true")

    with desk.open(database) as registry:
        response = registry.post(request())
        assert_refused(response, 503, UNAVAILABLE)
        assert int(response.headers["retry-after"]) > 0
        assert registry.read().status_code == 404
        assert registry.get("/.well-known/jwks.json").status_code == 200

    assert desk.rows() == before


def test_a_locked_database_is_unavailable_and_then_is_not(desk: Desk) -> None:
    before = desk.rows()
    with desk.open(open_database(desk.url, patience=0.1)) as registry:
        with closing(sqlite3.connect(desk.file, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert_refused(registry.post(request()), 503, UNAVAILABLE)
            other.execute("ROLLBACK")
        assert desk.rows() == before
        registry.register(request())


def test_a_locked_database_leaves_readers_alone(desk: Desk) -> None:
    latencies, done = list[float](), threading.Event()
    bodies = iter([request(f"agent-{n}") for n in range(30)])
    with desk.open(open_database(desk.url, patience=1.0)) as registry:

        def look() -> None:
            while not done.is_set():
                began = time.monotonic()
                assert registry.read().status_code == 404
                latencies.append(time.monotonic() - began)

        with closing(sqlite3.connect(desk.file, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            reader = threading.Thread(target=look)
            reader.start()
            began = time.monotonic()
            responses = at_once(lambda: registry.post(next(bodies)), 30)
            elapsed = time.monotonic() - began
            done.set()
            reader.join()

    assert len(responses) == 30
    for response in responses:
        assert_refused(response, 503, UNAVAILABLE)
    assert elapsed < 15, "thirty writers waited side by side, not one after another"
    assert median(latencies) < 0.5


@pytest.mark.parametrize("replaced", [False, True])
def test_nothing_is_acknowledged_once_the_file_is_gone(desk: Desk, tmp_path: Path, replaced: bool) -> None:
    with desk.open() as registry:
        registry.register(request())
        gone = [file for end in ("", "-wal", "-shm") if (file := Path(f"{desk.file}{end}")).exists()]
        assert len(gone) == 3
        for file in gone:
            file.rename(tmp_path / f"kept{file.suffix}")
        if replaced:
            desk.file.touch()

        assert_refused(registry.read(), 503, UNAVAILABLE)
        assert_refused(registry.post(request("second", public_key=jwk(key(21)))), 503, UNAVAILABLE)
        assert desk.file.exists() is replaced

        for file in gone:
            file.unlink(missing_ok=True)
        desk.prepare()
        assert_refused(registry.post(request()), 401, ("token.invalid", "request/headers/authorization"))
        registry.register(request(), desk.new_token("alice"))
        assert desk.counts()["agents"] == 1


def test_a_file_of_any_name_is_opened(tmp_path: Path) -> None:
    file = tmp_path / "a name, 100% safe #?mode=memory"

    upgrade(URL.create("sqlite+aiosqlite", database=str(file)).render_as_string())

    assert [one.name for one in tmp_path.iterdir()] == [file.name]


def test_a_database_that_is_not_there_is_unavailable(desk: Desk, tmp_path: Path) -> None:
    with desk.open(open_database(f"sqlite+aiosqlite:///{tmp_path}/nowhere/x.sqlite")) as registry:
        assert_refused(registry.post(request()), 503, UNAVAILABLE)
        assert_refused(registry.read(), 503, UNAVAILABLE)


def test_a_file_that_is_no_database_is_unavailable(desk: Desk, tmp_path: Path) -> None:
    file = tmp_path / "text.sqlite"
    file.write_text("this is not a database, though it is long enough to be taken for one " * 20)

    with desk.open(open_database(f"sqlite+aiosqlite:///{file}")) as registry:
        assert_refused(registry.post(request()), 503, UNAVAILABLE)


def test_a_database_that_was_never_prepared_is_unavailable(desk: Desk, tmp_path: Path) -> None:
    with desk.open(open_database(f"sqlite+aiosqlite:///{tmp_path}/empty.sqlite")) as registry:
        assert_refused(registry.read(), 503, UNAVAILABLE)


def test_a_process_that_dies_before_the_commit_leaves_nothing(desk: Desk) -> None:
    before = desk.rows()

    died = subprocess.run([sys.executable, "-c", DIES_AT_COMMIT, desk.url], check=False, timeout=60)

    assert died.returncode == 9
    assert desk.rows() == before
    with desk.open() as registry:
        assert isinstance(registry, OpenDesk)
        registry.register(request())


@pytest.mark.parametrize("prepare", [open_database, upgrade])
@pytest.mark.parametrize(
    "url",
    [
        "",
        "nonsense",
        "nosuch://x",
        "sqlite+pysqlite:///x",
        "sqlite+nosuch:///x",
        "sqlite://host/x",
        "sqlite+aiosqlite://host/x",
        "sqlite+aiosqlite:///x?timeout=long",
        "sqlite+aiosqlite://:port/x",
        "postgresql://host/x",
        "postgresql+psycopg://host/x",
        "postgresql+asyncpg://host:port/x",
        "postgresql+asyncpg://host/x?sslmode=require",
        "postgresql+asyncpg://host/x?server_settings=fsync",
        "mysql+aiomysql://host/x",
    ],
)
def test_a_url_of_no_database_of_ours_is_a_misuse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prepare: Callable[[str], object], url: str
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(Misuse, match="the database URL is one of SQLAlchemy"):
        prepare(url)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("what", ["folder", "text"])
def test_what_is_no_database_is_a_misuse_that_names_it(tmp_path: Path, what: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("this is not a database, though it is long enough to be taken for one " * 20)

    with pytest.raises(Misuse, match=f"{tmp_path}/{what} is no SQLite database"):
        upgrade(f"sqlite+aiosqlite:///{tmp_path}/{what}")


@pytest.mark.parametrize("folder", ["nowhere", "text"])
def test_a_database_in_no_folder_is_a_misuse_that_names_the_folder(tmp_path: Path, folder: str) -> None:
    (tmp_path / "text").write_text("this is not a folder")

    with pytest.raises(Misuse, match=f"there is no folder {tmp_path}/{folder} "):
        upgrade(f"sqlite+aiosqlite:///{tmp_path}/{folder}/x")


def test_a_database_of_a_later_version_is_a_misuse(desk: Desk) -> None:
    with closing(sqlite3.connect(desk.file)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = 'r9999'")

    with pytest.raises(Misuse):
        upgrade(desk.url)


def _keys(number: int) -> tuple[KeyRow, ...]:
    return (replace(ROW.keys[0], thumbprint=f"thumbprint-{number}"),)


def _cards(number: int) -> tuple[CardRow, ...]:
    return (replace(ROW.cards[0], digest=f"digest-{number}", thumbprint=f"thumbprint-{number}"),)


@on_both_databases
def test_records_with_and_without_an_interaction_go_along_one_chain(desk: Desk) -> None:
    """Whichever comes first."""
    rows = [
        replace(
            ROW, agent_id=f"agent-{n}", batch_id=f"{n:032x}", interaction_id=interaction, keys=_keys(n), cards=_cards(n)
        )
        for n, interaction in enumerate([None, "first", None, "second"])
    ]

    ask(desk.url, recording_all(rows))

    assert [record.get("interaction_id") for record in desk.audit()] == [None, "first", None, "second"]
    assert desk.differences() == []


def test_rows_of_different_columns_are_no_one_statement(desk: Desk) -> None:
    adding = Statement(insert(sessions))
    one = {"digest": "a", "subject": "alice", "expires_at": 1}

    def write(connection: Connection) -> int:
        return adding.write(connection, {"digest": "b", "expires_at": 1}, one)

    with pytest.raises(AssertionError, match="lost"):
        ask(desk.url, changing(write))


@pytest.mark.parametrize(
    "rows",
    [
        {"sessions": [{"digest": "b", "expires_at": 1}, {"digest": "a", "subject": "alice", "expires_at": 1}]},
        {"batches": [{"digest": "b", "subject": "alice", "expires_at": 1}]},
    ],
    ids=["other columns", "no such table"],
)
@on_both_databases
def test_no_row_that_is_added_is_lost_in_part(desk: Desk, rows: dict[str, list[dict[str, object]]]) -> None:
    adding = Additions(sessions)

    with pytest.raises(AssertionError, match="lost"):
        ask(desk.url, lambda database: database.change(lambda connection: adding.write(connection, **rows)))


@on_both_databases
@pytest.mark.parametrize("rows", [{}, {"secrets": []}, {"grants": [], "secrets": []}])
def test_where_there_is_nothing_to_add_nothing_is_asked(desk: Desk, rows: dict[str, list[dict[str, object]]]) -> None:
    adding, before = Additions(grants, secrets), ask(desk.url, lambda database: database.read(_secrets))

    ask(desk.url, lambda database: database.change(lambda connection: adding.write(connection, **rows)))

    assert ask(desk.url, lambda database: database.read(_secrets)) == before


def _secrets(connection: Connection) -> list[str]:
    return list(connection.execute(select(secrets.c.name).order_by("name")).scalars())


@on_both_databases
def test_what_is_added_to_several_tables_is_what_is_read(desk: Desk) -> None:
    """JSON, null, bytes, text that needs quotes in an array, and any number of rows."""
    adding = Additions(grants, secrets)
    texts = ['a "b" \\ {c,d}', "NULL", "", "ä\U0001f600'"]
    added: dict[str, list[dict[str, object]]] = {
        "grants": [
            {"grant_id": str(n), "delegator": text, "target": "t", "scopes": [text], "sensitive": value, **_TIMES}
            for n, (text, value) in enumerate(zip(texts, [{"a": [1, None]}, [], "x", [["y"], ["z"]]], strict=True))
        ],
        "secrets": [{"name": text, "value": bytes(range(256))} for text in texts],
    }

    ask(desk.url, lambda database: database.change(lambda connection: adding.write(connection, **added)))

    def read(connection: Connection) -> dict[str, list[dict[str, object]]]:
        own = select(secrets).where(secrets.c.name.in_(texts))
        return {
            "grants": [dict(row) for row in connection.execute(select(grants).order_by("grant_id")).mappings()],
            "secrets": sorted((dict(row) for row in connection.execute(own).mappings()), key=_place_in(texts)),
        }

    assert ask(desk.url, reading(read)) == added


_TIMES = {"created_at": 1, "expires_at": 2}


def _place_in(texts: list[str]) -> Callable[[Mapping[str, object]], int]:
    return lambda row: texts.index(str(row["name"]))


@pytest.mark.parametrize("desk", ["postgresql"], indirect=True)
def test_a_connection_whose_statement_was_given_up_is_used_by_nobody(desk: Desk) -> None:
    slow, who = Statement(select(func.pg_sleep(60))), Statement(select(func.pg_backend_pid()))

    async def give_up_in_between(database: Database) -> list[object]:
        before = await database.read(lambda connection: who.read(connection, {}))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await database.read(lambda connection: slow.read(connection, {}))
        after = await database.read(lambda connection: who.read(connection, {}))
        return [before[0][0] == after[0][0], database.connections_in_use()]

    assert ask(desk.url, give_up_in_between) == [False, 0]


# -- A look-up that is slow is broken off, and holds up nobody --------------------------------------------------------

_number = select(literal(1, BigInteger).label("n")).cte("numbers", recursive=True)
_numbers = _number.union_all(
    select(_number.c.n + 1).where(_number.c.n < bindparam("most", 10**12, type_=BigInteger, unique=False))
)
COUNTING = Lookup(select(func.count()).select_from(_numbers))
"""Takes as long as one likes, on any database."""


@on_both_databases
def test_one_that_is_longer_than_a_moment_gives_its_rows(desk: Desk) -> None:
    async def count() -> tuple[Any, float]:
        database = open_database(desk.url, look_up_seconds=60)
        try:
            await tokens.find_token_row(database, "")
            began = time.perf_counter()
            rows = await database.look_up(COUNTING, most=400_000)
            return rows[0][0], time.perf_counter() - began
        finally:
            await database.close()

    number, seconds = asyncio.run(count())
    assert number == 400_000
    assert seconds > AT_ONCE, "else the test does not test it"


@on_both_databases
def test_slow_ones_are_refused_in_time_and_quick_ones_go_on(desk: Desk) -> None:
    limit, quick = 1.0, list[float]()

    async def run() -> list[Any]:
        database = open_database(desk.url, look_up_seconds=limit)
        try:
            await tokens.find_token_row(database, "")
            slow = asyncio.gather(*(database.look_up(COUNTING) for _ in range(6)), return_exceptions=True)
            while not slow.done():
                began = time.perf_counter()
                assert await tokens.find_token_row(database, "") is None
                quick.append(time.perf_counter() - began)
                await asyncio.sleep(0.01)
            return await slow
        finally:
            await database.close()

    began = time.perf_counter()
    outcomes = asyncio.run(run())
    assert time.perf_counter() - began < 10 * limit
    assert [outcome.rule for outcome in outcomes if isinstance(outcome, Refused)] == [Rule.STORE_SLOW] * 6
    assert len(quick) > 5
    assert sorted(quick)[len(quick) // 2] < limit / 4, "most of them do not notice"


@on_both_databases
def test_those_whose_askers_left_leave_no_queue_behind(desk: Desk) -> None:
    limit = 0.5

    async def run() -> tuple[float, Any]:
        database = open_database(desk.url, look_up_seconds=limit)
        try:
            await tokens.find_token_row(database, "")
            for _ in range(12):
                left = [asyncio.create_task(database.look_up(COUNTING)) for _ in range(4)]
                await asyncio.sleep(0.02)
                for one in left:
                    one.cancel()
                await asyncio.gather(*left, return_exceptions=True)
            began = time.perf_counter()
            (outcome,) = await asyncio.gather(database.look_up(COUNTING, most=200_000), return_exceptions=True)
            assert await tokens.find_token_row(database, "") is None
            return time.perf_counter() - began, outcome
        finally:
            await database.close()

    seconds, outcome = asyncio.run(run())
    assert seconds < 3 * limit
    assert isinstance(outcome, Refused) or outcome[0][0] == 200_000


@on_both_databases
def test_a_question_that_is_slow_to_answer_is_a_503_that_says_when_to_come_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding, "_finding", lambda _: COUNTING)
    with desk.open(open_database(desk.url, look_up_seconds=0.2)) as registry:
        refused = registry.look_for(skills=["any"])
        assert (refused.status_code, refused.json()["rule"]) == (503, Rule.STORE_SLOW)
        assert int(refused.headers["Retry-After"]) > 0
        assert refused.headers["Content-Type"] == "application/problem+json"
        assert registry.read().status_code == 404


@on_both_databases
def test_who_will_write_waits_for_a_look_up_that_is_slow(desk: Desk) -> None:
    async def count() -> tuple[Any, Any]:
        database = open_database(desk.url, look_up_seconds=0.05)
        try:
            refused = await asyncio.gather(database.look_up(COUNTING, most=1_000_000), return_exceptions=True)
            return refused[0], await database.look_up_to_write(COUNTING, most=1_000_000)
        finally:
            await database.close()

    refused, rows = asyncio.run(count())
    assert isinstance(refused, Refused)
    assert refused.rule is Rule.STORE_SLOW
    assert rows[0][0] == 1_000_000


@on_both_databases
def test_many_at_the_beginning_need_no_thread_each(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    runs, run = list[str](), SqliteLookups._run

    def counted(self: SqliteLookups, text: str, arguments: tuple[object, ...]) -> Any:
        runs.append(text)
        return run(self, text, arguments)

    monkeypatch.setattr(SqliteLookups, "_run", counted)

    async def ask() -> list[Any]:
        database = open_database(desk.url, look_up_seconds=30)
        try:
            return await asyncio.gather(*(tokens.find_token_row(database, "") for _ in range(60)))
        finally:
            await database.close()

    assert asyncio.run(ask()) == [None] * 60
    assert len(runs) <= 2 * SLOW_AT_ONCE
