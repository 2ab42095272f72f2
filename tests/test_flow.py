"""The draft's whole flow over HTTP, each arrow in its turn: register, publish, discover, fetch, present, delegate, call
a tool, and what the audits say of it. Then parts of it are revoked."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from sdcard import Acceptance, Challenge, HeldSdCard, Refused, VerifiedCard, accept_sd_card, present, select_all
from sdcard.delegation_chain import SD_AGENT_CARD_TYPE, Delegation
from sdcard.holder import select_paths
from sdcard.http_auth import INTERACTION_HEADER
from sdcard.io.card_fetching import FetchedCard, UnprovedCard, fetch_card
from sdcard.io.egress_policy import LOOPBACK
from sdcard.io.key_files import load_signer
from sdcard.io.published_keys import IssuerKeys
from sdcard.io.registry_client import Registry
from sdcard.io.status_lists import FetchedStatusLists
from sdcard.io.system import SystemSalts
from sdcard.publishing import OwnTokens, PublishedCard, PublishedCards, new_card_token
from sdcard.rules import Rule
from sdcard.status_list import Checked
from sdcard.trust import TrustedIssuers
from sdcard.web.clients import Presenter, SdCardAuth
from sdcard.web.mcp import write_calls
from sdcard.web.publish import CardApp
from tests import served, tool_server
from tests.command_line import Sdcard
from tests.flow import agents, cards
from tests.issuer_service.test_server import await_health, stop
from tests.ports import free_port
from tests.shared import ROOT
from tests.world import UNASKED

CLOCK = agents.CLOCK
VERIFIER = "https://verifier.example"
TRIP = "trip-7"
ALWAYS = {"name", "description", "version"}
PLANNER, MAPPER, DRIVER = "agent:planner", "agent:mapper", "agent:driver"


@dataclass
class Town:
    """Everybody, and what reached them."""

    sdcard: Sdcard
    registry: str
    owners: dict[str, agents.Owner]
    addresses: dict[str, str]
    card_app: CardApp
    published: agents.Tap
    verifying: agents.Tap
    calls: Path
    admitted: list[VerifiedCard] = field(default_factory=list)
    delegated: list[tuple[str, Delegation]] = field(default_factory=list)

    def run(self, *arguments: str) -> Any:
        ran = self.sdcard(*arguments)
        assert ran.status == 0, ran
        return ran

    def held(self, context: str) -> HeldSdCard:
        """The planner's SD-Card of a context, as it was registered."""
        text = Path(f"planner/{context}.sd-card").read_text("ascii").strip()
        trusted, _ = Registry(self.registry).issuer()
        return accept_sd_card(
            text, Acceptance(issuers=trusted), load_signer(Path("planner.jwk")).public_key, CLOCK.now()
        )


@pytest.fixture
def town(sdcard: Sdcard, monkeypatch: pytest.MonkeyPatch) -> Iterator[Town]:
    with ExitStack() as stack:
        registry = stack.enter_context(serving_registry(monkeypatch))
        owners = {name: new_owner(sdcard, name, registry) for name in ("alice", "bob", "carol")}
        card_app, admitted, delegated = (
            CardApp(PublishedCards({})),
            list[VerifiedCard](),
            list[tuple[str, Delegation]](),
        )
        taps = agents.Tap(card_app), agents.Tap(agents.verifier(registry, VERIFIER, admitted))
        calls = stack.enter_context(Path("calls.jsonl").open("w", encoding="ascii"))
        tools = tool_server.make_tool_server(write_calls(calls)).streamable_http_app()
        tool_address = stack.enter_context(tool_server.served(tools))
        driver = agents.worker(DRIVER, owners["carol"], agents.use_tool(tool_address, delegated))
        addresses = {DRIVER: stack.enter_context(served.served(driver))}
        mapper = agents.worker(MAPPER, owners["bob"], agents.hand_on(owners["bob"], DRIVER, addresses[DRIVER], "read"))
        addresses |= {MAPPER: stack.enter_context(served.served(mapper))}
        addresses |= {
            name: stack.enter_context(served.served(tap)) for name, tap in zip((PLANNER, VERIFIER), taps, strict=True)
        }
        yield Town(sdcard, registry, owners, addresses, card_app, *taps, Path("calls.jsonl"), admitted, delegated)


