"""Backups, a start on a restored database, and moves to PostgreSQL."""

import json
import shutil
import signal
import sqlite3
import stat
import threading
import time
from collections.abc import Callable
from contextlib import closing
from copy import copy
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from issuer_service.audit.service import append_line
from issuer_service.db.backups import back_up, check_not_older, move, pg_dump
from issuer_service.db.migrations import head, read_revision, upgrade
from issuer_service.keys.opening import prepare_keys
from issuer_service.keys.repository import KeyState, KeyUse
from issuer_service.settings import Settings
from sdcard import Misuse
from sdcard.audit_chain import Head, issue_checkpoint
from tests.command_line import Sdcard
from tests.issuer_service.audit.populated import populate
from tests.issuer_service.desk import Desk, ask, jwk, key_row, on_both_databases, request, seed_keys
from tests.issuer_service.transparency.logs import TERMS, begin, grow, tree
from tests.postgres import Cluster, cluster, query
from tests.world import ISSUER, NOW, key, raises_rule

# -- Backups of a database in use -------------------------------------------------------------------------------------

# One state of it, whole or not at all, and nobody else's to read.


def test_a_backup_is_the_database_and_serves(desk: Desk, tmp_path: Path) -> None:
    with desk.open() as registry:
        registry.register(request())
        before = desk.rows()
        size = back_up(desk.url, tmp_path / "backup.sqlite")
        registry.register(request("later", public_key=dict(key(21).public_key.to_jwk())))

    assert (tmp_path / "backup.sqlite").stat().st_size == size
    assert stat.S_IMODE((tmp_path / "backup.sqlite").stat().st_mode) == 0o600
    assert sorted(file.name for file in tmp_path.iterdir() if "backup" in file.name) == ["backup.sqlite"]
    desk.url = f"sqlite+aiosqlite:///{tmp_path}/backup.sqlite"
    assert desk.rows() == before
    with desk.open() as restored:
        restored.register(request())


def test_a_backup_under_writers_is_one_state_and_stops_nobody(desk: Desk, tmp_path: Path) -> None:
    """Each transaction writes one row into each of two tables, so that half of one would show."""
    done, written = threading.Event(), 0
    with closing(sqlite3.connect(desk.file)) as connection:
        connection.execute("CREATE TABLE a (n)")
        connection.execute("CREATE TABLE b (n)")

    def write() -> None:
        nonlocal written
        with closing(sqlite3.connect(desk.file, timeout=30)) as connection:
            while not done.is_set():
                with connection:
                    connection.execute("INSERT INTO a VALUES (?)", (written,))
                    connection.execute("INSERT INTO b VALUES (?)", (written,))
                written += 1

    writer = threading.Thread(target=write)
    writer.start()
    while written == 0:
        pass
    for number in range(10):
        back_up(desk.url, tmp_path / f"{number}.backup")
    at_the_end = written
    done.set()
    writer.join()

    counts = []
    for number in range(10):
        with closing(sqlite3.connect(tmp_path / f"{number}.backup")) as copy:
            counts.append(copy.execute("SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM b)").fetchone())
    assert all(first == second for first, second in counts)
    assert counts == sorted(counts)
    assert at_the_end > 0


