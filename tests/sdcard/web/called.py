"""An agent that proves itself, and its client: what the tests of the carriers share."""

import json
from typing import Any

from sdcard import ClaimRequest, Unchecked, VerifiedCard, select_all
from sdcard.agent_proof import AgentProver, CalledAgent, ShownCard, ThisAgent
from sdcard.holder import select_context
from sdcard.io.replay_cache import MemoryChallengeRecord
from sdcard.nonces import NoncePurpose
from sdcard.policy.model import DEFAULT_POLICY
from sdcard.web.clients import AgentSession
from sdcard.web.publish import Proving
from tests.world import AGENT_ID, ISSUER, World

CLIENT = "https://client.example"
AGENT = ThisAgent(ISSUER, f"agent:{AGENT_ID}")
REQUESTED = ClaimRequest.of("skills", "provider")


async def echoes(scope: Any, receive: Any, send: Any) -> None:
    """An app that tells what reached it."""
    body, more = b"", True
    while more:
        event = await receive()
        body, more = body + event.get("body", b""), event.get("more_body", False)
    scope.get("reached", []).append((scope["method"], scope["path"], body))
    said = json.dumps({"method": scope["method"], "body": body.decode()}).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": said})


def shown_by(world: World) -> Any:
    """Public to everybody, everything to a caller that proved itself."""
    held = world.holder.accept()
    public = ShownCard(held, select_context(held, DEFAULT_POLICY, "public"), world.holder.signer)
    whole = ShownCard(held, select_all(held), world.holder.signer)

    def shown(caller: VerifiedCard | None) -> ShownCard:
        return public if caller is None else whole

    return shown


def prover(world: World, origin: str, **changes: Any) -> AgentProver:
    settings: dict[str, Any] = {"audiences": frozenset({CLIENT}), "shown": shown_by(world), **changes}
    return AgentProver(origin=origin, **settings)


def proving(world: World, origin: str, app: Any = echoes, **changes: Any) -> Proving:
    return Proving(app, prover=prover(world, origin, **changes), clock=world.clock)


def session(world: World, origin: str, audience: str = CLIENT, **changes: Any) -> AgentSession:
    settings: dict[str, Any] = {"agent": AGENT, "requested": REQUESTED, "status": Unchecked("a test"), **changes}
    called = CalledAgent(issuers=world.issuer.trust, origin=origin, **settings)
    record = MemoryChallengeRecord(audience, world.salts, purpose=NoncePurpose.CALLED_AGENT)
    return AgentSession(called, record, world.clock)


class Late:
    """An app that is made when its address is known."""

    app: Any = None

    def __init__(self) -> None:
        self.reached: list[Any] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app({**scope, "reached": self.reached}, receive, send)


class Recorded:
    """An inner transport of ``httpx2`` that keeps requests, and may change responses."""

    def __init__(self, transport: Any, change: Any = None) -> None:
        self._transport, self._change = transport, change
        self.requests: list[Any] = []
        self.authorized: list[bool] = []

    def handle_request(self, request: Any) -> Any:
        self.requests.append(request)
        self.authorized.append("authorization" in request.headers)
        response = self._transport.handle_request(request)
        return response if self._change is None else self._change(request, response)

    def close(self) -> None:
        self._transport.close()
