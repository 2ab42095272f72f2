"""``sdcard discover``: what a registry finds, verified. Over real HTTP."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sdcard.cli.registry_process import running_registry
from tests.command_line import Sdcard
from tests.shared import ROOT

CARD = str(ROOT / "examples" / "georoute.json")


@pytest.fixture
def address(sdcard: Sdcard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A registry with two agents that are alike, in *public* and *internal*."""
    (tmp_path / "registry").mkdir()
    with running_registry(tmp_path / "registry") as desk:
        monkeypatch.setenv("SDCARD_TOKEN", desk.token)
        for agent in ("one", "other"):
            assert sdcard("keys", "new", f"{agent}.jwk").status == 0
            asked = ("--agent-id", agent, "--key", f"{agent}.jwk", "--out", agent)
            contexts = ("--context", "public", "--context", "internal")
            assert sdcard("register", CARD, "--registry", desk.address, *asked, *contexts).status == 0
        yield desk.address


def test_agents_are_found_page_by_page(sdcard: Sdcard, address: str) -> None:
    asked = ("discover", "--registry", address, "--text", "route", "--skill", "fleet-dispatch", "--max-results", "1")

    first = sdcard(*asked, "--json")
    second = sdcard(*asked, "--cursor", first.json["next_cursor"], "--trust", "one/trust.json", "--json")

    assert (first.status, second.status) == (0, 0)
    results = first.json["results"] + second.json["results"]
    assert {one["agent_id"] for one in results} == {"one", "other"}
    assert {one["name"] for one in results} == {"GeoSpatial Route Planner Agent"}
    assert (first.json["context"], second.json["next_cursor"], first.json["ignored"]) == ("public", None, [])
    assert all(len(one["members"]["skills"]) == 3 and "provider" not in one["members"] for one in results)


def test_a_person_reads_names_ids_and_the_context(sdcard: Sdcard, address: str) -> None:
    shown = sdcard("discover", "--registry", address, "--skill", "fleet-dispatch", "--max-results", "1")

    assert shown.status == 0
    assert "1 verified" in shown.out
    assert "public" in shown.out
    assert "--cursor" in shown.out
    assert "one" in shown.out or "other" in shown.out


def test_a_token_without_the_context_is_refused(sdcard: Sdcard, address: str) -> None:
    ran = sdcard("discover", "--registry", address, "--tag", "maps", "--context", "internal", "--json")

    assert (ran.status, ran.json["rule"]) == (1, "token.limit")


def test_a_token_of_the_command_line_names_contexts(
    sdcard: Sdcard, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = ("--database-url", f"sqlite+aiosqlite:///{tmp_path}/registry/registry.sqlite")
    made = sdcard("token", "create", "--subject", "x", "--scope", "agents:discover", "--context", "internal", *database)
    monkeypatch.setenv("SDCARD_TOKEN", made.out.strip())
    asked = ("--capability", "streaming", "--input-mode", "text/plain", "--output-mode", "image/png", "--tag", "maps")

    ran = sdcard("discover", "--registry", address, "--context", "internal", *asked, "--json")

    assert (ran.status, len(ran.json["results"])) == (0, 2)


def test_what_another_issuer_signed_is_refused(sdcard: Sdcard, address: str, tmp_path: Path) -> None:
    trust = json.loads((tmp_path / "one" / "trust.json").read_text(encoding="utf-8"))
    keys = trust["issuers"].pop(address)
    Path("stranger.json").write_text(json.dumps({"issuers": {"https://other.example": keys}}), encoding="utf-8")

    ran = sdcard("discover", "--registry", address, "--text", "route", "--trust", "stranger.json", "--json")

    assert (ran.status, ran.json["rule"]) == (1, "issuer.unknown")


@pytest.mark.parametrize("arguments", [[], ["--skill", ""], ["--text", "x", "--max-results", "101"]])
def test_a_question_asks_for_something(sdcard: Sdcard, address: str, arguments: list[str]) -> None:
    ran = sdcard("discover", "--registry", address, *arguments, "--json")

    assert ran.status == (1 if "" in arguments else 2)
