"""Attacks on the called agent's proof, between separate processes over TLS 1.3, in each carrier.

The client is this process. Agents, thieves, relays and Services are others, each with a port and a certificate.
"""

import asyncio
import json
import socket
import ssl
import subprocess
import sys
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
from sdcard.web.clients import AgentSession, ProvedTransport
from tests.external.called_a2a import card_of, request
from tests.sdcard.web.called import CLIENT, session
from tests.shared import ROOT
from tests.world import World


def listen() -> socket.socket:
    """Listen on a free port. A process inherits the socket, so that no other one takes the port in between."""
    return socket.create_server(("127.0.0.1", 0))


def url_of(listening: socket.socket) -> str:
    return f"https://127.0.0.1:{listening.getsockname()[1]}"


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

    def start(self, role: str, listening: socket.socket | None = None, **given: Any) -> str:
        """The address of a new process, which answers."""
        listening = listening or listen()
        url, fd = url_of(listening), listening.fileno()
        given = {"role": role, "fd": fd, "certificate": str(self._certificate), "key": str(self._key)} | given
        given = {"origin": url, "authority": str(self.pem)} | given
        command = [sys.executable, "-m", "tests.external.agent_process", json.dumps(given)]
        self.processes.append(subprocess.Popen(command, cwd=ROOT, pass_fds=[fd]))
        with socket.create_connection(listening.getsockname(), 30) as connection:
            listening.close()
            self.context.wrap_socket(connection, server_hostname="127.0.0.1").close()  # waits until it answers
        return url

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


LISTED: list[socket.socket] = []
"""Sockets of the Services that the agent lists."""


@pytest.fixture(scope="module")
def agent(network: Network) -> Iterator[str]:
    LISTED[:] = [listen() for _ in range(24)]
    yield network.start("agent", services=[url_of(one) for one in LISTED])
    for one in LISTED:
        one.close()


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


def test_a_proxy_that_drops_the_headers_gets_a_clear_refusal(network: Network, agent: str) -> None:
    proxy = network.start("relay", upstream=agent, drop=[CHALLENGE_HEADER])
    for carrier in ("http", "a2a"):
        found = outcome(carrier, network, proxy)
        assert "agent-proof.missing" in found
        assert "proxy" in found


# -- a Service in between ---------------------------------------------------------------------------------------------


def post(network: Network, service: str, of: AgentSession) -> None:
    """Call through the Service over HTTP."""
    over_http(network, service, of)


def first_contact(network: Network, service: str, of: AgentSession) -> None:
    """Fetch the card through the Service."""

    async def call() -> None:
        async with httpx.AsyncClient(verify=network.context) as http:
            await AgentProofInterceptor(of, f"{service}/rpc", http)._first_contact()

    asyncio.run(call())


def rpc(network: Network, service: str, of: AgentSession) -> None:
    """Call an operation of A2A through the Service.

    The agent has standing already, so that the attack meets the extension and not the card fetch before it.
    """
    of._proved_at = of.now()
    over_a2a(network, service, of)


THROUGH: dict[str, Callable[[Network, str, AgentSession], None]] = {"http": post, "fetch": first_contact, "a2a": rpc}
TARGET, MISSING, NONCE = "agent-proof.target", "agent-proof.missing", "kb.nonce-mismatch"
CARD, OLD_CARD = "/.well-known/agent-card.json", "/.well-known/agent.json"

