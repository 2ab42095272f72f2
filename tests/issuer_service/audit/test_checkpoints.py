"""Checkpoints that a running registry makes: beside the serving, and never in its way."""

import asyncio
import logging
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from issuer_service.audit.service import append_line, make_checkpoint
from issuer_service.container import AuditCheckpoints
from issuer_service.keys.repository import KeyUse
from sdcard import PublicKey
from sdcard.audit_chain import START, Checkpoint, Head, verify_checkpoint
from sdcard.io.database import open_database
from tests.issuer_service.desk import Desk, FixedKeys, OpenDesk, jwk, request
from tests.postgres import query
from tests.sdcard.audit_chain.chains import found
from tests.world import ISSUER, NOW, at_once, key


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
