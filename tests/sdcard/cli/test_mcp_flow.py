"""Register, present, verify, call a tool: one interaction id, and one thread in two audits. Over real HTTP."""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import StdioServerParameters

from issuer_service.cli.registry_process import Desk, running_registry
from sdcard import SD_CARD, Answering, Checked, Expectations, VerifiedCard, parse_trusted_issuers, verify_presentation
from sdcard.cli.mcp_server import make_server
from sdcard.cli.mcp_tools import LOOKING, Discovering
from sdcard.io.key_files import load_signer
from sdcard.io.registry_client import Registry
from sdcard.io.replay_cache import MemoryChallengeRecord
from sdcard.io.status_lists import FetchedStatusLists
from sdcard.io.system import SystemClock, SystemSalts
from sdcard.web.mcp import InteractionAudit, InteractionClient, interaction_of
from tests.command_line import Sdcard
from tests.sdcard.cli.conftest import wait_for_lists
from tests.sdcard.cli.test_mcp import SERVE, ask, read, refusal
from tests.shared import ROOT
from tests.world import AUDIENCE, example

INTERACTION = "trip-7"


@pytest.fixture
def desk(sdcard: Sdcard, tmp_path: Path) -> Iterator[Desk]:
    """A registry with one agent, registered in the interaction; its SD-Cards under ``cards/``."""
    (tmp_path / "registry").mkdir()
    with running_registry(tmp_path / "registry") as running:
        assert sdcard("keys", "new", "agent.jwk").status == 0
        key = load_signer(Path("agent.jwk")).public_key
        body: Any = {
            **{name: example()[name] for name in ("name", "description", "version")},
            "agent_id": "georoute",
            "public_keys": [dict(key.to_jwk())],
            "disclosure_contexts": [{"context": "public"}, {"context": "internal"}],
            "card": example(),
            "interaction_id": INTERACTION,
        }
        client = Registry(running.address, running.token)
        answer = client.register(body, ["public", "internal"], [key.thumbprint])
        for card in answer.cards:
            Path(f"{card.context}.sd-card").write_text(card.sd_card, encoding="ascii")
        Path("trust.json").write_text(json.dumps(client.issuer()[1]), encoding="utf-8")
        Path("token").write_text(running.token, encoding="ascii")
        yield running


def verified_by_somebody(sdcard: Sdcard) -> VerifiedCard:
    """The agent presents its card to a service, which asked for it in this interaction and verifies the answer."""
    asked, clock = MemoryChallengeRecord(AUDIENCE, SystemSalts()), SystemClock()
    challenge = asked.issue(clock.now(), interaction_id=INTERACTION)
    ran = sdcard(
        "present", "internal.sd-card", "--key", "agent.jwk", "--trust", "trust.json", "--audience", AUDIENCE,
        "--nonce", challenge.nonce, "--interaction-id", INTERACTION, "--context", "internal",
    )  # fmt: skip
    assert ran.status == 0, ran
    issuers = parse_trusted_issuers(Path("trust.json").read_bytes())
    status = Checked(FetchedStatusLists(issuers))
    expectations = Expectations(issuers=issuers, key_binding=Answering(challenge, asked), status=status)
    return verify_presentation(ran.out.strip(), expectations, clock.now())


def command(*options: str) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable,
        args=["-c", SERVE, "--trust", str(Path("trust.json").resolve()), *options],
        env={"PYTHONPATH": str(ROOT)},
    )


def test_one_interaction_is_one_thread_in_the_audits_of_the_registry_and_of_the_tool_server(
    sdcard: Sdcard, desk: Desk, tmp_path: Path
) -> None:
    card = verified_by_somebody(sdcard)
    target = command(
        "--registry", desk.address, "--token-file", str(tmp_path / "token"), "--audit", str(tmp_path / "calls")
    )  # fmt: skip

    async def call() -> Any:
        async with InteractionClient(target, interaction_id=interaction_of(card)) as client:
            return read(await client.call_tool("discover_agents", {"text": "route"}))

    found = asyncio.run(call())
    ask(target, ("check_card", {"document": "{}"}))

    database = f"sqlite+aiosqlite:///{tmp_path}/registry/registry.sqlite"
    exported = sdcard("audit", "export", "--interaction-id", INTERACTION, "--database-url", database)
    registry_says = [json.loads(line) for line in exported.out.splitlines()]
    server_says = [json.loads(line) for line in (tmp_path / "calls").read_text(encoding="ascii").splitlines()]
    thread = [one for one in registry_says + server_says if one.get("interaction_id") == INTERACTION]
    assert [one["agent_id"] for one in found["results"]] == ["georoute"]
    assert [one["event"] for one in sorted(thread, key=lambda one: one["at"])] == ["agent.registered", "tool.called"]
    assert [one["interaction_id"] for one in server_says] == [INTERACTION, None], "another call is not in the thread"


