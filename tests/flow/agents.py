"""The agents of the flow: one that publishes, one that demands an SD-Card, and those that a task is handed on to."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx2
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

from sdcard import Refused, TrustedIssuers, VerifiedCard
from sdcard.admission import AdmissionPolicy, Required
from sdcard.claim_request import ClaimRequest
from sdcard.delegation_chain import ACCESS_TOKEN_TYPE, TOKEN_EXCHANGE, Delegation, verify_delegated_token
from sdcard.io.published_keys import IssuerKeys, ServerKeys, load_from
from sdcard.io.replay_cache import MemoryChallengeRecord
from sdcard.io.status_lists import AsyncFetchedStatusLists
from sdcard.io.system import SystemClock, SystemSalts
from sdcard.oauth import parse_credentials
from sdcard.status_list import CheckedAsync
from sdcard.web.authenticate import SdCardMiddleware
from sdcard.web.mcp import InteractionClient

EVERYTHING = ClaimRequest.of("skills", "endpoints", "operational_info", "provider", "security_context")
CLOCK = SystemClock()
NextStep = Callable[[str, Delegation], Awaitable[str]]


@dataclass
class Tap:
    """An ASGI app before another one, that keeps every byte of heads and bodies, both ways."""

    app: Any
    sent: bytes = b""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        def keep(message: Any) -> Any:
            heads = [b": ".join(header) for header in message.get("headers", ())]
            self.sent += b"\n".join([*heads, message.get("body", b""), b""])
            return message

        async def received() -> Any:
            return keep(await receive())

        async def sending(message: Any) -> None:
            await send(keep(message))

        keep({**scope, "body": scope.get("raw_path", b"") + b"?" + scope.get("query_string", b"")})
        await self.app(scope, received, sending)

    def read(self) -> bytes:
        """Return the log lines since the last call."""
        sent, self.sent = self.sent, b""
        return sent


def verifier(registry: str, audience: str, seen: list[VerifiedCard]) -> Starlette:
    """A service that lets in who shows an SD-Card of this registry, and asks for everything. It trusts the registry by
    name; its keys and status lists it fetches."""
    trusted = TrustedIssuers({registry: {}})
    keys = IssuerKeys(trusted)

    async def tasks(request: Request) -> JSONResponse:
        seen.append(request.state.sd_card)
        return JSONResponse({"authorization": request.headers.get("authorization")})

    demanding = Middleware(
        SdCardMiddleware,
        policy=AdmissionPolicy(
            issuers=trusted,
            formats=frozenset({"a2a/1.0"}),
            requirement=Required(ClaimRequest.of("skills.*.id")),
            also_requested=EVERYTHING,
        ),
        audience=audience,
        challenges=MemoryChallengeRecord(audience, SystemSalts()),
        status=CheckedAsync(AsyncFetchedStatusLists(keys)),
        clock=CLOCK,
        issuer_keys=keys,
    )
    return Starlette(routes=[Route("/tasks", tasks, methods=["POST"], middleware=[demanding])])


@dataclass
class Owner:
    """The owner of these agents: a client of the registry's token endpoint."""

    name: str
    token: str = field(repr=False)
    registry: str

    async def ask(self, path: str, **form: str) -> Any:
        """Send a request to the endpoint."""
        async with httpx2.AsyncClient(trust_env=False, auth=(self.name, self.token)) as client:
            return (await client.post(self.registry + path, data=form)).json()

    async def exchange(self, subject_token: str, target: str, scope: str, kind: str = ACCESS_TOKEN_TYPE) -> Any:
        """A narrower token for the target, or why not."""
        return await self.ask(
            "/token", grant_type=TOKEN_EXCHANGE, subject_token=subject_token, subject_token_type=kind,
            audience=target, scope=scope,
        )  # fmt: skip


def worker(agent: str, owner: Owner, then: NextStep) -> Starlette:
    """An agent that is called with a delegated token: it checks it alone, asks whether it still counts, and goes on."""
    keys = ServerKeys(load_from(f"{owner.registry}/.well-known/token-jwks.json"))

    async def tasks(request: Request) -> PlainTextResponse:
        now = CLOCK.now()
        try:
            token = parse_credentials(request.headers.getlist("authorization"))
            delegation = verify_delegated_token(token, await keys.for_token(token, now), owner.registry, agent, now)
        except Refused as refusal:
            return PlainTextResponse(str(refusal.rule), 401)
        if not (await owner.ask("/introspect", token=token))["active"]:
            return PlainTextResponse(f"{agent}: the chain has ended", 401)
        return PlainTextResponse(await then(token, delegation))

    return Starlette(routes=[Route("/tasks", tasks, methods=["POST"])])


async def call(address: str, token: str) -> str:
    """Call a worker with a token; what it says."""
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
        return (await client.post(f"{address}/tasks", headers={"Authorization": f"Bearer {token}"})).text


def hand_on(owner: Owner, target: str, address: str, scope: str) -> NextStep:
    """The next step of who does not do it itself: for fewer scopes, to the next agent."""

    async def step(token: str, delegation: Delegation) -> str:
        answer = await owner.exchange(token, target, scope)
        return await call(address, answer["access_token"]) if "access_token" in answer else answer["error_description"]

    return step


def use_tool(tools: str, told: list[tuple[str, Delegation]]) -> NextStep:
    """The last step: a tool is called, in the interaction of the chain."""

    async def step(token: str, delegation: Delegation) -> str:
        told.append((token, delegation))
        assert delegation.interaction_id is not None
        async with InteractionClient(tools, interaction_id=delegation.interaction_id) as client:
            answer = await client.call_tool("route", {"to": "Rome"})
        return str(answer.structured_content)

    return step
