"""A Node process with the npm libraries in it, asked one line at a time. Installs them once, into `build`.

`tests/node` says which versions.
"""

import json
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

from tests.built import built, run_installer
from tests.groups import unavailable
from tests.shared import ROOT

SOURCE = ROOT / "tests" / "node"
INSTALLED_FROM = ("package.json", "package-lock.json", ".npmrc", "peer.mjs")
ANSWER_S = 30


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
        unavailable("needs node and npm")
    return built("node-peers", [SOURCE / name for name in INSTALLED_FROM], _install)


def _install(folder: Path) -> None:
    for name in INSTALLED_FROM:
        shutil.copy(SOURCE / name, folder)
    run_installer(folder, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