def test_a_presentation_is_verified_through_the_tool_with_its_status_fetched(sdcard: Sdcard, desk: Desk) -> None:
    target = command("--audience", AUDIENCE, "--status")

    good = answer_anew(sdcard, target)
    revoked = Registry(desk.address, desk.token).change_statuses("revoke", "georoute", None, None)
    wait_for_lists()
    bad = answer_anew(sdcard, target)

    assert (good["verified"], good["status"], good["interaction_id"]) == (True, "checked", INTERACTION)
    assert all("revoked" not in one for one in good["not_known"])
    assert revoked >= 2
    assert refusal(bad)[0] == "status.revoked"


def answer_anew(sdcard: Sdcard, target: StdioServerParameters) -> Any:
    """Of a fresh server: ask for a challenge, have the agent present, verify."""

    async def talk() -> Any:
        async with InteractionClient(target, interaction_id=INTERACTION) as client:
            challenge = read(await client.call_tool("new_challenge", {}))
            return read(await client.call_tool("verify_presentation", present(sdcard, challenge)))

    return asyncio.run(talk())


def present(sdcard: Sdcard, challenge: Any) -> dict[str, str]:
    ran = sdcard(
        "present", "internal.sd-card", "--key", "agent.jwk", "--trust", "trust.json", "--interaction-id", INTERACTION,
        "--audience", challenge["audience"], "--nonce", challenge["nonce"], "--context", "internal",
    )  # fmt: skip
    assert ran.status == 0, ran
    return {"presentation": ran.out.strip(), "nonce": challenge["nonce"]}


def discovering(desk: Desk, context: str = "public", trust: bytes | None = None) -> Any:
    issuers = parse_trusted_issuers(trust or Path("trust.json").read_bytes())
    offers = Discovering(Registry(desk.address, desk.token, 0.1), context, issuers, SD_CARD).offers()
    return make_server([*LOOKING, *offers], InteractionAudit(lambda call: None, SystemClock()), "1")


def test_agents_are_found_verified_and_as_the_operators_context_shows_them(desk: Desk) -> None:
    [found] = ask(discovering(desk), ("discover_agents", {"skills": ["fleet-dispatch"], "max_results": 1}))

    [agent] = found["results"]
    assert (found["context"], agent["agent_id"], agent["issuer"]) == ("public", "georoute", desk.address)
    assert "provider" not in agent["members"]
    assert len(found["not_known"]) == 2


def test_a_presentation_in_meta_opens_no_context_that_the_servers_token_does_not(sdcard: Sdcard, desk: Desk) -> None:
    """The authority of an SD-Card does not pass to a tool: neither from `_meta`, nor after it was verified."""
    challenge = {"audience": AUDIENCE, "nonce": "n-1"}
    meta = {"org.example/presentation": present(sdcard, challenge)["presentation"]}
    asked = ("discover_agents", {"text": "route"})

    [without], [with_card] = (
        ask(discovering(desk, "internal"), asked),
        ask(discovering(desk, "internal"), asked, meta=meta),
    )

    assert refusal(without)[0] == "token.limit"
    assert with_card == without


def test_what_an_issuer_that_is_not_trusted_signed_is_refused(desk: Desk) -> None:
    document = json.loads(Path("trust.json").read_bytes())
    stranger = json.dumps({"issuers": {"https://other.example": document["issuers"][desk.address]}}).encode()

    [answer] = ask(discovering(desk, trust=stranger), ("discover_agents", {"text": "route"}))

    assert refusal(answer) == ("issuer.unknown", "issuer-jwt/iss")


def test_a_registry_out_of_reach_and_a_question_about_nothing_are_said_without_a_secret(desk: Desk) -> None:
    away = Desk("http://127.0.0.1:9", desk.token)

    [unreachable] = ask(discovering(away), ("discover_agents", {"text": "route"}))
    [nothing] = ask(discovering(desk), ("discover_agents", {}))

    assert unreachable["misuse"].startswith("the registry cannot be reached: nothing listens at 127.0.0.1, port ")
    assert nothing["misuse"].startswith("say what to look for")
    assert desk.token not in json.dumps([unreachable, nothing])


@pytest.mark.parametrize("extra", ["registry", "address", "token", "context", "trust", "url"])
def test_a_model_cannot_say_where_to_look(desk: Desk, extra: str) -> None:
    [answer] = ask(discovering(desk), ("discover_agents", {"text": "route", extra: "http://169.254.169.254/"}))

    assert refusal(answer) == ("request.malformed", f"request/params/arguments/{extra}")
