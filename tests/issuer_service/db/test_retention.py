"""Rows are kept as long as the table says, and no longer; the chain still describes what is left."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import Connection

from benchmarks.retention import AGENTS, Year
from issuer_service.agents.records import KEPT_SECONDS
from issuer_service.db import retention
from issuer_service.db.retention import AT_ONCE, KEPT, KEPT_OTHERWISE, PRUNED, Pruned
from issuer_service.db.tables import metadata
from issuer_service.status.records import EXPIRED_LATELY
from sdcard.issuer import DAY
from tests.issuer_service.audit.populated import populate
from tests.issuer_service.desk import Desk, ask, differences, jwk, on_both_databases, request
from tests.postgres import query
from tests.shared import ROOT
from tests.world import NOW, key

ENDS = ("expires_at", "until", "renew_at", "deleted_at", "retired_at", "signs_until", "revoked_at", "public_at")
"""Columns that tell when something ends."""


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "PAUSE", 0)


@pytest.fixture
def populated(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path, recorded=True)
    populate(desk)
    return desk


# -- the table of what is kept how long -------------------------------------------------------------------------------


def test_every_table_says_how_long_its_rows_are_kept() -> None:
    pruned = {one.table.name for one in PRUNED}

    assert pruned | KEPT_OTHERWISE.keys() == metadata.tables.keys()
    assert pruned & KEPT_OTHERWISE.keys() == set()
    ending = {name for name, table in metadata.tables.items() if set(ENDS) & set(table.c.keys())}
    assert ending > {"cards", "status_entries", "tokens", "answers", "approvals", "used_nonces"}
    assert ending - pruned == {"agents", "status_entries", "discovery_cards", "registry_keys"}


def test_the_operations_page_lists_each_table() -> None:
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    said = {one.table.name: one.kept for one in PRUNED} | dict(KEPT_OTHERWISE)
    assert [name for name, kept in said.items() if f"| `{name}` | {kept} |" not in text] == []


# -- what is deleted, and what is not ---------------------------------------------------------------------------------


def test_everything_that_ended_goes_and_the_chain_describes_the_rest(populated: Desk) -> None:
    before = populated.counts()
    populated.clock.advance(400 * DAY)

    deleted = populated.delete_ended()

    after = populated.counts()
    assert populated.differences() == []
    assert {one.table.name for one in PRUNED} <= deleted.keys()
    apart = {"status_lists", "audit", "log_leaves"}
    assert {
        table: before[table] - after[table] for table in before.keys() - apart if before[table] != after[table]
    } == {table: count for table, count in deleted.items() if table not in apart}
    ended = ("answers", "sessions", "tokens", "grants", "delegations", "approvals", "remembered", "cards")
    assert {table: after[table] for table in (*ended, "status_entries")} == dict.fromkeys((*ended, "status_entries"), 0)
    assert (after["agents"], after["holder_keys"]) == (before["agents"], before["holder_keys"])
    assert populated.delete_ended() == {}, "a second run finds nothing"
    assert populated.counts()["audit"] == after["audit"]


def test_nothing_goes_before_its_end(populated: Desk) -> None:
    before = populated.rows()

    assert populated.delete_ended() == {}
    assert populated.rows() == before


@pytest.mark.slow
@pytest.mark.parametrize("pruned", [one for one in PRUNED if "expires_at" in one.table.c and one.key.primary_key])
def test_a_row_is_kept_to_the_last_second(populated: Desk, pruned: Pruned) -> None:
    if pruned.table.name == "cards":
        query(populated.url, "DELETE FROM status_entries", "DELETE FROM status_lists")
    ((last,),) = query(populated.url, f"SELECT max(expires_at) FROM {pruned.table.name}")[0:1][0:1][0]
    kept = {"answers": 0, "cards": EXPIRED_LATELY}.get(pruned.table.name, KEPT)

    def ended(connection: Connection) -> tuple[int, int]:
        return len(pruned.find(connection, last + kept - 1)), len(pruned.find(connection, last + kept))

    early, due = ask(populated.url, lambda database: database.read(ended))
    assert due > early


def test_an_sd_card_stays_as_long_as_its_status_list_however_wrong_the_clock_is(desk: Desk) -> None:
    """A clock that is ahead by years deletes no SD-Card that a Verifier could accept, so its owner can revoke it."""
    with desk.open() as registry:
        registry.register(request())
        desk.clock.advance(1_000 * DAY)
        listed = {row[0] for row in desk.rows()["status_entries"]}
        (found,) = [one for one in PRUNED if one.key.name == "batch_id" and one.table.name == "cards"]
        at = int(desk.clock.now())
        assert ask(desk.url, lambda database: database.read(found.find, at)) == []
        query(desk.url, f"UPDATE status_entries SET expires_at = {at + DAY}")

        desk.delete_ended()

        assert {row[0] for row in desk.rows()["status_lists"]} >= listed
        assert desk.counts()["cards"] == 3


def test_of_a_registration_all_sd_cards_go_or_none(desk: Desk) -> None:
    """They are compared with the audit chain together."""
    with desk.open() as registry:
        registry.register(request())
    desk.clock.advance(200 * DAY)
    ((kept,),) = query(desk.url, "SELECT min(status_list_id) FROM cards")[0:1][0]
    query(desk.url, f"UPDATE status_entries SET expires_at = {int(desk.clock.now())} WHERE list_id = '{kept}'")

    desk.delete_ended()

    assert desk.counts()["cards"] == 3


def test_an_agent_that_was_silent_for_years_renews(desk: Desk) -> None:
    with desk.open() as registry:
        registry.register(request())
        for _ in range(3):
            desk.clock.advance(300 * DAY)
            desk.delete_ended()
            assert (desk.counts()["cards"], desk.counts()["batches"]) == (0, 1)
            registry.token = desk.token = desk.new_token("alice")
            registry.done("POST", "/agents/ai-assistant-v2/renew", {})
            desk.delete_ended()
            assert desk.counts()["batches"] <= 2


def test_an_answer_goes_when_it_is_kept_no_longer(desk: Desk) -> None:
    with desk.open() as registry:
        for number in range(3):
            registry.post(request(f"a{number}", public_key=jwk(key(40 + number))), idempotency_key=f'"{number}"')
    desk.clock.advance(KEPT_SECONDS - 1)
    assert "answers" not in desk.delete_ended()
    desk.clock.advance(1)
    assert desk.delete_ended()["answers"] == 3


@on_both_databases
def test_free_slots_of_nonces_go_from_above(desk: Desk) -> None:
    rows = [(slot, NOW if slot != 2 else NOW + KEPT) for slot in range(5)]
    values = ", ".join(f"({_digest(desk, slot)}, {until}, {slot})" for slot, until in rows)
    key_row = f"({_digest(desk, 99)}, {NOW}, -1)"
    query(
        desk.url, "DELETE FROM used_nonces", f"INSERT INTO used_nonces (digest, until, slot) VALUES {values}, {key_row}"
    )
    desk.clock.advance(KEPT)

    assert desk.delete_ended()["used_nonces"] == 2
    assert sorted(query(desk.url, "SELECT slot FROM used_nonces")[0]) == [(-1,), (0,), (1,), (2,)]
    desk.clock.advance(KEPT)
    assert desk.delete_ended()["used_nonces"] == 3
    assert query(desk.url, "SELECT slot FROM used_nonces")[0] == [(-1,)], "the key stays"


def _digest(desk: Desk, number: int) -> str:
    text = f"{number:02x}" * 32
    return f"x'{text}'" if desk.url.startswith("sqlite") else f"'\\x{text}'"


# -- a job of several processes, in small steps -----------------------------------------------------------------------


@pytest.mark.slow
def test_a_transaction_deletes_a_few_rows(populated: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    populated.clock.advance(400 * DAY)
    monkeypatch.setattr(retention, "PRUNED", tuple(one if one.at_once == 1 else few(one) for one in PRUNED))
    before = populated.audit()

    deleted = populated.delete_ended()

    events = [one["event"] for one in populated.audit()[len(before) :]]
    assert deleted["tokens"] > 2
    assert events.count("rows.deleted") > len(PRUNED)
    assert populated.differences() == []
    assert AT_ONCE <= 500


def few(pruned: Pruned) -> Pruned:
    return Pruned(pruned.key, pruned.kept, pruned.ended, 2, pruned.parts)


@pytest.mark.slow
def test_a_run_has_an_end(populated: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    populated.clock.advance(400 * DAY)
    monkeypatch.setattr(retention, "PRUNED", tuple(map(few, PRUNED)))
    monkeypatch.setattr(retention, "MOST_TRANSACTIONS", 1)

    assert populated.delete_ended()["tokens"] == 2
    while populated.delete_ended():
        pass
    assert populated.differences() == []


@on_both_databases
def test_processes_that_do_it_at_once_delete_each_row_once(desk: Desk) -> None:
    with desk.open() as registry:
        for number in range(8):
            registry.register(request(f"a{number}", public_key=jwk(key(40 + number))))
    desk.clock.advance(400 * DAY)
    before = desk.counts()

    with ThreadPoolExecutor(4) as threads:
        runs = list(threads.map(lambda _: desk.delete_ended(), range(4)))

    deleted = sum(map(Counter, runs), Counter[str]())
    assert (deleted["cards"], deleted["status_entries"]) == (before["cards"], before["status_entries"]) == (24, 24)
    assert desk.differences() == []


KILLED = """
import asyncio, os, sys
from issuer_service.db import retention
from sdcard.io.database import open_database
from sdcard.io.system import SystemSalts
from sqlalchemy import event
from tests.world import MovableClock, NOW

