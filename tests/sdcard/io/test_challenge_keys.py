"""A challenge key lives as long as its record: emptied, lost, restored or failed over, the record has a new key."""

import asyncio
import os
import shutil
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.used_nonces import Trips, measure_sql, proxied
from sdcard import Challenge
from sdcard.io.database import Database
from sdcard.io.replay_cache import MemoryChallengeRecord
from sdcard.io.sql_replay_cache import SqlChallengeRecord
from sdcard.io.system import SystemSalts
from tests.postgres import Cluster, cluster, query
from tests.sdcard.io.test_sql_replay_cache import ask, url
from tests.world import AUDIENCE, NOW, raises_rule

__all__ = ["url"]
TABLE = "sdcard_answered_challenges"


def issued(where: str) -> Challenge:
    return ask(where, lambda database: SqlChallengeRecord(database, AUDIENCE, SystemSalts()).issue(NOW))


def answered(where: str, *challenges: Challenge) -> list[bool]:
    async def work(database: Database) -> list[bool]:
        record = SqlChallengeRecord(database, AUDIENCE, SystemSalts())
        return [await record.consume(challenge, NOW) for challenge in challenges]

    return ask(where, work)


def goes_on(where: str) -> bool:
    return answered(where, issued(where)) == [True]


# -- in memory --------------------------------------------------------------------------------------------------------


def test_a_process_that_starts_again_knows_no_challenge_of_before() -> None:
    before = MemoryChallengeRecord(AUDIENCE, SystemSalts())
    first, second = before.issue(NOW), before.issue(NOW)
    assert before.consume(first, NOW)

    after = MemoryChallengeRecord(AUDIENCE, SystemSalts())
    assert [after.consume(one, NOW) for one in (first, second)] == [False, False]
    with raises_rule("kb.other-request", at="kb-jwt/nonce"):
        after.check(second, NOW)


def test_of_two_processes_with_memory_one_knows_a_challenge() -> None:
    one, other = (MemoryChallengeRecord(AUDIENCE, SystemSalts()) for _ in range(2))
    challenge = one.issue(NOW)

    assert not other.consume(challenge, NOW)
    assert one.consume(challenge, NOW)


# -- shared -----------------------------------------------------------------------------------------------------------


def test_a_challenge_outlives_every_process(url: str) -> None:
    first, second = issued(url), issued(url)

    assert answered(url, first) == [True]
    assert answered(url, first, second) == [False, True]


@pytest.mark.parametrize("how", [f"DELETE FROM {TABLE}", f"DROP TABLE {TABLE}", f"DELETE FROM {TABLE} WHERE slot = -1"])
def test_a_record_that_was_emptied_has_a_new_key(url: str, how: str) -> None:
    used, open_ = issued(url), issued(url)
    assert answered(url, used) == [True]
    query(url, how)

    assert answered(url, used, open_) == [False, False]
    assert goes_on(url)


def test_a_process_that_runs_finds_out(url: str) -> None:
    async def work(database: Database) -> None:
        one, other = (SqlChallengeRecord(database, AUDIENCE, SystemSalts()) for _ in range(2))
        used, stale = await one.issue(NOW), await other.issue(NOW)
        assert await one.consume(used, NOW)
        await asyncio.to_thread(query, url, f"DELETE FROM {TABLE}")
        assert not await one.consume(used, NOW)
        assert not await one.consume(stale, NOW + 1)
        fresh = await one.issue(NOW + 2)
        await other.check(fresh, NOW + 2)
        assert await other.consume(fresh, NOW + 2), "the other one read the new key when it did not know the nonce"

    ask(url, work)


