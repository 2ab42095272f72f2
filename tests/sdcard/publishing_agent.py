"""An agent that publishes: its SD-Cards of several contexts, and requests to it without a socket."""

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sdcard import DEFAULT_POLICY, select_all, select_context
from sdcard.publishing import CardToken, PlainCard, PublishedCard, PublishedCards, new_card_token
from sdcard.web.publish import CardApp
from tests.shared import ROOT
from tests.world import World

SD = "application/vnd.sd-jwt+json"
JSON = "application/json"
AGENT_JSON, AGENT_CARD_JSON, AGENTCARD = (
    "/.well-known/agent.json",
    "/.well-known/agent-card.json",
    "/.well-known/agentcard",
)


@dataclass(frozen=True)
class Got:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def everything(self) -> bytes:
        """Whatever a client could read of it."""
        return b"\n".join((*(f"{name}: {value}".encode() for name, value in self.headers.items()), self.body))


def ask(
    app: Any,
    path: str = AGENT_JSON,
    accept: str | bytes | None = SD,
    token: str | None = None,
    *,
    method: str = "GET",
    headers: Iterable[tuple[bytes, bytes]] = (),
    **scope: Any,
) -> Got:
    """Send a request as an ASGI server does."""
    sent: list[dict[str, Any]] = []
    all_headers = list(headers)
    if accept is not None:
        all_headers.append((b"accept", accept.encode() if isinstance(accept, str) else accept))
    if token is not None:
        all_headers.append((b"authorization", f"Bearer {token}".encode()))

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(dict(message))

    whole = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": all_headers, **scope}
    asyncio.run(app(whole, receive, send))
    start, body = sent
    got = {name.decode(): value.decode() for name, value in start["headers"]}
    assert len(got) == len(start["headers"])
    return Got(start["status"], got, body["body"])


class Agent:
    """The world's agent. Each context shows its own of one SD-Card that holds everything."""

    def __init__(self, world: World, document: Any = None, contexts: Iterable[str] = ("public", "internal")) -> None:
        self.world = world
        self._document = document
        self.app = CardApp(self.cards(contexts), world.clock)

    def cards(self, contexts: Iterable[str] = ("public", "internal"), **others: Any) -> PublishedCards:
        return PublishedCards({name: self.published(name) for name in contexts}, **others)

    def published(self, context: str) -> PublishedCard:
        """Narrowed from ``full``, which holds everything."""
        held = self.world.holder.accept(self.world.issuer.issue("full", self._document))
        return PublishedCard.of(held, select_context(held, DEFAULT_POLICY, context))

    def issued_for(self, context: str) -> PublishedCard:
        """All of an SD-Card that the registry made for this context."""
        held = self.world.holder.accept(self.world.issuer.issue(context, self._document))
        return PublishedCard.of(held, select_all(held))

    def replace(self, contexts: Iterable[str] = ("public", "internal"), **others: Any) -> None:
        self.app.replace(self.cards(contexts, **others))

    def token(self, context: str, lifetime: int = 60) -> tuple[str, CardToken]:
        return new_card_token(context, self.world.clock.now() + lifetime, self.world.salts)


def plain(name: str = "georoute.json") -> PlainCard:
    return PlainCard.of((ROOT / "examples" / name).read_bytes())
