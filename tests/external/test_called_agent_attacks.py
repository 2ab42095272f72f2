"""Attacks on the called agent's proof, between separate processes over TLS 1.3, in each carrier.

The client is this process. Agents, thieves, relays and Services are others, each with a port and a certificate.
"""

import asyncio
import json
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
import trustme
from a2a.client.client import ClientConfig
from a2a.client.client_factory import ClientFactory
from a2a.utils.errors import A2AError

from sdcard import Refused, Unchecked, VerifiedCard
from sdcard.agent_proof import AgentChallenges
from sdcard.http_auth import CHALLENGE_HEADER, PROOF_HEADER
from sdcard.io.card_fetching import fetch_card
from sdcard.io.egress_policy import LOOPBACK, EgressPolicy
from sdcard.io.replay_cache import MemoryChallengeRecord
from sdcard.key_binding import RequestTarget
from sdcard.nonces import NoncePurpose
from sdcard.web.a2a_proof import AgentProofInterceptor
from sdcard.web.proved_client import AgentSession, ProvedTransport
from tests.external.called_a2a import card_of, request
from tests.sdcard.web.called import CLIENT, session
from tests.shared import ROOT
from tests.world import World


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


class Network:
    """Processes on loopback, and the authority whose certificates they have."""

    def __init__(self, folder: Path) -> None:
        self.authority, self._folder = trustme.CA(), folder
        self.pem = folder / "authority.pem"
        self.authority.cert_pem.write_to_path(str(self.pem))
        self._certificate, self._key = folder / "certificate.pem", folder / "key.pem"
        made = self.authority.issue_cert("127.0.0.1")
        made.private_key_pem.write_to_path(str(self._key))
        for number, part in enumerate(made.cert_chain_pems):
            part.write_to_path(str(self._certificate), append=number > 0)
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, role: str, **given: Any) -> str:
        """The address of a new process, which answers."""
        port = given.get("port") or free_port()
        url = f"https://127.0.0.1:{port}"
        given = {"role": role, "port": port, "certificate": str(self._certificate), "key": str(self._key)} | given
        given = {"origin": url, "authority": str(self.pem)} | given
        command = [sys.executable, "-m", "tests.external.agent_process", json.dumps(given)]
        self.processes.append(subprocess.Popen(command, cwd=ROOT))
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return url
        raise AssertionError(f"{role} does not listen")

    @property
    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.pem))
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return context


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    made = Network(tmp_path_factory.mktemp("network"))
    yield made
    for process in made.processes:
        process.terminate()
    for process in made.processes:
        process.wait(timeout=30)


PORTS: list[int] = []
"""Ports of the Services that the agent lists."""


@pytest.fixture(scope="module")
def agent(network: Network) -> str:
    PORTS[:] = {free_port() for _ in range(12)}
    return network.start("agent", services=[f"https://127.0.0.1:{port}" for port in PORTS])


# -- the client, in each carrier --------------------------------------------------------------------------------------


def over_http(network: Network, url: str, of: AgentSession) -> None:
    transport = ProvedTransport(of, httpx2.HTTPTransport(verify=network.context, trust_env=False))
    with httpx2.Client(transport=transport) as http:
        assert http.post(f"{url}/tasks", content=b"task").json() == {"method": "POST", "body": "task"}


def by_fetch(network: Network, url: str, of: AgentSession) -> None:
    world = World()
    egress = EgressPolicy(LOOPBACK.networks, network.pem.read_text())
    challenges = AgentChallenges(MemoryChallengeRecord(CLIENT, world.salts, purpose=NoncePurpose.CALLED_AGENT))
    now, unchecked = world.clock.now(), Unchecked("a test")
    found = fetch_card(url, world.issuer.trust, unchecked, now, egress, challenges=challenges)
    if not isinstance(found.card, VerifiedCard):
        raise AssertionError(str(found.card))


