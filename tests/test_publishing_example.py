"""``examples/publish.py`` does what it says, for SD-Cards of a real registry."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from issuer_service.server import Desk, running_registry
from sdcard.cli import main
from tests.ports import free_port
from tests.sdcard.publishing_agent import AGENT_CARD_JSON, AGENT_JSON, JSON, SD
from tests.shared import ROOT
from tests.world import example

CARD = str(ROOT / "examples" / "georoute.json")
LOOKING_OFTEN = """
import runpy, sys
import sdcard.io.agent as agent
agent._LOOK = 0.2
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs a program whose agent looks into its folder five times a second, and not once a minute."""


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A registry with the agent ``georoute``, whose SD-Cards are in ``cards``."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "registry").mkdir()
    with running_registry(tmp_path / "registry") as desk:
        monkeypatch.setenv("SDCARD_TOKEN", desk.token)
        run(monkeypatch, "keys", "new", "agent.jwk")
        where = ("--registry", desk.address, "--agent-id", "georoute", "--key", "agent.jwk", "--out", "cards")
        run(monkeypatch, "register", CARD, *where, "--context", "public", "--context", "internal")
        yield desk


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["sdcard", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code


def issued(context: str) -> str:
    return Path(f"cards/{context}.sd-card").read_text("ascii").strip()


def until(found: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx2.TransportError):
            if result := found():
                return result
        time.sleep(0.1)
    pytest.fail("it did not come about")


def test_the_example_renews_what_is_missing_and_publishes_what_others_renewed(
    registry: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    program = str(ROOT / "examples" / "publish.py")
    command = [sys.executable, "-c", LOOKING_OFTEN, program, "cards", "--key", "agent.jwk", "--card", CARD,
               "--port", str(port), "--agent-id", "georoute"]  # fmt: skip
    monkeypatch.setenv("SDCARD_REGISTRY", registry.address)
    Path("cards/public.sd-card").unlink()
    Path("cards/internal.sd-card").unlink()

    def get(accept: str, token: str | None = None, path: str = AGENT_JSON) -> httpx2.Response:
        headers = {"accept": accept, **({"authorization": f"Bearer {token}"} if token else {})}
        return httpx2.get(url + path, headers=headers, trust_env=False)

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            assert process.stderr
            token = process.stdout.readline().rpartition(" ")[2].strip()
            until(lambda: get(JSON).status_code == 200)
            assert get("*/*", path=AGENT_CARD_JSON).json() == example()
            public, internal = (get(SD, one).json()["agent_card"] for one in (None, token))
            assert [public, internal] == [issued("public"), issued("internal")]
            assert get(SD, "sdcard_another").status_code == 401

            where = ("--registry", registry.address, "--key", "agent.jwk", "--out", "cards")
            run(monkeypatch, "agents", "renew", "georoute", *where)
            renewed = until(lambda: (now := get(SD, token).json()["agent_card"]) != internal and now)
            assert renewed == issued("internal")

            Path("cards/trust.json").write_text("{}", encoding="ascii")
            refused = "SD-Cards were not renewed or published (attempt 1): trust.malformed"
            assert next(line for line in process.stderr if line.startswith(refused))
            assert get(SD, token).json()["agent_card"] == renewed
        finally:
            process.terminate()
