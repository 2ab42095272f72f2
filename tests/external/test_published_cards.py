"""Published cards over real HTTP: found by the resolvers of three a2a-sdks, read by two other SD-JWT libraries."""

import http.client
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trustme
import uvicorn
from fastapi import FastAPI
from jwcrypto.jwk import JWK
from sd_jwt.verifier import SDJWTVerifier
from starlette.applications import Starlette
from starlette.routing import Mount

from sdcard import Unchecked
from sdcard.encoding import same_json
from sdcard.io.card_fetching import UnprovedCard, fetch_card
from sdcard.io.egress_policy import LOOPBACK
from sdcard.publishing import OwnTokens
from sdcard.web.publish import card_router
from tests.external.a2a_sdks import ask_sdk
from tests.external.node_peers import NodePeer
from tests.sdcard.publishing_agent import AGENT_CARD_JSON, AGENT_JSON, JSON, SD, Agent, ask, plain
from tests.world import NOW, UNASKED, World, example

RESOLVE = """
import asyncio, json, sys, httpx
from a2a.client import A2ACardResolver
from a2a.types import AgentCard

async def resolve(url):
    async with httpx.AsyncClient(trust_env=False) as client:
        return await A2ACardResolver(client, url).get_agent_card()

def read(document):
    if hasattr(AgentCard, "model_validate"):
        return AgentCard.model_validate(document)
    from google.protobuf.json_format import ParseDict
    return ParseDict(document, AgentCard())

url, document = json.load(sys.stdin)
try:
    card = asyncio.run(resolve(url))
    print(json.dumps([card.name, card == read(document)]))
except Exception as error:  # each SDK refuses in its own way; what it says is looked at
    print(json.dumps(str(error)))
"""
"""An address and a card → its name there, and whether the SDK reads the same card of the document; or what it says."""


def frameworks(agent: Agent) -> dict[str, Any]:
    fast = FastAPI()
    fast.include_router(card_router(agent.app))
    return {"bare": agent.app, "fastapi": fast, "starlette": Starlette(routes=[Mount("/", agent.app)])}