def test_a_backup_overwrites_nothing(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("mine")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")

    for name in ("there", "dangling", ""):
        with pytest.raises(Misuse, match="overwrites nothing"):
            back_up(desk.url, tmp_path / name)

    assert (tmp_path / "there").read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()


def test_a_backup_that_cannot_be_written_leaves_nothing(desk: Desk, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        back_up(desk.url, tmp_path / "nowhere" / "backup.sqlite")

    damaged = bytearray(desk.file.read_bytes())
    damaged[4096 * 3 : 4096 * 6] = b"\xff" * (4096 * 3)
    (tmp_path / "damaged.sqlite").write_bytes(damaged)
    with pytest.raises(Misuse):
        back_up(f"sqlite+aiosqlite:///{tmp_path}/damaged.sqlite", tmp_path / "copy")
    assert [file for file in tmp_path.iterdir() if "copy" in file.name] == []


def test_there_must_be_a_database_of_ours(tmp_path: Path) -> None:
    (tmp_path / "empty.sqlite").touch()

    with raises_rule("store.unavailable", "request"):
        back_up(f"sqlite+aiosqlite:///{tmp_path}/nowhere.sqlite", tmp_path / "copy")
    with pytest.raises(Misuse, match="backed up"):
        back_up(f"sqlite+aiosqlite:///{tmp_path}/empty.sqlite", tmp_path / "copy")
    with pytest.raises(Misuse, match="in a file"):
        back_up("sqlite+aiosqlite://", tmp_path / "copy")
    assert [file.name for file in tmp_path.iterdir()] == ["empty.sqlite"]


def test_of_postgresql_it_says_who_does_and_no_password(tmp_path: Path) -> None:
    pytest.importorskip("asyncpg")
    url = "postgresql+asyncpg://me:canary-password@db.example:5433/the%20cards"

    with pytest.raises(Misuse) as refused:
        back_up(url, tmp_path / "copy")

    assert "canary" not in str(refused.value)
    assert pg_dump(make_url(url)) in str(refused.value)
    assert "--host=db.example --port=5433 --username=me" in str(refused.value)
    assert pg_dump(make_url("postgresql+asyncpg:///x; rm -rf")).endswith("'--dbname=x; rm -rf'")


@on_both_databases
def test_a_database_says_which_schema_it_has(desk: Desk) -> None:
    assert read_revision(desk.url) == head()


def test_one_that_is_not_there_has_none_and_is_not_made(tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/new.sqlite"

    assert read_revision(url) is None
    assert list(tmp_path.iterdir()) == []
    upgrade(url)
    assert read_revision(url) == head()


# -- A registry does not start on a database that is older than its checkpoints say, unless it is told so -------------

ROLLED_BACK = ("audit.rolled-back", "audit")
OTHER = ("audit.checkpoint-differs", "audit")


def register(desk: Desk, *numbers: int) -> None:
    """Each leaves a record, and a checkpoint when the registry stops."""
    with desk.open() as registry:
        for number in numbers:
            registry.register(request(f"agent-{number}", public_key=jwk(key(30 + number))))


def check(desk: Desk, restored: int | None = None) -> None:
    ask(desk.url, lambda database: check_not_older(database, desk.checkpoints, restored))


def test_a_backup_with_records_that_wait_is_not_older_than_a_checkpoint_that_has_them(desk: Desk) -> None:
    backup = desk.file.with_suffix(".backup")
    with desk.open() as registry:
        registry.register(request())
        assert query(desk.url, "SELECT count(*) FROM audit") == [[(0,)]]
        back_up(desk.url, backup)
    for one in desk.file.parent.glob("registry.sqlite*"):
        one.unlink()
    backup.rename(desk.file)

    before = desk.rows()
    check(desk)

    assert desk.rows() == before, "nothing is written"
    assert desk.verdict().records == 1


@on_both_databases
def test_a_record_that_the_chain_cannot_take_keeps_nobody_from_starting(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    register(desk, 0)
    with desk.open() as registry:
        registry.register(request("agent-1", public_key=jwk(key(31))))
        query(desk.url, "UPDATE audit_waiting SET record = '{}'")
        check(desk)
    check(desk)
    signer = desk.audit_signer
    append_line(desk.checkpoints, issue_checkpoint(Head(2, "f" * 64), ISSUER, signer, int(NOW)))

    with raises_rule(*ROLLED_BACK):
        check(desk)
    assert "that waits for the chain cannot be read" in caplog.text


@pytest.fixture
def restored(desk: Desk) -> Desk:
    """After three records a backup of the first one is put back."""
    register(desk, 0)
    backup = desk.file.with_suffix(".backup")
    shutil.copy(desk.file, backup)
    register(desk, 1, 2)
    for one in desk.file.parent.glob("registry.sqlite*"):
        one.unlink()
    backup.rename(desk.file)
    return desk


@on_both_databases
def test_a_database_that_goes_on_is_as_new_as_its_checkpoints(desk: Desk) -> None:
    check(desk)
    register(desk, 0)
    check(desk)
    register(desk, 1, 2)
    check(desk)


@on_both_databases
def test_a_database_that_lost_its_last_records_is_refused(desk: Desk) -> None:
    register(desk, 0, 1)
    first = query(desk.url, "SELECT digest FROM audit WHERE sequence = 1")[0][0][0]
    query(desk.url, "DELETE FROM audit WHERE sequence = 2", f"UPDATE audit_head SET sequence = 1, digest = '{first}'")

    with raises_rule(*ROLLED_BACK):
        check(desk)


def test_a_restored_backup_is_refused_and_the_hint_says_what_to_do(restored: Desk) -> None:
    with pytest.raises(Exception, match=r"ends at record 1, .* vouches for record 3") as caught:
        check(restored)
    assert "SDCARD_AUDIT_RESTORED=3" in str(caught.value)


def test_a_restored_backup_is_served_when_that_is_said(restored: Desk) -> None:
    check(restored, 3)


@pytest.mark.parametrize("said", [1, 2, 4])
def test_another_number_does_not_count(restored: Desk, said: int) -> None:
    with raises_rule(*ROLLED_BACK):
        check(restored, said)


def test_a_chain_that_has_grown_again_is_another_one(restored: Desk) -> None:
    register(restored, 4, 5, 6)

    restored.checkpoints.write_text(restored.checkpoints.read_text().splitlines()[1] + "\n")

    with raises_rule(*OTHER):
        check(restored)


def test_a_second_restored_backup_is_refused_again(restored: Desk) -> None:
    with restored.open() as registry:
        registry.register(request("agent-4", public_key=jwk(key(34))))
    check(restored, 3)
    query(restored.url, "DELETE FROM audit", f"UPDATE audit_head SET sequence = 0, digest = '{'0' * 64}'")

    with raises_rule(*ROLLED_BACK):
        check(restored, 3)


def test_a_checkpoint_by_a_key_that_the_database_lost_is_refused(desk: Desk) -> None:
    register(desk, 0)
    append_line(desk.checkpoints, issue_checkpoint(Head(2, "a" * 64), ISSUER, key(99), NOW))

    with raises_rule(*ROLLED_BACK):
        check(desk)
    check(desk, 2)


def test_a_checkpoint_by_a_retired_key_counts(desk: Desk) -> None:
    seed_keys(desk.url, key_row(key(98), KeyUse.AUDIT, KeyState.RETIRED))
    append_line(desk.checkpoints, issue_checkpoint(Head(7, "a" * 64), ISSUER, key(98), NOW))

    with raises_rule(*ROLLED_BACK):
        check(desk)


LINES: dict[str, Callable[[str], str]] = {
    "nothing": lambda line: "",
    "cut short": lambda line: line[:-40],
    "cut shorter": lambda line: line[:60],
    "another signature": lambda line: line[:-6] + "AAAAAA",
    "not ASCII": lambda line: "é" * 20,
    "long": lambda line: "a" * 100_000,
    "NUL": lambda line: "\0" * 20,
    "not JSON": lambda line: "a.b.c",
}


@pytest.mark.parametrize("what", LINES)
def test_a_line_that_is_no_checkpoint_keeps_nobody_from_starting(desk: Desk, what: str) -> None:
    register(desk, 0)
    whole = desk.checkpoints.read_text().strip()
    future = issue_checkpoint(Head(9, "a" * 64), ISSUER, desk.audit_signer, NOW)
    desk.checkpoints.write_text(f"{LINES[what](future)}\n{whole}\n{LINES[what](future)}\n", encoding="utf-8")

    check(desk)


def test_a_registry_does_not_start_and_changes_nothing(restored: Desk) -> None:
    before = restored.rows()
    settings: dict[str, Any] = {
        "database_url": restored.url,
        "audit_checkpoints": restored.checkpoints,
        "key_encryption_key_file": restored.file.parent / "kek",
    }

    with raises_rule(*ROLLED_BACK):
        prepare_keys(Settings(**settings))
    with pytest.raises(Exception, match="key-encryption key"):  # the next thing that it looks at
        prepare_keys(Settings(**settings, audit_restored=3))

    assert restored.rows() == before
    assert not (restored.file.parent / "kek").exists()


def test_a_new_database_beside_old_checkpoints_is_refused(restored: Desk, tmp_path: Path) -> None:
    settings = Settings(
        database_url=f"sqlite:///{tmp_path}/new.sqlite",
        audit_checkpoints=restored.checkpoints,
        key_encryption_key_file=tmp_path / "new.key",
    )

    with raises_rule(*ROLLED_BACK):
        prepare_keys(settings)


# -- PostgreSQL: a base backup, and the log until a moment of one's choice ------------------------------------------


def archive(server: Cluster) -> Path:
    """Have a server keep its log in a folder, and make a base backup beside it."""
    kept = server.folder / "archive"
    kept.mkdir()
    for path in (kept, server.folder):
        shutil.chown(path, "postgres", "postgres")
    copy = f"cp %p {kept}/%f.new && mv {kept}/%f.new {kept}/%f"
    server.execute("postgres", "ALTER SYSTEM SET archive_mode = on", f"ALTER SYSTEM SET archive_command = '{copy}'")
    server.stop()
    server.start()
    at = ("-h", "127.0.0.1", "-p", str(server.port), "-U", "app")
    server.run("pg_basebackup", "-D", f"{server.folder}/base", "-c", "fast", *at)
    return kept


def recover(server: Cluster, kept: Path, point: str) -> None:
    """Replace a server's data by the base backup, and replay the log until a restore point."""
    server.stop(signal.SIGKILL)
    data = server.folder / "d"
    data.rename(server.folder / "lost")
    (server.folder / "base").rename(data)
    with (data / "postgresql.auto.conf").open("a", encoding="utf-8") as settings:
        settings.write(f"restore_command = 'cp {kept}/%f %p'\nrecovery_target_name = '{point}'\n")
        settings.write("recovery_target_action = promote\n")
    (data / "recovery.signal").touch()
    server.start()
    ends_at = time.monotonic() + 30
    while server.execute("postgres", "SELECT pg_is_in_recovery()") != [[(False,)]]:
        assert time.monotonic() < ends_at
        time.sleep(0.1)


@pytest.mark.postgresql
@pytest.mark.slow
def test_postgresql_goes_back_to_a_moment_of_ones_choice(tmp_path: Path) -> None:
    with cluster(crash_safe=True) as server:
        kept = archive(server)
        desk = Desk(tmp_path, server.url(server.new_database()))
        with desk.open() as registry:
            for number in range(3):
                registry.register(request(f"kept-{number}", public_key=jwk(key(40 + number))))
            before, _ = desk.rows(), server.execute("postgres", "SELECT pg_create_restore_point('before')")
            registry.register(request("mistake", public_key=jwk(key(50))))
            registry.done("POST", "/agents/kept-0/revoke", {})
        [[(last,)], _] = server.execute("postgres", "SELECT pg_walfile_name(pg_switch_wal())", "SELECT 1")
        ends_at = time.monotonic() + 30
        while not (kept / last).exists():
            assert time.monotonic() < ends_at, "the log is archived"
            time.sleep(0.1)

        recover(server, kept, "before")

        assert desk.rows() == before
        assert desk.differences() == [], "sdcard audit verify --state"
        with desk.open() as registry:
            registry.register(request("after", public_key=jwk(key(51))))


# -- Moves to PostgreSQL ----------------------------------------------------------------------------------------------


def comparable(desk: Desk) -> dict[str, Any]:
    """The rows of each table, in an order of their own: the two databases sort and write values differently."""
    return {table: sorted(repr([_plain(one) for one in row]) for row in rows) for table, rows in desk.rows().items()}


def _plain(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str) and value.startswith(("{", "[", "null")):
        return json.loads(value)
    return value


@pytest.fixture
def recorded(tmp_path: Path) -> Desk:
    return Desk(tmp_path, recorded=True)


def test_every_row_moves_and_the_registry_goes_on(recorded: Desk, postgres: Cluster) -> None:
    populate(recorded)
    before = recorded.counts()
    recorded.new_token("waits")  # its audit record is not in the chain yet
    url = postgres.url(postgres.new_database())

    counts = move(recorded.url, url)

    moved = copy(recorded)
    moved.url = url
    assert comparable(moved) == comparable(recorded)
    added = {table: before[table] + 1 for table in ("tokens", "audit_waiting", "log_leaves")}
    assert counts == {**before, **added, "secrets": 1}
    assert query(url, "SELECT * FROM secrets") == query(recorded.url, "SELECT * FROM secrets")
    assert [table for table, rows in counts.items() if not rows] == ["heartbeats"], "it is for replicas"
    with moved.open() as registry:
        registry.register(request("after", public_key=jwk(key(90))))
    grow(moved)
    assert tree(moved).size == tree(recorded).size + TERMS.batch, "the log goes on where it was"
    assert moved.differences() == []


def test_a_registry_does_not_move_onto_another_one(recorded: Desk, postgres: Cluster, tmp_path: Path) -> None:
    url = Desk(tmp_path / "other", postgres.url(postgres.new_database()), recorded=True).url

    with pytest.raises(Misuse, match="the target has a registry"):
        move(recorded.url, url)


def test_a_registry_that_differs_from_its_chain_stays(recorded: Desk, postgres: Cluster) -> None:
    with recorded.open() as registry:
        registry.register(request())
    query(recorded.url, "UPDATE agents SET subject = 'mallory'")
    url = postgres.url(postgres.new_database())

    with pytest.raises(Misuse, match="audit verify --state"):
        move(recorded.url, url)

    assert query(url, "SELECT count(*) FROM agents") == [[(0,)]]


def test_a_registry_whose_chain_cannot_take_a_record_stays(recorded: Desk, postgres: Cluster) -> None:
    query(recorded.url, "INSERT INTO audit_waiting (number, record) VALUES (7, 'no JSON')")
    with pytest.raises(Misuse, match="cannot take record 7, which waits for it"):
        move(recorded.url, postgres.url(postgres.new_database()))


def test_a_registry_whose_log_differs_stays(recorded: Desk, postgres: Cluster) -> None:
    begin(recorded)
    with recorded.open() as registry:
        registry.register(request())
    grow(recorded)
    query(recorded.url, "DELETE FROM log_tiles WHERE level = 0")

    with pytest.raises(Misuse, match="audit verify --state"):
        move(recorded.url, postgres.url(postgres.new_database()))


def test_only_a_sqlite_file_moves_and_only_to_postgresql(recorded: Desk, postgres: Cluster) -> None:
    with pytest.raises(Misuse, match="from a SQLite file to PostgreSQL"):
        move(recorded.url, recorded.url)
    with pytest.raises(Misuse, match="no registry of this version"):
        move("sqlite:///missing.sqlite", postgres.url(postgres.new_database()))


def test_the_command_says_what_to_do_next(recorded: Desk, postgres: Cluster, sdcard: Sdcard) -> None:
    url = postgres.url(postgres.new_database())

    moved = sdcard("db", "move", url, "--database-url", recorded.url)

    assert moved.status == 0, moved.err
    assert "Set SDCARD_DATABASE_URL" in moved.out
    assert "canary" not in moved.out + moved.err
