"""A registry that the command line is used with, and an agent that it registered."""

import time
from collections.abc import Iterator

import pytest

from issuer_service.container import StatusPublishing
from issuer_service.server import Desk, running_registry
from sdcard.io.system import SystemClock
from tests.command_line import Ran, Sdcard
from tests.shared import ROOT


def wait_for_lists() -> None:
    """Wait until status lists of a registry with a period of one second show what has changed by now."""
    clock = SystemClock()
    until = StatusPublishing(period=1).public_at(clock.now())
    while (left := until - clock.now()) > 0:
        time.sleep(left)


@pytest.fixture(scope="session")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A registry over real HTTP on loopback."""
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture
def registered(sdcard: Sdcard, desk: Desk, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Ran:
    """An agent of this test's own, registered from the command line, its SD-Cards under ``cards/``."""
    monkeypatch.setenv("SDCARD_TOKEN", desk.token)
    assert sdcard("keys", "new", "agent.jwk").status == 0
    ran = sdcard(
        "register", str(ROOT / "examples" / "georoute.json"), "--registry", desk.address,
        "--agent-id", f"cli-{abs(hash(request.node.name))}", "--key", "agent.jwk",
        "--context", "public", "--context", "internal=skills,provider", "--out", "cards", "--json",
    )  # fmt: skip
    assert ran.status == 0, ran
    return ran
