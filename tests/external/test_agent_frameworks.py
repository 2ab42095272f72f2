"""The recipes for LangGraph and Pydantic AI run with the real frameworks, a real registry and real HTTP.

Only the language models are fake. The frameworks are in an environment of their own: ``agent-frameworks.txt``.
"""

import os
import re
import subprocess
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from issuer_service.server import Desk, running_registry
from sdcard.http_auth import parse_challenge
from tests.built import python_with
from tests.ports import free_port
from tests.shared import ROOT
from tests.test_publishing_example import CARD, run

PINNED = ROOT / "tests" / "external" / "agent-frameworks.txt"
PAGE = (ROOT / "docs" / "agent-frameworks.md").read_text(encoding="utf-8")


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A registry with a registered agent, whose SD-Cards and key are in the folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "registry").mkdir()
    with running_registry(tmp_path / "registry") as desk:
        monkeypatch.setenv("SDCARD_TOKEN", desk.token)
        run(monkeypatch, "keys", "new", "agent.jwk")
        where = ("--registry", desk.address, "--agent-id", "georoute", "--key", "agent.jwk", "--out", "cards")
        run(monkeypatch, "register", CARD, *where, "--context", "public", "--context", "internal")
        yield desk


@contextmanager
def serving(command: list[str], environment: dict[str, str], origin: str) -> Iterator[None]:
    with subprocess.Popen(command, env=environment) as server:
        try:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and server.poll() is None:
                try:
                    httpx2.get(f"{origin}/docs", trust_env=False)
                    break
                except httpx2.TransportError:
                    time.sleep(0.1)
            yield
        finally:
            server.terminate()


def test_an_agent_of_pydantic_ai_presents_its_card_to_a_graph_of_langgraph(registry: Desk) -> None:
    python = str(python_with("agent-frameworks", PINNED))
    origin = f"http://127.0.0.1:{free_port()}"
    packages = [str(ROOT), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(packages), "ORIGIN": origin}

    with serving([python, str(ROOT / "examples" / "langgraph_agent.py")], environment, origin):
        client = [python, str(ROOT / "examples" / "pydantic_ai_client.py")]
        asked = subprocess.run(client, env=environment, check=True, capture_output=True, text=True, timeout=120)
        refused = httpx2.post(f"{origin}/ask", json={"question": "?"}, trust_env=False)

    assert asked.stdout.splitlines() == [
        '{"ask_the_planner":"The bridge is closed. Take the ring road."}',
        '{"ask_the_planner":"The planner refused: presentation.missing"}',
    ]
    assert (refused.status_code, refused.json()["rule"]) == (401, "presentation.missing")
    assert parse_challenge([refused.headers["WWW-Authenticate"]]) is not None


def test_the_page_names_the_versions_that_are_tested() -> None:
    pinned = dict(line.split("==") for line in PINNED.read_text(encoding="utf-8").splitlines() if "==" in line)
    for name in ("langgraph", "pydantic-ai-slim"):
        assert re.search(rf"{name} {re.escape(pinned[name])}\b", PAGE), name
