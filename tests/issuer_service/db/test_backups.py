"""Backups of a database in use: one state of it, whole or not at all, and nobody else's to read."""

import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import make_url

from issuer_service.db.backups import back_up, pg_dump
from issuer_service.db.migrations import head, read_revision, upgrade
from sdcard import Misuse
from tests.issuer_service.desk import Desk, on_both_databases, request
from tests.world import key, raises_rule


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