@contextmanager
def serving_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """``sdcard serve`` as a process, in the present folder, with a policy that knows a partner."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    Path("policy.toml").write_text(cards.POLICY, encoding="utf-8")
    for name, value in {"ISSUER": address, "POLICY": "policy.toml", "STATUS_TTL_SECONDS": "1"}.items():
        monkeypatch.setenv(f"SDCARD_{name}", value)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    start = [sys.executable, "-c", "from sdcard.cli import main; main()", "serve", "--port", str(port)]
    with subprocess.Popen(start) as process:
        try:
            await_health(address, process)
            yield address
        finally:
            stop(process)


def new_owner(sdcard: Sdcard, name: str, registry: str) -> agents.Owner:
    scopes = ["agents:register", "agents:manage", "agents:discover", "tokens:exchange", "tokens:introspect"]
    granted = [part for scope in scopes for part in ("--scope", scope)]
    ran = sdcard("token", "create", "--subject", name, *granted, "--context", "public", "--context", "internal")
    assert ran.status == 0, ran
    return agents.Owner(name, ran.out.strip(), registry)


def test_the_whole_flow_and_its_end(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    register(town, monkeypatch)
    token = publish(town)
    where = discover(town)
    fetch(town, where, token)
    for context in cards.SHOWN:
        present_to_verifier(town, context)
    handed = delegate(town)
    thread = read_one_thread(town)

    end_the_middle(town, monkeypatch, handed)
    end_the_agent(town, monkeypatch, where)
    assert read_one_thread(town) == thread


def register(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("card.json").write_text(json.dumps(cards.make_card(town.addresses[PLANNER])), encoding="utf-8")
    contexts = [part for context in cards.SHOWN for part in ("--context", context)]
    for agent, owner, asked in (
        ("planner", "alice", [*contexts, "--partner", cards.PARTNER]),
        ("mapper", "bob", ["--context", "public=description"]),
        ("driver", "carol", ["--context", "public=description"]),
    ):
        monkeypatch.setenv("SDCARD_TOKEN", town.owners[owner].token)
        town.run("keys", "new", f"{agent}.jwk")
        town.run("register", "card.json", "--registry", town.registry, "--agent-id", agent, "--key", f"{agent}.jwk",
                 "--out", agent, *asked)  # fmt: skip

    assert {file.stem for file in Path("planner").glob("*.sd-card")} == set(cards.SHOWN)


def publish(town: Town) -> str:
    """The planner publishes two contexts; the token is for the one that is not public."""
    text, kept = new_card_token("internal", CLOCK.now() + 600, SystemSalts())
    held = {context: town.held(context) for context in ("public", "internal")}
    contexts = {name: PublishedCard.of(one, select_all(one)) for name, one in held.items()}
    town.card_app.replace(PublishedCards(contexts, tokens=OwnTokens([kept])))
    return text


def discover(town: Town) -> str:
    """Find the agent with the skill, by its endpoint alone."""
    ran = town.run("discover", "--registry", town.registry, "--skill", cards.ID, "--context", "internal", "--json")
    [found] = ran.json["results"]
    [interface] = found["members"]["supportedInterfaces"]
    assert found["agent_id"] == "planner"
    return str(interface["url"]).removesuffix("/canary-endpoint")


def fetch_from(town: Town, where: str, token: str | None) -> FetchedCard:
    """Fetch from the well-known address, and trust the registry by name: its metadata has the keys."""
    keys = IssuerKeys(TrustedIssuers({town.registry: {}}))
    return fetch_card(where, keys, Checked(FetchedStatusLists(keys)), CLOCK.now(), LOOPBACK, token, challenges=UNASKED)


def fetch(town: Town, where: str, token: str) -> None:
    for context, bearer in (("public", None), ("internal", token)):
        town.published.read()
        found = fetch_from(town, where, bearer)

        assert isinstance(found.card, UnprovedCard)
        assert (found.card.card.issuer, found.card.card.subject) == (town.registry, PLANNER)
        assert found.card.card.members.keys() == cards.MEMBERS[context] | ALWAYS
        assert [finding.rule for finding in found.findings] == [Rule.FETCHED_UNBOUND]
        assert cards.canaries_in(town.published.read()) == cards.SHOWN[context]


def ask_verifier(town: Town, context: str) -> httpx2.Response:
    held = town.held(context)
    address, signer = town.addresses[VERIFIER], load_signer(Path("planner.jwk"))
    presenter = Presenter(
        origin=address, audience=VERIFIER, held=held, allowed=select_all(held), signer=signer, clock=CLOCK
    )
    with httpx2.Client(auth=SdCardAuth(presenter), trust_env=False, timeout=60) as client:
        return client.post(f"{address}/tasks", headers={INTERACTION_HEADER: TRIP})


def present_to_verifier(town: Town, context: str) -> None:
    """The verifier asks for everything: it gets what the context shows, and nothing else is on the wire."""
    town.verifying.read()

    answer = ask_verifier(town, context)

    assert (answer.status_code, answer.json()) == (200, {"authorization": None})
    card = town.admitted.pop()
    assert (card.subject, getattr(card.key_binding, "interaction_id", None)) == (PLANNER, TRIP)
    assert card.members.keys() == cards.MEMBERS[context] | ALWAYS
    assert cards.canaries_in(json.dumps(dict(card.members)).encode()) == cards.SHOWN[context]
    assert cards.canaries_in(town.verifying.read()) == cards.SHOWN[context]


def show_to_registry(town: Town, scope: str) -> Any:
    """The planner asks for a token for the mapper; its SD-Card says who it is, and shows nothing."""
    alice, held = town.owners["alice"], town.held("diagnostic")
    challenge = Challenge(Registry(town.registry, alice.token).nonce(), f"{town.registry}/token", interaction_id=TRIP)
    signer = load_signer(Path("planner.jwk"))
    shown = str(present(held, select_paths(held, []), challenge, signer, CLOCK.now()))
    assert cards.canaries_in(shown.encode()) == set()
    return asyncio.run(alice.exchange(shown, MAPPER, scope, SD_AGENT_CARD_TYPE))


def delegate(town: Town) -> str:
    """The planner's task goes to the mapper, and a part of it to the driver, who calls a tool for it."""
    assert show_to_registry(town, "read")["error_description"].startswith("delegation.no-grant")
    for delegator, target in ((PLANNER, MAPPER), (MAPPER, DRIVER)):
        town.run("grants", "add", "--delegator", delegator, "--target", target, "--scope", "read", "--scope", "write")

    token = str(show_to_registry(town, "read write")["access_token"])
    said = asyncio.run(agents.call(town.addresses[MAPPER], token))

    assert said == str({"to": "Rome", "interaction_id": TRIP})
    [(_, delegation)] = town.delegated
    assert (delegation.target, delegation.chain.parties) == (DRIVER, (PLANNER, MAPPER))
    assert (delegation.scopes, delegation.interaction_id, delegation.client_id) == (("read",), TRIP, "bob")
    assert asyncio.run(agents.call(town.addresses[DRIVER], token)) == Rule.TOKEN_AUDIENCE
    return token


