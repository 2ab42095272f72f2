"""An agent of a2a-sdk that proves itself: what the tests of the extension and of attacks share."""

from typing import Any

from a2a.helpers import new_text_message
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes.jsonrpc_routes import create_jsonrpc_routes
from a2a.server.routes.rest_routes import create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Role, SendMessageRequest, TaskState
from starlette.applications import Starlette
from starlette.routing import Route

from sdcard import select_all
from sdcard.agent_proof import ShownCard
from sdcard.encoding import encode_json
from sdcard.publishing import PATHS, OwnTokens, PlainCard, PublishedCard, PublishedCards, new_card_token
from sdcard.web.a2a_proof import ProvingHandler, agent_proof_extension
from sdcard.web.publish import CardApp
from tests.sdcard.web.called import prover
from tests.world import World, example


class Works(AgentExecutor):
    """Makes a task in two steps; answers `say` with a message."""

    async def execute(self, context: Any, event_queue: Any) -> None:
        text = context.get_user_input()
        if text == "say":
            await event_queue.enqueue_event(new_text_message("Hello", role=Role.ROLE_AGENT))
            return
        from a2a.helpers import new_task_from_user_message

        task = context.current_task or new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.update_status(TaskState.TASK_STATE_WORKING)
        await updater.complete(new_text_message("Done", role=Role.ROLE_AGENT))

    async def cancel(self, context: Any, event_queue: Any) -> None:
        raise NotImplementedError


def card_of(url: str, binding: str, version: str = "1.0") -> AgentCard:
    path = {"JSONRPC": "/rpc", "HTTP+JSON": ""}[binding]
    return AgentCard(
        name="GeoRoute",
        description="An agent",
        version="1.0.0",
        supported_interfaces=[AgentInterface(url=url + path, protocol_binding=binding, protocol_version=version)],
        capabilities=AgentCapabilities(streaming=True, extended_agent_card=True, extensions=[agent_proof_extension()]),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="s", name="S", description="Does it", tags=["t"])],
    )


class Town:
    """An agent of a2a-sdk on a socket, and what its clients need."""

    def __init__(self, world: World, url: str, prover_origin: str | None = None, **changes: Any) -> None:
        self.world, self.url = world, url
        origin = prover_origin or url
        self.prover = proves = prover(world, origin, **changes)
        document = example()
        older = {"url": f"{url}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"}
        document["supportedInterfaces"] += [older]  # type: ignore[operator, list-item]
        held = {name: world.holder.accept(world.issuer.issue(name, document)) for name in ("public", "full")}
        shown = {name: ShownCard(one, select_all(one), world.holder.signer) for name, one in held.items()}
        self.token, kept = new_card_token("full", world.clock.now() + 600, world.salts)
        self.cards = PublishedCards(
            {name: PublishedCard.proved(one) for name, one in shown.items()},
            plain=PlainCard.of(encode_json(example())),
            tokens=OwnTokens([kept]),
        )
        card = card_of(url, "JSONRPC")
        inner = DefaultRequestHandler(Works(), InMemoryTaskStore(), card, extended_agent_card=card)
        urls = [f"{origin}/rpc", origin]
        self.handler = ProvingHandler(inner, proves, urls, world.clock, lambda: self.cards)
        rest = create_rest_routes(self.handler, enable_v0_3_compat=True)
        rpc = create_jsonrpc_routes(self.handler, "/rpc", enable_v0_3_compat=True)
        at = CardApp(self.cards, world.clock, proves)
        self.app = Starlette(routes=[*(Route(path, at) for path in PATHS), *rpc, *rest])


def request(text: str) -> SendMessageRequest:
    return SendMessageRequest(message=new_text_message(text, role=Role.ROLE_USER))
