"""Fixture: a Node process with an agent, a client and an Express server of the package."""

import json
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.runtimes.runtimes import PACKAGE, program

ANSWER_S = 60


class Peer:
    """``packages/verifier/test/peer.mjs`` as a child process."""

    def __init__(self) -> None:
        command = [program("node"), str(PACKAGE / "test" / "peer.mjs")]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, op: str, **request: Any) -> Any:
        """The answer to one request."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps({"op": op, **request}) + "\n")
        self._process.stdin.flush()
        watchdog = threading.Timer(ANSWER_S, self._process.kill)
        watchdog.start()
        line = self._process.stdout.readline()
        watchdog.cancel()
        assert line, f"the Node process ended, or gave no answer in {ANSWER_S} s"
        answer = json.loads(line)
        assert "error" not in answer, answer["error"]
        return answer

    def close(self) -> None:
        """End the process."""
        with self._process:
            self._process.kill()


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer()
    yield peer
    peer.close()