@contextmanager
def served(app: Any, **options: Any) -> Iterator[str]:
    """An address on loopback, for as long as the block lasts."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, access_log=False, **options)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        deadline = time.monotonic() + 30
        while not server.started:
            assert thread.is_alive()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"{'https' if options else 'http'}://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(timeout=30)
        assert not thread.is_alive()


def get(url: str, **headers: str) -> httpx2.Response:
    return httpx2.get(url, headers={name.replace("_", "-"): value for name, value in headers.items()}, trust_env=False)


@pytest.fixture
def agent(world: World) -> Agent:
    agent = Agent(world)
    agent.replace(plain=plain())
    return agent


@pytest.mark.parametrize("name", ["bare", "fastapi", "starlette"])
def test_each_framework_serves_what_the_application_answers(agent: Agent, name: str) -> None:
    with served(frameworks(agent)[name]) as url:
        for path in (AGENT_JSON, AGENT_CARD_JSON):
            for accept in (SD, JSON, "*/*", "text/html"):
                expected, got = ask(agent.app, path, accept), get(url + path, accept=accept)
                assert (got.status_code, got.content) == (expected.status, expected.body)
                assert {each: got.headers[each] for each in expected.headers} == expected.headers

        known = get(url + AGENT_JSON, accept=SD).headers["etag"]
        again = get(url + AGENT_JSON, accept=SD, if_none_match=known)
        assert (again.status_code, again.content) == (304, b"")
        head = httpx2.head(url + AGENT_JSON, headers={"accept": SD}, trust_env=False)
        assert (head.status_code, head.content) == (200, b"")
        assert int(head.headers["content-length"]) > 0
        assert get(url + "/elsewhere").status_code == 404


def test_cards_are_replaced_while_they_are_fetched(agent: Agent) -> None:
    values = [agent.cards(plain=plain()) for _ in range(8)]
    agent.app.replace(values[0])
    stop = threading.Event()

    def turn() -> None:
        while not stop.is_set():
            for one in values:
                agent.app.replace(one)

    turning = threading.Thread(target=turn)
    with served(agent.app) as url, httpx2.Client(trust_env=False) as client:
        turning.start()
        try:
            answers = [client.get(url + AGENT_JSON, headers={"accept": SD}) for _ in range(200)]
        finally:
            stop.set()
            turning.join()

    seen = {(got.status_code, got.headers["etag"], got.json()["agent_card"]) for got in answers}
    assert {text for _, _, text in seen} <= {one.contexts["public"].sd_card for one in values}
    assert {status for status, _, _ in seen} == {200}
    assert len({tag for _, tag, _ in seen}) == len(seen) > 1


def test_forged_hosts_and_targets_change_nothing_on_the_wire(agent: Agent) -> None:
    with served(agent.app) as url:
        expected = get(url + AGENT_JSON, accept=SD).content
        for target in (AGENT_JSON, f"http://canary.example{AGENT_JSON}"):
            connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=10)
            connection.putrequest("GET", target, skip_host=True)
            for name, value in (("Host", "canary.example"), ("X-Forwarded-Host", "canary.example"), ("Accept", SD)):
                connection.putheader(name, value)
            connection.endheaders()
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (200, expected)
            assert "canary" not in str(answer.getheaders())
            connection.close()


def test_tls_1_3_is_spoken(agent: Agent, tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(tmp_path / "key")
    for blob in issued.cert_chain_pems:
        blob.write_to_path(tmp_path / "certificate", append=True)

    def at_least_1_3(_: Any, default: Any) -> ssl.SSLContext:
        context: ssl.SSLContext = default()
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return context

    files = {"ssl_keyfile": str(tmp_path / "key"), "ssl_certfile": str(tmp_path / "certificate")}
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    with served(agent.app, ssl_context_factory=at_least_1_3, **files) as url:
        got = httpx2.get(url + AGENT_JSON, headers={"accept": SD}, verify=trusting, trust_env=False)
        assert got.content == ask(agent.app).body

        older = ssl.create_default_context()
        authority.configure_trust(older)
        older.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(httpx2.TransportError):
            httpx2.get(url + AGENT_JSON, verify=older, trust_env=False)


@pytest.mark.parametrize(
    ("version", "file"), [("0.2.16", "georoute-0.3.json"), ("0.3.26", "georoute-0.3.json"), ("1.3.0", "georoute.json")]
)
def test_the_resolver_of_a2a_finds_the_plain_card_and_is_told_where_there_is_none(
    world: World, version: str, file: str
) -> None:
    document = example(file)
    agent = Agent(world, document)
    with served(frameworks(agent)["fastapi"]) as url:
        refused = ask_sdk(version, RESOLVE, [url, document])
        agent.replace(plain=plain(file))
        found = ask_sdk(version, RESOLVE, [url, document])

    assert found == [document["name"], True]
    assert "406" in refused


@pytest.mark.parametrize("context", ["public", "internal", "diagnostic"])
def test_other_sd_jwt_libraries_read_what_is_published(world: World, node: NodePeer, context: str) -> None:
    agent = Agent(world)
    text, kept = agent.token(context)
    agent.replace([context], tokens=OwnTokens([kept]))
    with served(frameworks(agent)["fastapi"]) as url:
        answer = get(url + AGENT_JSON, accept=SD, authorization=f"Bearer {text}")
    sd_jwt = answer.json()["agent_card"]

    jwk = world.issuer.signer.public_key.to_jwk()
    theirs = SDJWTVerifier(sd_jwt, lambda _issuer, _header: JWK(**jwk)).get_verified_payload()
    nodes = node.ask("core", "verify", text=sd_jwt, issuer_key=dict(jwk), nonce=None, audience=None, now=NOW)
    assert same_json(theirs, nodes)
    assert same_json(theirs["name"], example()["name"])
    assert ("provider" in theirs, "securitySchemes" in theirs) == (context != "public", context == "diagnostic")


def test_our_own_client_fetches_and_verifies_what_is_published(world: World) -> None:
    agent = Agent(world)
    text, kept = agent.token("internal")
    agent.replace(tokens=OwnTokens([kept]), plain=plain())
    with served(frameworks(agent)["starlette"]) as url:
        seen = [
            fetch_card(
                url, world.issuer.trust, Unchecked("a test"), world.clock.now(), LOOPBACK, token, challenges=UNASKED
            ).card
            for token in (None, text)
        ]

    assert ["provider" in one.card.members for one in seen if isinstance(one, UnprovedCard)] == [False, True]
