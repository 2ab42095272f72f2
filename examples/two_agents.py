"""Run two agents of a2a-sdk on this machine.

The second agent answers only agents that show `endpoints` and `provider`.

Run it with `uv run python examples/two_agents.py`. The first agent gets a question and asks the second agent three
times: without its SD-Card, with the claims of *public*, and with the claims for partners. All requests are over
loopback; on other networks, only `https://` is different.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import uvicorn
from a2a.client.card_resolver import A2ACardResolver
from a2a.client.client import ClientConfig
from a2a.client.client_factory import ClientFactory
from a2a.client.errors import A2AClientError
from a2a.client.interceptors import ClientCallInterceptor
from a2a.helpers import get_message_text, new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes.agent_card_routes import create_agent_card_routes
from a2a.server.routes.common import ServerCallContextBuilder
from a2a.server.routes.jsonrpc_routes import create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Role, SendMessageRequest
from cryptography.hazmat.primitives.asymmetric import ec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount

import sdcard
from sdcard.io.replay_cache import MemoryChallengeRecord
from sdcard.io.system import SystemClock, SystemSalts
from sdcard.web.a2a import SdCardContextBuilder, SdCardInterceptor, presentation_extension
from sdcard.web.authenticate import SdCardMiddleware
from sdcard.web.clients import Presenter
from sdcard.web.httpx_clients import HttpxSdCardAuth

REGISTRY = "https://registry.example"
GEOROUTE = Path(__file__).with_name("georoute.json")
CLOCK, SALTS = SystemClock(), SystemSalts()


class SecondAgent(AgentExecutor):
    """Greets an agent with a verified card of a trusted registry."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Say who called, and in which interaction."""
        caller = context.call_context.state["sd_card"]
        interaction = caller.key_binding.interaction_id
        organization = caller.members["provider"]["organization"]
        urls = [interface["url"] for interface in caller.members["supportedInterfaces"]]
        text = f"Hello {caller.subject} of {organization} at {urls[0]}, in {interaction}. I was shown nothing else."
        assert caller.members.keys() <= {"name", "description", "version", "provider", "supportedInterfaces"}
        await event_queue.enqueue_event(new_text_message(text, role=Role.ROLE_AGENT))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """There is nothing to cancel."""


class FirstAgent(AgentExecutor):
    """Has an SD-Card, and asks the second agent in three ways."""

    def __init__(self, held: sdcard.HeldSdCard, signer: sdcard.Signer, second: str) -> None:
        self._held, self._signer, self._second = held, signer, second

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Ask, and say what came of it."""
        lines = [
            f"without a card: {await self._ask(None)}",
            f"the public part: {await self._ask('public')}",
            f"the internal part: {await self._ask('internal')}",
        ]
        await event_queue.enqueue_event(new_text_message("\n".join(lines), role=Role.ROLE_AGENT))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """There is nothing to cancel."""

    async def _ask(self, context: str | None) -> str:
        auth = None if context is None else HttpxSdCardAuth(self._presenter(context))
        async with httpx.AsyncClient(auth=auth, trust_env=False) as http:
            card = await A2ACardResolver(http, self._second).get_agent_card()
            return await ask(card, http, SdCardInterceptor("trip-42"))

    def _presenter(self, context: str) -> Presenter:
        """Return a presenter for the second agent, with the first one's limit."""
        return Presenter(
            origin=self._second,
            audience=self._second,
            held=self._held,
            allowed=sdcard.select_context(self._held, sdcard.DEFAULT_POLICY, context),
            signer=self._signer,
            clock=CLOCK,
            report=lambda answered: print("asked for more than that:", *answered.withheld),
        )


