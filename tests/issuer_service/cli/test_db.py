"""``sdcard db`` as an operator runs it."""

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.command_line import Sdcard


def test_a_database_is_made_looked_at_and_backed_up(sdcard: Sdcard) -> None:
    before = sdcard("db", "status")
    made, again = sdcard("db", "upgrade", "--json"), sdcard("db", "upgrade")
    after = sdcard("db", "status", "--json")
    backed_up, refused = sdcard("db", "backup", "copy.sqlite", "--json"), sdcard("db", "backup", "copy.sqlite")

    assert before.status == 1
    assert made.json["before"] is None
    assert "nothing to do" in again.out
    assert (after.status, after.json["revision"]) == (0, made.json["revision"])
    assert backed_up.json == {"file": "copy.sqlite", "bytes": Path("copy.sqlite").stat().st_size}
    assert refused.status == 2
    with closing(sqlite3.connect("copy.sqlite")) as copy:
        assert copy.execute("SELECT count(*) FROM agents").fetchone() == (0,)


def test_a_database_of_a_later_version_is_left_alone(sdcard: Sdcard) -> None:
    sdcard("db", "upgrade")
    with closing(sqlite3.connect("sdcard.sqlite")) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = 'r9999'")

    ran = sdcard("db", "upgrade")

    assert (ran.status, "later version" in ran.err) == (2, True)
    assert sdcard("db", "status").status == 1


def test_postgresql_is_backed_up_by_its_own_tools(sdcard: Sdcard) -> None:
    ran = sdcard("db", "backup", "x", "--database-url", "postgresql+asyncpg://me:canary@db.example/cards")

    assert ran.status == 2
    assert "pg_dump" in ran.err
    assert "canary" not in ran.err
