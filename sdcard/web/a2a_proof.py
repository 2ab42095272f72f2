"""Proof by the called agent, for a2a-sdk 1.x: JSON-RPC, REST and streams.

It is an extension of A2A: the agent declares it in its card, a client asks for it in ``A2A-Extensions`` and puts its
challenge into ``A2A-SD-Card-Challenge``, and the agent answers in the ``metadata`` of the task, message or first event.
The target is the interface's origin and path, with the name of the A2A operation as its method. Clients without the
extension notice nothing. a2a-sdk serves callers of A2A 0.3 through the same handler.
"""

from asyncio import to_thread
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, TypeVar

import httpx
from a2a.client.card_resolver import parse_agent_card
from a2a.client.client import ClientCallContext
from a2a.client.interceptors import AfterArgs, BeforeArgs, ClientCallInterceptor
from a2a.client.service_parameters import ServiceParametersFactory, with_a2a_extensions
from a2a.extensions.common import find_extension_by_uri
from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.types import AgentCard, AgentExtension
from a2a.utils.errors import ExtendedAgentCardNotConfiguredError, InvalidRequestError

from sdcard.agent_proof import EXTENSION, AgentProver
from sdcard.encoding import parse_json_object
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.http_auth import (
    CHALLENGE_HEADER,
    INTERACTION_HEADER,
    ReceivedChallenge,
    check_interaction,
    parse_agent_challenge,
)
from sdcard.instants import Clock, Instant
from sdcard.key_binding import Challenge
from sdcard.limits import DEFAULT_LIMITS
from sdcard.policy.context import PUBLIC
from sdcard.publishing import PATHS, SD_MEDIA_TYPE, PublishedCard, PublishedCards
from sdcard.rules import Rule
from sdcard.urls import canonical_origin
from sdcard.verifier import VerifiedCard
from sdcard.web.authenticate import STATE
from sdcard.web.clients import AgentSession, explained, may_explain
from sdcard.web.publish import token_context

A2A_CHALLENGE_HEADER = "A2A-SD-Card-Challenge"
OPERATIONS = {
    "send_message": "SendMessage",
    "send_message_streaming": "SendStreamingMessage",
    "get_task": "GetTask",
    "cancel_task": "CancelTask",
    "subscribe": "SubscribeToTask",
    "get_extended_agent_card": "GetExtendedAgentCard",
}
"""Methods of the SDK's client → A2A operations whose responses can carry a proof."""
_STATE = "sd_card_proof"
_MOST = DEFAULT_LIMITS.presentation_bytes
T = TypeVar("T")


def agent_proof_extension() -> AgentExtension:
    """Build the ``capabilities.extensions`` entry of an agent that proves itself."""
    return AgentExtension(uri=EXTENSION, description="Answers challenges with an SD-Card and key binding.")


# -- the agent --------------------------------------------------------------------------------------------------------