def over_a2a(network: Network, url: str, of: AgentSession) -> None:
    async def call() -> None:
        card = card_of(url, "JSONRPC")
        async with (
            httpx.AsyncClient(verify=network.context) as http,
            httpx.AsyncClient(verify=network.context) as first,
        ):
            interceptor = AgentProofInterceptor(of, f"{url}/rpc", first)
            client = ClientFactory(ClientConfig(httpx_client=http, streaming=True)).create(card, [interceptor])
            assert [event async for event in client.send_message(request("say"))]

    asyncio.run(call())


CARRIERS: dict[str, Callable[[Network, str, AgentSession], None]] = {
    "http": over_http,
    "fetch": by_fetch,
    "a2a": over_a2a,
}


def outcome(carrier: str, network: Network, url: str, of: AgentSession | None = None) -> str:
    """Return `accepted`, or the whole text of the client's refusal."""
    try:
        CARRIERS[carrier](network, url, of or session(World(), url))
    except (Refused, A2AError, AssertionError) as refusal:
        hints = [one.hint for one in refusal.findings] if isinstance(refusal, Refused) else []
        return " ".join([str(refusal), *hints])
    return "accepted"


# -- each attack in each carrier --------------------------------------------------------------------------------------


@pytest.mark.parametrize("carrier", CARRIERS)
def test_the_agent_itself_is_accepted(network: Network, agent: str, carrier: str) -> None:
    assert outcome(carrier, network, agent) == "accepted"


@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_host_with_a_copied_card_is_refused(network: Network, carrier: str) -> None:
    expected = {"fetch": "not proved by this host"}.get(carrier, "agent-proof.missing")
    assert expected in outcome(carrier, network, network.start("copy"))


@pytest.mark.parametrize("host", ["{agent}", "127.0.0.1"])
@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_relay_to_the_agent_is_refused_whatever_its_host_header_says(
    network: Network, agent: str, carrier: str, host: str
) -> None:
    thief = network.start("relay", upstream=agent, host=host.format(agent=agent.partition("://")[2]))
    found = outcome(carrier, network, thief)
    assert "agent-proof.target" in found or (carrier == "a2a" and "agent-proof.missing" in found), found


@pytest.mark.parametrize(
    ("carrier", "changes"),
    [
        ("http", {"paths": {"/tasks": "/rpc"}}),
        ("http", {"methods": {"OPTIONS": "HEAD"}}),
        ("http", {"methods": {"POST": "HEAD"}}),
        ("fetch", {"paths": {"/.well-known/agent-card.json": "/.well-known/agent.json"}}),
    ],
)
def test_a_relay_to_another_path_or_method_is_refused(
    network: Network, agent: str, carrier: str, changes: dict[str, Any]
) -> None:
    """The host between has a certificate of the agent's name, so that only path and method differ."""
    between = network.start("relay", upstream=agent, **changes)
    of = session(World(), agent, service=between)
    found = outcome(carrier, network, between, of)
    assert "agent-proof" in found


def test_a_proxy_that_drops_the_headers_gets_a_clear_refusal(network: Network, agent: str) -> None:
    proxy = network.start("relay", upstream=agent, drop=[CHALLENGE_HEADER])
    for carrier in ("http", "a2a"):
        found = outcome(carrier, network, proxy)
        assert "agent-proof.missing" in found
        assert "proxy" in found


# -- a Service in between ---------------------------------------------------------------------------------------------


def relayed(network: Network, agent: str, lists: bool = True, **changes: Any) -> tuple[str, str]:
    """The agent, and a Service with these habits that the agent lists, or not."""
    port = PORTS.pop() if lists else free_port()
    service = network.start("relay", port=port, upstream=changes.pop("upstream", agent), prefix="/georoute", **changes)
    return agent, f"{service}/georoute"


def through(network: Network, agent: str, service: str, audience: str = CLIENT) -> str:
    of = session(World(), agent, audience, service=service)
    try:
        over_http(network, service, of)
    except Refused as refusal:
        return " ".join([str(refusal), *(one.hint for one in refusal.findings)])
    return "accepted"


def test_a_listed_service_relays(network: Network, agent: str) -> None:
    assert through(network, *relayed(network, agent)) == "accepted"


