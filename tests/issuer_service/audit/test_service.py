"""The audit chain of a registry: checkpoints and verification."""

import asyncio
import json
import logging
import os
import stat
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from issuer_service.audit.service import append_line, make_checkpoint
from issuer_service.container import AuditCheckpoints
from issuer_service.keys.repository import KeyUse
from sdcard import PublicKey
from sdcard.audit_chain import START, Checkpoint, Head, Verdict, record_digest, verify_checkpoint
from sdcard.io.database import open_database
from tests.issuer_service.desk import Desk, FixedKeys, OpenDesk, jwk, on_both_databases, request
from tests.postgres import query
from tests.sdcard.audit_chains import found
from tests.world import ISSUER, NOW, at_once, key

# -- Checkpoints that a running registry makes: beside the serving, and never in its way ------------------------------


class CountingSigner:
    """Signs, and counts how often; or does what else it is told to."""

    def __init__(self, act: Callable[[], object] = lambda: None) -> None:
        self._act, self.public_key = act, key(12).public_key
        self.count = 0

    public_key: PublicKey

    def sign(self, message: bytes) -> bytes:
        self.count += 1
        self._act()
        return key(12).sign(message)


def keys_with(desk: Desk, signer: CountingSigner) -> FixedKeys:
    """The registry's keys, with this signer for checkpoints."""
    return FixedKeys({**desk.signers(), KeyUse.AUDIT: signer})


def kept(desk: Desk) -> list[Checkpoint]:
    keys = {desk.audit_signer.public_key.thumbprint: desk.audit_signer.public_key}
    return [verify_checkpoint(line, keys) for line in desk.checkpoints.read_text().splitlines()]


def await_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def register(registry: OpenDesk, number: int = 0) -> None:
    registry.register(request(f"agent-{number}", public_key=jwk(key(30 + number))))


def test_a_registry_that_stops_leaves_a_checkpoint_of_its_last_record(desk: Desk) -> None:
    with desk.open() as registry:
        register(registry)
        register(registry, 1)

    last = desk.audit()[-1]
    assert kept(desk) == [Checkpoint(ISSUER, NOW, Head(2, str(last["digest"])))]
    assert desk.verdict(*kept(desk)).vouched == 2
    assert stat.S_IMODE(desk.checkpoints.stat().st_mode) == 0o600


def test_a_registry_that_recorded_nothing_makes_none(desk: Desk) -> None:
    with desk.open() as registry:
        assert registry.get("/healthz").status_code == 200

    assert not desk.checkpoints.exists()


def test_checkpoints_are_made_while_it_serves_when_something_changed(desk: Desk) -> None:
    signer = CountingSigner()
    with desk.open(audit=AuditCheckpoints(desk.checkpoints, 0.05), keys=keys_with(desk, signer)) as registry:
        register(registry)
        await_until(lambda: signer.count == 1)
        time.sleep(0.3)
        register(registry, 1)
        await_until(lambda: signer.count == 2)

    assert [one.head.sequence for one in kept(desk)] == [1, 2]
    assert desk.verdict(*kept(desk)).findings == ()


def refuse() -> None:
    raise RuntimeError("a canary that nobody may see")