left = int(sys.argv[2])

def die(_: object) -> None:
    global left
    left -= 1
    if not left:
        os._exit(9)

async def work() -> None:
    database = open_database(sys.argv[1])
    event.listen(database.engine, sys.argv[3], die)
    retention.PAUSE, clock = 0, MovableClock(NOW + 400 * 86_400)
    await retention.delete_ended(database, clock, SystemSalts(), lambda *_: None)

asyncio.run(work())
"""


@pytest.mark.slow
def test_a_killed_process_leaves_whole_transactions_and_the_next_run_goes_on(populated: Desk, tmp_path: Path) -> None:
    populated.clock.advance(400 * DAY)
    for number in (1, 3, 8, 21, 55):
        for moment in ("commit", "begin"):
            command = [sys.executable, "-c", KILLED, populated.url, str(number), moment]
            ended = subprocess.run(command, cwd=ROOT, env={**os.environ}, capture_output=True, check=False)
            assert ended.returncode in (0, 9), ended.stderr
            assert populated.differences() == []
    assert populated.delete_ended() == {}


def test_a_backup_of_before_and_one_of_after_are_as_their_chains_say(populated: Desk, tmp_path: Path) -> None:
    def backup(name: str) -> str:
        shutil.copy(populated.file, tmp_path / name)
        return f"sqlite+aiosqlite:///{tmp_path / name}"

    populated.clock.advance(400 * DAY)
    before = backup("before.sqlite")
    deleted = populated.delete_ended()
    after = backup("after.sqlite")

    assert (differences(before), differences(after)) == ([], [])
    populated.url = before
    assert populated.delete_ended() == deleted, "it is served again, and its rows go again"
    assert differences(before) == []


# -- years ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_row_counts_stay_flat_over_a_year_of_weekly_renewals(tmp_path: Path) -> None:
    """Scaled down; ``python -m benchmarks.retention`` does it with 1,000 agents."""
    desk = Desk(tmp_path, recorded=True)
    year = Year(desk, agents=10, step=7)

    weeks = [one.rows for one in asyncio.run(year.run())]

    assert (AGENTS, len(weeks)) == (1_000, 52)
    growing = {"audit", "log_leaves", "log_tiles"}
    for table in weeks[0].keys() - growing - {"used_nonces"}:
        counts = [rows[table] for rows in weeks]
        assert max(counts[36:]) <= 1.02 * max(counts[20:36]) + 2, (table, counts)
    assert all(weeks[-1][table] > weeks[-5][table] > 0 for table in growing), "they are never shortened"
    written = {
        "reviews",
        "approvals",
        "domain_proofs",
        "agent_checks",
        "delegations",
        "remembered",
        "sessions",
        "grants",
    }
    assert [table for table in written if weeks[-1][table] == 0] == []
    assert desk.differences() == []