def test_a_service_that_is_not_listed_is_refused(network: Network, agent: str) -> None:
    assert "agent-proof.service" in through(network, *relayed(network, agent, lists=False))


def test_a_service_that_swaps_agents_is_refused(network: Network, agent: str) -> None:
    other = network.start("agent", services=[f"https://127.0.0.1:{port}" for port in PORTS])
    assert "agent-proof.target" in through(network, *relayed(network, agent, upstream=other))
    assert "agent-proof.other-agent" in through(network, *relayed(network, agent, upstream=network.start("blind")))


@pytest.mark.parametrize(
    "replace",
    [
        ['\\"skills\\"', '\\"endpoints\\"'],  # what is requested
        ["https://client.example", "https://thief.example"],  # another client
        ['audience="', 'interaction_id="other", audience="'],  # another context
    ],
)
def test_a_service_that_changes_the_challenge_is_refused(network: Network, agent: str, replace: list[str]) -> None:
    found = through(network, *relayed(network, agent, replace=[replace]))
    assert "agent-proof.target" in found or "agent-proof.audience" in found


def test_a_service_that_replays_an_answer_is_refused(network: Network, agent: str) -> None:
    assert "kb.nonce-mismatch" in through(network, *relayed(network, agent, replay=True))


def test_a_service_that_drops_the_proof_is_refused(network: Network, agent: str) -> None:
    assert "agent-proof.missing" in through(network, *relayed(network, agent, drop_back=[PROOF_HEADER]))


# -- bad input at the agent, by bare sockets --------------------------------------------------------------------------


def ask(network: Network, url: str, head: str) -> str:
    """Send these lines and return the response."""
    host, _, port = url.partition("://")[2].partition(":")
    with (
        socket.create_connection((host, int(port)), 10) as bare,
        network.context.wrap_socket(bare, server_hostname=host) as tls,
    ):
        tls.sendall(head.encode("latin-1"))
        answer = b""
        while chunk := tls.recv(65_536):
            answer += chunk
    return answer.decode("latin-1")


def lines(world: World, url: str, version: str = "1.1", *more: str) -> str:
    challenge = session(world, url).challenge("GET", f"{url}/tasks")[1]
    first = [f"GET /tasks HTTP/{version}", "Host: thief.example", "Connection: close"]
    return "\r\n".join([*first, f"{CHALLENGE_HEADER}: {challenge}", *more, "", ""])


def test_http_1_0_and_forged_hosts_are_answered_alike(network: Network, agent: str) -> None:
    for version in ("1.0", "1.1"):
        answer = ask(network, agent, lines(World(), agent, version)).lower()
        assert answer.startswith("http/1.1 200"), answer
        assert f"\r\n{PROOF_HEADER.lower()}: eyj" in answer


def test_two_challenges_and_a_huge_one_are_refused(network: Network, agent: str) -> None:
    world = World()
    other = session(world, agent).challenge("GET", f"{agent}/tasks")[1]
    assert "challenge.malformed" in ask(network, agent, lines(world, agent, "1.1", f"{CHALLENGE_HEADER}: {other}"))
    huge = "\r\n".join(
        ["GET /tasks HTTP/1.1", "Host: x", "Connection: close", f"{CHALLENGE_HEADER}: SD-Card {'n' * 5_000}", "", ""]
    )
    assert "challenge.malformed" in ask(network, agent, huge)
    beyond = huge.replace("n" * 5_000, "n" * 200_000)
    assert PROOF_HEADER.lower() not in ask(network, agent, beyond).lower()


def test_a_nonce_of_another_purpose_is_refused(network: Network, agent: str) -> None:
    world = World()
    made = MemoryChallengeRecord(CLIENT, world.salts).issue(
        world.clock.now(), None, None, RequestTarget(agent, "GET", "/tasks")
    )
    head = "\r\n".join(
        [
            "GET /tasks HTTP/1.1",
            "Host: x",
            "Connection: close",
            f'{CHALLENGE_HEADER}: SD-Card nonce="{made.nonce}", audience="{CLIENT}"',
            "",
            "",
        ]
    )
    assert "kb.purpose" in ask(network, agent, head)
