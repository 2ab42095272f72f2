"""SD-Cards on routes of FastAPI: on a route, a router and an app."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import httpx2
import pytest
from fastapi import APIRouter, Depends, FastAPI, Form, Header, HTTPException, Request, Security, WebSocket
from fastapi.responses import JSONResponse, PlainTextResponse
from fastapi.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from sdcard import Checked, Misuse, Unchecked, VerifiedCard
from sdcard.encoding import encode_json
from sdcard.fastapi import SdCardException, SdCardSecurity, sd_card
from sdcard.http_auth import PROBLEM, parse_challenge
from sdcard.testing import ATTACKS, Attacker, FakeRegistry, MovableClock
from sdcard.trust import encode_trusted_issuers
from sdcard.web.authenticate import CALLERS, SdCardMiddleware
from sdcard.web.clients import SdCardAuth
from tests.ports import free_port
from tests.sdcard.web.protecting import answered, policy, presenter, protected
from tests.shared import ROOT
from tests.world import AUDIENCE, World


def guard(world: World, **changes: Any) -> SdCardSecurity:
    settings: dict[str, Any] = {
        "audience": AUDIENCE,
        "status": Unchecked("a test of something else"),
        "issuer_keys": world.issuer.trust,
        "clock": world.clock,
        **changes,
    }
    return sd_card(policy(world), **settings)


def on_a_route(caller: SdCardSecurity) -> FastAPI:
    app = FastAPI()

    @app.get("/healthz")
    def healthz() -> str:
        return "well"

    @app.post("/tasks/{number}")
    async def start(number: int, card: Annotated[VerifiedCard, Depends(caller)]) -> str:
        return card.subject

    return app


def on_a_router(caller: SdCardSecurity) -> FastAPI:
    app, router = FastAPI(), APIRouter(dependencies=[Depends(caller)])

    @app.get("/healthz")
    def healthz() -> str:
        return "well"

    @router.post("/tasks/{number}")
    def start(number: int, request: Request) -> str:
        return str(request.state.sd_card.subject)

    app.include_router(router)
    return app


def on_an_app(caller: SdCardSecurity) -> FastAPI:
    app = FastAPI(dependencies=[Depends(caller)])

    @app.post("/tasks/{number}")
    async def start(number: int, card: Annotated[VerifiedCard, Depends(caller)]) -> str:
        return card.subject

    async def healthz(request: Request) -> PlainTextResponse:
        return PlainTextResponse("well")

    app.add_route("/healthz", healthz)
    return app


PLACES: dict[str, Callable[[SdCardSecurity], FastAPI]] = {"route": on_a_route, "router": on_a_router, "app": on_an_app}


@pytest.fixture(params=PLACES)
def client(request: pytest.FixtureRequest, world: World) -> TestClient:
    return TestClient(PLACES[request.param](guard(world)), base_url=AUDIENCE)


def auth(world: World) -> Any:
    return SdCardAuth(presenter(world, AUDIENCE))


def test_a_request_with_a_card_reaches_the_route_and_others_get_a_challenge(world: World, client: TestClient) -> None:
    refused = client.post("/tasks/7")
    received = parse_challenge(refused.headers.get_list("WWW-Authenticate"))

    assert (refused.status_code, refused.headers["Content-Type"]) == (401, PROBLEM)
    assert (refused.json()["rule"], refused.headers["Cache-Control"]) == ("presentation.missing", "no-store")
    assert received is not None
    assert received.challenge.audience == AUDIENCE
    assert client.post("/tasks/7", auth=auth(world)).json() == "agent:georoute"


def test_the_documentation_and_health_stay_open(client: TestClient) -> None:
    for path in ("/docs", "/redoc", "/openapi.json", "/healthz"):
        assert client.get(path).status_code == 200, path


def test_openapi_lists_every_protected_route_with_its_security_scheme(client: TestClient) -> None:
    document = client.get("/openapi.json").json()

    assert document["paths"]["/tasks/{number}"]["post"]["security"] == [{"SD-Card": []}]
    assert document["components"]["securitySchemes"]["SD-Card"]["scheme"] == "SD-Card"
    assert "security" not in document["paths"].get("/healthz", {"get": {}})["get"]


def test_there_is_no_redirect(world: World, client: TestClient) -> None:
    response = client.post("/tasks/7", auth=auth(world), follow_redirects=False)
    assert [response.status_code, *(one.status_code for one in response.history)] == [200, 401]


def test_an_answer_is_for_one_request_and_used_once(world: World, client: TestClient) -> None:
    shown = answered(world, client.post("/tasks/7"))

    assert client.post("/tasks/8", headers=shown).json()["rule"] == "kb.other-request"
    assert client.post("/tasks/7", headers=shown).status_code == 200
    assert client.post("/tasks/7", headers=shown).json()["rule"] == "kb.replayed"


@pytest.mark.parametrize("attack", ATTACKS)
def test_every_attack_is_refused(
    attack: str, sdcard_attacker: Attacker, sdcard_registry: FakeRegistry, sdcard_clock: MovableClock, world: World
) -> None:
    world.issuer.trust = sdcard_registry.trust
    caller = guard(world, status=Checked(sdcard_registry), clock=sdcard_clock)
    client = TestClient(on_a_route(caller), base_url=AUDIENCE)

    assert client.post("/tasks/7", auth=sdcard_attacker.auth(attack)).status_code in (401, 403)


def test_no_endpoint_sees_the_presentation(world: World) -> None:
    app = FastAPI()

    @app.middleware("http")
    async def looks_at_headers(request: Request, call_next: Callable[[Request], Any]) -> Any:
        _ = request.headers
        return await call_next(request)

    @app.get("/headers")
    async def headers(
        request: Request,
        card: Annotated[VerifiedCard, Depends(guard(world))],
        authorization: Annotated[str | None, Header()] = None,
    ) -> list[str | None]:
        return [authorization, request.headers.get("authorization"), card.subject]

    assert TestClient(app, base_url=AUDIENCE).get("/headers", auth=auth(world)).json() == [None, None, "agent:georoute"]


def test_a_verified_card_is_verified_once_for_a_request(world: World) -> None:
    app = on_an_app(guard(world))

    assert TestClient(app, base_url=AUDIENCE).post("/tasks/7", auth=auth(world)).status_code == 200


def test_a_guard_that_is_asked_twice_verifies_once(world: World) -> None:
    caller, app = guard(world), FastAPI()

    @app.get("/tasks", dependencies=[Security(caller, scopes=["a"]), Depends(caller, use_cache=False)])
    async def tasks(card: Annotated[VerifiedCard, Depends(caller, use_cache=False)]) -> str:
        return card.subject

    assert TestClient(app, base_url=AUDIENCE).get("/tasks", auth=auth(world)).json() == "agent:georoute"


def test_a_middleware_before_the_app_learns_who_called(world: World) -> None:
    app, callers = on_a_route(guard(world)), list[VerifiedCard]()

    async def asks_who_calls(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, CALLERS: callers}, receive, send)

    TestClient(asks_who_calls, base_url=AUDIENCE).post("/tasks/7", auth=auth(world))
    assert [card.subject for card in callers] == ["agent:georoute"]


def test_two_policies_for_one_request_are_misuse(world: World) -> None:
    app = FastAPI(dependencies=[Depends(guard(world))])

    @app.get("/tasks")
    async def tasks(card: Annotated[VerifiedCard, Depends(guard(world))]) -> None:
        raise AssertionError

    for twice in (app, behind_the_middleware(world)):
        with pytest.raises(Misuse, match="one sd_card"):
            TestClient(twice, base_url=AUDIENCE).get("/tasks", auth=auth(world))


def behind_the_middleware(world: World) -> SdCardMiddleware:
    app = FastAPI()

    @app.get("/tasks", dependencies=[Depends(guard(world))])
    async def tasks() -> None:
        raise AssertionError

    return protected(world, AUDIENCE, app)


def test_a_websocket_is_closed(world: World) -> None:
    app = FastAPI()

    @app.websocket("/stream")
    async def stream(websocket: WebSocket, card: Annotated[VerifiedCard, Depends(guard(world))]) -> None:
        raise AssertionError

    with pytest.raises(WebSocketDisconnect) as closed, TestClient(app, base_url=AUDIENCE).websocket_connect("/stream"):
        pass
    assert closed.value.code == 1008


async def own_answer(_: Request, error: Any) -> JSONResponse:
    return JSONResponse({"own": error.detail["rule"]}, error.status_code, error.headers)


@pytest.mark.parametrize("handled", [HTTPException.__mro__[1], 401, SdCardException])
def test_a_handler_of_the_app_decides_about_the_body(world: World, handled: Any) -> None:
    app = on_a_route(guard(world))
    app.add_exception_handler(handled, own_answer)
    refused = TestClient(app, base_url=AUDIENCE).post("/tasks/7")

    assert (refused.status_code, refused.json()) == (401, {"own": "presentation.missing"})
    assert parse_challenge([refused.headers["WWW-Authenticate"]]) is not None


def test_without_handlers_in_the_scope_the_body_is_in_the_exception(world: World) -> None:
    async def asked() -> None:
        await guard(world)(Request({"type": "http", "method": "GET", "path": "/", "headers": []}))

    with pytest.raises(SdCardException) as refused:
        asyncio.run(asked())
    assert (refused.value.status_code, refused.value.problem.document["rule"]) == (401, "presentation.missing")


def test_routes_with_other_policies_do_not_accept_the_challenges_of_one_another(world: World) -> None:
    app = FastAPI()
    for path in ("/a", "/b"):
        app.get(path, dependencies=[Depends(guard(world))])(lambda: "reached")
    client = TestClient(app, base_url=AUDIENCE)
    shown = answered(world, client.get("/a"))

    assert client.get("/b", headers=shown).json()["rule"] == "kb.other-request"


def test_fastapi_reads_a_declared_body_before_the_guard_and_runs_no_endpoint(world: World) -> None:
    """``docs/protecting.md`` says so, and what to use instead."""
    caller, app, ran = guard(world), FastAPI(), list[str]()

    @app.post("/declared")
    async def declared(body: dict[str, int], card: Annotated[VerifiedCard, Depends(caller)]) -> None:
        ran.append("declared")

    @app.post("/form")
    async def form(name: Annotated[str, Form()], card: Annotated[VerifiedCard, Depends(caller)]) -> None:
        ran.append("form")

    @app.post("/request")
    async def request(request: Request, card: Annotated[VerifiedCard, Depends(caller)]) -> None:
        ran.append("request")

    async def post(front: Any, path: str, *parts: bytes, media_type: str = "application/json") -> tuple[int, bool, int]:
        """The status, whether there is a challenge, and how many parts of the body were read."""
        waiting, sent = list(parts), list[Any]()

        async def receive() -> Any:
            return {"type": "http.request", "body": waiting.pop(0), "more_body": bool(waiting)}

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"host", b"verifier.example"), (b"content-type", media_type.encode())]
        about = {"method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": ""}
        await front(
            {"type": "http", "http_version": "1.1", "scheme": "https", "headers": headers, **about}, receive, send
        )
        return sent[0]["status"], b"www-authenticate" in dict(sent[0]["headers"]), len(parts) - len(waiting)

    whole, broken = (b'{"a"', b": 1}"), (b'{"a"', b": ")
    assert asyncio.run(post(app, "/declared", *broken)) == (422, False, 2)
    assert asyncio.run(post(app, "/form", b"x", media_type="multipart/form-data")) == (400, False, 0)
    assert asyncio.run(post(app, "/declared", *whole)) == (401, True, 2)
    assert asyncio.run(post(app, "/declared", b'{"a": "x"}')) == (401, True, 1)
    assert asyncio.run(post(app, "/request", *broken)) == (401, True, 0)
    assert asyncio.run(post(protected(world, AUDIENCE, app), "/declared", *broken)) == (401, True, 0)
    assert ran == []


def test_a_dependency_can_be_overridden_in_tests(world: World) -> None:
    caller = guard(world)
    app = on_a_route(caller)
    card = world.verifier.verify(world.holder.present(world.challenge), world.challenge)
    app.dependency_overrides[caller] = lambda: card

    assert TestClient(app).post("/tasks/7").json() == "agent:georoute"


# -- workers of a real server -----------------------------------------------------------------------------------------

APP = """
from pathlib import Path
from fastapi import Depends, FastAPI
from sdcard import AdmissionPolicy, NothingRequired, Unchecked, parse_trusted_issuers
from sdcard.fastapi import sd_card

