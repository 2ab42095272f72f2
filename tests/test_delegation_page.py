"""The commands and the sample of ``docs/delegation.md`` run as they stand, against a registry that serves."""

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest

from issuer_service.serving import address_of, bind
from tests.shared import ROOT

KINDS = ("sh", "python", "text")
SCRIPT = "#!/bin/sh\nexec {python} -c 'from sdcard.cli import main; main()' \"$@\"\n"


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("curl") is None:
        pytest.fail("needs curl") if os.environ.get("CI") == "true" else pytest.skip("needs curl")
    page = (ROOT / "docs" / "delegation.md").read_text(encoding="utf-8")
    [code], [sample], [printed] = (re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL) for kind in KINDS)
    listening = bind()
    address, port = address_of(listening), listening.getsockname()[1]
    listening.close()
    command = tmp_path / "bin" / "sdcard"
    command.parent.mkdir()
    command.write_text(SCRIPT.format(python=sys.executable))
    command.chmod(0o700)
    shutil.copy(ROOT / "examples" / "georoute.json", tmp_path)
    environment = {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    environment |= {"REGISTRY": address, "no_proxy": "*"}
    serving = subprocess.Popen([command, "serve", "--port", str(port)], cwd=tmp_path, env=environment)
    try:
        wait_for(address)
        run = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True,
            timeout=120, check=False,
        )  # fmt: skip
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("REGISTRY", address)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(sample, "docs/delegation.md", "exec"), {"__name__": "page"})
    finally:
        serving.terminate()
        serving.wait(timeout=30)
    assert run.returncode == 0, run.stderr
    assert out.getvalue() == printed
    assert '"active":true' in run.stdout
    assert '"interaction_id":"task-1"' in run.stdout
    assert '"scope":"pay"' in run.stdout.splitlines()[-1]


def wait_for(address: str) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            if httpx2.get(f"{address}/readyz", trust_env=False).status_code == 200:
                return
        except httpx2.HTTPError:
            time.sleep(0.1)
    pytest.fail("the registry did not start")
