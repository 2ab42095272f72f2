"""The replay cache in a database, and its challenge key."""

import asyncio
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import pytest

from benchmarks.used_nonces import Trips, measure_sql, proxied
from sdcard import (
    DpopExpectations,
    FreshnessWindow,
    Misuse,
    Refused,
    Rule,
    WithoutToken,
    create_dpop_proof,
    verify_dpop_proof_async,
    verify_presentation,
    verify_presentation_async,
)
from sdcard.errors import Part, Where
from sdcard.io.database import Database
from sdcard.io.replay_cache import MemoryChallengeRecord
from sdcard.io.sql_replay_cache import SharedChallengeRecord, SqlChallengeRecord, SqlReplayRecord, open_records
from sdcard.io.system import SystemSalts
from sdcard.io.used_nonces import CLOCK_DIFFERENCE, UsedNonces
from sdcard.key_binding import Challenge, NonceUse, RequestTarget, Unsolicited
from tests.external.public_cases import case
from tests.postgres import Cluster, cluster, query
from tests.sdcard.io.verifying import go, outcomes, start
from tests.world import AUDIENCE, ISSUER, NOW, World, raises_rule

# -- Memory of nonces that processes share ----------------------------------------------------------------------------

# The same as in memory, and one first use of all that ask, whatever dies.

T = TypeVar("T")
USE = NonceUse("thumbprint", AUDIENCE, "nonce")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite+aiosqlite:///{tmp_path}/records.sqlite"
    server: Cluster = request.getfixturevalue("postgres")
    [[(exists,)]] = server.execute("postgres", "SELECT count(*) FROM pg_database WHERE datname = 'records'")
    if not exists:
        server.execute("postgres", "CREATE DATABASE records TEMPLATE template0")
    server.execute("records", "DROP TABLE IF EXISTS sdcard_nonce_uses, sdcard_answered_challenges")
    server.execute("records", "DROP SEQUENCE IF EXISTS sdcard_nonce_uses_slots, sdcard_answered_challenges_slots")
    return server.url("records")


def ask(url: str, work: Callable[[Database], Awaitable[T]]) -> T:
    """Run the work on a newly opened database, as another process would."""

    async def opened() -> T:
        database = await open_records(url)
        try:
            return await work(database)
        finally:
            await database.close()

    return asyncio.run(opened())


def uses(url: str, *asked: tuple[NonceUse, float, float]) -> list[bool]:
    """Return a replay cache's answer to each use, with its times."""

    async def work(database: Database) -> list[bool]:
        record = SqlReplayRecord(database)
        return [await record.first_use(*one) for one in asked]

    return ask(url, work)


def use(nonce: str) -> NonceUse:
    return NonceUse("thumbprint", AUDIENCE, nonce)


# -- as in memory -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("later", "first"), [(0, False), (299.5, False), (300, False), (300.5, True), (301, True)])
def test_a_use_is_remembered_until_its_end_inclusive(url: str, later: float, first: bool) -> None:
    assert uses(url, (USE, NOW + 300, NOW)) == [True]
    assert uses(url, (USE, NOW + 900, NOW + later)) == [first]
    assert uses(url, (USE, NOW + 900, NOW + later)) == [False]


def test_another_holder_audience_nonce_or_kind_is_another_use(url: str) -> None:
    others = (
        USE,
        NonceUse("other", AUDIENCE, "nonce"),
        NonceUse("thumbprint", "other", "nonce"),
        NonceUse("thumbprint", AUDIENCE, "other"),
        NonceUse("thumbprint", AUDIENCE + "nonce", ""),
        NonceUse("thumbprint", AUDIENCE, "nonce", Part.DPOP),
    )
    assert uses(url, *((one, NOW, NOW) for one in others)) == [True] * 6
    assert uses(url, *((one, NOW, NOW) for one in others)) == [False] * 6


def test_a_full_record_refuses_what_is_new_and_remembers_what_it_has(url: str) -> None:
    async def work(database: Database) -> None:
        record = SqlReplayRecord(database, capacity=2)
        assert [await record.first_use(use(one), NOW + 10, NOW) for one in "ab"] == [True, True]
        for later in (0, 0.5, 2, CLOCK_DIFFERENCE + 10):
            with raises_rule("kb.record-unavailable", at="kb-jwt/nonce"):
                await record.first_use(use("c"), NOW + 10, NOW + later)
        assert await record.first_use(use("c"), NOW + 2_000, NOW + CLOCK_DIFFERENCE + 11), "the others are gone"

    ask(url, work)
    assert uses(url, (use("c"), NOW + 2_000, NOW + CLOCK_DIFFERENCE + 11)) == [False]