trust = parse_trusted_issuers(Path("trust.json").read_bytes())
policy = AdmissionPolicy(issuers=trust, formats=frozenset({"a2a/1.0"}), requirement=NothingRequired("a test"))
app = FastAPI()

@app.get("/")
def root(card=Depends(sd_card(policy, audience=AUDIENCE, status=Unchecked("a test"), issuer_keys=trust, RECORD))):
    return card.subject
"""
WAYS = {"by its command": ["--workers", "2"], "by its environment": []}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("record", ["", "challenges='sqlite:///challenges.sqlite'"])
def test_workers_accept_an_answer_once_and_say_when_they_share_no_record(
    tmp_path: Path, world: World, way: str, record: str
) -> None:
    (tmp_path / "trust.json").write_bytes(encode_json(encode_trusted_issuers(world.issuer.trust)))
    (tmp_path / "served.py").write_text(APP.replace("AUDIENCE", repr(AUDIENCE)).replace(", RECORD", f", {record}"))
    world.clock.advance(time.time() - world.clock.now())
    world.holder.card = world.issuer.issue()
    origin = f"http://127.0.0.1:{free_port()}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "WEB_CONCURRENCY": "2" if not WAYS[way] else ""}
    command = [sys.executable, "-m", "uvicorn", "served:app", "--port", origin.rpartition(":")[2], *WAYS[way]]
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=log) as server,
    ):
        try:
            outcomes = [asked_twice(world, origin) for _ in range(30)]
        finally:
            server.send_signal(signal.SIGINT)

    assert max(one.count(200) for one in outcomes) == 1
    if record:
        assert [one.count(200) for one in outcomes] == [1] * 30
    assert ("several workers" in (tmp_path / "log").read_text()) is not bool(record)


def asked_twice(world: World, origin: str) -> list[int]:
    """Statuses of two requests with the same answer, each on a connection of its own."""
    statuses = []
    shown = answered_at(world, origin)
    for _ in range(2):
        statuses.append(httpx2.get(origin, headers=shown, trust_env=False).status_code)
    return statuses


def answered_at(world: World, origin: str) -> dict[str, str]:
    deadline = time.monotonic() + 60
    while True:
        try:
            return answered(world, httpx2.get(origin, trust_env=False))
        except httpx2.TransportError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
