"""ASGI middleware of a called agent: answers the challenges of clients.

It stands before ``SdCardMiddleware``, so that a refusal is proved too. A request without ``SD-Card-Challenge`` passes
unchanged, and the response to a GET or HEAD then varies by that header. A challenge that the agent must not sign is
refused, and the app does not see the request. An ``OPTIONS`` request with a challenge is answered here: the first
contact has no task content.
"""

from asyncio import to_thread
from http import HTTPStatus
from typing import Any

from sdcard.agent_proof import AgentProver
from sdcard.errors import Refused
from sdcard.http_auth import (
    CHALLENGE_HEADER,
    INTERACTION_HEADER,
    PROOF_HEADER,
    ReceivedChallenge,
    check_interaction,
    encode_proof,
    parse_agent_challenge,
)
from sdcard.instants import Clock
from sdcard.rules import Rule
from sdcard.verifier import VerifiedCard
from sdcard.web.authenticate import CALLERS, App, Receive, Scope, Send, header_values, request_line, send_problem

_STATUS = {
    Rule.LIMIT_BYTES: HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    Rule.SIGNER_UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    **dict.fromkeys(
        (
            *(Rule.KB_PURPOSE, Rule.CHALLENGE_INTERACTION),
            *(Rule.AGENT_PROOF_AUDIENCE, Rule.AGENT_PROOF_SERVICE, Rule.AGENT_PROOF_TARGET),
        ),
        HTTPStatus.FORBIDDEN,
    ),
}
"""Every other rule is answered with 400."""


class Proving:
    """The middleware.

    Args:
        app: the agent.
        prover: decides and signs.
    """

    def __init__(self, app: App, *, prover: AgentProver, clock: Clock) -> None:
        prover.check_shows()
        self._app, self._prover, self._clock = app, prover, clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a challenge, or let the request pass."""
        values = header_values(scope, CHALLENGE_HEADER) if scope["type"] == "http" else []
        if not values:
            can_be_cached = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
            await self._app(scope, receive, _varying(send) if can_be_cached else send)
            return
        try:
            received = parse_agent_challenge(values)
            self._prover.check(received, [request_line(scope)])
            check_interaction(received, header_values(scope, INTERACTION_HEADER))
            if scope["method"] == "OPTIONS":
                proof = await self._proof(scope, received, None)
                await send({"type": "http.response.start", "status": 204, "headers": _with(proof, [])})
                await send({"type": "http.response.body", "body": b""})
                return
        except Refused as refusal:
            await send_problem(send, refusal, refusal_status(refusal))
            return
        await self._pass_on(scope, receive, send, received)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send, received: ReceivedChallenge) -> None:
        callers: list[VerifiedCard] = []
        failed = False

        async def send_proved(message: Any) -> None:
            """Add the proof to the head of the response.

            If there is none, send a problem document and drop the response.
            """
            nonlocal failed
            if failed:
                return
            if message["type"] == "http.response.start":
                try:
                    proof = await self._proof(scope, received, callers[-1] if callers else None)
                except Refused as refusal:
                    failed = True
                    await send_problem(send, refusal, refusal_status(refusal))
                    return
                message = {**message, "headers": _with(proof, message.get("headers", []))}
            await send(message)

        await self._app({**scope, CALLERS: callers}, receive, send_proved)

    async def _proof(self, scope: Scope, received: ReceivedChallenge, caller: VerifiedCard | None) -> str:
        """Sign off the event loop, since a key may be in a token."""
        now, requests = self._clock.now(), [request_line(scope)]
        return encode_proof(await to_thread(self._prover.prove, received, requests, caller, now))


def _varying(send: Send) -> Send:
    """Keep caches from answering a challenge with a response that has no proof."""

    async def send_varying(message: Any) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), (b"vary", CHALLENGE_HEADER.encode())]}
        await send(message)

    return send_varying


def _with(proof: str, headers: Any) -> list[tuple[bytes, bytes]]:
    name = PROOF_HEADER.lower().encode()
    replaced = (name, b"cache-control")
    kept = [(bytes(given), bytes(value)) for given, value in headers if bytes(given).lower() not in replaced]
    return [*kept, (name, proof.encode()), (b"vary", CHALLENGE_HEADER.encode()), (b"cache-control", b"no-store")]


def refusal_status(refusal: Refused) -> HTTPStatus:
    """Return the status with which an agent refuses a challenge."""
    return _STATUS.get(refusal.rule, HTTPStatus.BAD_REQUEST)
