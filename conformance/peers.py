"""Adapters as child processes, asked one JSON line at a time."""

import json
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from conformance.environments import NotInstalled, command
from conformance.libraries import Library

ANSWER_S = 10  # as vectors/README.md has it
START_S = 60
CRASHES = (
    *("AttributeError", "TypeError", "KeyError", "IndexError", "RecursionError", "AssertionError", "UnboundLocalError"),
    *("ReferenceError", "RangeError", "NullPointerException", "ClassCastException", "IndexOutOfBoundsException"),
    *("StringIndexOutOfBoundsException", "ArrayIndexOutOfBoundsException", "StackOverflowError", "panic"),
)
"""Errors that a language raises for a fault of the program. No library refuses with them on purpose."""


class Peer:
    """An adapter as a child process."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[str] | None = None

    def ask(self, request: Mapping[str, Any], seconds: int = ANSWER_S) -> dict[str, Any]:
        """Return the answer: ``outcome``, and ``claims``, ``text`` or ``error``. Anything else is a crash."""
        process = self._started()
        assert process.stdin
        assert process.stdout
        watchdog = threading.Timer(seconds, process.kill)
        watchdog.start()
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            watchdog.cancel()
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError:
            self.close()
            return {"outcome": "crashed", "error": f"the process ended, or gave no answer in {seconds} s"}
        if answer["outcome"] == "refused" and answer["error"].partition(":")[0].rpartition(".")[2] in CRASHES:
            answer["outcome"] = "crashed"
        return answer

    def close(self) -> None:
        """End the process."""
        if self._process:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
            )
        return self._process


@contextmanager
def running(library: Library) -> Iterator[Peer]:
    """Build the adapter of a library, see that it starts, and end its process afterwards."""
    peer = Peer(command(library))
    try:
        if peer.ask({"op": "hello", "now": 0}, START_S)["outcome"] == "crashed":
            raise NotInstalled(f"the adapter of {library.name} does not start")
        yield peer
    finally:
        peer.close()