class ProvingHandler(RequestHandler):
    """A request handler that answers challenges, around the agent's own handler.

    ``GetExtendedAgentCard`` gives the card of the caller's context: of a verified card that ``SdCardContextBuilder``
    found, of a bearer token for a context, or else the public one.

    Args:
        handler: the agent's own.
        prover: decides and signs.
        interfaces: URLs of the agent's interfaces, as its card has them.
        cards: what is published at the moment, for callers with a bearer token, or without any.
    """

    def __init__(
        self,
        handler: RequestHandler,
        prover: AgentProver,
        interfaces: Sequence[str],
        clock: Clock,
        cards: Callable[[], PublishedCards] | None = None,
    ) -> None:
        prover.check_shows()
        self._handler, self._prover, self._clock, self._cards = handler, prover, clock, cards
        if any(canonical_origin(url) != prover.origin for url in interfaces):
            raise Misuse("the interfaces are at the origin of the prover")
        self._paths = [url[len(prover.origin) :] or "/" for url in interfaces]

    def _received(self, operation: str, context: ServerCallContext) -> ReceivedChallenge | None:
        """Read and check the challenge of a call, before anything else is done.

        Raises:
            InvalidRequestError: naming the rule, for a challenge that must not be answered.
        """
        headers = _headers(context)
        value, interaction = headers.get(A2A_CHALLENGE_HEADER.lower()), headers.get(INTERACTION_HEADER.lower())
        if value is None or EXTENSION not in context.requested_extensions:
            return None
        try:
            received = parse_agent_challenge([value])
            self._prover.check(received, self._requests(operation))
            check_interaction(received, [] if interaction is None else [interaction])
        except Refused as refusal:
            raise _as_error(refusal) from None
        return received

    def _requests(self, operation: str) -> list[tuple[str, str]]:
        return [(operation, path) for path in self._paths]

    async def _prove(self, operation: str, received: ReceivedChallenge, context: ServerCallContext) -> str:
        caller, now = context.state.get(STATE), self._clock.now()
        try:
            return await to_thread(self._prover.prove, received, self._requests(operation), caller, now)
        except Refused as refusal:
            raise _as_error(refusal) from None

    async def _proved(self, operation: str, result: T, received: ReceivedChallenge | None, context: Any) -> T:
        """Return a copy of the result with the proof.

        The SDK may have stored the result itself.
        """
        if received is None or result is None:
            return result
        copy: Any = type(result)()
        copy.CopyFrom(result)
        copy.metadata.update({EXTENSION: {"proof": await self._prove(operation, received, context)}})
        proved: T = copy
        return proved

    async def on_message_send(self, params: Any, context: ServerCallContext) -> Any:
        """Send a message."""
        received = self._received("SendMessage", context)
        result = await self._handler.on_message_send(params, context)
        return await self._proved("SendMessage", result, received, context)

    async def on_get_task(self, params: Any, context: ServerCallContext) -> Any:
        """Get a task."""
        received = self._received("GetTask", context)
        return await self._proved("GetTask", await self._handler.on_get_task(params, context), received, context)

    async def on_cancel_task(self, params: Any, context: ServerCallContext) -> Any:
        """Cancel a task."""
        received = self._received("CancelTask", context)
        return await self._proved("CancelTask", await self._handler.on_cancel_task(params, context), received, context)

    async def on_message_send_stream(self, params: Any, context: ServerCallContext) -> AsyncGenerator[Any, None]:
        """Send a message; the first event carries the proof."""
        received = self._received("SendStreamingMessage", context)
        async for event in self._handler.on_message_send_stream(params, context):
            yield await self._proved("SendStreamingMessage", event, received, context)
            received = None

    async def on_subscribe_to_task(self, params: Any, context: ServerCallContext) -> AsyncGenerator[Any, None]:
        """Subscribe to a task; the first event carries the proof."""
        received = self._received("SubscribeToTask", context)
        async for event in self._handler.on_subscribe_to_task(params, context):
            yield await self._proved("SubscribeToTask", event, received, context)
            received = None

    async def on_list_tasks(self, params: Any, context: ServerCallContext) -> Any:
        """List tasks, as the agent's own handler."""
        return await self._handler.on_list_tasks(params, context)

    async def on_create_task_push_notification_config(self, params: Any, context: ServerCallContext) -> Any:
        """Create a configuration, as the agent's own handler."""
        return await self._handler.on_create_task_push_notification_config(params, context)

    async def on_get_task_push_notification_config(self, params: Any, context: ServerCallContext) -> Any:
        """Get a configuration, as the agent's own handler."""
        return await self._handler.on_get_task_push_notification_config(params, context)

    async def on_list_task_push_notification_configs(self, params: Any, context: ServerCallContext) -> Any:
        """List configurations, as the agent's own handler."""
        return await self._handler.on_list_task_push_notification_configs(params, context)

    async def on_delete_task_push_notification_config(self, params: Any, context: ServerCallContext) -> None:
        """Delete a configuration, as the agent's own handler."""
        await self._handler.on_delete_task_push_notification_config(params, context)

    async def on_get_extended_agent_card(self, params: Any, context: ServerCallContext) -> AgentCard:
        """Give the card of the caller's context.

        Clients that ask for the extension get its SD form too.

        Raises:
            InvalidRequestError: naming the rule, for a bad token or challenge.
            ExtendedAgentCardNotConfiguredError: where the context does not show a whole card.
        """
        operation = "GetExtendedAgentCard"
        received = self._received(operation, context)
        try:
            found = await self._published(context, received)
        except Refused as refusal:
            raise _as_error(refusal) from None
        if found is None or found.plain is None or found.plain.family != "a2a":
            raise ExtendedAgentCardNotConfiguredError("no whole card is shown to this caller")
        document = parse_json_object(found.plain.body, Where(Part.CARD), DEFAULT_LIMITS.json_depth)
        card = parse_agent_card(document)
        if EXTENSION in context.requested_extensions:
            text = found.sd_card
            if received is not None and found.shown is not None:
                challenge, shown = self._prover.check(received, self._requests(operation)), found.shown
                text = await to_thread(self._prover.present, shown, shown.allowed, challenge, self._clock.now())
            entry = find_extension_by_uri(card, EXTENSION) or card.capabilities.extensions.add(uri=EXTENSION)
            entry.params.update({"sd_card": text})
        return card

    async def _published(self, context: ServerCallContext, received: ReceivedChallenge | None) -> PublishedCard | None:
        """Find the card for this caller.

        Through a Service, which reads what passes, it is the public one.
        """
        caller, headers = context.state.get(STATE), _headers(context)
        if received is not None and received.service is not None:
            caller, headers = None, {}
        if isinstance(caller, VerifiedCard):
            return PublishedCard.proved(self._prover.check_shows()(caller))
        if self._cards is None:
            return None
        cards, credentials = self._cards(), [headers["authorization"]] if "authorization" in headers else []
        name = await token_context(cards, credentials, None, self._clock.now())  # the SDK keeps no method and URL
        found = cards.contexts.get(PUBLIC.name if name is None else name)
        if found is None and name is not None:
            raise Refused(Rule.TOKEN_SCOPE, Where(Part.REQUEST, ("headers", "authorization")))
        return found


