"""Long work shows how far it is on a terminal, and nowhere else; so do colours."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shared import ROOT

CODE = "from sdcard.cli import main; main()"
VECTORS = ("vectors", "check", str(ROOT / "vectors" / "sd-jwt"))


def on_a_terminal(*arguments: str, **environment: str) -> tuple[str, str]:
    """Standard output from a pipe, and what a terminal saw of standard error."""
    ours, theirs = pty.openpty()
    whole = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", **environment}
    command = [sys.executable, "-c", CODE, *arguments]
    with subprocess.Popen(command, env=whole, stdout=subprocess.PIPE, stderr=theirs) as running:
        os.close(theirs)
        seen = b""
        while piece := _read(ours):
            seen += piece
        assert running.stdout
        out = running.stdout.read()
    os.close(ours)
    return out.decode(), seen.decode()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65_536)
    except OSError:  # the other side is closed
        return b""


def test_a_terminal_sees_how_far_it_is() -> None:
    out, seen = on_a_terminal(*VECTORS)

    assert "vectors" in seen
    assert "\x1b[" in seen
    assert "\x1b" not in out


@pytest.mark.parametrize("environment", [{"TERM": "dumb"}, {"TERM": "dumb", "NO_COLOR": "1"}])
def test_a_terminal_that_takes_no_line_back_sees_nothing(environment: dict[str, str]) -> None:
    assert on_a_terminal(*VECTORS, **environment)[1] == ""


def test_no_color_leaves_no_colours(tmp_path: Path) -> None:
    out, seen = on_a_terminal("inspect", str(tmp_path / "missing"), NO_COLOR="1")

    assert out == ""
    assert "missing" in seen.replace("\r\n", ""), "a long path goes on in the next line"
    assert "\x1b[3" not in seen


def test_colours_are_for_terminals(tmp_path: Path) -> None:
    assert "\x1b[31m" in on_a_terminal("inspect", str(tmp_path / "missing"))[1]
    ran = subprocess.run(
        [sys.executable, "-c", CODE, "inspect", "missing"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        cwd=tmp_path,
        check=False,
    )
    assert b"missing" in ran.stderr
    assert b"\x1b" not in ran.stderr
