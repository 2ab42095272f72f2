"""SD-Cards on endpoints of Starlette, and the parts that both frameworks get by default."""

import asyncio
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.endpoints import HTTPEndpoint
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from sdcard import CheckedAsync, Misuse, Refused, TrustedIssuers, Unchecked
from sdcard.http_auth import parse_challenge
from sdcard.io.published_keys import IssuerKeys
from sdcard.io.replay_cache import MemoryChallengeRecord
from sdcard.io.sql_replay_cache import SharedChallengeRecord
from sdcard.io.status_lists import AsyncFetchedStatusLists
from sdcard.io.system import SystemClock, SystemSalts
from sdcard.starlette import SdCardRequired, sd_card
from sdcard.testing import ATTACKS, Attacker
from sdcard.web.clients import SdCardAuth
from tests.sdcard.web.protecting import answered, policy, presenter
from tests.world import AUDIENCE, World

Protect = Callable[[SdCardRequired], Any]


def required(world: World, **changes: Any) -> SdCardRequired:
    settings: dict[str, Any] = {
        "audience": AUDIENCE,
        "status": Unchecked("a test of something else"),
        "issuer_keys": world.issuer.trust,
        "clock": world.clock,
        **changes,
    }
    return sd_card(policy(world), **settings)


def said(request: Request) -> JSONResponse:
    return JSONResponse([request.state.sd_card.subject, request.headers.get("authorization")])


def a_function(protect: SdCardRequired) -> Any:
    @protect
    async def endpoint(request: Request) -> JSONResponse:
        return said(request)

    return endpoint


def a_function_in_a_thread(protect: SdCardRequired) -> Any:
    return protect(said)


def a_method(protect: SdCardRequired) -> Any:
    class Endpoint(HTTPEndpoint):
        @protect
        async def get(self, request: Request) -> JSONResponse:
            return said(request)

    return Endpoint


ENDPOINTS: dict[str, Protect] = {"function": a_function, "thread": a_function_in_a_thread, "method": a_method}


def client_of(endpoint: Any) -> TestClient:
    return TestClient(Starlette(routes=[Route("/tasks", endpoint)]), base_url=AUDIENCE)


@pytest.mark.parametrize("kind", ENDPOINTS)
def test_an_endpoint_is_reached_with_a_card_only_and_sees_no_presentation(world: World, kind: str) -> None:
    client = client_of(ENDPOINTS[kind](required(world)))
    refused = client.get("/tasks")

    assert (refused.status_code, refused.json()["rule"]) == (401, "presentation.missing")
    assert parse_challenge([refused.headers["WWW-Authenticate"]]) is not None
    assert client.get("/tasks", auth=SdCardAuth(presenter(world, AUDIENCE))).json() == ["agent:georoute", None]


@pytest.mark.parametrize("kind", ENDPOINTS)
def test_a_line_end_after_the_path_passes_no_guard(world: World, kind: str) -> None:
    refused = client_of(ENDPOINTS[kind](required(world))).get("/tasks%0A")

    assert (refused.status_code, refused.json()["rule"]) == (401, "presentation.missing")


@pytest.mark.parametrize("kind", ENDPOINTS)
@pytest.mark.parametrize("attack", ATTACKS)
def test_every_attack_is_refused(kind: str, attack: str, sdcard_attacker: Attacker, world: World) -> None:
    registry, clock = sdcard_attacker._registry, sdcard_attacker._clock
    world.issuer.trust = registry.trust
    client = client_of(ENDPOINTS[kind](required(world, status=CheckedAsync(Later(registry)), clock=clock)))

    assert client.get("/tasks", auth=sdcard_attacker.auth(attack)).status_code in (401, 403)


class Later:
    """A status source that is awaited."""

    def __init__(self, source: Any) -> None:
        self._source = source

    async def status(self, *asked: Any) -> int:
        return int(self._source.status(*asked))


def test_a_websocket_is_closed(world: World) -> None:
    @required(world)
    async def stream(websocket: WebSocket) -> None:
        raise AssertionError

    client = TestClient(Starlette(routes=[WebSocketRoute("/stream", stream)]), base_url=AUDIENCE)
    with pytest.raises(WebSocketDisconnect) as closed, client.websocket_connect("/stream"):
        pass
    assert closed.value.code == 1008


def test_an_endpoint_without_a_request_is_misuse(world: World) -> None:
    @required(world)
    async def endpoint() -> None:
        raise AssertionError

    with pytest.raises(Misuse, match="the request"):
        asyncio.run(endpoint())


# -- the parts that are chosen ----------------------------------------------------------------------------------------


def test_status_and_present_keys_are_fetched_unless_a_reason_is_given(world: World) -> None:
    chosen = sd_card(policy(world), audience=AUDIENCE)._authenticator

    assert isinstance(chosen._status, CheckedAsync)
    assert isinstance(chosen._status.source, AsyncFetchedStatusLists)
    assert isinstance(chosen._issuer_keys, IssuerKeys)
    assert isinstance(chosen._clock, SystemClock)
    assert isinstance(chosen._challenges, MemoryChallengeRecord)
    for nothing in ("", " "):
        with pytest.raises(Misuse, match="why"):
            sd_card(policy(world), audience=AUDIENCE, status=Unchecked(nothing))


