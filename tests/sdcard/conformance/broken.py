"""A deliberately broken server: each fault drops the enforcement of one rule, or publishes something wrong."""

import json
from collections.abc import Callable
from typing import Any

from starlette.testclient import TestClient

from sdcard import AdmissionPolicy, ClaimRequest, Required, TrustedIssuers, Unchecked
from sdcard.cards.detect import parse_card
from sdcard.conformance import Request, Response
from sdcard.conformance.forging import CARD, Material, issue_test_card
from sdcard.conformance.route import Route
from sdcard.instants import Clock
from sdcard.io.replay_cache import MemoryChallengeRecord
from sdcard.web.authenticate import SdCardMiddleware
from tests.world import NOW, MovableClock, RecordingSalts, key

ROUTE = "http://testserver/tasks"
TEST_ISSUER = "https://test-issuer.example"
ISSUER, HOLDER, STRANGER = key(41), key(42), key(43)


class AppClient:
    """Sends the tester's requests to an ASGI app in this process."""

    def __init__(self, app: Any) -> None:
        self._client = TestClient(app, raise_server_exceptions=False, follow_redirects=False)
        self.requests: list[Request] = []

    def send(self, request: Request) -> Response:
        self.requests.append(request)
        found = self._client.request(
            request.method, request.url, headers=list(request.headers), content=request.body or None
        )
        headers = tuple((name.lower(), value) for name, value in found.headers.multi_items())
        return Response(found.status_code, headers, found.content)


async def admits(scope: Any, receive: Any, send: Any) -> None:
    """The protected app."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"admitted"})


def middleware(clock: Clock | None = None) -> Any:
    """A healthy route that trusts the test Issuer."""
    trusted = TrustedIssuers.of(TEST_ISSUER, ISSUER.public_key)
    policy = AdmissionPolicy(
        issuers=trusted, formats=frozenset({"a2a/1.0"}), requirement=Required(ClaimRequest.of("skills"), ("test",))
    )
    audience = "https://route.example"
    return SdCardMiddleware(
        admits,
        policy=policy,
        audience=audience,
        challenges=MemoryChallengeRecord(audience, RecordingSalts("broken")),
        status=Unchecked("no status list here"),
        clock=clock or MovableClock(),
    )


class Responses:
    """A server whose responses are changed: the fault."""

    def __init__(self, app: Any, change: Callable[[Response], Response]) -> None:
        self._app, self._change = app, change

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sent: list[Any] = []

        async def keep(message: Any) -> None:
            sent.append(message)

        await self._app(scope, receive, keep)
        headers = tuple((name.decode().lower(), value.decode()) for name, value in sent[0]["headers"])
        body = b"".join(one.get("body", b"") for one in sent[1:])
        changed = self._change(Response(sent[0]["status"], headers, body))
        raw = [(name.encode(), value.encode()) for name, value in changed.headers if name != "content-length"]
        await send({"type": "http.response.start", "status": changed.status, "headers": raw})
        await send({"type": "http.response.body", "body": changed.body})


def named(response: Response) -> str:
    """The rule that a problem document names."""
    try:
        return str(json.loads(response.body).get("rule", ""))
    except ValueError:
        return ""


def accepting(rule: str) -> Callable[[Response], Response]:
    """The fault that this rule is not enforced: its refusals become acceptances."""
    return lambda response: Response(200, (), b"admitted") if named(response) == rule else response


def without_header(name: str) -> Callable[[Response], Response]:
    """The fault that a header is absent."""
    return lambda response: Response(
        response.status, tuple(one for one in response.headers if one[0] != name), response.body
    )


def route_of(app: Any) -> Route:
    """The tester, with a test Issuer's key, in front of this app."""
    card = issue_test_card(parse_card(CARD), TEST_ISSUER, ISSUER, HOLDER.public_key, RecordingSalts("tester"), NOW)
    material = Material(card, HOLDER, ISSUER, STRANGER)
    return Route(url=ROUTE, client=AppClient(app), instant=lambda: NOW, method="GET", material=material)


def fails(response: Response) -> Response:
    """The fault that the server fails."""
    return Response(500, (), b"")


def one_nonce() -> Callable[[Response], Response]:
    """The fault that every challenge is the first one."""
    first: list[tuple[str, str]] = []

    def change(response: Response) -> Response:
        for header in response.headers:
            if header[0] == "www-authenticate" and not first:
                first.append(header)
        kept = tuple(first[0] if header[0] == "www-authenticate" and first else header for header in response.headers)
        return Response(response.status, kept, response.body)

    return change
