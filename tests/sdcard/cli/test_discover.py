"""``sdcard discover``: what a registry finds, verified. Over real HTTP."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from issuer_service.cli.registry_process import running_registry
from sdcard import Refused
from sdcard.cli.discover import UNBOUND, UNCHECKED, verify_page
from sdcard.io.registry_answers import Discovered, FoundAgent
from sdcard.io.registry_client import Registry
from tests.command_line import Sdcard
from tests.shared import ROOT
from tests.world import World

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


def test_a_bad_card_leaves_the_good_ones_and_the_exit_status_tells(
    sdcard: Sdcard, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Registry.discover

    def discover(self: Registry, *asked: Any) -> Discovered:
        page = honest(self, *asked)
        (first, second) = page.results
        bad = [
            FoundAgent("forged", first.sd_card[:-90] + "AAAA" + first.sd_card[-86:]),
            FoundAgent("other-agent", second.sd_card),
            FoundAgent("no-card", "text"),
            FoundAgent("", ""),
        ]
        return replace(page, results=(bad[0], first, *bad[1:], second), left_out=("results/9",))

    monkeypatch.setattr(Registry, "discover", discover)
    shown, ran = (sdcard("discover", "--registry", address, "--text", "route", *more) for more in ((), ("--json",)))

    assert (shown.status, ran.status) == (1, 1)
    assert {one["agent_id"] for one in ran.json["results"]} == {"one", "other"}
    assert "2 verified" in shown.out
    left_out = [(one["rule"], one["message"]) for one in ran.json["left_out"]]
    assert len(left_out) == 5
    for name in ("forged", "other-agent", "no-card"):
        assert f"Agent {name}: " in str(left_out)
        assert f"Agent {name}: " in shown.err
    assert "results/9" in shown.err


def test_a_page_of_which_no_card_verifies_is_refused_with_every_reason(world: World) -> None:
    expectations = world.verifier.expectations(UNBOUND, status=UNCHECKED)
    page = Discovered((FoundAgent("a", "x"), FoundAgent("b", "y~")), None, ())
    with pytest.raises(Refused) as refusal:
        verify_page(page, expectations)
    assert [one.hint.partition(":")[0] for one in refusal.value.findings] == ["Agent a", "Agent b"]
    assert verify_page(Discovered((), None, ()), expectations).cards == ()