def test_each_record_in_memory_has_a_key_of_its_own(world: World) -> None:
    first, second = (required(world)._authenticator._challenges for _ in range(2))
    assert isinstance(first, MemoryChallengeRecord)
    assert isinstance(second, MemoryChallengeRecord)
    challenge = first.issue(world.clock.now())

    first.check(challenge, world.clock.now())
    with pytest.raises(Refused, match=r"kb\.other-request"):
        second.check(challenge, world.clock.now())
    assert not second.consume(challenge, world.clock.now())


def test_workers_share_a_record_by_its_url(world: World, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/challenges.sqlite"
    guards = [required(world, challenges=url) for _ in range(2)]
    workers = [client_of(a_function(guard)) for guard in guards]
    with workers[0], workers[1]:
        shown = answered(world, workers[0].get("/tasks"))

        assert workers[1].get("/tasks", headers=shown).status_code == 200
        assert workers[0].get("/tasks", headers=shown).json()["rule"] == "kb.replayed"
    for guard in guards:
        record: Any = guard._authenticator._challenges
        asyncio.run(record.close())


def test_a_record_may_be_given(world: World, tmp_path: Path) -> None:
    record = SharedChallengeRecord(f"sqlite:///{tmp_path}/challenges.sqlite", AUDIENCE, SystemSalts())
    assert required(world, challenges=record)._authenticator._challenges is record


@pytest.mark.parametrize("url", ["", "nonsense", "sqlite://", "mysql://h/d", "sqlite:///:memory:"])
def test_a_url_that_workers_cannot_share_is_misuse_at_the_start(world: World, url: str) -> None:
    with pytest.raises(Misuse):
        required(world, challenges=url)


@pytest.mark.parametrize(("workers", "warned"), [("1", False), ("4", True)])
def test_several_workers_with_records_in_memory_are_warned_at_the_start(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, workers: str, warned: bool
) -> None:
    monkeypatch.setenv("WEB_CONCURRENCY", workers)
    with caplog.at_level(logging.WARNING):
        required(world)

    assert ["several workers" in record.message for record in caplog.records] == [True] * warned


def test_several_workers_with_a_shared_record_are_not_warned(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setenv("WEB_CONCURRENCY", "4")
    required(world, challenges=f"sqlite:///{tmp_path}/challenges.sqlite")

    assert caplog.records == []


@pytest.mark.parametrize("name", ["max_lifetme", "windw", "orign", "profil", "open_paths"])
def test_an_unknown_setting_is_misuse(world: World, name: str) -> None:
    with pytest.raises(Misuse, match=f"there is no setting {name}"):
        required(world, **{name: None})
    with pytest.raises(Misuse, match="decide about the status"):
        required(world, status="checked")


def test_trusted_issuers_beside_those_of_the_policy_are_misuse(world: World) -> None:
    with pytest.raises(Misuse, match="those of the policy"):
        required(world, issuer_keys=TrustedIssuers({}))


def test_a_class_is_misuse_and_a_callable_object_is_protected(world: World) -> None:
    class Answers:
        async def __call__(self, request: Request) -> JSONResponse:
            return said(request)

    with pytest.raises(Misuse, match="not classes"):
        required(world)(Answers)
    client = client_of(required(world)(Answers()))
    assert client.get("/tasks").status_code == 401
    assert client.get("/tasks", auth=SdCardAuth(presenter(world, AUDIENCE))).json() == ["agent:georoute", None]


@pytest.mark.parametrize(
    ("audience", "origin", "said"),
    [
        ("https://api.example/", None, "write https://api.example"),
        ("http://127.0.0.1:9001/", None, "write http://127.0.0.1:9001"),
        ("https://API.example", None, "write https://api.example"),
        ("https://api.example:443", None, "write https://api.example"),
        ("https://api.example/tasks/", None, "write https://api.example/tasks"),
        ("http://api.example", None, "needs https"),
        ("api.example", None, "write https://api.example"),
        ("127.0.0.1:9001", None, "write http://127.0.0.1:9001"),
        ("urn:example:service", None, "without origin="),
        ("", None, "without origin="),
        ("urn:example:service", "https://api.example/", "write https://api.example"),
        ("urn:example:service", "https://api.example/tasks", "write https://api.example"),
    ],
)
def test_an_audience_that_no_client_would_compare_as_equal_is_misuse_at_the_start(
    world: World, audience: str, origin: str | None, said: str
) -> None:
    changes = {} if origin is None else {"origin": origin}
    with pytest.raises(Misuse, match=re.escape(said)):
        required(world, audience=audience, challenges=MemoryChallengeRecord(AUDIENCE, SystemSalts()), **changes)
