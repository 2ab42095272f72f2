"""An import registers each agent of its file once, whatever happens to it in between."""

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import issuer_service.importing as importing
import issuer_service.importing as working
from issuer_service.agents import repository as agents_repository
from issuer_service.agents.registration import issue_batch
from issuer_service.status import repository as status_repository
from sdcard import Refused, Rule, Where
from sdcard.cli import main
from sdcard.encoding import encode_base64url
from sdcard.errors import Part
from sdcard.io.database import Database
from sdcard.io.key_files import create_private_file
from tests.issuer_service.desk import KEK_SECRET, Desk, ask, jwk, on_both_databases, reading, request_with_card
from tests.postgres import query
from tests.world import ISSUER, NOW, key

pytestmark = on_both_databases

AGENTS = 60
_RUNS = """
import issuer_service.importing as run
run.AT_ONCE = 7
from sdcard.cli import main
main()
"""


def line(number: int, **changes: Any) -> dict[str, Any]:
    card = {**request_with_card()["card"], "name": f"Agent {number}"}
    return {"agent_id": f"agent-{number}", "card": card, "public_key": jwk(key(1000 + number)), **changes}


def write(folder: Path, *lines: Any) -> Path:
    file = folder / "agents.jsonl"
    file.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in lines))
    return file


def settings(folder: Path, desk: Desk) -> dict[str, str]:
    kek = folder / "key-encryption.key"
    if not kek.exists():
        create_private_file(kek, encode_base64url(KEK_SECRET))
    return {
        "SDCARD_DATABASE_URL": desk.url,
        "SDCARD_ISSUER": ISSUER,
        "SDCARD_KEY_ENCRYPTION_KEY_FILE": str(kek),
        "SDCARD_AUDIT_CHECKPOINTS": str(folder / "audit.checkpoints"),
    }


def arguments(file: Path, workers: int) -> list[str]:
    options = ("--subject", "team", "--context", "public", "--context", "internal", "--workers", str(workers), "--json")
    return ["registry", "import", str(file), *options]


def start(folder: Path, desk: Desk, file: Path, workers: int) -> "subprocess.Popen[str]":
    """Start an import as a process of its own."""
    command = [sys.executable, "-c", _RUNS, *arguments(file, workers)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env={**os.environ, **settings(folder, desk)}, stdout=pipe, stderr=pipe, text=True)


class WorkerHere(ThreadPoolExecutor):
    """A worker in this process, since a process takes two seconds to start."""

    def __init__(self, workers: int, context: object, start: object, arguments: tuple[Any]) -> None:
        def prepare() -> None:
            loop = asyncio.new_event_loop()
            importing._process[:] = [importing._Process(loop.run_until_complete(importing._open(*arguments)), loop)]

        super().__init__(1, initializer=prepare)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        def end() -> None:
            (worker,) = importing._process
            worker.loop.run_until_complete(worker.container.database.close())
            worker.loop.close()

        self.submit(end).result()
        super().shutdown(cancel_futures=cancel_futures)


