"""A shell for the commands of a page, with the state that earlier samples left."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.ports import free_port
from tests.shared import ROOT

_SDCARD = """#!/bin/bash
# On a slow machine a registry listens seconds after its command. A reader lets minutes pass: $WORLD/passed has them.
if [ "$1" = serve ]; then sleep "${SLOW:-0}"; fi
exec {python} -c '
import os, pathlib, time
clock, passed = time.time, pathlib.Path(os.environ["WORLD"], "passed")
time.time = lambda: clock() + (float(passed.read_text()) if passed.exists() else 0.0)
from sdcard.cli import main
main()
' "$@"
"""
_PYTHON = '#!/bin/sh\nexec {python} "$@"\n'
_REFUSED = r"^(sdcard .*?)\s+# exit status ([12]):"
"""A command that says no, with the status of its comment: ``# exit status 1: the same key links them``."""
_MARK = "end-of-the-sample"
_ENDED = "the-shell-has-ended"
_SECONDS = 600

REPLACED = {
    "127.0.0.1:8080": "127.0.0.1:{port}",
    "127.0.0.1:9000": "127.0.0.1:{agent_port}",
    "127.0.0.1:9001": "127.0.0.1:{api_port}",
    "--port 9000": "--port {agent_port}",
    "--port 9001": "--port {api_port}",
    "/mnt/elsewhere/": "elsewhere/",
    "../examples/": "examples/",
    "keys rotate cards  ": "keys rotate cards --at-once  ",
    "cd /var/lib/sdcard": "true",
    "registry.sqlite": "sdcard.sqlite",
    "systemctl stop sdcard": "kill %1; wait %1",
    "systemctl start sdcard": "sdcard serve > registry.log 2>&1 &",
}
"""Text of a sample → text that runs: foreign addresses, a unit of systemd, a wait of ten minutes that is skipped."""


class Shell:
    """A bash in a folder of its own, with ``sdcard`` and ``python`` on its path, and a port for its registry.

    With another one, which has been closed, it goes on where that ended: its files, its registry's port.
    """

    def __init__(self, folder: Path, before: "Shell | None" = None) -> None:
        self.folder = folder
        if before:
            shutil.copytree(before.folder, folder, symlinks=True, dirs_exist_ok=True)
        else:
            _furnish(folder)
        tools = folder / "tools"
        self._ports = {name: free_port() for name in ("port", "agent_port", "api_port")}
        if before:
            self._ports["port"] = before._ports["port"]
        self.registry = f"http://127.0.0.1:{self._ports['port']}"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SDCARD_")}
        self.environment = {
            **kept,
            "PATH": f"{tools}:{kept['PATH']}",
            "PYTHONPATH": str(ROOT),
            "WORLD": str(folder),
            "SDCARD_PORT": str(self._ports["port"]),
            "COLUMNS": "100",
            "SLOW": "0" if before else "2",
            "NO_COLOR": "1",
            "no_proxy": "*",
        }
        self._errors = (folder / "errors").open("w+")
        self._bash = subprocess.Popen(
            ["bash", "-euo", "pipefail"], cwd=folder, env=self.environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self._errors, text=True, start_new_session=True,
        )  # fmt: skip
        self._say(f"trap 'echo; echo {_ENDED}' EXIT")

    def run(self, text: str) -> str:
        """Return the output of the commands; fail the test with it if the status is not 0."""
        sample = self.folder / "sample"
        sample.write_text(self.adapted(text), encoding="utf-8")
        assert self._bash.stdout
        watch = threading.Timer(_SECONDS, self._kill)
        watch.start()
        printed: list[str] = []
        try:
            self._say(f'source "$WORLD/sample" </dev/null; echo; echo {_MARK}')
            for line in self._bash.stdout:
                if line.strip() == _MARK:
                    return "".join(printed).removesuffix("\n")
                if line.strip() == _ENDED:
                    break
                printed.append(line)
        finally:
            watch.cancel()
        raise AssertionError("".join(printed) + (self.folder / "errors").read_text(encoding="utf-8"))

    def _say(self, command: str) -> None:
        assert self._bash.stdin
        self._bash.stdin.write(command + "\n")
        self._bash.stdin.flush()

    def adapted(self, text: str) -> str:
        """The sample with the addresses of here."""
        for said, here in REPLACED.items():
            text = text.replace(said, here.format(**self._ports))
        return re.sub(_REFUSED, r"answer=0; \1 || answer=$?; [ $answer = \2 ] #", text, flags=re.MULTILINE)

    def exported(self, name: str) -> str:
        """The value of a variable of the shell."""
        return self.run(f'printf %s "${{{name}:-}}"')

    def let_pass(self, seconds: float) -> None:
        """Move the clock of all commands and of the registry."""
        file = self.folder / "passed"
        earlier = float(file.read_text()) if file.exists() else 0.0
        (self.folder / "passing").write_text(str(earlier + seconds))
        (self.folder / "passing").replace(file)

    def until_answering(self) -> None:
        """Wait for the registry."""
        deadline = time.monotonic() + _SECONDS
        while not self._answers():
            assert time.monotonic() < deadline, (self.folder / "registry.log").read_text(encoding="utf-8")
            time.sleep(0.05)

    def close(self) -> None:
        """End it, and everything that was started in it."""
        self._kill(signal.SIGTERM)
        try:
            self._bash.wait(10)
        except subprocess.TimeoutExpired:
            self._kill()
            self._bash.wait(10)
        self._errors.close()
        if self._bash.stdin and self._bash.stdout:
            self._bash.stdin.close()
            self._bash.stdout.close()
        deadline = time.monotonic() + 10
        while self._answers() and time.monotonic() < deadline:
            time.sleep(0.05)
        self._kill()

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._ports["port"])) == 0

    def _kill(self, number: int = signal.SIGKILL) -> None:
        try:
            os.killpg(self._bash.pid, number)
        except ProcessLookupError:
            return


def _furnish(folder: Path) -> None:
    """Make a beginner's folder: links to the checkout's folders, and a virtual environment.

    ``registry`` is the shell function of docs/operations.md.
    """
    (folder / "elsewhere").mkdir()
    (folder / ".venv" / "bin").mkdir(parents=True)
    (folder / ".venv" / "bin" / "activate").touch()
    for name in ("examples", "vectors", "deploy"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "georoute.json").symlink_to(ROOT / "examples" / "georoute.json")
    (folder / "tools").mkdir()
    for name, script in (("sdcard", _SDCARD), ("registry", _SDCARD), ("python", _PYTHON)):
        (folder / "tools" / name).write_text(script.replace("{python}", sys.executable))
        (folder / "tools" / name).chmod(0o700)


def is_as_said(said: str, printed: str) -> bool:
    """Whether that was printed; ``…`` stands for what differs from run to run, alone in a line for any lines."""
    expected = [line.strip() for line in said.strip().split("\n")]
    pattern = "".join(
        "(?:.*\n)*?" if line == "…" else ".*?".join(map(re.escape, line.split("…"))) + "\n" for line in expected
    )
    return re.fullmatch(pattern, "".join(f"{line.strip()}\n" for line in printed.strip().split("\n"))) is not None