async def ask(card: AgentCard, http: httpx.AsyncClient, *interceptors: ClientCallInterceptor) -> str:
    """Return an agent's response, or the reason of its refusal."""
    client = ClientFactory(ClientConfig(httpx_client=http, streaming=True)).create(card, list(interceptors))
    message = new_text_message("Good morning", role=Role.ROLE_USER)
    try:
        async for response in client.send_message(SendMessageRequest(message=message)):
            return get_message_text(response.message)
    except A2AClientError as error:
        refused = error.__cause__
        if isinstance(refused, httpx.HTTPStatusError):
            findings = refused.response.json()["findings"]
            return f"{refused.response.status_code} " + ", ".join(f"{f['rule']} at {f['where']}" for f in findings)
        raise
    raise AssertionError("an agent answers")


def agent_card(name: str, address: str) -> AgentCard:
    """The least that a2a-sdk wants to know."""
    return AgentCard(
        name=name,
        description="An agent of the example",
        version="1.0.0",
        supported_interfaces=[AgentInterface(url=f"{address}/rpc", protocol_binding="JSONRPC", protocol_version="1.0")],
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="greet", name="Greet", description="Greets", tags=["greeting"])],
    )


def agent_app(
    card: AgentCard, executor: AgentExecutor, builder: ServerCallContextBuilder | None, *demands: Middleware
) -> Starlette:
    """Make an agent with a public card.

    The caller chooses what stands before its endpoint.
    """
    handler = DefaultRequestHandler(executor, InMemoryTaskStore(), card)
    rpc = create_jsonrpc_routes(handler, "/rpc", builder)
    return Starlette(routes=[*create_agent_card_routes(card), Mount("/", routes=rpc, middleware=list(demands))])


@contextlib.asynccontextmanager
async def serving(app: Starlette, listening: socket.socket) -> AsyncIterator[None]:
    """The app on a socket, for as long as the block lasts."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
    task = asyncio.create_task(server.serve([listening]))
    try:
        yield
    finally:
        server.should_exit = True
        await task


def first_sd_card() -> tuple[sdcard.HeldSdCard, sdcard.Signer, sdcard.TrustedIssuers]:
    """Make the SD-Card that a registry would issue to the first agent; see the README."""
    registry = sdcard.InMemorySigner(ec.generate_private_key(ec.SECP256R1()))
    agent = sdcard.InMemorySigner(ec.generate_private_key(ec.SECP256R1()))
    trusted = sdcard.TrustedIssuers.of(REGISTRY, registry.public_key)
    issued = sdcard.issue_sd_card(
        sdcard.Issuer(REGISTRY, registry.public_key),
        sdcard.plan_disclosure(sdcard.parse_card(GEOROUTE.read_bytes()), sdcard.DEFAULT_POLICY, "diagnostic"),
        registry,
        agent_id="georoute",
        holder_key=agent.public_key,
        validity=sdcard.rounded_validity(CLOCK.now()),
        salts=SALTS,
    )
    acceptance = sdcard.Acceptance(issuers=trusted)
    return sdcard.accept_sd_card(str(issued), acceptance, agent.public_key, CLOCK.now()), agent, trusted


async def main() -> None:
    """Start both agents and ask the first one."""
    held, signer, trusted = first_sd_card()
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    first_at, second_at = (f"http://127.0.0.1:{one.getsockname()[1]}" for one in sockets)

    second = agent_card("Second", second_at)
    second.capabilities.extensions.append(presentation_extension(second_at))
    demanding = Middleware(
        SdCardMiddleware,
        policy=sdcard.AdmissionPolicy(
            issuers=trusted,
            formats=frozenset({"a2a/1.0"}),
            requirement=sdcard.Required(sdcard.ClaimRequest.of("endpoints", "provider")),
        ),
        audience=second_at,
        challenges=MemoryChallengeRecord(second_at, SALTS),
        status=sdcard.Unchecked("the example issues no status list"),
        clock=CLOCK,
    )
    first = agent_card("First", first_at)
    async with (
        serving(agent_app(first, FirstAgent(held, signer, second_at), None), sockets[0]),
        serving(agent_app(second, SecondAgent(), SdCardContextBuilder(), demanding), sockets[1]),
        httpx.AsyncClient(trust_env=False) as http,
    ):
        print(await ask(first, http))


if __name__ == "__main__":
    asyncio.run(main())
