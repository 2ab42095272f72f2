"""The commands ``sdcard discover`` and ``sdcard fetch``, over real HTTP."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from issuer_service.server import Desk, running_registry
from sdcard import Acceptance, Refused, accept_sd_card, parse_trusted_issuers, select_all
from sdcard.agent_proof import AgentProver, ShownCard
from sdcard.cli.discover import UNBOUND, UNCHECKED, verify_page
from sdcard.io.key_files import load_signer
from sdcard.io.registry_answers import Discovered, FoundAgent
from sdcard.io.registry_client import Registry
from sdcard.publishing import SD_MEDIA_TYPE, PublishedCard, PublishedCards
from sdcard.web.publish import CardApp
from tests.command_line import Ran, Sdcard
from tests.sdcard.cards.agentcard.cards import MINIMAL
from tests.sdcard.cards.kno.cards import kno
from tests.sdcard.io.fetchers import RawServer, ok, sending, serving
from tests.sdcard.web.called import Late
from tests.served import served
from tests.shared import ROOT
from tests.world import World

# -- ``sdcard discover`` ----------------------------------------------------------------------------------------------

# What a registry finds, verified. Over real HTTP.

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


def test_agents_are_found_by_goal_and_by_domain(
    sdcard: Sdcard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goals are a criterion of AgentCard (000 2.8), and domains of perception one of KNO (004)."""
    goals = {**MINIMAL, "goal_subscriptions": [{"goal_id": "goal-1"}]}
    agents = {str(MINIMAL["agent_id"]): (goals, "full"), "watcher": (kno(), "full=perception")}
    with running_registry(tmp_path) as desk:
        monkeypatch.setenv("SDCARD_TOKEN", desk.token)
        for agent_id, (card, context) in agents.items():
            Path("card.json").write_text(json.dumps(card), encoding="utf-8")
            assert sdcard("keys", "new", f"{agent_id}.jwk").status == 0
            asked = ("--agent-id", agent_id, "--key", f"{agent_id}.jwk", "--out", agent_id, "--context", context)
            assert sdcard("register", "card.json", "--registry", desk.address, *asked).status == 0
        database = ("--database-url", f"sqlite+aiosqlite:///{tmp_path}/registry.sqlite")
        reader = ("--subject", "x", "--scope", "agents:discover", "--context", "full")
        monkeypatch.setenv("SDCARD_TOKEN", sdcard("token", "create", *reader, *database).out.strip())

        def found(criterion: str, value: str) -> list[str]:
            ran = sdcard("discover", "--registry", desk.address, "--context", "full", criterion, value, "--json")
            return [one["agent_id"] for one in ran.json["results"]]

        assert (found("--goal", "goal-1"), found("--domain", "api-surface")) == ([MINIMAL["agent_id"]], ["watcher"])
        assert (found("--goal", "api-surface"), found("--domain", "goal-1")) == ([], [])