@pytest.mark.parametrize("fault", ["folder", "full", "signer", "head", "gone"])
def test_whatever_goes_wrong_is_logged_and_serving_goes_on(
    desk: Desk, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    signer = CountingSigner(refuse if fault == "signer" else lambda: None)
    file = {"folder": desk.file.parent, "full": Path("/dev/full")}.get(fault, desk.checkpoints)
    with desk.open(audit=AuditCheckpoints(file, 0.05), keys=keys_with(desk, signer)) as registry:
        if fault == "gone":
            desk.file.rename(desk.file.with_suffix(".gone"))
        elif fault == "head":
            query(desk.url, "DELETE FROM audit_head")
        else:
            register(registry)
        await_until(lambda: "audit" in caplog.text)
        served = registry.get("/.well-known/jwks.json").status_code

    assert served == 200
    assert "canary" not in caplog.text
    assert not desk.checkpoints.exists()


def test_a_slow_signer_makes_nobody_wait(desk: Desk) -> None:
    signer = CountingSigner(lambda: time.sleep(0.5))
    with desk.open(audit=AuditCheckpoints(desk.checkpoints, 0.05), keys=keys_with(desk, signer)) as registry:
        register(registry)
        await_until(lambda: signer.count == 1)
        began = time.monotonic()
        for _ in range(5):
            assert registry.get("/.well-known/jwks.json").status_code == 200
        assert time.monotonic() - began < 0.4

    assert len(kept(desk)) == 1


def test_a_chain_that_went_back_is_logged(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    with desk.open() as registry:
        register(registry)

    async def make() -> Head:
        database = open_database(desk.url)
        try:
            return await make_checkpoint(database, desk.checkpoints, desk.audit_signer, ISSUER, NOW, Head(9, "9" * 64))
        finally:
            await database.close()

    with caplog.at_level(logging.ERROR):
        assert asyncio.run(make()).sequence == 1
    assert "went back from record 9 to 1" in caplog.text


def test_after_a_database_was_set_back_the_checkpoints_tell(desk: Desk) -> None:
    with desk.open() as registry:
        register(registry)
        backup = desk.file.parent / "backup.sqlite"
        query(desk.url, f"VACUUM INTO '{backup}'")
        register(registry, 1)
    for end in ("", "-wal", "-shm"):
        Path(f"{desk.file}{end}").unlink(missing_ok=True)
    backup.rename(desk.file)
    with desk.open() as registry:
        register(registry, 2)

    assert desk.verdict().findings == ()
    assert [one.head.sequence for one in kept(desk)] == [2, 2]
    assert found(desk.verdict(*kept(desk))) == [("audit.checkpoint-differs", "audit/2")]


def test_lines_that_many_add_at_once_are_all_whole(tmp_path: Path) -> None:
    file, texts = tmp_path / "lines", [f"{number} " + "x" * 400 for number in range(160)]
    waiting = iter(texts)

    def add() -> None:
        for _ in range(20):
            append_line(file, next(waiting))

    at_once(add, 8)

    assert sorted(line for line in file.read_text().splitlines() if line) == sorted(texts)


def test_a_line_that_was_cut_short_is_not_joined_with_the_next(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("whole\ncut sho")

    append_line(file, "next")

    assert file.read_text() == "whole\ncut sho\nnext\n"
    assert oct(os.stat(file).st_mode)[-3:] != "600", "the mode of a file that is there is its owner's choice"


def test_no_agent_has_the_key_of_checkpoints(desk: Desk, registry: OpenDesk) -> None:
    response = registry.post(request(public_key=jwk(desk.audit_signer)))

    assert response.status_code == 409
    assert response.json()["rule"] == "key.bound-elsewhere"
    assert START.sequence == len(desk.audit())


# -- The chain in a database: unbroken by concurrent writers, and tampering is found ----------------------------------

COUNT = 6
COPIED = (
    "event, at, subject, agent_id, batch_id, disclosed, interaction_id, digest, digest, possession, supersedes, state, "
    "checks, leaf"
)
"""Of the last record, so that it seems to follow it."""
OTHERS = {
    "event": "'agent.lost'",
    "at": "at + 1",
    "subject": "'mallory'",
    "agent_id": "'agent-9'",
    "batch_id": "'b'",
    "disclosed": "'{}'",
    "interaction_id": "'i'",
    "state": "'{}'",
    "previous": f"'{'1' * 64}'",
    "digest": f"'{'1' * 64}'",
}


@pytest.fixture
def recorded(desk: Desk, registry: OpenDesk) -> Desk:
    """A registry with six records."""
    for number in range(4):
        registry.register(request(f"agent-{number}", public_key=jwk(key(30 + number))))
    for action in ("suspend", "reinstate"):
        registry.client.post(f"/agents/agent-1/{action}", json={}, headers={"authorization": f"Bearer {desk.token}"})
    assert [record["sequence"] for record in desk.audit()] == [1, 2, 3, 4, 5, 6]
    return desk


@on_both_databases
def test_what_was_recorded_is_whole(recorded: Desk) -> None:
    verdict = recorded.verdict()

    assert (verdict.findings, verdict.records) == ((), COUNT)
    assert all(record_digest(record) == record["digest"] for record in recorded.audit())


@dataclass(frozen=True)
class Tampering:
    """Statements, and what is found first."""

    rule: str
    place: int
    statements: tuple[str, ...]


def here(rule: str, place: int, *statements: str) -> Tampering:
    return Tampering(f"audit.{rule}", place, statements)


TAMPERING: Mapping[str, Tampering] = {
    **{
        f"{column} of {place}": here(
            "record-changed", place, f"UPDATE audit SET {column} = {value} WHERE sequence = {place}"
        )
        for place in (1, 3, 4)
        for column, value in OTHERS.items()
    },
    "no digest": here("record-malformed", 2, "UPDATE audit SET digest = '' WHERE sequence = 2"),
    "a name twice": here(
        "record-malformed", 2, r"""UPDATE audit SET disclosed = '{"a"\: 1, "a"\: 2}' WHERE sequence = 2"""
    ),
    "the first is gone": here("record-missing", 1, "DELETE FROM audit WHERE sequence = 1"),
    "one is gone": here("record-missing", 3, "DELETE FROM audit WHERE sequence = 3"),
    "the last are gone": here("record-missing", 5, "DELETE FROM audit WHERE sequence > 4"),
    "all are gone": here("record-missing", 1, "DELETE FROM audit"),
    "one is gone and the gap closed": here(
        "record-changed",
        3,
        "DELETE FROM audit WHERE sequence = 3",
        *(f"UPDATE audit SET sequence = {n - 1} WHERE sequence = {n}" for n in (4, 5, 6)),
    ),
    "two changed places": here(
        "record-changed",
        2,
        "UPDATE audit SET sequence = 99 WHERE sequence = 2",
        "UPDATE audit SET sequence = 2 WHERE sequence = 4",
        "UPDATE audit SET sequence = 4 WHERE sequence = 99",
    ),
    "one too many at the end": here(
        "record-changed", 7, f"INSERT INTO audit SELECT 7, {COPIED} FROM audit WHERE sequence = 6"
    ),
    "one before the first": here(
        "record-changed", 0, f"INSERT INTO audit SELECT 0, {COPIED} FROM audit WHERE sequence = 6"
    ),
    "the head set back": here("head-differs", 6, "UPDATE audit_head SET sequence = 5"),
    "the head set on": here("record-missing", 7, "UPDATE audit_head SET sequence = 7"),
    "another head": here("head-differs", 6, f"UPDATE audit_head SET digest = '{'1' * 64}'"),
    "no head": here("head-differs", 6, "DELETE FROM audit_head"),
}


@on_both_databases
@pytest.mark.parametrize("what", TAMPERING)
def test_tampering_is_found_and_located(recorded: Desk, what: str) -> None:
    tampering = TAMPERING[what]
    query(recorded.url, *tampering.statements)

    assert found(recorded.verdict())[0] == (tampering.rule, f"audit/{tampering.place}")


@on_both_databases
def test_a_registry_whose_chain_has_no_head_records_nothing(recorded: Desk, registry: OpenDesk) -> None:
    query(recorded.url, "DELETE FROM audit_head")
    before = recorded.rows()

    response = registry.post(request("another", public_key=jwk(key(50))))

    assert (response.status_code, response.json()["rule"]) == (503, "store.unavailable")
    assert recorded.rows() == before


@on_both_databases
def test_a_database_that_was_set_back_whole_is_found_by_a_checkpoint_alone(recorded: Desk) -> None:
    last, third = recorded.audit()[-1], recorded.audit()[2]
    seen = Checkpoint(ISSUER, NOW, Head(last["sequence"], last["digest"]))
    query(
        recorded.url,
        "DELETE FROM audit WHERE sequence > 3",
        f"UPDATE audit_head SET sequence = 3, digest = '{third['digest']}'",
    )

    assert recorded.verdict().findings == ()
    assert found(recorded.verdict(seen)) == [("audit.rolled-back", "audit/4")]


@on_both_databases
def test_many_at_once_make_one_unbroken_chain(desk: Desk, registry: OpenDesk) -> None:
    bodies = iter([request(f"agent-{n}", public_key=jwk(key(100 + n))) for n in range(40)])

    statuses = at_once(lambda: registry.post(next(bodies)).status_code, 40)

    assert statuses == [201] * 40
    verdict = desk.verdict()
    assert (verdict.findings, verdict.records) == ((), 40)


@on_both_databases
def test_a_chain_that_is_written_to_meanwhile_is_whole(desk: Desk, registry: OpenDesk) -> None:
    bodies = iter([request(f"agent-{n}", public_key=jwk(key(100 + n))) for n in range(30)])
    verdicts = list[Verdict]()
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(lambda: registry.post(next(bodies)).status_code) for _ in range(30)]
        while not all(one.done() for one in asked):
            verdicts.append(desk.verdict())

    assert {one.result() for one in asked} == {201}
    assert [verdict.findings for verdict in verdicts if verdict.findings] == []
    assert len({verdict.records for verdict in verdicts}) > 1, "it grew while it was read"


@on_both_databases
def test_what_was_refused_leaves_no_record_and_no_gap(desk: Desk, registry: OpenDesk) -> None:
    bob = desk.new_token("bob")
    registry.register(request())
    for _ in range(3):
        assert registry.post(request(public_key=jwk(key(40))), authorization=f"Bearer {bob}").status_code == 409
    registry.register(request())

    assert [record["sequence"] for record in desk.audit()] == [1, 2]
    assert desk.verdict().findings == ()


@on_both_databases
def test_the_interaction_is_recorded_where_the_caller_names_it(desk: Desk, registry: OpenDesk) -> None:
    registry.register(request(interaction_id="interaction-1"))
    headers = {"authorization": f"Bearer {desk.token}"}
    asked = {"interaction_id": "interaction-2", "context": "public"}
    assert registry.client.post("/agents/ai-assistant-v2/revoke", json=asked, headers=headers).json()["changed"] == 1

    first, second = desk.audit()
    assert (first["interaction_id"], second["interaction_id"]) == ("interaction-1", "interaction-2")
    assert (second["event"], second["disclosed"]) == ("cards.revoked", {"public": []})
    assert desk.audit(interaction_id="interaction-2") == [second]
    assert desk.verdict().findings == ()


@on_both_databases
@pytest.mark.parametrize("value", ["", " ", "a b", "\x00", "é", "x" * 129, 7, None, ["x"]])
def test_an_interaction_id_is_a_short_word(desk: Desk, registry: OpenDesk, value: Any) -> None:
    body = json.dumps({**request(), "interaction_id": value})

    response = registry.post(body)

    assert response.status_code == 422
    assert [(one["rule"], one["where"]) for one in response.json()["findings"]] == [
        ("request.malformed", "request/interaction_id")
    ]
    assert desk.audit() == []


@on_both_databases
@pytest.mark.parametrize("asked", [{"batch_id": "x" * 32}, {"context": "\u2603"}])
def test_what_changes_nothing_is_not_recorded(desk: Desk, registry: OpenDesk, asked: dict[str, str]) -> None:
    registry.register(request())

    response = revoke(registry, "ai-assistant-v2", asked)

    assert (response.status_code, response.json()["rule"]) == (404, "agent.no-such-cards")
    assert len(desk.audit()) == 1


@on_both_databases
@pytest.mark.parametrize("asked", [{"batch_id": "\x00"}, {"context": "a\x00"}])
def test_what_no_database_can_hold_is_refused(desk: Desk, registry: OpenDesk, asked: dict[str, str]) -> None:
    registry.register(request())

    response = revoke(registry, "ai-assistant-v2", asked)

    assert (response.status_code, response.json()["rule"]) == (422, "request.malformed")
    assert (revoke(registry, "%00", {}).status_code, registry.get("/status/%00").status_code) == (404, 404)
    assert len(desk.audit()) == 1


def revoke(registry: OpenDesk, agent: str, asked: dict[str, str]) -> httpx2.Response:
    headers = {"authorization": f"Bearer {registry.token}"}
    return registry.client.post(f"/agents/{agent}/revoke", json=asked, headers=headers)