def test_what_expired_first_makes_room_first_and_the_table_grows_no_further(url: str) -> None:
    for number in range(3):
        assert uses(url, (use(str(number)), NOW + 10 * number, NOW)) == [True]
    later = NOW + 10 + CLOCK_DIFFERENCE + 1  # of the three, two have expired
    assert uses(url, *((use(nonce), later + 300, later) for nonce in "abc")) == [True] * 3

    rows = query(url, "SELECT slot, until FROM sdcard_nonce_uses ORDER BY until, slot")[0]
    assert [until for _, until in rows] == [NOW + 20, later + 300, later + 300, later + 300]
    assert (
        uses(url, (use("2"), NOW + 20, NOW + 20), *((use(nonce), later + 300, later) for nonce in "abc")) == [False] * 4
    )


def test_what_was_forgotten_while_a_clock_ran_ahead_is_not_used_again(url: str) -> None:
    ahead = NOW + 864_000
    assert uses(url, (USE, NOW + 300, NOW), (use("ahead"), ahead + 300, ahead)) == [True, True]
    assert query(url, "SELECT count(*) FROM sdcard_nonce_uses") == [[(1,)]], "one was overwritten"
    assert uses(url, (USE, NOW + 300, NOW), (use("other"), NOW + 300, NOW)) == [False, True]


def test_a_row_is_digests_and_an_instant(url: str) -> None:
    async def work(database: Database) -> None:
        assert await SqlReplayRecord(database).first_use(USE, NOW + 0.5, NOW)
        record = SqlChallengeRecord(database, AUDIENCE, SystemSalts())
        assert await record.consume(await record.issue(NOW), NOW)

    ask(url, work)
    for table, end in ("sdcard_nonce_uses", NOW + 0.5), ("sdcard_answered_challenges", NOW + 300):
        [[(digest, until, forgotten, made_in)]] = query(
            url, f"SELECT digest, until, forgotten, made_in FROM {table} WHERE slot >= 0"
        )
        assert (len(digest), until, forgotten, made_in) == (32, end, None, None)


def test_a_challenge_stores_nothing_until_it_is_answered(url: str) -> None:
    async def work(database: Database) -> None:
        record = SqlChallengeRecord(database, AUDIENCE, SystemSalts())
        made = [await record.issue(NOW) for _ in range(100)]
        for one in made:
            await record.check(one, NOW)

    ask(url, work)
    assert query(url, "SELECT count(*) FROM sdcard_answered_challenges") == [[(1,)]], "the key"


@pytest.mark.parametrize(("later", "open_"), [(0, True), (29, True), (30, True), (31, False)])
def test_a_challenge_is_open_for_its_lifetime_to_every_process(url: str, later: int, open_: bool) -> None:
    def record(database: Database) -> SqlChallengeRecord:
        return SqlChallengeRecord(database, AUDIENCE, SystemSalts(), lifetime=30)

    def consumed(answered: Challenge, now: float) -> bool:
        return ask(url, lambda database: record(database).consume(answered, now))

    challenge = ask(url, lambda database: record(database).issue(NOW, FreshnessWindow(20, 5), "i-1"))

    others = (
        Challenge("other", AUDIENCE, challenge.window, "i-1"),
        Challenge(challenge.nonce, "other", challenge.window, "i-1"),
        Challenge(challenge.nonce, AUDIENCE, challenge.window, None),
        Challenge(challenge.nonce, AUDIENCE, challenge.window, "i-1", RequestTarget("", "GET", "/")),
    )
    assert not any(consumed(other, NOW) for other in others)
    again = Challenge(challenge.nonce, AUDIENCE, FreshnessWindow(), "i-1")
    assert consumed(again, NOW + later) is open_
    assert consumed(again, NOW) is not open_, "once"


def test_answered_challenges_are_bounded_and_open_ones_are_not(url: str) -> None:
    async def work(database: Database) -> None:
        record = SqlChallengeRecord(database, AUDIENCE, SystemSalts(), lifetime=30, capacity=2)
        made = [await record.issue(NOW) for _ in range(3)]
        assert [await record.consume(one, NOW) for one in made[:2]] == [True, True]
        with raises_rule("kb.record-unavailable", at="kb-jwt/nonce"):
            await record.consume(made[2], NOW)
        assert not await record.consume(made[0], NOW)
        later = NOW + 31 + CLOCK_DIFFERENCE
        assert await record.consume(await record.issue(later), later)

    ask(url, work)


