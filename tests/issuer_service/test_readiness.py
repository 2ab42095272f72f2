"""``/readyz``: which part does not work, and nothing of why."""

import asyncio
import sqlite3
import threading
from contextlib import closing
from dataclasses import dataclass, field

import pytest

from issuer_service.keys.repository import KeyUse
from issuer_service.monitoring import _KEPT_SECONDS, Readiness
from sdcard import PublicKey
from sdcard.io.database import open_database
from sdcard.jose.jws import Signer
from tests.issuer_service.desk import Desk, FixedKeys, OpenDesk, assert_refused, on_both_databases
from tests.world import key, raises_rule

RULE = "registry.not-ready"


def ring(desk: Desk, signer: Signer) -> FixedKeys:
    """The registry's keys, with this signer for SD-Cards."""
    return FixedKeys({**desk.signers(), KeyUse.CARDS: signer})


@dataclass
class BadSigner:
    """Holds the Issuer's key, and does not sign with it."""

    public_key: PublicKey
    error: Exception | None = None
    calls: list[bytes] = field(default_factory=list)

    def sign(self, message: bytes) -> bytes:
        self.calls.append(message)
        if self.error is not None:
            raise self.error
        return key(10).sign(message + b"x")


@on_both_databases
def test_a_registry_that_works_is_ready(registry: OpenDesk) -> None:
    response = registry.get("/readyz")

    assert (response.status_code, response.json()) == (200, {"status": "ok"})
    assert response.headers["cache-control"] == "no-store"


def test_a_database_that_does_not_answer_is_named(desk: Desk, registry: OpenDesk) -> None:
    desk.file.rename(desk.file.with_suffix(".elsewhere"))

    response = registry.get("/readyz")

    assert_refused(response, 503, (RULE, "registry/database"))
    assert response.headers["retry-after"]
    assert "sqlite" not in response.text.lower()


@pytest.mark.parametrize(
    "statement", ["UPDATE alembic_version SET version_num = 'r0001'", "DROP TABLE alembic_version"]
)
def test_another_schema_is_named(desk: Desk, registry: OpenDesk, statement: str) -> None:
    with closing(sqlite3.connect(desk.file)) as connection, connection:
        connection.execute(statement)

    assert_refused(registry.get("/readyz"), 503, (RULE, "registry/migrations"))
    assert registry.get("/healthz").status_code == 200


@pytest.mark.parametrize("error", [None, OSError("canary"), RuntimeError("canary")])
def test_a_signer_that_cannot_sign_is_named(
    desk: Desk, caplog: pytest.LogCaptureFixture, error: Exception | None
) -> None:
    signer = BadSigner(desk.signer.public_key, error)
    with desk.open(keys=ring(desk, signer)) as registry:
        response = registry.get("/readyz")

    assert_refused(response, 503, (RULE, "registry/signer"))
    assert "canary" not in response.text + caplog.text
    assert (type(error).__name__ in caplog.text) is (error is not None)


def test_a_key_that_is_missing_is_named(desk: Desk) -> None:
    signers = desk.signers()
    with desk.open(keys=FixedKeys({use: signers[use] for use in signers if use is not KeyUse.STATUS})) as registry:
        assert_refused(registry.get("/readyz"), 503, (RULE, "registry/signer"))


def test_every_part_that_does_not_work_is_named(desk: Desk) -> None:
    with desk.open(keys=ring(desk, BadSigner(desk.signer.public_key))) as registry:
        desk.file.unlink()
        assert_refused(registry.get("/readyz"), 503, (RULE, "registry/database"), (RULE, "registry/signer"))


def test_many_who_ask_make_the_signer_work_once_and_recovery_is_seen(desk: Desk) -> None:
    signer = BadSigner(desk.signer.public_key)
    with desk.open(keys=ring(desk, signer)) as registry:
        assert {registry.get("/readyz").status_code for _ in range(20)} == {503}
        assert len(signer.calls) == 1
        assert b"." not in signer.calls[0]
        desk.clock.advance(_KEPT_SECONDS)
        registry.get("/readyz")
        assert len(signer.calls) == 2


def test_a_signer_that_hangs_is_asked_once(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("issuer_service.monitoring._PATIENCE", 0.05)
    freed, calls = threading.Event(), list[bytes]()

    class Hanging(BadSigner):
        def sign(self, message: bytes) -> bytes:
            calls.append(message)
            freed.wait(30)
            return key(10).sign(message)

    async def ask() -> None:
        database, readiness = open_database(desk.url), Readiness()
        keys = ring(desk, Hanging(desk.signer.public_key))
        for second in range(0, 30, 3):
            with raises_rule(RULE, "registry/signer"):
                await readiness.check(database, keys, second)
        assert len(calls) == 1
        freed.set()
        await asyncio.sleep(0.1)
        await readiness.check(database, keys, 100)
        await database.close()

    asyncio.run(ask())
