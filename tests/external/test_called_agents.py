"""Called agents of a2a-sdk prove themselves: JSON-RPC, REST, streams; callers of 1.3 and 0.3."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from a2a.client.client import ClientCallContext, ClientConfig
from a2a.client.client_factory import ClientFactory
from a2a.client.interceptors import AfterArgs, BeforeArgs
from a2a.helpers import get_message_text
from a2a.server.context import ServerCallContext
from a2a.types import AgentCard, GetExtendedAgentCardRequest, GetTaskRequest, ListTasksRequest
from a2a.utils.errors import A2AError

from sdcard import Misuse, Refused
from sdcard.agent_proof import EXTENSION
from sdcard.cards.detect import read_card
from sdcard.publishing import PublishedCard, PublishedCards
from sdcard.web.a2a_proof import A2A_CHALLENGE_HEADER, AgentProofInterceptor, ProvingHandler
from sdcard.web.authenticate import STATE
from sdcard.web.clients import AgentSession
from sdcard.web.publish import CardApp, Proving
from tests.external.a2a_sdks import ask_sdk
from tests.external.called_a2a import Town, card_of, request
from tests.sdcard.web.called import Late, echoes, prover, session
from tests.served import served
from tests.world import World, example


@pytest.fixture
def town(world: World) -> Any:
    late = Late()
    with served(late) as url:
        made = Town(world, url)
        late.app = made.app
        made.late = late  # type: ignore[attr-defined]
        yield made


@asynccontextmanager
async def calling(
    town: Town, binding: str = "JSONRPC", version: str = "1.0", streaming: bool = True, of: AgentSession | None = None
) -> AsyncIterator[tuple[Any, AgentSession]]:
    """A client of the SDK with our interceptor."""
    of = of or session(town.world, town.url)
    card = card_of(town.url, binding, version)
    async with httpx.AsyncClient(trust_env=False) as http, httpx.AsyncClient(trust_env=False) as first:
        interceptor = AgentProofInterceptor(of, card.supported_interfaces[0].url, first)
        config = ClientConfig(httpx_client=http, streaming=streaming, supported_protocol_bindings=[binding])
        yield ClientFactory(config).create(card, [interceptor]), of


async def said(client: Any, text: str) -> list[str]:
    """Return an agent's answer, event by event."""
    kinds = []
    async for event in client.send_message(request(text)):
        kind = event.WhichOneof("payload")
        kinds.append(get_message_text(event.message) if kind == "message" else kind)
    return kinds


@pytest.mark.parametrize("version", ["1.0", "0.3"])
@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("text", ["say", "work"])
def test_each_binding_carries_the_proof(town: Town, binding: str, version: str, streaming: bool, text: str) -> None:
    async def call() -> tuple[list[str], AgentSession]:
        async with calling(town, binding, version, streaming) as (client, of):
            return await said(client, text), of

    kinds, of = asyncio.run(call())
    if text == "say":
        assert kinds == ["Hello"]
    else:
        assert kinds[0] in {"task", "status_update"}
        assert (len(kinds) > 1) is streaming
    assert of.has_standing()
    assert of.card is not None
    assert of.card.subject == "agent:georoute"


def test_a_task_that_is_fetched_again_has_a_proof_of_its_own(town: Town) -> None:
    async def call() -> tuple[Any, Any]:
        async with calling(town, streaming=False) as (client, _):
            [event] = [one async for one in client.send_message(request("work"))]
            return event.task, await client.get_task(GetTaskRequest(id=event.task.id))

    first, second = asyncio.run(call())
    proofs = [one.metadata[EXTENSION]["proof"] for one in (first, second)]
    assert proofs[0] != proofs[1]


def test_an_operation_without_a_place_for_a_proof_is_refused_before_it_is_sent(town: Town) -> None:
    async def call() -> None:
        async with calling(town) as (client, _):
            await client.list_tasks(ListTasksRequest())

    with pytest.raises(Refused) as caught:
        asyncio.run(call())
    assert str(caught.value.rule) == "agent-proof.missing"


# -- attacks ----------------------------------------------------------------------------------------------------------


def change_headers(app: Any, name: str, value: str | None) -> Any:
    """A proxy that drops a header of requests, or puts another value there."""

    async def changed(scope: Any, receive: Any, send: Any) -> None:
        headers = [(k, v) for k, v in scope["headers"] if k.lower() != name.lower().encode()]
        if value is not None:
            headers.append((name.lower().encode(), value.encode()))
        await app({**scope, "headers": headers}, receive, send)

    return changed


def refusal(town: Town, text: str = "work", **options: Any) -> str:
    async def call() -> None:
        async with calling(town, **options) as (client, _):
            await said(client, text)

    with pytest.raises((Refused, A2AError)) as caught:
        asyncio.run(call())
    return str(caught.value)


@pytest.mark.parametrize("streaming", [True, False])
def test_a_stripped_extension_or_challenge_is_refused(town: Any, streaming: bool) -> None:
    for name in ("A2A-Extensions", A2A_CHALLENGE_HEADER):
        town.late.app = change_headers(town.app, name, None)
        assert refusal(town, streaming=streaming).startswith("agent-proof.missing")


