"""Request ids, log lines and bounded bodies."""

import asyncio
import io
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_network
from typing import Any

import httpx2
import pytest
from starlette.requests import Request
from starlette.types import Message

from issuer_service.app import create_app
from issuer_service.container import Bounds
from issuer_service.monitoring import logging_to
from issuer_service.request_context import digest_of, read_body, read_small_json_body
from tests.issuer_service.desk import Desk, OpenDesk, assert_refused, request, request_with_card
from tests.issuer_service.test_app import BrokenSalts
from tests.world import ISSUER, raises_rule

# -- Each request has an id, and a line in the log that tells nothing of what was sent --------------------------------

FRESH = re.compile(r"[0-9a-f]{32}")


@contextmanager
def lines_of() -> Iterator[Callable[[], list[dict[str, Any]]]]:
    stream = io.StringIO()
    with logging_to(stream, "json", "info"):
        yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]


ANSWERS: dict[str, Callable[[OpenDesk], httpx2.Response]] = {
    "201": lambda registry: registry.post(request()),
    "200": lambda registry: registry.get("/healthz"),
    "401": lambda registry: registry.post(request(), authorization="Bearer wrong"),
    "404": lambda registry: registry.get("/nowhere"),
    "405": lambda registry: registry.client.post("/healthz"),
    "413": lambda registry: registry.post(b" " * 2_000_000),
    "422": lambda registry: registry.post(request("bad id")),
}


@pytest.mark.parametrize("status", ANSWERS)
def test_every_answer_has_an_id_and_a_line(registry: OpenDesk, status: str) -> None:
    with lines_of() as lines:
        response = ANSWERS[status](registry)

    assert str(response.status_code) == status
    assert FRESH.fullmatch(response.headers["x-request-id"])
    (line,) = lines()
    assert (line["event"], line["status"]) == ("request", response.status_code)
    assert line["request_id"] == response.headers["x-request-id"]
    assert line["rule"] == (response.json()["rule"] if response.status_code >= 400 else None)


def test_a_bug_has_an_id_too_and_its_place_is_logged_under_it(desk: Desk) -> None:
    with desk.open(salts=BrokenSalts()) as registry, lines_of() as lines:
        response = registry.post(request())

    failed, over = lines()
    assert response.status_code == over["status"] == 500
    assert response.headers["x-request-id"] == failed["request_id"] == over["request_id"]
    assert failed["level"] == "error"
    assert over["rule"] == "registry.failed"


@pytest.mark.parametrize("given", ["0123abcd", "a" * 64, "01JD-X_y.z", "A1234567"])
def test_a_tidy_id_is_taken_over(registry: OpenDesk, given: str) -> None:
    assert registry.client.get("/healthz", headers={"x-request-id": given}).headers["x-request-id"] == given


@pytest.mark.parametrize(
    "given", ["", "short12", "a" * 65, "with space", "semi;colon1", "<script>1", "-leading1", "é" * 8, "a,bcdefgh"]
)
def test_another_one_is_replaced(registry: OpenDesk, given: str) -> None:
    answered = registry.client.get("/healthz", headers=[(b"x-request-id", given.encode("latin-1"))])

    assert FRESH.fullmatch(answered.headers["x-request-id"])


def test_two_ids_are_none(registry: OpenDesk) -> None:
    answered = registry.client.get("/healthz", headers=[("x-request-id", "0123abcd"), ("x-request-id", "4567abcd")])

    assert FRESH.fullmatch(answered.headers["x-request-id"])


def test_ids_are_fresh_and_do_not_come_from_where_salts_do(desk: Desk, registry: OpenDesk) -> None:
    drawn = len(desk.salts.drawn)

    ids = {registry.get("/healthz").headers["x-request-id"] for _ in range(20)}

    assert len(ids) == 20
    assert len(desk.salts.drawn) == drawn