def test_a_catalogue_needs_no_token(sdcard: Sdcard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_registry(tmp_path, catalogue=True) as desk:
        monkeypatch.setenv("SDCARD_TOKEN", desk.token)
        assert sdcard("keys", "new", "one.jwk").status == 0
        asked = ("--agent-id", "one", "--key", "one.jwk", "--out", "one", "--context", "public")
        assert sdcard("register", CARD, "--registry", desk.address, *asked).status == 0
        monkeypatch.delenv("SDCARD_TOKEN")

        ran = sdcard("discover", "--registry", desk.address, "--catalogue", "--json")
        misuse = sdcard("discover", "--registry", desk.address, "--catalogue", "--tag", "maps", "--json")

    assert [one["agent_id"] for one in ran.json["results"]] == ["one"]
    assert (ran.status, misuse.status) == (0, 2)


def test_there_may_be_no_catalogue(sdcard: Sdcard, address: str) -> None:
    ran = sdcard("discover", "--registry", address, "--catalogue", "--json")

    assert (ran.status, ran.json["rule"]) == (1, "request.not-found")


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


# -- ``sdcard fetch`` and ``sdcard trust`` ----------------------------------------------------------------------------

# As their users have them, over a real registry and an agent's own host.

TRUST = ("--trust", "cards/trust.json")
HERE = ("--network", "127.0.0.1")


@pytest.fixture
def agent(registered: Ran) -> Iterator[RawServer]:
    """An agent's host, which publishes its internal card."""
    text = Path("cards/internal.sd-card").read_text(encoding="ascii").strip()
    with serving(sending(ok(json.dumps({"agent_card": text}).encode(), SD_MEDIA_TYPE))) as server:
        yield server


def trust_document(**changes: Any) -> Path:
    """The registry's trust document, with changes."""
    file = Path("changed.json")
    file.write_text(json.dumps({**json.loads(Path("cards/trust.json").read_text()), **changes}))
    return file


def test_a_card_is_fetched_and_verified_with_its_status(sdcard: Sdcard, agent: RawServer) -> None:
    unbound = ("--unbound", "a test")
    ran = sdcard("fetch", agent.url(), *TRUST, *HERE, "--status", "--out", "kept.sd-card", "--json", *unbound)
    assert ran.status == 0, ran
    assert (ran.json["verified"], ran.json["status"]) == (False, "checked")
    assert ran.json["proof"] == "issued by a trusted registry; not proved by this host"
    assert b"sd-card-challenge" not in agent.requests[0].lower()
    assert ran.json["url"] == f"{agent.url()}.well-known/agent-card.json"
    assert ran.json["findings"][0]["rule"] == "fetched.unbound"
    assert Path("kept.sd-card").read_text() == Path("cards/internal.sd-card").read_text()
    shown = sdcard("fetch", agent.url(), *TRUST, *HERE, "--status-unchecked", "a test", *unbound)
    assert shown.status == 0
    for text in (
        "Issued by a trusted registry; not proved by this host",
        "fetched.unbound",
        "It was not looked at: a test.",
    ):
        assert text in " ".join(shown.out.split())


def test_a_card_that_its_host_does_not_prove_is_no_success(sdcard: Sdcard, agent: RawServer) -> None:
    """The host has a copy of the SD-Card, and not the key."""
    ran = sdcard("fetch", agent.url(), *TRUST, *HERE, "--status", "--json")
    assert (ran.status, ran.json["verified"]) == (1, False)
    assert ran.json["proof"] == "issued by a trusted registry; not proved by this host"
    assert b"sd-card-challenge: sd-card nonce=" in agent.requests[0].lower()
    demanded = sdcard("fetch", agent.url(), *TRUST, *HERE, "--status", "--challenge", "--json", "--out", "kept")
    assert (demanded.status, demanded.json["rule"], Path("kept").exists()) == (1, "agent-proof.missing", False)
    both = sdcard("fetch", agent.url(), *TRUST, *HERE, "--status", "--challenge", "--unbound", "a test")
    assert both.status == 2


def test_an_agent_that_proves_itself_is_verified(sdcard: Sdcard, registered: Ran) -> None:
    text, signer = Path("cards/internal.sd-card").read_text().strip(), load_signer(Path("agent.jwk"))
    trust = parse_trusted_issuers(Path("cards/trust.json").read_bytes())
    held = accept_sd_card(text, Acceptance(issuers=trust), signer.public_key, time.time())
    late = Late()
    with served(late) as url:
        shown = ShownCard(held, select_all(held), signer)
        prover = AgentProver(origin=url, audiences=frozenset({"urn:sd-card:fetch"}), shown=lambda caller: shown)
        cards = PublishedCards({"public": PublishedCard.proved(ShownCard(held, select_all(held), signer))})
        late.app = CardApp(cards, prover=prover)
        for more in ((), ("--challenge",)):
            ran = sdcard("fetch", url, *TRUST, *HERE, "--status", "--json", "--out", "kept.sd-card", *more)
            assert (ran.status, ran.json["verified"], ran.json["proof"]) == (0, True, "proved by this host"), ran
            assert ran.json["key_binding"]["audience"] == "urn:sd-card:fetch"
            assert ran.json["findings"] == []
            assert Path("kept.sd-card").read_text().strip() == text
        told = sdcard("fetch", url, *TRUST, *HERE, "--status", "--challenge")
        assert "Verified, and proved by this host" in told.out
        other = sdcard("fetch", url, *TRUST, *HERE, "--status", "--audience", "https://other.example")
        assert other.status == 1


def test_this_machine_is_asked_only_where_that_is_said(sdcard: Sdcard, agent: RawServer) -> None:
    ran = sdcard("fetch", agent.url(), *TRUST, "--status", "--json")
    assert (ran.status, ran.json["rule"]) == (1, "fetch.address")
    assert agent.connections == 0
    assert sdcard("fetch", agent.url(), *TRUST, "--network", "text", "--status").status == 2


def test_a_plain_card_is_shown_and_is_no_success(sdcard: Sdcard, registered: Ran) -> None:
    card = (ROOT / "examples" / "georoute.json").read_bytes()
    with serving(sending(ok(card, "application/json"))) as server:
        ran = sdcard("fetch", server.url(), *TRUST, *HERE, "--status", "--json")
        assert (ran.status, ran.json["verified"]) == (1, False)
        assert ran.json["findings"][0]["rule"] == "fetched.unsigned"
        shown = sdcard("fetch", server.url(), *TRUST, *HERE, "--status", "--out", "kept.sd-card")
        assert (shown.status, Path("kept.sd-card").exists()) == (1, False)
        assert "nobody signed it" in shown.out


def test_a_token_goes_to_the_agent_and_nowhere_into_what_is_printed(sdcard: Sdcard, agent: RawServer) -> None:
    Path("token").write_text("c4n4ry\n")
    ran = sdcard("fetch", agent.url(), *TRUST, *HERE, "--status-unchecked", "a test", "--token-file", "token", "--json")
    assert ran.status == 1
    assert b"Bearer c4n4ry" in agent.requests[0]
    assert "c4n4ry" not in ran.out + ran.err


def test_the_registry_is_asked_which_keys_it_has_now(sdcard: Sdcard, agent: RawServer, desk: Desk) -> None:
    unknown = str(trust_document(issuers={desk.address: {"keys": []}}))
    unchecked, unbound = ("--status-unchecked", "a test", "--json"), ("--unbound", "a test")
    ran = sdcard("fetch", agent.url(), "--trust", unknown, *HERE, *unchecked)
    assert (ran.status, ran.json["rule"]) == (1, "issuer.key-unknown")
    assert (
        sdcard("fetch", agent.url(), "--trust", unknown, *HERE, "--refresh", "--status", "--json", *unbound).status == 0
    )
    card = ("cards/internal.sd-card", "--unbound", "a test", "--trust", unknown)
    assert sdcard("verify", *card, *unchecked).json["rule"] == "issuer.key-unknown"
    assert sdcard("verify", *card, "--refresh", "--status", "--json").status == 0


def test_a_trust_document_that_has_expired_verifies_nothing(sdcard: Sdcard, registered: Ran) -> None:
    expired = str(trust_document(exp=int(time.time())))
    for command in (
        ("verify", "cards/public.sd-card", "--unbound", "a test", "--status"),
        ("present", "cards/public.sd-card", "--key", "agent.jwk", "--audience", "https://a.example"),
    ):
        ran = sdcard(*command, "--trust", expired, "--json")
        assert (ran.status, ran.json["rule"]) == (1, "trust.expired")
    assert sdcard("trust", "show", expired).status == 1


@pytest.fixture
def signed(sdcard: Sdcard, registered: Ran) -> tuple[str, ...]:
    """Options that trust the registry by a signed list."""
    for name in ("signer", "other"):
        assert sdcard("keys", "new", f"{name}.jwk").status == 0
        Path(f"{name}.jwks").write_text(sdcard("keys", "public", f"{name}.jwk").out)
    Path("trust.jwt").write_text(sdcard("trust", "sign", "cards/trust.json", "--key", "signer.jwk", "--days", "7").out)
    return ("--trust", "trust.jwt", "--trust-signer", "signer.jwks")


def test_a_trust_list_is_all_that_is_needed_to_verify_offline(
    sdcard: Sdcard, signed: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(*_: object) -> None:
        raise AssertionError("nobody is asked")

    monkeypatch.setattr("socket.socket.connect", connect)
    card = ("verify", "cards/public.sd-card", "--unbound", "a test", "--status-unchecked", "offline", "--json")
    assert sdcard(*card, *signed).status == 0
    present = ("present", "cards/public.sd-card", "--key", "agent.jwk", "--audience", "https://a.example", "--json")
    assert sdcard(*present, *signed).status == 0


def test_a_trust_list_of_another_signer_verifies_nothing(sdcard: Sdcard, signed: tuple[str, ...]) -> None:
    card = ("verify", "cards/public.sd-card", "--unbound", "a test", "--status-unchecked", "offline", "--json")
    ran = sdcard(*card, *signed[:3], "other.jwks")
    assert (ran.status, ran.json["rule"]) == (1, "trust.signer-unknown")


def test_what_is_signed_and_what_is_not_are_never_taken_for_each_other(sdcard: Sdcard, signed: tuple[str, ...]) -> None:
    for options in (("trust.jwt",), ("cards/trust.json", "--trust-signer", "signer.jwks")):
        assert sdcard("trust", "show", *options, "--json").status == 2


def test_a_list_is_shown_with_who_is_trusted_and_until_when(
    sdcard: Sdcard, desk: Desk, signed: tuple[str, ...]
) -> None:
    shown = sdcard("trust", "show", *signed[1:], "--json").json
    assert list(shown["issuers"]) == [desk.address]
    assert 0 < shown["exp"] - time.time() <= 7 * 86_400
    text = sdcard("trust", "show", *signed[1:]).out
    assert "Trusted until" in text
    assert "status lists" in text
    assert "Trusted for ever" in sdcard("trust", "show", "cards/trust.json").out


def test_a_list_cannot_outlive_the_document_that_it_is_made_of(sdcard: Sdcard, registered: Ran) -> None:
    assert sdcard("keys", "new", "signer.jwk").status == 0
    soon = str(trust_document(exp=int(time.time()) + 3_600))
    assert sdcard("trust", "sign", soon, "--key", "signer.jwk").status == 2