def test_a_host_with_a_copied_card_gets_no_task(town: Any) -> None:
    copies = {
        name: PublishedCard(one.sd_card, one.family, one.expires_at, None) for name, one in town.cards.contexts.items()
    }
    reached: list[str] = []

    async def thief(scope: Any, receive: Any, send: Any) -> None:
        reached.append(scope["method"])
        await CardApp(PublishedCards(copies), town.world.clock)(scope, receive, send)

    town.late.app = thief
    assert refusal(town).startswith("agent-proof.missing")
    assert reached == ["GET"]


def test_a_relay_gets_no_signature_for_another_origin(world: World) -> None:
    late = Late()
    with served(late) as url:
        town = Town(world, url, "https://agent.example")
        late.app = town.app
        assert refusal(town).startswith("agent-proof.missing")

        async def straight_to_the_task() -> None:
            """A client that skips the first contact, so that the task's own challenge is what the agent refuses."""
            of = session(world, url)
            of._proved_at = world.clock.now()
            async with calling(town, of=of) as (client, _):
                await said(client, "work")

        with pytest.raises(A2AError, match=r"agent-proof\.target"):
            asyncio.run(straight_to_the_task())


def test_a_proof_for_one_operation_or_interface_is_not_made_for_another(town: Any) -> None:
    of = session(town.world, town.url)
    for operation, url in (
        ("GetTask", f"{town.url}/rpc"),
        ("SendMessage", f"{town.url}/other"),
        ("POST", f"{town.url}/rpc"),
    ):
        _, value = of.challenge(operation, url)
        town.late.app = change_headers(town.app, A2A_CHALLENGE_HEADER, value)
        assert "agent-proof.target" in refusal(town, streaming=False)
    town.late.app = change_headers(
        town.app, A2A_CHALLENGE_HEADER, 'SD-Card nonce="n", audience="https://client.example"'
    )
    assert "kb.purpose" in refusal(town, streaming=False)


def test_an_old_proof_is_refused(town: Any) -> None:
    bodies: list[bytes] = []

    async def replaying(scope: Any, receive: Any, send: Any) -> None:
        async def keep(message: Any) -> None:
            if message["type"] == "http.response.body" and scope["path"] == "/rpc":
                bodies.append(message["body"])
                answer, first = json.loads(message["body"]), json.loads(bodies[0])
                answer["result"] = first["result"]
                body = json.dumps(answer, separators=(",", ":")).encode()
                message = {**message, "body": body.ljust(len(message["body"]))[: len(message["body"])]}
            await send(message)

        await town.app(scope, receive, keep)

    town.late.app = replaying

    async def twice() -> None:
        async with calling(town, streaming=False) as (client, _):
            assert await said(client, "say") == ["Hello"]
            await said(client, "say")

    with pytest.raises(Refused) as caught:
        asyncio.run(twice())
    assert str(caught.value.rule) == "kb.nonce-mismatch"


# -- unchanged clients ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
def test_an_unchanged_client_notices_nothing(town: Town, binding: str) -> None:
    async def call() -> tuple[Any, Any]:
        card = card_of(town.url, binding)
        async with httpx.AsyncClient(trust_env=False) as http:
            config = ClientConfig(httpx_client=http, streaming=False, supported_protocol_bindings=[binding])
            client = ClientFactory(config).create(card)
            [event] = [one async for one in client.send_message(request("work"))]
            return event, await client.list_tasks(ListTasksRequest())

    event, listed = asyncio.run(call())
    assert EXTENSION not in event.task.metadata
    assert [EXTENSION in one.metadata for one in listed.tasks] == [False]


SCRIPT_0_3 = """
import asyncio, json, sys
import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import Message, Part, Role, TextPart

question = json.load(sys.stdin)

async def main():
    async with httpx.AsyncClient(trust_env=False) as http:
        from a2a.types import AgentCapabilities, AgentCard, AgentSkill
        skill = AgentSkill(id="s", name="S", description="Does it", tags=["t"])
        card = AgentCard(name="A", description="An agent", version="1", url=question["url"] + "/rpc", skills=[skill],
                         protocol_version="0.3.0", capabilities=AgentCapabilities(streaming=False),
                         supports_authenticated_extended_card=True,
                         default_input_modes=["text"], default_output_modes=["text"])
        client = ClientFactory(ClientConfig(httpx_client=http, streaming=False)).create(card)
        message = Message(role=Role.user, message_id="m", parts=[Part(root=TextPart(text="say"))])
        said = [one.parts[0].root.text async for one in client.send_message(message)]
    async with httpx.AsyncClient(trust_env=False, headers=question["headers"]) as http:
        client = ClientFactory(ClientConfig(httpx_client=http, streaming=False)).create(card)
        extended = await client.get_card()
        shown = {"provider": extended.provider is not None, "schemes": bool(extended.security_schemes)}
        print(json.dumps({"said": said, **shown}))

asyncio.run(main())
"""


