"""The command line as its user has it: arguments in; exit status, standard output and standard error out."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sdcard.cli import app, main

MADE = cache(app._made)
"""Each command of the tree is made once for all tests, and not once a run."""


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
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    monkeypatch.setattr(app, "_made", MADE)

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