def _headers(context: ServerCallContext) -> dict[str, str]:
    return {str(name).lower(): value for name, value in context.state.get("headers", {}).items()}


def _as_error(refusal: Refused) -> InvalidRequestError:
    return InvalidRequestError(f"{refusal.rule} at {refusal.where}: {refusal.rule.sentence}")


# -- its client -------------------------------------------------------------------------------------------------------


class AgentProofInterceptor(ClientCallInterceptor):
    """An interceptor that sends tasks only to an agent that proved itself.

    It takes no response without a proof. The first contact is the card fetch at the agent's well-known address. Errors
    of the SDK pass no interceptor, so an error has no proof; with ``HttpxAsyncProvedTransport`` it has.

    Args:
        interface: URL of the interface that is called, as the agent's card has it.
        http: a client for the first contact.
    """

    def __init__(self, session: AgentSession, interface: str, http: httpx.AsyncClient) -> None:
        self._session, self._http = session, http
        self._interface = f"{interface}/" if canonical_origin(interface) == interface else interface

    async def before(self, args: BeforeArgs) -> None:
        """Challenge the agent in a call.

        Raises:
            Refused: ``agent-proof.missing`` for an operation whose response carries no proof, and as
                ``AgentSession.accept`` for the first contact.
        """
        operation = OPERATIONS.get(args.method)
        if operation is None:
            hint = f"{args.method} carries no proof: use HttpxAsyncProvedTransport."
            raise Refused(Rule.AGENT_PROOF_MISSING, Where(Part.PRESENTATION), hint)
        if not self._session.has_standing():
            await self._first_contact()
        context = args.context or ClientCallContext()
        given = context.service_parameters or {}
        interaction_id = next((given[name] for name in given if name.lower() == INTERACTION_HEADER.lower()), None)
        challenge, value = self._session.challenge(operation, self._interface, interaction_id)
        parameters = ServiceParametersFactory.create_from(given, [with_a2a_extensions([EXTENSION])])
        parameters[A2A_CHALLENGE_HEADER] = value
        state = {**context.state, _STATE: [(challenge, self._session.now())]}
        args.context = context.model_copy(update={"service_parameters": parameters, "state": state})

    async def after(self, args: AfterArgs) -> None:
        """Check the proof of a response, or of the first event of a stream.

        Raises:
            Refused: as ``AgentSession.accept``.
        """
        waiting: list[tuple[Challenge, Instant]] | None = args.context.state.get(_STATE) if args.context else None
        if waiting is None:
            raise Refused(Rule.AGENT_PROOF_MISSING, Where(Part.PRESENTATION), "Another interceptor lost the challenge.")
        if waiting:
            challenge, asked_at = waiting.pop()
            await self._session.accept_async(_proofs(args.result), challenge, asked_at, _MOST)

    async def _first_contact(self) -> None:
        base = self._session.called.service or self._session.called.origin
        url, asked_at = f"{base.rstrip('/')}{PATHS[0]}", self._session.now()
        challenge, value = self._session.challenge("GET", url)
        headers = {CHALLENGE_HEADER: value, "Accept": SD_MEDIA_TYPE}
        async with self._http.stream("GET", url, headers=headers, follow_redirects=False) as response:
            proofs = [await _presentation(response)] if response.status_code == 200 else []
            if may_explain(response):
                await response.aread()
            try:
                await self._session.accept_async([one for one in proofs if one], challenge, asked_at, _MOST)
            except BaseException as error:
                raise explained(error, response) from None


async def _presentation(response: httpx.Response) -> str:
    """Read the SD-JWT+KB of a card fetch; empty when there is none."""
    data = bytearray()
    async for chunk in response.aiter_bytes():
        data += chunk
        if len(data) > _MOST:
            raise Refused(Rule.LIMIT_BYTES, Where(Part.PRESENTATION))
    try:
        text = parse_json_object(bytes(data), Where(Part.PRESENTATION), DEFAULT_LIMITS.json_depth).get("agent_card")
    except Refused:
        return ""
    return text if isinstance(text, str) and not text.endswith("~") else ""


def _proofs(result: Any) -> list[str]:
    """The proofs in the metadata of a response, or in an extended card."""
    if isinstance(result, AgentCard):
        extension = find_extension_by_uri(result, EXTENSION)
        texts = [extension.params["sd_card"]] if extension is not None and "sd_card" in extension.params else []
        return [text for text in texts if isinstance(text, str) and not text.endswith("~")]
    kind = result.WhichOneof("payload") if hasattr(result, "WhichOneof") and result.DESCRIPTOR.oneofs else None
    held = getattr(result, kind) if kind else result
    found = held.metadata[EXTENSION] if hasattr(held, "metadata") and EXTENSION in held.metadata else {}
    return [found["proof"]] if "proof" in found and isinstance(found["proof"], str) else []
