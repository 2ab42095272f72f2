"""Bodies are bounded while they arrive, and are JSON that nobody compressed."""

import asyncio
from collections.abc import Iterator

import pytest
from starlette.requests import Request
from starlette.types import Message

from issuer_service.app import create_app
from issuer_service.container import Bounds
from issuer_service.request_context import read_json_body, read_small_json_body
from tests.issuer_service.desk import Desk, OpenDesk, assert_refused, request
from tests.world import raises_rule

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


def test_whoever_lowers_the_limit_lowers_all() -> None:
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
        asyncio.run(read_json_body(asked(endless(counted)), BOUNDS))

    assert len(counted) == 11


@pytest.mark.parametrize("declared", ["1001", "9" * 18, "9" * 5_000])
def test_a_body_that_declares_too_much_is_not_read_at_all(declared: str) -> None:
    counted: list[int] = []

    with raises_rule("limit.bytes", "request"):
        asyncio.run(read_json_body(asked(endless(counted), content_length=declared), BOUNDS))

    assert counted == []


@pytest.mark.parametrize("declared", ["1", "-5", "x", "\u0661"])
def test_a_body_that_declares_something_else_is_bounded_all_the_same(declared: str) -> None:
    with raises_rule("limit.bytes", "request"):
        asyncio.run(read_json_body(asked(endless([]), content_length=declared), BOUNDS))


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
