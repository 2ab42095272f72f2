"""The command line as its user has it: arguments in; exit status, standard output and standard error out."""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sdcard.cli import main
from sdcard.cli.registry_process import Desk, running_registry
from tests.shared import ROOT


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Sdcard = Callable[..., Ran]


@pytest.fixture
def sdcard(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Sdcard:
    """Run one command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def run(*arguments: str) -> Ran:
        monkeypatch.setattr(sys, "argv", ["sdcard", *arguments])
        capsys.readouterr()
        try:
            main()
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1 if end.code else 0
        captured = capsys.readouterr()
        return Ran(status, captured.out, captured.err)

    return run


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