ATTACKS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "none": ({}, {"http": "accepted", "fetch": "accepted", "a2a": "accepted"}),
    "not listed": (
        {"lists": False},
        {"http": "agent-proof.service", "fetch": "agent-proof.service", "a2a": "agent-proof.service"},
    ),
    "another agent": ({"upstream": "agent"}, {"http": TARGET, "fetch": TARGET, "a2a": TARGET}),
    "an agent that signs all": (
        {"upstream": "blind"},
        {"http": "agent-proof.other-agent", "fetch": "agent-proof.other-agent", "a2a": "agent-proof.other-agent"},
    ),
    "another request": (
        {"replace": [['\\"skills\\"', '\\"endpoints\\"']]},
        {"http": TARGET, "fetch": TARGET, "a2a": TARGET},
    ),
    "another client": (
        {"replace": [["https://client.example", "https://thief.example"]]},
        {"http": "agent-proof.audience", "fetch": "agent-proof.audience", "a2a": "agent-proof.audience"},
    ),
    "another context": (
        {"replace": [['audience="', 'interaction_id="other", audience="']]},
        {"http": TARGET, "fetch": TARGET, "a2a": TARGET},
    ),
    "another context for the agent's log": (
        {"add": [["sd-card-interaction", "other"]]},
        {"http": "challenge.other-interaction", "fetch": "-", "a2a": "challenge.other-interaction"},
    ),
    "another path": (
        {"paths": {"/tasks": "/other-tasks", CARD: OLD_CARD, "/rpc": "/other"}},
        {"http": TARGET, "fetch": TARGET, "a2a": TARGET},
    ),
    "HEAD for POST": (
        {"methods": {"POST": "HEAD", "GET": "HEAD", "OPTIONS": "HEAD"}},
        {"http": MISSING, "fetch": MISSING, "a2a": "405"},
    ),
    "another operation": (
        {"replace_body": [["SendStreamingMessage", "SendMessage"]]},
        {"http": "-", "fetch": "-", "a2a": TARGET},
    ),
    "an old answer": ({"replay": True}, {"http": NONCE, "fetch": NONCE, "a2a": NONCE}),
    "a stripped extension": (
        {"drop": ["A2A-Extensions", CHALLENGE_HEADER]},
        {"http": MISSING, "fetch": MISSING, "a2a": MISSING},
    ),
    "a stripped challenge": (
        {"drop": ["A2A-SD-Card-Challenge", CHALLENGE_HEADER]},
        {"http": MISSING, "fetch": MISSING, "a2a": MISSING},
    ),
    "a stripped proof": ({"drop_back": [PROOF_HEADER]}, {"http": MISSING, "fetch": "-", "a2a": "-"}),
}
"""What the Service does, and each carrier's refusal. `-` where the attack has no meaning:

- HTTP and the card fetch have no operations in their body.
- A card fetch belongs to no interaction.
- The card fetch and A2A carry the proof in the body. To drop it is to change the answer, as `an old answer` does.
"""
CASES = [(attack, carrier) for attack, (_, found) in ATTACKS.items() for carrier in THROUGH if found[carrier] != "-"]


def test_each_attack_says_what_becomes_of_it_in_each_carrier() -> None:
    assert all(found.keys() == THROUGH.keys() for _, found in ATTACKS.values())


@pytest.fixture(scope="module")
def services(network: Network, agent: str) -> dict[str, str]:
    """Return a Service for each attack; the agent lists them all but one."""
    found = {}
    for attack, (given, _) in ATTACKS.items():
        changes = {"upstream": agent, **given}
        listening = LISTED.pop() if changes.pop("lists", True) else listen()
        if changes["upstream"] == "agent":
            changes["upstream"] = network.start("agent", services=[url_of(listening)])
        elif changes["upstream"] == "blind":
            changes["upstream"] = network.start("blind")
        found[attack] = f"{network.start('relay', listening, prefix='/georoute', **changes)}/georoute"
    return found


@pytest.mark.parametrize(("attack", "carrier"), CASES)
def test_each_attack_of_a_service_is_refused_by_name(
    network: Network, agent: str, services: dict[str, str], attack: str, carrier: str
) -> None:
    found, of = list[str](), session(World(), agent, service=services[attack])
    for _ in range(2 if attack == "an old answer" else 1):
        try:
            THROUGH[carrier](network, services[attack], of)
        except (Refused, A2AError) as refusal:
            hints = [one.hint for one in refusal.findings] if isinstance(refusal, Refused) else []
            found.append(" ".join([type(refusal).__module__, str(refusal), *hints]))
        else:
            found.append("accepted")
    assert ATTACKS[attack][1][carrier] in found[-1]


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