def test_many_at_once_fill_a_record_exactly(url: str) -> None:
    async def work(database: Database) -> list[bool | BaseException]:
        record = SqlReplayRecord(database, capacity=30)
        asked = (record.first_use(use(str(number)), NOW + 10, NOW) for number in range(50))
        return await asyncio.gather(*asked, return_exceptions=True)

    found = ask(url, work)
    assert found.count(True) == 30
    assert {str(one.rule) for one in found if isinstance(one, Refused)} == {"kb.record-unavailable"}
    assert len([one for one in found if isinstance(one, Refused)]) == 20
    assert query(url, "SELECT count(*) FROM sdcard_nonce_uses") == [[(30,)]]


def test_of_a_hundred_answers_at_once_one_is_first(url: str) -> None:
    async def work(database: Database) -> list[bool]:
        records = [SqlChallengeRecord(database, AUDIENCE, SystemSalts()) for _ in range(4)]
        challenge = await records[0].issue(NOW)
        return await asyncio.gather(*(records[number % 4].consume(challenge, NOW) for number in range(100)))

    assert sorted(ask(url, work)) == [False] * 99 + [True]


def test_a_caller_that_leaves_while_the_key_is_read_holds_nobody_up(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(database: Database) -> Challenge:
        read, reading = UsedNonces.key, asyncio.Event()

        async def slow(*given: Any) -> bytes:
            reading.set()
            await asyncio.sleep(0.05)
            return await read(*given)

        monkeypatch.setattr(UsedNonces, "key", slow)
        record = SqlChallengeRecord(database, AUDIENCE, SystemSalts())
        impatient = asyncio.ensure_future(record.issue(NOW))
        await reading.wait()
        patient = asyncio.ensure_future(record.issue(NOW))
        impatient.cancel()
        return await patient

    assert ask(url, work).audience == AUDIENCE


@pytest.mark.parametrize("given", ["sqlite+aiosqlite://", "sqlite+aiosqlite:///:memory:", "mysql://a", "records", ""])
def test_records_of_one_process_are_not_in_a_database(given: str) -> None:
    with pytest.raises(Misuse):
        ask(given, lambda _: asyncio.sleep(0))


def test_processes_that_start_together_make_the_tables_once(url: str) -> None:
    async def all_at_once() -> None:
        for database in await asyncio.gather(*(open_records(url) for _ in range(8))):
            await database.close()

    asyncio.run(all_at_once())
    assert uses(url, (USE, NOW, NOW)) == [True]


def test_only_its_owner_reads_a_new_file(tmp_path: Path) -> None:
    uses(f"sqlite+aiosqlite:///{tmp_path}/records.sqlite")
    assert (tmp_path / "records.sqlite").stat().st_mode & 0o777 == 0o600


def test_a_record_that_is_made_before_the_event_loop_opens_its_database_at_its_first_use(url: str) -> None:
    records = [SharedChallengeRecord(url, AUDIENCE, SystemSalts()) for _ in range(2)]

    async def used() -> list[bool]:
        challenges = await asyncio.gather(*(records[0].issue(NOW) for _ in range(3)))
        for challenge in challenges:
            await records[1].check(challenge, NOW)
        first = [await record.consume(challenges[0], NOW) for record in records]
        for record in records:
            await record.close()
        return first

    assert asyncio.run(used()) == [True, False]


def test_a_shared_record_that_is_out_of_reach_refuses_and_goes_on_when_it_is_back(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    record = SharedChallengeRecord(f"sqlite:///{folder}/records.sqlite", AUDIENCE, SystemSalts())

    async def used() -> None:
        for call in (record.issue(NOW), record.check(Challenge("n" * 52, AUDIENCE), NOW)):
            with raises_rule("kb.record-unavailable", "kb-jwt/nonce"):
                await call
        folder.mkdir()
        assert await record.consume(await record.issue(NOW), NOW)
        await record.close()

    asyncio.run(used())


def test_those_who_wait_for_a_key_that_cannot_be_read_share_the_refusal(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    async def work(database: Database) -> list[Any]:
        async def fails(*given: Any) -> bytes:
            tried.append(given)
            await asyncio.sleep(0.01)
            raise Refused(Rule.STORE_UNAVAILABLE, Where(Part.REQUEST))

        monkeypatch.setattr(UsedNonces, "key", fails)
        record = SqlChallengeRecord(database, AUDIENCE, SystemSalts())
        return await asyncio.gather(*(record.issue(NOW) for _ in range(50)), return_exceptions=True)

    assert {str(one.rule) for one in ask(url, work)} == {"kb.record-unavailable"}
    assert len(tried) == 1


# -- verifying with them ----------------------------------------------------------------------------------------------


def shown(world: World, challenge: Challenge | None = None) -> str:
    return world.holder.present(challenge or Challenge("chosen by the Holder", AUDIENCE))


def test_a_presentation_and_a_dpop_proof_pass_once(url: str, world: World) -> None:
    proof = create_dpop_proof(world.holder.signer, "POST", "https://verifier.example/", None, world.salts, NOW)

    async def work(database: Database) -> None:
        seen = SqlReplayRecord(database)
        expected = world.verifier.expectations(Unsolicited(AUDIENCE, seen))
        dpop = DpopExpectations(method="POST", url="https://verifier.example", token=WithoutToken(), seen=seen)
        assert (await verify_presentation_async(shown(world), expected, NOW)).subject == "agent:georoute"
        await verify_dpop_proof_async([proof], dpop, NOW)
        with raises_rule("kb.replayed", at="kb-jwt/nonce"):
            await verify_presentation_async(shown(world), expected, NOW)
        with raises_rule("dpop.replayed", at="dpop/jti"):
            await verify_dpop_proof_async([proof], dpop, NOW)
        with pytest.raises(Misuse, match="await"):
            verify_presentation(shown(world), expected, NOW)

    ask(url, work)


# -- processes --------------------------------------------------------------------------------------------------------


def job_of(url: str, world: World, **changes: Any) -> dict[str, Any]:
    """A Verifier's work on a presentation whose nonce the Holder chose."""
    keys = [dict(world.issuer.signer.public_key.to_jwk())]
    trust = {"issuers": {ISSUER: {"keys": keys}}}
    return {"url": url, "trust": trust, "presentation": shown(world), "now": NOW, "tasks": 5} | changes


@pytest.mark.slow
def test_of_a_hundred_copies_at_four_processes_one_passes(url: str, world: World) -> None:
    job = job_of(url, world, threads=5)

    lines = outcomes(*[job] * 4)

    assert sorted(lines) == ["accepted", *["kb.replayed"] * 99]


@pytest.mark.slow
def test_a_challenge_of_one_process_is_answered_once_at_others(url: str, world: World) -> None:
    command = [sys.executable, "-m", "tests.sdcard.io.verifying"]
    nonce = subprocess.check_output(command, input=json.dumps({"url": url, "now": NOW}), text=True).strip()
    job = job_of(url, world, nonce=nonce, presentation=shown(world, Challenge(nonce, AUDIENCE)))
    other = {**job, "nonce": "made-up", "presentation": shown(world, Challenge("made-up", AUDIENCE))}

    assert sorted(outcomes(job, job, other)) == ["accepted", *["kb.replayed"] * 14]


@pytest.mark.slow
def test_bug_079_two_workers_accept_one_presentation_once(url: str) -> None:
    whole = case("BUG-079")
    given = whole["input"]["action"]
    job = {"url": url, "case": given, "presentation": given["presentation"], "now": given["now"], "tasks": 10}

    lines = outcomes(*[job] * whole["input"]["workers"])

    assert lines.count("accepted") == whole["expected"]["accepted"]
    assert set(lines) == {"accepted", "kb.replayed"}


@pytest.mark.slow
@pytest.mark.parametrize("moment", [1, 20])
def test_a_process_that_is_killed_frees_nothing(url: str, world: World, moment: int) -> None:
    """Killed after so many lines: it has said at most once that it accepted, and nobody says so again."""
    job = job_of(url, world, threads=2, tasks=50)
    with start(job) as process:
        go(process)
        assert process.stdout is not None
        before = [process.stdout.readline().strip() for _ in range(moment)]
        process.send_signal(signal.SIGKILL)
        before += process.communicate()[0].split()

    after = outcomes(job)

    assert (before + after).count("accepted") <= 1, "or none, when its last act was the commit"
    assert after.count("kb.replayed") >= 99
    assert "accepted" in before or moment < 20


@pytest.mark.slow
def test_clocks_may_differ(url: str, world: World) -> None:
    """The last instant at which a KB-JWT is fresh, the first one, and a process ahead of both that sweeps."""
    world.clock.advance(60)
    job = job_of(url, world)
    first, last = NOW, NOW + 360

    assert sorted(outcomes({**job, "now": last}, {**job, "now": first})) == ["accepted", *["kb.replayed"] * 9]
    uses(url, (use("sweeps"), NOW + 5_000, last + CLOCK_DIFFERENCE))

    async def work(database: Database) -> None:
        expected = world.verifier.expectations(Unsolicited(AUDIENCE, SqlReplayRecord(database)))
        for now, rule, claim in (first, "replayed", "nonce"), (last, "replayed", "nonce"), (last + 1, "stale", "iat"):
            with raises_rule(f"kb.{rule}", at=f"kb-jwt/{claim}"):
                await verify_presentation_async(job["presentation"], expected, now)

    ask(url, work)


@pytest.mark.postgresql
def test_a_server_that_stops_refuses_and_goes_on_when_it_is_back(world: World) -> None:
    with cluster(crash_safe=True) as server:
        url = server.url(server.new_database())

        async def work(database: Database) -> None:
            seen = SqlReplayRecord(database)
            expected = world.verifier.expectations(Unsolicited(AUDIENCE, seen))
            first, second = shown(world), shown(world, Challenge("another", AUDIENCE))
            await verify_presentation_async(first, expected, NOW)
            server.stop(signal.SIGKILL)
            for again in (first, second, second):
                with raises_rule("kb.record-unavailable", at="kb-jwt/nonce"):
                    await verify_presentation_async(again, expected, NOW)
            server.start()
            assert (await verify_presentation_async(second, expected, NOW)).subject == "agent:georoute"
            for again in (first, second):
                with raises_rule("kb.replayed", at="kb-jwt/nonce"):
                    await verify_presentation_async(again, expected, NOW)

        ask(url, work)


def test_a_file_that_is_gone_or_another_refuses(tmp_path: Path) -> None:
    file, aside = tmp_path / "records.sqlite", tmp_path / "aside"

    async def work(database: Database) -> None:
        seen = SqlReplayRecord(database)
        assert await seen.first_use(USE, NOW + 300, NOW)
        file.rename(aside)
        with raises_rule("kb.record-unavailable", at="kb-jwt/nonce"):
            await seen.first_use(use("other"), NOW + 300, NOW)
        aside.rename(file)
        assert not await seen.first_use(USE, NOW + 300, NOW)
        file.unlink()
        sqlite3.connect(file).close()
        with raises_rule("kb.record-unavailable", at="kb-jwt/nonce"):
            await seen.first_use(USE, NOW + 300, NOW)

    ask(f"sqlite+aiosqlite:///{file}", work)


def test_a_file_that_others_lock_is_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "records.sqlite"

    async def work(database: Database) -> None:
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.create_task(SqlReplayRecord(database).first_use(USE, NOW + 300, NOW))
        await asyncio.sleep(0.3)
        assert not waiting.done()
        other.execute("COMMIT")
        other.close()
        assert await waiting

    ask(f"sqlite+aiosqlite:///{file}", work)


def test_a_new_file_that_others_write_is_waited_for(tmp_path: Path) -> None:
    """SQLite itself does not wait where a file becomes one with a write-ahead log."""
    file = tmp_path / "records.sqlite"

    async def opened() -> None:
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        other.execute("CREATE TABLE others (one)")
        opening = asyncio.create_task(open_records(f"sqlite:///{file}"))
        await asyncio.sleep(0.3)
        assert not opening.done()
        other.execute("COMMIT")
        other.close()
        database = await opening
        assert await SqlReplayRecord(database).first_use(USE, NOW + 300, NOW)
        await database.close()

    asyncio.run(opened())


def test_a_database_without_the_tables_refuses(url: str) -> None:
    async def work(database: Database) -> None:
        await asyncio.to_thread(query, url, "DROP TABLE sdcard_nonce_uses")
        with raises_rule("kb.record-unavailable", at="kb-jwt/nonce"):
            await SqlReplayRecord(database).first_use(USE, NOW, NOW)

    ask(url, work)


# -- A challenge key lives as long as its record ----------------------------------------------------------------------

# Emptied, lost, restored or failed over, the record has a new key.

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
    """Overwrite the file in place."""
    file.write_bytes(backup.read_bytes())


def _replace(backup: Path, file: Path) -> None:
    file.unlink()
    shutil.copy2(backup, file)


def _restore_live(backup: Path, file: Path) -> None:
    """Restore as ``sqlite3 FILE '.restore BACKUP'`` does, while other processes have the file open."""
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
    """A dump that is loaded into the same database writes rows so."""
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