def read_one_thread(town: Town) -> list[dict[str, Any]]:
    """Return the audit records of the interaction, first the registry's and then the tool server's."""
    exported = town.run("audit", "export", "--interaction-id", TRIP).out
    lines = f"{exported}{town.calls.read_text('ascii')}"
    records: list[dict[str, Any]] = [json.loads(line) for line in lines.splitlines()]

    assert [one["event"] for one in records] == ["delegation.issued", "delegation.issued", "tool.called"]
    assert {one["interaction_id"] for one in records} == {TRIP}
    assert [one["disclosed"]["chain"] for one in records[:2]] == [[PLANNER], [PLANNER, MAPPER]]
    assert [one["at"] for one in records] == sorted(one["at"] for one in records)
    everything = town.run("audit", "export").out
    assert cards.canaries_in(f"{everything}{lines}".encode()) == set()
    assert "Rome" not in lines
    town.run("audit", "verify")
    return records


def end_the_middle(town: Town, monkeypatch: pytest.MonkeyPatch, handed: str) -> None:
    """Without the mapper the chain ends, though its tokens have not expired. The planner goes on."""
    monkeypatch.setenv("SDCARD_TOKEN", town.owners["bob"].token)
    town.run("revoke", "mapper", "--yes", "--registry", town.registry)

    assert asyncio.run(agents.call(town.addresses[MAPPER], handed)) == f"{MAPPER}: the chain has ended"
    [(narrower, _)] = town.delegated
    assert asyncio.run(agents.call(town.addresses[DRIVER], narrower)) == f"{DRIVER}: the chain has ended"
    onward = asyncio.run(town.owners["bob"].exchange(handed, DRIVER, "read"))
    assert onward["error_description"].startswith("delegation.revoked")
    assert ask_verifier(town, "internal").status_code == 200


def end_the_agent(town: Town, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    monkeypatch.setenv("SDCARD_TOKEN", town.owners["alice"].token)
    town.run("revoke", "planner", "--yes", "--registry", town.registry)
    time.sleep(3.5)  # two seconds until status lists show it, and one for which a verifier may keep a list

    answer = ask_verifier(town, "internal")
    assert (answer.status_code, answer.json()["rule"]) == (403, "status.revoked")
    with pytest.raises(Refused) as refused:
        fetch_from(town, where, None)
    assert refused.value.rule is Rule.STATUS_REVOKED
    for context in ("public", "internal"):
        client = Registry(town.registry, town.owners["carol"].token)
        assert client.discover({"skills": [cards.ID]}, context, 10).results == ()
    assert show_to_registry(town, "read")["error_description"].startswith("status.revoked")
