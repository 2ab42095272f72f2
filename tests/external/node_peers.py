"""A Node process with the npm libraries in it, asked one line at a time. Installs them once, into `build`.

`tests/node` says which versions; what they need lies in `build/node-peers`, one folder for each state of the lock.
"""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.shared import ROOT

SOURCE = ROOT / "tests" / "node"
INSTALLED_FROM = ("package.json", "package-lock.json", ".npmrc")
ANSWER_S, INSTALL_S = 30, 120


class PeerRefused(Exception):
    """A peer library said no, in whatever way it does."""


class NodePeer:
    """`peer.mjs` as a child process."""

    def __init__(self, folder: Path) -> None:
        command = ["node", str(folder / "peer.mjs")]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        assert self._process.stdin
        assert self._process.stdout
        self._requests, self._answers = self._process.stdin, self._process.stdout

    def ask(self, peer: str, op: str, **request: Any) -> Any:
        """The answer to one request.

        Raises:
            PeerRefused: with the library's own words.
        """
        self._requests.write(json.dumps({"peer": peer, "op": op, **request}) + "\n")
        self._requests.flush()
        watchdog = threading.Timer(ANSWER_S, self._process.kill)
        watchdog.start()
        line = self._answers.readline()
        watchdog.cancel()
        assert line, f"the Node process ended, or gave no answer in {ANSWER_S} s"
        answer = json.loads(line)
        if not answer["ok"]:
            raise PeerRefused(answer["error"])
        return answer.get("text", answer.get("claims"))

    def close(self) -> None:
        self._requests.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answers.close()


def installed() -> Path:
    """The folder with `peer.mjs` and the libraries beside it. What cannot be had skips the test; in CI it fails."""
    if not shutil.which("node") or not shutil.which("npm"):
        _unavailable("needs node and npm")
    state = hashlib.sha256(b"".join((SOURCE / name).read_bytes() for name in INSTALLED_FROM)).hexdigest()
    folder = ROOT / "build" / "node-peers" / state[:16]
    if not (folder / "node_modules").is_dir():
        _install(folder)
    shutil.copy(SOURCE / "peer.mjs", folder)
    return folder


def _install(folder: Path) -> None:
    """All or nothing: two test runs at once, or one that is interrupted, leave no half of it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        new = Path(name) / "new"
        new.mkdir()
        for file in INSTALLED_FROM:
            shutil.copy(SOURCE / file, new)
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        try:
            subprocess.run(command, cwd=new, check=True, capture_output=True, text=True, timeout=INSTALL_S)
        except subprocess.CalledProcessError as error:
            _unavailable(f"npm ci failed: {error.stderr.strip()[-300:]}")
        except subprocess.TimeoutExpired:
            _unavailable(f"npm ci took longer than {INSTALL_S} s")
        if not folder.exists():
            os.replace(new, folder)


def _unavailable(reason: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