def test_a_line_names_the_route_and_whose_token_it_was_and_not_what_was_sent(desk: Desk, registry: OpenDesk) -> None:
    with lines_of() as lines:
        answer = registry.register(request_with_card(agent_id="canary-agent"))
        registry.client.post(
            "/agents/canary-agent/suspend?canary=canary", json={}, headers={"authorization": f"Bearer {desk.token}"}
        )
        registry.get("/canary/path?canary")

    registered, suspended, unknown = lines()
    assert (registered["method"], registered["route"]) == ("POST", "/agents/register")
    assert (suspended["route"], suspended["status"]) == ("/agents/{agent_id}/suspend", 200)
    assert (unknown["route"], unknown["status"]) == ("none", 404)
    assert registered["caller"] == suspended["caller"] == digest_of("alice")
    assert unknown["caller"] is None
    text = json.dumps([registered, suspended, unknown])
    for secret in ("canary", desk.token, "alice", answer["cards"][0]["sd_card"][:40]):
        assert secret not in text


def test_an_unknown_method_is_not_logged(registry: OpenDesk) -> None:
    with lines_of() as lines:
        registry.client.request("CANARY", "/healthz")

    assert lines()[0]["method"] == "other"


FORGED = {
    "host": "canary.example",
    "x-forwarded-for": "198.51.100.1",
    "x-forwarded-host": "canary.example",
    "x-forwarded-proto": "https",
    "x-forwarded-port": "444",
    "x-forwarded-prefix": "/canary",
    "x-real-ip": "198.51.100.1",
    "forwarded": "for=198.51.100.1;host=canary.example;proto=https",
}


def test_forged_headers_change_neither_answer_nor_client(desk: Desk) -> None:
    with desk.open() as registry, lines_of() as lines:
        answers = [
            registry.client.get(path, headers=headers)
            for path in ("/.well-known/jwt-vc-issuer", "/.well-known/jwks.json", "/healthz", "/nowhere")
            for headers in ({}, FORGED)
        ]
        registered = registry.client.post(
            "/agents/register", json=request(), headers={**FORGED, "authorization": f"Bearer {desk.token}"}
        )

    assert all(plain.text == forged.text for plain, forged in zip(answers[::2], answers[1::2], strict=True))
    assert {line["client"] for line in lines()} == {"testclient"}
    assert registered.status_code == 201
    assert "canary" not in registered.text
    assert all(card["status"]["uri"].startswith(f"{ISSUER}/status/") for card in registered.json()["cards"])


def test_a_trusted_proxy_says_who_the_client_is_and_nothing_else(desk: Desk) -> None:
    proxies = (ip_network("192.0.2.0/24"),)
    with desk.open(peer="192.0.2.7", trusted_proxies=proxies) as registry, lines_of() as lines:
        said = registry.client.get(
            "/.well-known/jwt-vc-issuer", headers={**FORGED, "x-forwarded-for": "1.1.1.1, 198.51.100.1"}
        )

    assert lines()[0]["client"] == "198.51.100.1"
    assert said.json()["issuer"] == ISSUER
    assert "canary" not in said.text


# -- Bodies are bounded while they arrive, and are JSON that nobody compressed ----------------------------------------

MEDIA_TYPE = ("request.media-type", "request/headers/content-type")
BOUNDS = Bounds(body_bytes=1_000)


@pytest.mark.parametrize(
    "media_type",
    ["", "text/plain", "application/jsonp", "application/x-www-form-urlencoded", "multipart/form-data", "json"],
)
def test_another_media_type_is_refused(desk: Desk, registry: OpenDesk, media_type: str) -> None:
    before = desk.rows()

    assert_refused(registry.post(request(), content_type=media_type), 415, MEDIA_TYPE)
    assert desk.rows() == before