def run(
    folder: Path, desk: Desk, file: Path, pool: Callable[..., Executor] = WorkerHere
) -> tuple[int, dict[str, int], str]:
    """Import here and now: exit status, outcome and standard error."""
    out, err, status = io.StringIO(), io.StringIO(), 0
    with (
        mock.patch.object(sys, "argv", ["sdcard", *arguments(file, 1)]),
        mock.patch.object(importing, "AT_ONCE", 7),
        mock.patch.object(importing, "ProcessPoolExecutor", pool),
        mock.patch.dict(os.environ, settings(folder, desk)),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            status = int(end.code or 0)
    return status, json.loads(out.getvalue()), err.getvalue()


def rows(desk: Desk) -> dict[str, int]:
    tables = ("agents", "batches", "holder_keys", "cards", "status_entries")
    found = query(desk.url, *(f"SELECT count(*) FROM {table}" for table in tables))
    return {table: one[0][0] for table, one in zip(tables, found, strict=True)}


@pytest.mark.slow
def test_killed_amid_and_started_again_nothing_is_there_twice_and_nothing_is_missing(
    desk: Desk, tmp_path: Path
) -> None:
    file = write(tmp_path, *map(line, range(AGENTS)))
    for part in (1, AGENTS // 2):
        with start(tmp_path, desk, file, 2) as process:
            while process.poll() is None and rows(desk)["agents"] < part:
                time.sleep(0.02)
            process.send_signal(signal.SIGKILL)

    status, outcome, _ = run(tmp_path, desk, file)

    assert (status, outcome["registered"] + outcome["already"], outcome["refused"]) == (0, AGENTS, 0)
    once = {"agents": AGENTS, "batches": AGENTS, "holder_keys": AGENTS}
    assert rows(desk) == {**once, "cards": 2 * AGENTS, "status_entries": 2 * AGENTS}
    assert desk.differences() == []
    assert len(desk.audit(limit=1000)) >= AGENTS
    assert run(tmp_path, desk, file)[1] == {"registered": 0, "already": AGENTS, "refused": 0}
    assert rows(desk)["batches"] == AGENTS


def test_imported_agents_are_found_by_what_they_show(desk: Desk, tmp_path: Path) -> None:
    skill = request_with_card()["card"]["skills"][0]["id"]
    run(tmp_path, desk, write(tmp_path, line(1), line(2)), ProcessPoolExecutor)

    with desk.open() as registry:
        assert sorted(registry.found(skills=[skill])) == ["agent-1", "agent-2"]


@pytest.mark.parametrize("per", ["context", "card"])
def test_imported_agents_have_the_subjects_that_the_setting_says(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, per: str
) -> None:
    monkeypatch.setenv("SDCARD_SUBJECT_PER", per)
    run(tmp_path, desk, write(tmp_path, line(1), line(2)))

    ((subjects,),) = query(desk.url, "SELECT count(DISTINCT subject) FROM cards WHERE subject LIKE 'pairwise.%'")
    assert subjects == (4,)
    assert desk.differences() == []


def test_a_line_that_is_refused_is_named_and_stops_no_other(desk: Desk, tmp_path: Path) -> None:
    file = write(
        tmp_path,
        line(1),
        "{",
        line(2, public_key=jwk(key(1001))),
        line(3, proofs=[]),
        {"agent_id": "agent-4", "public_key": jwk(key(1004))},
        line(5, agent_id="no id"),
        line(6),
        line(6),
        line(7, card={**line(7)["card"], "spiffe_id": "spiffe://example.org/planner"}),
    )

    status, outcome, said = run(tmp_path, desk, file)

    assert (status, outcome) == (1, {"registered": 2, "already": 1, "refused": 6})
    refused = {one.split(":")[0]: one.split()[2] for one in said.splitlines() if one.startswith("line ")}
    assert refused == {
        "line 2": "json.malformed",
        "line 3": "key.bound-elsewhere",
        "line 4": "request.malformed",
        "line 5": "request.malformed",
        "line 6": "agent-id.malformed",
        "line 9": "token.limit",
    }
    assert "An import permits no SPIFFE ID" in said
    assert "The token is limited" not in said


def test_an_import_asks_no_person_and_leaves_out_who_needs_an_approval(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = {**request_with_card()["card"], "skills": []}
    monkeypatch.setenv("SDCARD_APPROVAL_FOR", request_with_card()["card"]["skills"][0]["id"])

    status, outcome, said = run(tmp_path, desk, write(tmp_path, line(1), line(2, card=plain)))

    assert (status, outcome) == (1, {"registered": 1, "already": 0, "refused": 1})
    assert "line 1: approval.pending" in said
    assert [agent for (agent,) in query(desk.url, "SELECT agent_id FROM agents")[0]] == ["agent-2"]


def test_a_file_with_agents_of_another_owner_takes_none(desk: Desk, tmp_path: Path) -> None:
    token = desk.new_token("owner")
    with desk.open() as registry:
        registry.register(request_with_card(agent_id="agent-1"), token)

    status, outcome, said = run(tmp_path, desk, write(tmp_path, line(1)))

    assert (status, outcome["refused"]) == (1, 1)
    assert "agent.taken" in said


def test_what_is_no_line_at_all_is_refused(desk: Desk, tmp_path: Path) -> None:
    status, outcome, said = run(tmp_path, desk, write(tmp_path, "x" * 3_000_000, line(1)))

    assert (status, outcome) == (1, {"registered": 1, "already": 0, "refused": 1})
    assert "x" * 100 not in said
    assert ask(desk.url, reading(agents_repository.find_registered, ["agent-1"])).keys() == {"agent-1"}


def test_what_is_too_long_is_refused_whatever_its_beginning_says(desk: Desk, tmp_path: Path) -> None:
    cut = json.dumps(line(1)).ljust(1024 * 1024 + 1) + "and more"

    status, outcome, said = run(tmp_path, desk, write(tmp_path, cut, line(2)))

    assert (status, outcome) == (1, {"registered": 1, "already": 0, "refused": 1})
    assert "line 1: limit.bytes" in said


def test_each_line_is_counted_once_also_when_its_transaction_is_tried_again(desk: Desk, tmp_path: Path) -> None:
    """The first line opens the status lists of an empty registry for all others."""
    taken = {"public_key": jwk(key(1001))}

    status, outcome, said = run(tmp_path, desk, write(tmp_path, line(1), line(2, **taken), line(3), line(4), line(5)))

    assert (status, outcome) == (1, {"registered": 4, "already": 0, "refused": 1})
    assert said.count("line 2: key.bound-elsewhere") == 1


def test_of_lines_about_one_agent_that_stand_together_the_last_counts(desk: Desk, tmp_path: Path) -> None:
    newer = {**line(1)["card"], "version": "9.9"}
    run(tmp_path, desk, write(tmp_path, line(1)))
    before = ask(desk.url, reading(agents_repository.find_registered, ["agent-1"]))

    _, outcome, _ = run(tmp_path, desk, write(tmp_path, line(1), line(1, card=newer), line(1)))

    assert outcome == {"registered": 2, "already": 1, "refused": 0}
    assert ask(desk.url, reading(agents_repository.find_registered, ["agent-1"])) == before


def test_an_agent_that_is_refused_when_it_is_issued_stops_no_other(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not when it is read: then everything else of its line is good."""

    def refuse(*given: Any) -> Any:
        if given[4].agent_id == "agent-1":
            raise Refused(Rule.LIMIT_BYTES, Where(Part.CARD))
        return issue_batch(*given)

    monkeypatch.setattr(working, "issue_batch", refuse)
    lines = tuple((number, json.dumps(line(number)).encode()) for number in range(3))

    async def work(database: Database) -> working.ImportResult:
        entries = await status_repository.free_statuses(database, len(lines), desk.salts, NOW)
        return await working.work_on(
            desk.container(database), working.ImportChunk(lines, "alice", ("public",), entries)
        )

    worked = ask(desk.url, work)

    assert [number for number, _ in worked.rows] == [0, 2]
    assert [(number, str(finding.rule)) for number, (finding,) in worked.refused] == [(1, "limit.bytes")]
