"""``fetch_card`` against servers of the a2a-sdk, whose answers are relayed byte for byte."""

import base64
import json
import socket
from dataclasses import replace

import pytest

from sdcard import Card, TrustedIssuers, Unchecked
from sdcard.io.card_fetching import fetch_card
from sdcard.io.egress_policy import LOOPBACK
from tests.external.a2a_sdks import ask_sdk
from tests.sdcard.io.fetchers import serving
from tests.shared import ROOT
from tests.world import NOW, UNASKED

ANSWER = """
import asyncio, base64, json, sys

asked = json.load(sys.stdin)
BUILD

async def main():
    sent = []
    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}
    async def send(message):
        sent.append(message)
    headers = [(name.lower().encode(), value.encode()) for name, value in asked["headers"]]
    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
             "path": asked["path"], "raw_path": asked["path"].encode(), "query_string": b"", "root_path": "",
             "headers": headers, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80)}
    await app(scope, receive, send)
    body = b"".join(message.get("body", b"") for message in sent[1:])
    lines = [(name.decode(), value.decode()) for name, value in sent[0]["headers"]]
    print(json.dumps({"status": sent[0]["status"], "headers": lines, "body": base64.b64encode(body).decode()}))

asyncio.run(main())
"""
BUILDS = {
    "1.3.0": (
        "georoute.json",
        "from google.protobuf.json_format import ParseDict\n"
        "from starlette.applications import Starlette\n"
        "from a2a.server.routes import create_agent_card_routes\n"
        "from a2a.types import AgentCard\n"
        "app = Starlette(routes=create_agent_card_routes(ParseDict(asked['card'], AgentCard())))\n",
    ),
    "0.3.26": (
        "georoute-0.3.json",
        "from a2a.server.apps import A2AStarletteApplication\n"
        "from a2a.types import AgentCard\n"
        "app = A2AStarletteApplication(AgentCard(**asked['card']), None).build()\n",
    ),
}


@pytest.mark.parametrize("version", BUILDS)
def test_a_card_of_a_server_of_the_sdk_is_found_and_nobody_vouches_for_it(version: str) -> None:
    file, build = BUILDS[version]
    card = json.loads((ROOT / "examples" / file).read_text(encoding="utf-8"))

    def answer(client: socket.socket) -> None:
        first, *lines = server.requests[-1].decode().split("\r\n\r\n")[0].split("\r\n")
        headers = [line.split(": ", 1) for line in lines]
        question = {"card": card, "path": first.split(" ")[1], "headers": headers}
        said = ask_sdk(version, ANSWER.replace("BUILD", build), question)
        head = [f"HTTP/1.1 {said['status']} x", *(f"{name}: {value}" for name, value in said["headers"])]
        client.sendall("\r\n".join([*head, "", ""]).encode() + base64.b64decode(said["body"]))

    patient = replace(LOOPBACK, seconds=60)  # a process with the SDK begins while the client waits
    with serving(answer) as server:
        found = fetch_card(server.url(), TrustedIssuers({}), Unchecked("a test"), NOW, patient, challenges=UNASKED)
    assert found.url.endswith("/.well-known/agent-card.json")
    assert isinstance(found.card, Card)
    assert found.card.document["name"] == card["name"]
    assert found.findings[0].rule.value == "fetched.unsigned"