@pytest.mark.parametrize("media_type", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
def test_json_is_read_under_any_spelling(registry: OpenDesk, media_type: str) -> None:
    assert registry.post(request(), content_type=media_type).status_code == 201


def test_a_compressed_body_is_refused(registry: OpenDesk) -> None:
    response = registry.post(b"\x1f\x8b", content_encoding="gzip")

    assert_refused(response, 415, ("request.media-type", "request/headers/content-encoding"))


SMALL = ["agents/a/renew", "agents/a/revoke", "agents/a/suspend", "agents/a/reinstate", "agents/discover"]


@pytest.mark.parametrize("path", SMALL)
@pytest.mark.parametrize(("size", "status"), [(131_072, 400), (131_073, 413)])
def test_a_body_without_card_and_keys_has_a_lower_limit(registry: OpenDesk, path: str, size: int, status: int) -> None:
    headers = {"authorization": f"Bearer {registry.token}", "content-type": "application/json"}

    response = registry.client.post(f"/{path}", headers=headers, content=b" " * size)

    rule = "limit.bytes" if status == 413 else "json.malformed"
    assert_refused(response, status, (rule, "request"))


def test_a_lower_limit_lowers_all() -> None:
    counted: list[int] = []

    with raises_rule("limit.bytes", "request"):
        asyncio.run(read_small_json_body(asked(endless(counted)), BOUNDS))

    assert len(counted) == 11


@pytest.mark.parametrize("name", ["content-type", "content-encoding"])
def test_of_two_headers_neither_is_the_one_that_counts(desk: Desk, registry: OpenDesk, name: str) -> None:
    before = desk.rows()
    good = {"content-type": "application/json", "content-encoding": "identity"}
    headers = [("authorization", f"Bearer {registry.token}"), *good.items(), (name, "text/plain")]

    response = registry.client.post("/agents/register", headers=headers, content=b"{}")

    assert_refused(response, 415, ("request.media-type", f"request/headers/{name}"))
    assert desk.rows() == before


@pytest.mark.parametrize(("size", "status"), [(1_023, 400), (1_024, 400), (1_025, 413)])
@pytest.mark.parametrize("chunked", [False, True])
def test_the_limit_is_inclusive(desk: Desk, size: int, status: int, chunked: bool) -> None:
    def chunks() -> Iterator[bytes]:
        yield b" " * (size - 10)
        yield b" " * 10

    with desk.open(bounds=Bounds(body_bytes=1_024)) as registry:
        headers = {"authorization": f"Bearer {registry.token}", "content-type": "application/json"}
        content = chunks() if chunked else b" " * size
        response = registry.client.post("/agents/register", content=content, headers=headers)

    assert response.status_code == status


def asked(messages: Iterator[Message], **headers: str) -> Request:
    async def receive() -> Message:
        return next(messages)

    sent = {"content-type": "application/json", **headers}
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in sent.items()]
    return Request({"type": "http", "method": "POST", "path": "/", "headers": raw}, receive)


def endless(counted: list[int]) -> Iterator[Message]:
    while True:
        counted.append(1)
        yield {"type": "http.request", "body": b"a" * 100, "more_body": True}


def test_an_endless_body_is_left_where_it_passes_the_limit() -> None:
    counted: list[int] = []

    with raises_rule("limit.bytes", "request"):
        asyncio.run(read_body(asked(endless(counted)), BOUNDS))

    assert len(counted) == 11


@pytest.mark.parametrize("declared", ["1001", "9" * 18, "9" * 5_000])
def test_a_body_that_declares_too_much_is_not_read_at_all(declared: str) -> None:
    counted: list[int] = []

    with raises_rule("limit.bytes", "request"):
        asyncio.run(read_body(asked(endless(counted), content_length=declared), BOUNDS))

    assert counted == []


@pytest.mark.parametrize("declared", ["1", "-5", "x", "\u0661"])
def test_a_body_that_declares_something_else_is_bounded_all_the_same(declared: str) -> None:
    with raises_rule("limit.bytes", "request"):
        asyncio.run(read_body(asked(endless([]), content_length=declared), BOUNDS))


def test_a_client_that_leaves_gets_no_row(desk: Desk) -> None:
    before = desk.rows()
    messages: Iterator[Message] = iter(
        [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}]
    )
    sent: list[Message] = []

    async def ask() -> None:
        container = desk.container()
        whole = {"path": "/agents/register", "raw_path": b"/agents/register", "query_string": b"", "root_path": ""}
        scope = {**asked(messages, authorization=f"Bearer {desk.token}").scope, **whole}

        async def receive() -> Message:
            return next(messages)

        async def send(message: Message) -> None:
            sent.append(message)

        await create_app(container)(scope, receive, send)
        await container.database.close()

    asyncio.run(ask())

    assert sent[0]["status"] == 400
    assert desk.rows() == before
