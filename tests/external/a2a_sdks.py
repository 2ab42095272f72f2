"""The a2a-sdk of several generations, each in an environment of its own: they cannot live together.

`tests/a2a` says what is in them; they lie in `build/a2a-sdk`, one folder for each state of those files.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.shared import ROOT

SOURCE = ROOT / "tests" / "a2a"
VERSIONS = ("0.2.16", "0.3.26", "1.3.0")
ANSWER_S, INSTALL_S = 60, 180


def ask_sdk(version: str, script: str, question: Any) -> Any:
    """What a script of ours prints as JSON, run with that SDK; it finds the question, as JSON, on standard input."""
    ran = subprocess.run(
        [sdk_python(version), "-I", "-c", script],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=ANSWER_S,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return json.loads(ran.stdout)


def sdk_python(version: str) -> Path:
    """The interpreter of the environment with that SDK. What cannot be had skips the test; in CI it fails."""
    wanted = SOURCE / f"sdk-{version}.txt"
    state = hashlib.sha256(wanted.read_bytes() + sys.version.encode()).hexdigest()
    folder = ROOT / "build" / "a2a-sdk" / f"{version}-{state[:16]}"
    if not (folder / "ready").is_file():
        install(wanted, folder)
    return folder / "bin" / "python"


def install(wanted: Path, folder: Path) -> None:
    """Make an environment with what the file wants.

    The mark comes last: two test runs at once, or one that is interrupted, leave nothing that looks finished.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as lock:
        commands = [
            [sys.executable, "-m", "venv", "--clear", str(folder)],
            [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "--no-deps", "-r", str(wanted)],
        ]
        for command in commands:
            try:
                subprocess.run(command, cwd=lock, check=True, capture_output=True, text=True, timeout=INSTALL_S)
            except subprocess.CalledProcessError as error:
                _unavailable(f"{wanted.name} cannot be installed: {error.stderr.strip()[-300:]}")
            except subprocess.TimeoutExpired:
                _unavailable(f"{wanted.name} took longer than {INSTALL_S} s to install")
        (folder / "ready").touch()


def _unavailable(reason: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
