"""No client sends a token, a proof or a presentation over http to another machine.

Every client is tried with every hostile address, while the network is watched: nothing may be resolved or connected to.
"""

import json
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer.main
from mcp.client import Client

from pages.command_line import leaves
from sdcard import ClaimPath, Misuse, TrustedIssuers, Unchecked, create_dpop_proof, select_paths
from sdcard.agent_proof import AnyAgent, CalledAgent
from sdcard.cli.app import app
from sdcard.errors import Refused
from sdcard.io.agent import Agent
from sdcard.io.card_fetching import fetch_card
from sdcard.io.egress_policy import LOOPBACK
from sdcard.io.http import fetch
from sdcard.io.key_files import public_jwks
from sdcard.io.registry_client import Registry
from sdcard.urls import check_secret_url
from sdcard.web.clients import Presenter, SdCardAuth
from sdcard.web.mcp import InteractionClient
from tests.command_line import Sdcard
from tests.shared import ROOT
from tests.sources import files, imported, name_of
from tests.world import NOW, UNASKED, World, key

HOSTILE = (
    "http://registry.example", "HTTP://REGISTRY.EXAMPLE", "http://10.0.0.1", "http://192.168.1.1:8080",
    "http://0.0.0.0", "http://[::]", "http://[::ffff:127.0.0.1]", "http://[fe80::1]", "http://169.254.169.254",
    "http://localhost.evil.example", "http://evil.localhost", "http://localhost.", "http://127.0.0.1.evil.example",
    "http://127.1", "http://2130706433", "http://0x7f.0.0.1", "http://0177.0.0.1", "http://[127.0.0.1]", "http://128.0.0.1",
    "http://127.0.0.1@evil.example", "http://localhost:80@evil.example", "http://user:secret@127.0.0.1",
    "https://user@registry.example", "http://127.0.0.1\\@evil.example", "http://127.0.0.1#@evil.example",
    "http://127.0.0.1\t.evil.example", "http://127.0.0.1\n", " http://127.0.0.1", "http://127.0.0.1 .evil.example",
    "http:/evil.example", "http:evil.example", "//evil.example", "evil.example", "", "ftp://127.0.0.1",
    "ws://evil.example", "http://", "http://:80", "http://127.0.0.1:0", "http://127.0.0.1:99999", "http://ⓛocalhost",
    "http://localhost\u3002evil.example", "http://127。0。0。1", "http://evil.example?http://127.0.0.1",
    "http://evil.example/http://localhost", "http://localhost%2eevil.example", "http://%6cocalhost", "http://xlocalhost",
)  # fmt: skip
PRIVATE = (
    "https://registry.example", "https://10.0.0.1:8443", "http://localhost", "http://LOCALHOST:8080", "http://127.0.0.1",
    "http://127.255.255.254:1", "http://[::1]:8080", "https://registry.example:443",
)  # fmt: skip
Use = Callable[[str, World], Any]


def present(url: str, world: World) -> Any:
    held = world.holder.accept()
    chosen = select_paths(held, [ClaimPath(("provider",))])
    signer = world.holder.signer
    return Presenter(
        origin=url, audience="https://v.example", held=held, allowed=chosen, signer=signer, clock=world.clock
    )


def holding(world: World) -> Agent:
    """An agent with one SD-Card."""
    cards: Any = SimpleNamespace(load=lambda: {"public": world.holder.accept()})
    return Agent(cards, world.holder.signer, world.clock, lambda: 0.5)