def test_an_unchanged_client_of_0_3_is_answered_and_gets_the_card_of_its_context(town: Town) -> None:
    authorized = ask_sdk("0.3.26", SCRIPT_0_3, {"url": town.url, "headers": {"Authorization": f"Bearer {town.token}"}})
    assert authorized == {"said": ["Hello"], "provider": True, "schemes": True}


# -- the extended card ------------------------------------------------------------------------------------------------


def extended(town: Town, headers: dict[str, str], make: Callable[..., Any] | None = None) -> AgentCard:
    async def call() -> AgentCard:
        card = card_of(town.url, "JSONRPC")
        async with httpx.AsyncClient(trust_env=False, headers=headers) as http, httpx.AsyncClient() as first:
            of = session(town.world, town.url)
            interceptors: list[Any] = [AgentProofInterceptor(of, f"{town.url}/rpc", first)] if make else []
            client = ClientFactory(ClientConfig(httpx_client=http, streaming=False)).create(card, interceptors)
            return await client.get_extended_agent_card(GetExtendedAgentCardRequest())

    return asyncio.run(call())


def test_an_unchanged_client_gets_the_card_of_its_context(town: Town) -> None:
    card = extended(town, {"Authorization": f"Bearer {town.token}"})
    assert card.provider.organization == "Example Geo Services"
    assert card.security_schemes
    assert not any(one.uri == EXTENSION for one in card.capabilities.extensions)
    with pytest.raises(A2AError, match="no whole card"):
        extended(town, {})
    with pytest.raises(A2AError, match=r"token\.invalid"):
        extended(town, {"Authorization": "Bearer wrong"})


def test_a_client_with_the_extension_gets_the_sd_form_with_a_proof(town: Town) -> None:
    card = extended(town, {"Authorization": f"Bearer {town.token}"}, AgentProofInterceptor)
    [found] = [one for one in card.capabilities.extensions if one.uri == EXTENSION]
    text = str(found.params["sd_card"])
    held = town.cards.contexts["full"].sd_card
    assert text.startswith(held)
    assert not text.endswith("~")
    assert read_card(example()).format.name == "a2a/1.0"


@pytest.mark.parametrize("service", [None, "https://service.example"])
def test_an_extended_card_through_a_service_is_the_public_one(world: World, service: str | None) -> None:
    town = Town(world, "https://agent.example", services=frozenset({"https://service.example"}))
    of = session(world, town.url, service=service)
    _, value = of.challenge("GetExtendedAgentCard", f"{service or town.url}/rpc")
    callers: list[tuple[dict[str, Any], dict[str, str]]] = [
        ({STATE: world.show(world.issuer.issue("public").sd_jwt)}, {}),
        ({}, {"authorization": f"Bearer {town.token}"}),
    ]
    for state, headers in callers:
        known = {**state, "headers": {A2A_CHALLENGE_HEADER: value, **headers}}
        context = ServerCallContext(state=known, requested_extensions={EXTENSION})
        asked = town.handler.on_get_extended_agent_card(None, context)
        if service is None:
            assert asyncio.run(asked).provider.organization == "Example Geo Services"
        else:
            with pytest.raises(A2AError, match="no whole card"):
                asyncio.run(asked)


def test_a_prover_that_shows_nothing_is_misuse_at_once(world: World) -> None:
    silent = prover(world, "https://a.example", shown=None)
    with pytest.raises(Misuse):
        ProvingHandler(None, silent, ["https://a.example/rpc"], world.clock)  # type: ignore[arg-type]
    with pytest.raises(Misuse):
        Proving(echoes, prover=silent, clock=world.clock)


def test_interfaces_elsewhere_are_misuse(world: World) -> None:
    with pytest.raises(Misuse):
        ProvingHandler(None, prover(world, "https://a.example"), ["https://b.example/rpc"], world.clock)  # type: ignore[arg-type]


def test_the_interaction_is_part_of_the_challenge(town: Town) -> None:
    async def call() -> Any:
        of = session(town.world, town.url)
        of._proved_at = town.world.clock.now()
        args = BeforeArgs(
            input=None,
            method="send_message",
            agent_card=card_of(town.url, "JSONRPC"),
            context=ClientCallContext(service_parameters={"SD-Card-Interaction": "trip-1", "a": "b"}),
        )
        await AgentProofInterceptor(of, f"{town.url}/rpc", httpx.AsyncClient()).before(args)
        return args.context

    context = asyncio.run(call())
    assert context.service_parameters["a"] == "b"
    assert 'interaction_id="trip-1"' in context.service_parameters[A2A_CHALLENGE_HEADER]
    assert context.service_parameters["A2A-Extensions"] == EXTENSION


def test_a_context_that_another_interceptor_replaced_is_refused(town: Town) -> None:
    interceptor = AgentProofInterceptor(session(town.world, town.url), f"{town.url}/rpc", httpx.AsyncClient())
    for context in (None, ClientCallContext()):
        args = AfterArgs(result=None, method="send_message", agent_card=card_of(town.url, "JSONRPC"), context=context)
        with pytest.raises(Refused) as caught:
            asyncio.run(interceptor.after(args))
        assert str(caught.value.rule) == "agent-proof.missing"