def test_made_up_nonces_have_the_key_read_once_a_second(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[object] = []

    async def work(database: Database) -> None:
        record = SqlChallengeRecord(database, AUDIENCE, SystemSalts())
        known = await record.issue(NOW)
        read = record._used.key

        async def counted(*given: object) -> bytes:
            reads.append(given)
            return await read(*given)  # type: ignore[arg-type]  # as they came

        monkeypatch.setattr(record._used, "key", counted)
        forged = Challenge(f"{known.nonce[:-1]}{'A' if known.nonce[-1] != 'A' else 'B'}", AUDIENCE)
        for later in (0, 0, 0.5, 0.9, 2, 2):
            assert not await record.consume(forged, NOW + later)
        assert await record.consume(known, NOW)

    ask(url, work)
    assert len(reads) == 2


# -- SQLite -----------------------------------------------------------------------------------------------------------

Restoring = Callable[[Path, Path], None]


def _overwrite(backup: Path, file: Path) -> None:
    """In place: the file stays the same one."""
    file.write_bytes(backup.read_bytes())


def _replace(backup: Path, file: Path) -> None:
    file.unlink()
    shutil.copy2(backup, file)


def _restore_live(backup: Path, file: Path) -> None:
    """As ``sqlite3 FILE '.restore BACKUP'`` does, while others have the file open."""
    with closing(sqlite3.connect(backup)) as reading, closing(sqlite3.connect(file)) as writing:
        reading.backup(writing)


def _with_its_folder(backup: Path, file: Path) -> None:
    """All files of the folder, as they were."""
    _overwrite(backup, file)
    for name in ("-generation",):
        shutil.copy2(backup.with_name(backup.name + name), file.with_name(file.name + name))


@pytest.mark.parametrize("restore", [_overwrite, _replace, _restore_live, _with_its_folder])
def test_a_restored_file_has_a_new_key(tmp_path: Path, restore: Restoring) -> None:
    file, backup = tmp_path / "records.sqlite", tmp_path / "backup"
    where = f"sqlite:///{file}"
    used, open_ = issued(where), issued(where)
    assert answered(where, issued(where)) == [True]
    for name in ("", "-generation"):
        shutil.copy2(f"{file}{name}", f"{backup}{name}")
    assert answered(where, used) == [True]

    restore(backup, file)

    assert answered(where, used, open_) == [False, False]
    assert goes_on(where)


def test_a_file_that_is_restored_under_a_running_process_has_a_new_key(tmp_path: Path) -> None:
    file, backup = tmp_path / "records.sqlite", tmp_path / "backup"

    async def work(database: Database) -> None:
        record = SqlChallengeRecord(database, AUDIENCE, SystemSalts())
        used = await record.issue(NOW)
        _restore_live(file, backup)
        assert await record.consume(used, NOW)
        _restore_live(backup, file)
        assert not await record.consume(used, NOW)
        assert await record.consume(await record.issue(NOW), NOW)

    ask(f"sqlite:///{file}", work)


def test_a_copy_that_takes_over_has_a_new_key(tmp_path: Path) -> None:
    """Failover: a replica of the file elsewhere, to which the last use did not come."""
    first, second = tmp_path / "one" / "records.sqlite", tmp_path / "two" / "records.sqlite"
    first.parent.mkdir()
    where = f"sqlite:///{first}"
    used = issued(where)
    shutil.copytree(first.parent, second.parent)
    assert answered(where, used) == [True]

    assert answered(f"sqlite:///{second}", used) == [False]
    assert goes_on(f"sqlite:///{second}")
    assert goes_on(where)


def test_an_addition_that_was_not_committed_costs_the_key_and_nothing_else(tmp_path: Path) -> None:
    where = f"sqlite:///{tmp_path}/records.sqlite"
    challenge = issued(where)
    (tmp_path / "records.sqlite-generation").write_bytes(b"another")

    assert answered(where, challenge) == [False]
    assert goes_on(where)


# -- PostgreSQL -------------------------------------------------------------------------------------------------------


def _two(server: Cluster, where: str) -> tuple[Challenge, Challenge]:
    assert answered(where, issued(where)) == [True]
    return issued(where), issued(where)


def test_a_copied_database_has_a_new_key(postgres: Cluster) -> None:
    name = postgres.new_database()
    used, open_ = _two(postgres, postgres.url(name))
    copied = postgres.new_database(template=name)
    assert answered(postgres.url(name), used) == [True]

    assert answered(postgres.url(copied), used, open_) == [False, False]
    assert goes_on(postgres.url(copied))
    assert answered(postgres.url(name), open_) == [True], "the first one goes on"


def test_rows_that_are_written_again_have_a_new_key(postgres: Cluster) -> None:
    """What a dump that is loaded does, into the same database."""
    where = postgres.url(postgres.new_database())
    used, open_ = _two(postgres, where)
    query(where, f"CREATE TABLE dump AS SELECT * FROM {TABLE}")
    assert answered(where, used) == [True]
    query(where, f"DELETE FROM {TABLE}", f"INSERT INTO {TABLE} SELECT * FROM dump")

    assert answered(where, used, open_) == [False, False]
    assert goes_on(where)


def test_a_table_that_is_vacuumed_keeps_its_key(postgres: Cluster) -> None:
    where = postgres.url(postgres.new_database())
    used, open_ = _two(postgres, where)
    assert answered(where, used) == [True]
    query(where, f"VACUUM FULL FREEZE {TABLE}", f"REINDEX TABLE {TABLE}")

    assert answered(where, used, open_) == [False, True]


@pytest.mark.postgresql
@pytest.mark.slow
def test_a_standby_that_is_promoted_has_a_new_key() -> None:
    """With asynchronous replication the last uses are lost; here none is, and the key is new all the same."""
    with cluster(crash_safe=True) as primary:
        name = primary.new_database()
        used, open_ = _two(primary, primary.url(name))
        with cluster(crash_safe=True, standby_of=primary) as standby:
            assert answered(primary.url(name), used) == [True]
            primary.stop(signal.SIGKILL)
            standby.promote()
            assert answered(standby.url(name), used, open_) == [False, False]
            assert goes_on(standby.url(name))


@pytest.mark.postgresql
@pytest.mark.slow
def test_a_server_that_is_set_back_to_a_base_backup_has_a_new_key() -> None:
    with cluster(crash_safe=True) as server:
        where = server.url(server.new_database())
        used, open_ = _two(server, where)
        server.stop()
        shutil.copytree(server.folder / "d", server.folder / "backup", copy_function=shutil.copy2)
        server.start()
        after = issued(where)
        assert answered(where, after) == [True]
        server.stop()
        shutil.rmtree(server.folder / "d")
        (server.folder / "backup").rename(server.folder / "d")
        if os.geteuid() == 0:
            for path in (server.folder / "d", *(server.folder / "d").rglob("*")):
                shutil.chown(path, "postgres", "postgres")
        server.start()

        assert answered(where, used, open_, after) == [False] * 3
        assert goes_on(where)


def test_an_addition_is_one_round_trip(postgres: Cluster) -> None:
    trips, where = Trips(), postgres.url(postgres.new_database())

    async def work() -> tuple[list[float], float]:
        async with proxied(where, trips) as counted:
            return await measure_sql(counted, 200, 20, trips)

    assert asyncio.run(work())[1] == 1