CLIENTS: dict[str, Use] = {
    "Registry": lambda url, _: Registry(url, "token", 0.0).nonce(),
    "Registry, for keys": lambda url, _: Registry(url, None, 0.0).issuer(),
    "fetch": lambda url, _: fetch(url, LOOPBACK, ("application/json",), 10, "token"),
    "fetch_card": lambda url, world: fetch_card(
        url, TrustedIssuers({}), Unchecked("a test"), world.clock.now(), LOOPBACK, "token", challenges=UNASKED
    ),
    "Presenter": present,
    "SdCardAuth of an agent": lambda url, world: SdCardAuth.of_agent(holding(world), url, context="public"),
    "CalledAgent": lambda url, world: CalledAgent(
        issuers=world.issuer.trust, origin=url, agent=AnyAgent("a test"), status=Unchecked("a test")
    ),
    "create_dpop_proof": lambda url, world: create_dpop_proof(
        world.holder.signer, "POST", url, "token", world.salts, NOW
    ),
    "InteractionClient": lambda url, _: InteractionClient(url, interaction_id="i"),
}
WITH_HTTP_CLIENTS = {
    "io/http.py": "fetch",
    "io/registry_client.py": "Registry",
    "web/clients.py": "Presenter",
    "web/httpx_clients.py": "Presenter",
    "web/a2a_proof.py": "CalledAgent",
}
"""Modules that import a client of HTTP, and which of ours they are."""


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Everything that anybody tries to resolve or to connect to."""
    tried: list[Any] = []

    def refuse(*arguments: Any, **_: Any) -> Any:
        tried.append(arguments)
        raise OSError("no network in this test")

    for name in ("getaddrinfo", "create_connection", "gethostbyname"):
        monkeypatch.setattr(socket, name, refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    return tried


@pytest.mark.parametrize("client", CLIENTS)
def test_nothing_is_sent_to_a_hostile_address(client: str, world: World, network: list[Any]) -> None:
    for url in HOSTILE:
        if client == "create_dpop_proof" and "#" in url:
            continue  # a fragment plays no part there, and nothing behind it is a host
        with pytest.raises((Misuse, Refused)):
            CLIENTS[client](url, world)
        assert network == [], (client, url)


@pytest.mark.parametrize("url", HOSTILE)
def test_the_one_rule_refuses_and_says_what_to_do(url: str) -> None:
    with pytest.raises(Misuse, match="https"):
        check_secret_url(url, "a registry")


@pytest.mark.parametrize("url", PRIVATE)
@pytest.mark.parametrize("path", ["", "/", "/a/b?c=d"])
def test_https_and_this_machine_are_served(url: str, path: str) -> None:
    check_secret_url(url + path, "a registry")


def http_modules() -> set[str]:
    """Modules of ``sdcard`` that import something that speaks HTTP, MCP or A2A as a client, inside functions too."""
    speaking = (
        "httpx",
        "httpx2",
        "urllib3",
        "requests",
        "aiohttp",
        "http.client",
        "urllib.request",
        "smtplib",
        "ftplib",
    )
    return {
        name_of(path).removeprefix("sdcard/")
        for path in files("sdcard")
        if any(f"{one}.".startswith(f"{name}.") for one in imported(path) for name in speaking)
    }


def test_every_module_that_can_send_is_tried_here() -> None:
    assert http_modules() == set(WITH_HTTP_CLIENTS)
    assert set(WITH_HTTP_CLIENTS.values()) <= set(CLIENTS)
    assert issubclass(InteractionClient, Client)


COMMANDS = {
    "sdcard register": "georoute.json --agent-id g --key a.jwk --context public --out out --registry",
    "sdcard wait": "--registry",
    "sdcard discover": "--text route --registry",
    "sdcard revoke": "georoute --yes --registry",
    "sdcard suspend": "georoute --registry",
    "sdcard reinstate": "georoute --registry",
    "sdcard agents list": "--registry",
    "sdcard agents show": "georoute --registry",
    "sdcard agents domains": "georoute --registry",
    "sdcard agents log-proofs": "georoute --out out --registry",
    "sdcard agents renew": "georoute --key a.jwk --out out --registry",
    "sdcard agents change-keys": "georoute --yes --key a.jwk --out out --registry",
    "sdcard agents delete": "georoute --yes --registry",
    "sdcard mcp": "--trust trust.json --registry",
    "sdcard conformance issuer": "--i-may-test-this --token-file token",
    "sdcard fetch": "--trust trust.json --status --token-file token --network 127.0.0.0/8",
}


def test_no_command_sends_a_token_to_a_hostile_address(
    sdcard: Sdcard, network: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    every = dict(leaves(typer.main.get_command(app), "sdcard"))
    sending = {
        name for name, one in every.items() if {"--registry", "--token-file"} & {o for p in one.params for o in p.opts}
    }
    assert sending == set(COMMANDS)
    monkeypatch.setenv("SDCARD_TOKEN", "a-token")
    assert sdcard("keys", "new", "a.jwk").status == 0
    Path("token").write_text("a-token", encoding="ascii")
    trust = {"issuers": {"https://registry.example": public_jwks(key(1).public_key)}}
    Path("trust.json").write_text(json.dumps(trust), encoding="ascii")
    Path("georoute.json").write_bytes((ROOT / "examples" / "georoute.json").read_bytes())
    for name, rest in COMMANDS.items():
        for url in ("http://registry.example", "http://127.0.0.1@evil.example", "http://localhost.evil.example"):
            ran = sdcard(*name.split()[1:], *rest.split(), url)

            assert network == [], (name, url)
            said = " ".join((ran.out + ran.err).split())
            assert (ran.status, "https" in said) == (2, True), (name, url, ran)
