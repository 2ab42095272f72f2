"""A script for a2a-sdk 0.3.26: its client presents to an agent of 1.x, and to one of its own under our middleware.

It runs in the environment of that SDK; what that lacks of ours comes from the one that runs the tests.
"""

SCRIPT = """
import asyncio, json, socket, sys

question = json.load(sys.stdin)
sys.path += question["paths"]

import httpx, uvicorn
from a2a.client import ClientConfig, ClientFactory
from a2a.client.errors import A2AClientHTTPError
from a2a.server.agent_execution import AgentExecutor
from a2a.server.apps import A2AStarletteApplication
from a2a.server.apps.jsonrpc.jsonrpc_app import DefaultCallContextBuilder
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentSkill, Message, Part, Role, TextPart
from a2a.utils import new_agent_text_message
from cryptography.hazmat.primitives.asymmetric import ec

import sdcard
from sdcard.web.authenticate import SdCardMiddleware
from sdcard.web.clients import Presenter
from sdcard.web.httpx_clients import HttpxSdCardAuth
from sdcard.io.replay_cache import MemoryChallengeRecord
from sdcard.io.system import SystemClock, SystemSalts
from sdcard.http_auth import INTERACTION_HEADER

clock = SystemClock()
signer = sdcard.InMemorySigner(ec.derive_private_key(question["holder"], ec.SECP256R1()))
trusted = sdcard.parse_trusted_issuers(json.dumps(question["trust"]).encode())
held = sdcard.accept_sd_card(question["sd_card"], sdcard.Acceptance(issuers=trusted), signer.public_key, clock.now())


class Builder(DefaultCallContextBuilder):
    def build(self, request):
        context = super().build(request)
        context.state["sd_card"] = request.state.sd_card
        return context


class Greets(AgentExecutor):
    async def execute(self, context, queue):
        caller = context.call_context.state["sd_card"]
        await queue.enqueue_event(new_agent_text_message(f"{caller.subject} in {caller.key_binding.interaction_id}"))

    async def cancel(self, context, queue):
        pass


def card_of(url):
    skill = AgentSkill(id="s", name="S", description="Does it", tags=["t"])
    return AgentCard(name="A", description="An agent", version="1", url=url, skills=[skill], protocol_version="0.3.0",
                     capabilities=AgentCapabilities(), default_input_modes=["text"], default_output_modes=["text"])


async def ask(url, origin, context):
    allowed = sdcard.select_context(held, sdcard.DEFAULT_POLICY, context) if context else None
    auth = None
    if context:
        auth = HttpxSdCardAuth(Presenter(origin=origin, audience=origin, held=held, allowed=allowed, signer=signer,
                                         clock=clock))
    headers = {INTERACTION_HEADER: "trip-42"}
    async with httpx.AsyncClient(auth=auth, headers=headers, trust_env=False) as http:
        client = ClientFactory(ClientConfig(httpx_client=http, streaming=False)).create(card_of(url))
        message = Message(role=Role.user, message_id="m", parts=[Part(root=TextPart(text="Good morning"))])
        try:
            async for answer in client.send_message(message):
                return answer.parts[0].root.text
        except A2AClientHTTPError as error:
            return error.status_code


async def main():
    listening = socket.create_server(("127.0.0.1", 0))
    own = f"http://127.0.0.1:{listening.getsockname()[1]}"
    handler = DefaultRequestHandler(Greets(), InMemoryTaskStore())
    app = A2AStarletteApplication(card_of(own + "/"), handler, context_builder=Builder()).build()
    policy = sdcard.AdmissionPolicy(
        issuers=trusted, formats=frozenset({"a2a/1.0"}),
        requirement=sdcard.Required(sdcard.ClaimRequest.of("endpoints", "provider")))
    guarded = SdCardMiddleware(app, policy=policy, audience=own, challenges=MemoryChallengeRecord(own, SystemSalts()),
                        status=sdcard.Unchecked("a test"), clock=clock)
    server = uvicorn.Server(uvicorn.Config(guarded, log_level="critical", lifespan="off"))
    serving = asyncio.create_task(server.serve([listening]))
    asked = {
        name: [await ask(url, origin, context) for context in (None, "public", "internal")]
        for name, url, origin in (("own", own + "/", own), ("newer", question["url"] + "/rpc", question["url"]))
    }
    server.should_exit = True
    await serving
    print(json.dumps(asked))


asyncio.run(main())
"""
