"""Audit records that wait for the chain: who waits for whom, in which order they are taken, and what stops it."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection

from issuer_service import app
from issuer_service.audit import repository
from issuer_service.audit.records import AuditEvent, AuditQuery, AuditRow
from issuer_service.audit.service import chain_waiting, chaining, verify_database, verify_state
from issuer_service.db.state_check import compare_state
from issuer_service.transparency.repository import begin
from sdcard import Refused
from sdcard.audit_chain import Checkpoint, Head, Verdict
from sdcard.io.database import open_database
from tests.issuer_service.audit.test_service import await_until
from tests.issuer_service.desk import Desk, OpenDesk, ask, changing, jwk, on_both_databases, read_all, request
from tests.postgres import query
from tests.world import ISSUER, NOW, at_once, key

on_postgresql = pytest.mark.parametrize("desk", ["postgresql"], indirect=True)


def entry(subject: str) -> AuditRow:
    return AuditRow(AuditEvent.TOKEN_REVOKED, int(NOW), subject, "")


def leave(connection: Connection, *subjects: str) -> None:
    for subject in subjects:
        repository.append_audit(connection, entry(subject))


@contextmanager
def unfinished(url: str, act: Callable[[Connection], object]) -> Iterator[None]:
    """A transaction of another process that did this, and commits when the block ends."""
    left, ended = threading.Event(), threading.Event()

    def work(connection: Connection) -> None:
        act(connection)
        left.set()
        assert ended.wait(20)

    async def write() -> None:
        database = open_database(url)
        try:
            await database.change(work)
        finally:
            await database.close()

    thread = threading.Thread(target=asyncio.run, args=(write(),))
    thread.start()
    try:
        assert left.wait(10)
        yield
    finally:
        ended.set()
        thread.join()


def subjects(desk: Desk) -> list[tuple[int, str]]:
    """The number and the subject of each record of the chain."""
    return [tuple(row) for row in query(desk.url, "SELECT sequence, subject FROM audit ORDER BY sequence")[0]]


def waiting(desk: Desk) -> int:
    return ask(desk.url, lambda database: database.read(repository.count_waiting))


@on_postgresql
def test_a_registration_waits_for_nobody_who_writes_a_record_or_moves_the_chain(desk: Desk, registry: OpenDesk) -> None:
    with unfinished(desk.url, lambda c: leave(c, "other")), unfinished(desk.url, repository.chain_waiting):
        registry.register(request())
        registry.done("POST", "/agents/ai-assistant-v2/revoke", {})
        assert waiting(desk) == 2
    assert [event["event"] for event in desk.audit()] == ["token.revoked", "agent.registered", "cards.revoked"]
    assert desk.verdict().findings == ()


@on_postgresql
def test_a_record_that_commits_late_is_taken_later_and_leaves_no_gap(desk: Desk) -> None:
    with unfinished(desk.url, lambda c: leave(c, "late")):
        ask(desk.url, changing(leave, "first"))
        ask(desk.url, chain_waiting)
        assert subjects(desk) == [(1, "first")]
    ask(desk.url, changing(leave, "last"))
    ask(desk.url, chain_waiting)

    assert subjects(desk) == [(1, "first"), (2, "late"), (3, "last")]
    assert (desk.verdict().records, desk.verdict().findings) == (3, ())


@on_postgresql
@pytest.mark.parametrize("level", ["read committed", "repeatable read"])
def test_a_log_begins_when_writers_have_ended_so_no_later_record_lacks_its_leaf(desk: Desk, level: str) -> None:
    """Whatever the default of the database is: a snapshot from before the wait would not have the other record."""
    name = desk.url.rpartition("/")[2]
    query(desk.url, f"ALTER DATABASE \"{name}\" SET default_transaction_isolation = '{level}'")
    outcome = list[object]()

    def begin_log() -> None:
        outcome.append(ask(desk.url, changing(begin, int(NOW))))

    with unfinished(desk.url, lambda c: leave(c, "without a leaf")):
        thread = threading.Thread(target=begin_log)
        thread.start()
        waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%audit_head%'"
        await_until(lambda: query(desk.url, waits)[0][0][0] == 1)
        assert outcome == []
    thread.join()
    ask(desk.url, changing(leave, "with a leaf"))

    assert [(one["event"], "leaf" in one) for one in desk.audit()] == [
        ("token.revoked", False),
        ("log.begun", True),
        ("token.revoked", True),
    ]
    assert desk.differences() == []


@on_both_databases
def test_processes_that_chain_at_once_take_each_record_once_in_order(desk: Desk) -> None:
    names = [f"{number:03}" for number in range(2 * repository.AT_ONCE + 50)]
    ask(desk.url, changing(leave, *names))

    at_once(lambda: ask(desk.url, chain_waiting), 4)

    assert subjects(desk) == list(enumerate(names, 1))
    assert waiting(desk) == 0
    assert desk.verdict().findings == ()


@on_both_databases
def test_the_tables_are_compared_with_records_that_wait_too(desk: Desk) -> None:
    with desk.open() as registry:
        registry.register(request())
    with desk.open() as registry:
        registry.register(request("waits", public_key=jwk(key(50))))
        assert waiting(desk) == 1
        assert places(desk, "agents") == []
        query(desk.url, "UPDATE agents SET subject = 'mallory' WHERE agent_id = 'waits'")
        assert places(desk, "agents") == ["database/agents/waits/subject"]
        _, state = ask(desk.url, lambda database: database.read_long(compare_state, lambda _: None))
        assert "A record that waits for the chain says otherwise." in [one.hint for one in state.findings]
        assert waiting(desk) == 1, "nothing is written"


def places(desk: Desk, table: str) -> list[str]:
    _, state = ask(desk.url, lambda database: database.read_long(compare_state, lambda _: None))
    return [str(one.where) for one in state.findings if one.where.path[0] == table]


@on_both_databases
def test_verification_says_that_records_wait_and_nobody_knows_whether_they_were_changed(desk: Desk) -> None:
    ask(desk.url, changing(leave, "first"))
    ask(desk.url, chain_waiting)
    ask(desk.url, changing(leave, "second"))

    verdict = ask(desk.url, lambda database: verify_database(database, (), lambda _: None))

    assert (verdict.records, verdict.findings) == (1, ())
    assert verdict.not_known[-1].startswith("Whether records that wait for the chain were changed or removed. 1 wait")
    assert not [one for one in desk.verdict().not_known if "wait" in one]


GOOD = {"event": "token.revoked", "at": int(NOW), "subject": "x", "agent_id": "", "batch_id": "", "disclosed": {}}
BAD = [
    *("[]", "{}", "7", '"text"'),
    json.dumps(GOOD)[:-1] + ', "at": 1}',
    *(
        json.dumps({**GOOD, **wrong})
        for wrong in (
            *({"other": "x"}, {"sequence": 7}, {"previous": "x"}, {"digest": "x"}, {"leaf": None}, {"state": None}),
            *({"at": "abc"}, {"at": 2**60}, {"at": -1}, {"at": True}, {"at": 1.5}, {"subject": None}, {"subject": 5}),
            *(
                {"subject": "a\0b"},
                {"subject": "\ud800"},
                {"subject": "x" * 257},
                {"leaf": "x" * 65},
                {"checks": ["x"]},
            ),
            *({"disclosed": 5}, {"disclosed": ["x"]}, {"disclosed": {"x": "y"}}, {"disclosed": {"x": [5]}}),
        )
    ),
    *(json.dumps({name: value for name, value in GOOD.items() if name != left_out}) for left_out in GOOD),
]


@on_both_databases
def test_verification_compares_checkpoints_with_records_that_wait(desk: Desk) -> None:
    """A backup may have records that its chain had only later."""
    ask(desk.url, changing(leave, "first"))
    ask(desk.url, chain_waiting)
    ask(desk.url, changing(leave, "second", "third"))
    later = ask(desk.url, lambda database: database.read_long(repository.read_end, 3))[1]

    def verify(*ends: Head) -> list[tuple[Verdict, list[tuple[str, str]]]]:
        checkpoints = [Checkpoint(ISSUER, NOW, end) for end in ends]
        verdicts = [
            ask(desk.url, lambda database: verify_database(database, checkpoints, lambda _: None)),
            ask(desk.url, lambda database: verify_state(database, checkpoints, lambda _: None))[0],
        ]
        return [(verdict, [(str(one.rule), str(one.where)) for one in verdict.findings]) for verdict in verdicts]

    assert [end.sequence for end in later] == [2, 3]
    for verdict, findings in verify(*later):
        assert (verdict.records, verdict.vouched, findings) == (1, 1, [])
    for _, findings in verify(Head(2, "f" * 64), later[1]):
        assert findings == [("audit.checkpoint-differs", "audit/2")]
    for _, findings in verify(*later, Head(4, "f" * 64)):
        assert findings == [("audit.rolled-back", "audit/4")]
    assert subjects(desk) == [(1, "first")], "nothing is written"


@on_both_databases
def test_the_chain_takes_what_is_before_a_record_that_it_cannot_take_and_the_registry_serves(
    desk: Desk, registry: OpenDesk, caplog: pytest.LogCaptureFixture
) -> None:
    ask(desk.url, changing(leave, "first", "second", "third"))
    for text in BAD:
        query(desk.url, f"UPDATE audit_waiting SET record = '{text}' WHERE number = 2")
        caplog.clear()

        with pytest.raises(Refused) as refused:
            ask(desk.url, chain_waiting)

        assert refused.value.rule == "store.unavailable", text
        assert "the audit record 2 that waits for the chain cannot be read" in caplog.text, text
        assert (subjects(desk), waiting(desk)) == ([(1, "first")], 2), text
    registry.register(request())
    query(desk.url, f"UPDATE audit_waiting SET record = '{json.dumps(GOOD)}' WHERE number = 2")
    ask(desk.url, chain_waiting)

    assert [subject for _, subject in subjects(desk)][:3] == ["first", "x", "third"]
    assert (desk.verdict().records, desk.verdict().findings) == (4, ())


@on_both_databases
@pytest.mark.parametrize("text", BAD[:1] + BAD[5:6] + BAD[-1:])
def test_a_record_that_the_chain_cannot_take_is_named_and_the_others_can_be_read(desk: Desk, text: str) -> None:
    ask(desk.url, changing(leave, "first", "second", "third"))
    query(desk.url, f"UPDATE audit_waiting SET record = '{text}' WHERE number = 2")

    assert [sequence for sequence, _ in ask(desk.url, lambda database: read_all(database, AuditQuery()))] == [1]
    assert places(desk, "audit_waiting") == ["database/audit_waiting/2"]
    assert ("audit.record-malformed", "database/audit_waiting/2") in desk.differences()


def test_the_metrics_tell_how_many_records_wait_and_for_how_long(desk: Desk) -> None:
    ask(desk.url, changing(leave, "first", "second"))
    query(desk.url, "UPDATE audit_waiting SET record = '{}' WHERE number = 2")
    container = desk.container()
    chain, registry = chaining(container), container.metrics.registry

    async def work() -> list[list[float | None]]:
        shown = []
        for seconds in (400, 5):
            with pytest.raises(Refused):
                await chain()
            desk.clock.advance(seconds)
            shown.append([registry.get_sample_value(f"sdcard_audit_waiting_{name}") for name in ("records", "seconds")])
        await container.database.close()
        return shown

    assert asyncio.run(work()) == [[1, 0], [1, 400]]


def test_bytes_that_are_no_text_stop_the_chain_too(desk: Desk) -> None:
    ask(desk.url, changing(leave, "first"))
    query(desk.url, "UPDATE audit_waiting SET record = CAST(X'7bff7d' AS TEXT)")
    with pytest.raises(Refused, match=r"store.unavailable"):
        ask(desk.url, chain_waiting)
    assert waiting(desk) == 1


def test_a_text_that_the_chain_cannot_store_does_not_wait_for_it(desk: Desk) -> None:
    for text in ("x" * 257, "\0", "\ud800"):
        with pytest.raises(Refused) as refused:
            ask(desk.url, changing(leave, text))
        assert refused.value.rule == "request.malformed"
    assert waiting(desk) == 0


def test_a_registry_chains_what_waits_while_it_serves(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "_CHAINING_SECONDS", 0.05)
    with desk.open() as registry:
        registry.register(request())
        await_until(lambda: query(desk.url, "SELECT sequence FROM audit")[0] == [(1,)])
    assert desk.verdict().findings == ()
