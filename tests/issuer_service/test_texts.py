"""No text that a client sends is an error of the registry, and both databases answer alike.

The sweeps take columns from the tables and routes from the application, so a new one is swept by itself.
"""

import ast
import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import pytest
from fastapi.routing import APIRoute
from sqlalchemy import JSON, Connection, String, Text, literal, select

from issuer_service.app import openapi_document
from issuer_service.db.tables import metadata
from issuer_service.db.values import StoredJson, StoredText
from sdcard.delegation_chain import ACCESS_TOKEN_TYPE, TOKEN_EXCHANGE
from sdcard.errors import Refused
from sdcard.io.database import open_database
from tests.issuer_service.console.visitor import Visitor
from tests.issuer_service.desk import (
    Desk,
    OpenDesk,
    all_routes,
    assert_refused,
    on_both_databases,
    request,
    request_with_card,
)
from tests.postgres import Cluster
from tests.shared import ROOT, shared_dir

TEXTS = {
    "NUL": "1\0",
    "lone surrogate": "\ud800",
    "reversed pair": "\udc00\ud800",
    "non-characters": "\ufffe\uffff\ufdd0\U0001fffe",
    "beyond the BMP": "\U0010ffff",
    "300 characters": "x" * 300,
    "1 MB": "x" * 1_000_000,
}
MADE_HERE = {("used_nonces", "made_in"): "numbers of the database or of a file, in ASCII; no request has a part in it"}
"""Columns that no text of a client comes into, and why."""
COLUMNS = [(table.name, column) for table in metadata.sorted_tables for column in table.columns]


def test_every_column_of_text_has_a_type_that_checks_what_it_stores() -> None:
    texts = [(name, column) for name, column in COLUMNS if isinstance(_impl(column.type), String | Text | JSON)]

    assert len(texts) > 50
    unchecked = [(name, column.name) for name, column in texts if not isinstance(column.type, StoredText | StoredJson)]
    assert unchecked == list(MADE_HERE)


def test_no_statement_has_another_type_for_text() -> None:
    folder = ROOT / "issuer_service" / "db"
    imported = {
        (file.name, alias.name)
        for file in sorted({*folder.glob("*.py")} - {folder / "state_check.py"})  # which casts values to compare them
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    assert {file for file, name in imported if name in ("JSON", "String", "Text", "Unicode", "VARCHAR")} == {
        "values.py"
    }


def _impl(kind: Any) -> Any:
    return getattr(kind, "impl", kind)


def storable(text: str, most: int | None) -> bool:
    return "\0" not in text and not _surrogates(text) and (most is None or len(text) <= most)


def _surrogates(text: str) -> bool:
    return text.encode(errors="ignore").decode() != text


@on_both_databases
def test_both_databases_store_the_same_texts_in_every_column(desk: Desk) -> None:
    def sweep(connection: Connection) -> list[tuple[str, str, str]]:
        wrong = []
        value: object
        for table, column in COLUMNS:
            for name, text in TEXTS.items():
                if isinstance(column.type, StoredText):
                    value, expected = text, storable(text, column.type.length)
                elif isinstance(column.type, StoredJson):
                    value, expected = [{text: text}], not _surrogates(text)
                else:
                    continue
                try:
                    stored = connection.execute(select(literal(value, column.type))).scalar() == value
                except Refused:
                    stored = False
                if stored is not expected:
                    wrong.append((table, column.name, name))
        return wrong

    async def run() -> list[tuple[str, str, str]]:
        database = open_database(desk.url)
        try:
            return await database.read(sweep)
        finally:
            await database.close()

    assert asyncio.run(run()) == []


# -- routes -----------------------------------------------------------------------------------------------------------

ENCODED = {
    "NUL": "1%00",
    "surrogate in UTF-8": "%ED%A0%80",
    "no UTF-8": "%FF%C0%80",
    "non-characters": quote("\ufffe\uffff\ufdd0\U0001fffe"),
    "300 characters": "x" * 300,
    "1 MB": "x" * 1_000_000,
}
"""In paths, queries and forms."""
RAW = {"NUL": b"1\0", "bytes": b"\xed\xa0\x80\xff", "300 characters": b"x" * 300, "64 KB": b"x" * 65_000}
"""In headers."""
QUERIES = ("cursor", "limit", "begins", "interaction_id", "after", "time", "\0")
HEADERS = (
    *("authorization", "accept", "accept_encoding", "content_type", "cookie", "dpop", "host", "idempotency_key"),
    *("if_none_match", "origin", "sec_fetch_site", "x_forwarded_for", "x_request_id"),
)
PATHS = {
    "agent_id": "swept",
    "list_id": "0" * 32,
    "approval_id": "0" * 32,
    "review_id": "0" * 32,
    "name": "revoke",
    "path": "nowhere",
}
CARD = {
    "name": "N",
    "description": "d",
    "version": "1",
    "supportedInterfaces": [{"url": "https://a.example/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
    "capabilities": {},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "s", "name": "S", "description": "d", "tags": ["t"]}],
    "x": "unknown members are kept",
}
BODIES: Mapping[str, dict[str, Any]] = {
    "/agents/register": request_with_card(CARD, agent_id="swept", supersedes="revoke", interaction_id="i"),
    "/agents/discover": {
        "query": {"skills": ["s"], "tags": ["t"], "text": "n", "capabilities": {"streaming": True}},
        "context": "public",
        "requester_claims": {"organization": "o", "roles": ["r"]},
    },
    "/agents/{agent_id}/renew": {"interaction_id": "i", "supersedes": "run_out"},
    "/agents/{agent_id}/keys": {"public_key": request()["public_key"], "interaction_id": "i"},
    "/reviews/{review_id}/reject": {"reason": "r"},
    **{f"/agents/{{agent_id}}/{name}": {"context": "full"} for name in ("suspend", "reinstate", "revoke")},
}
"""Requests that are granted, or are as far as their agent goes."""
FORMS: Mapping[str, dict[str, str]] = {
    "/token": {
        "grant_type": TOKEN_EXCHANGE,
        "subject_token": "TOKEN",
        "subject_token_type": ACCESS_TOKEN_TYPE,
        "audience": "agent:swept",
        "scope": "read",
        "interaction_id": "i",
        "approval_handle": "0" * 32,
    },
    "/introspect": {"token": "TOKEN", "token_type_hint": "access_token"},
    "/revoke": {"token": "other", "token_type_hint": "access_token"},
    "/console/agents/{agent_id}/{name}": {"csrf": "CSRF", "context": "full", "interaction_id": "i"},
    "/console/approvals/{approval_id}/{name}": {"csrf": "CSRF"},
    "/console/reviews/{review_id}/{name}": {"csrf": "CSRF", "reason": "r"},
    "/console/sign-in": {"csrf": "x", "token": "TOKEN"},
    "/console/sign-out": {"csrf": "x"},
}
JSON_BODY = {"content_type": b"application/json"}
FORM = {"content_type": b"application/x-www-form-urlencoded", "sec_fetch_site": b"same-origin", "origin": b"null"}
NO_HISTORY = (501, [("status-list.time", "request/query/time")])
"""Token Status List 8.4: what a registry answers that keeps no lists of the past."""
NO_BODY = {
    *("/nonces", "/reviews/{review_id}/approve"),
    *("/delegations/approvals/{approval_id}/approve", "/delegations/approvals/{approval_id}/deny"),
}


class Side(NamedTuple):
    """A registry on one of the databases, and a browser that is signed in at its console."""

    desk: Desk
    registry: OpenDesk
    browser: Visitor

    def send(self, method: str, target: str, body: bytes = b"", **headers: bytes) -> tuple[int, object]:
        """Status, and what was refused. No client stands between, which would mend or refuse what is odd."""
        path, _, query = target.partition("?")
        cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in self.browser.client.cookies.jar)
        sent = {b"authorization": f"Bearer {self.registry.token}".encode(), b"cookie": cookies.encode()}
        sent |= {name.encode().replace(b"_", b"-"): value for name, value in headers.items()}
        scope = {
            "type": "http",
            "method": method,
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": list(sent.items()),
            "client": ("testclient", 1),
            "scheme": "http",
            "http_version": "1.1",
            "root_path": "",
        }
        events = list[Any]()

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(event: Any) -> None:
            events.append(event)

        client = self.browser.client
        assert client.portal is not None
        client.portal.call(client.app, scope, receive, send)
        return events[0]["status"], refused(events[0]["headers"], b"".join(one.get("body", b"") for one in events[1:]))


def refused(headers: Iterable[tuple[bytes, bytes]], body: bytes) -> object:
    if b"json" not in dict(headers).get(b"content-type", b""):
        return None
    found = json.loads(body)
    return [(one["rule"], one["where"]) for one in found["findings"]] if "findings" in found else found.get("error")


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory, postgres: Cluster) -> Iterator[tuple[Side, Side]]:
    """A registry on SQLite and one on PostgreSQL, which get the same requests."""
    desks = [
        Desk(tmp_path_factory.mktemp("sqlite")),
        Desk(tmp_path_factory.mktemp("postgresql"), postgres.url(postgres.new_database("prepared"))),
    ]
    with desks[0].open(console=True) as one, desks[1].open(console=True) as other:
        pair = [Side(desk, opened, Visitor(opened)) for desk, opened in zip(desks, (one, other), strict=True)]
        for side in pair:
            side.registry.register(request_with_card(CARD, agent_id="swept"))
            side.browser.signed_in(side.registry.token)
        yield pair[0], pair[1]


ROUTES = sorted(
    [
        (method, route.path)
        for route in all_routes()
        if isinstance(route, APIRoute)
        for method in (route.methods or set()) - {"HEAD"}
    ],
    key=lambda route: (route[0] == "DELETE", route),  # the agent is needed until then
)


class Sent(NamedTuple):
    """A request: what is odd in it, where it goes, its body, and headers beside the usual ones."""

    name: str
    target: str
    body: bytes = b""
    headers: Mapping[str, bytes] = {}


def requests_of(method: str, path: str) -> Iterator[Sent]:
    """Every place of a route that takes a text, with every text."""
    form = path.replace(":path", "")
    plain = form.format(**PATHS)
    parameters = [name for name in PATHS if f"{{{name}}}" in form]
    body, headers = b"", dict[str, bytes]()
    if method == "POST" and path in BODIES:
        body, headers = json.dumps(BODIES[path]).encode(), JSON_BODY
    for name, text in ENCODED.items():
        for parameter in parameters:
            yield Sent(f"{parameter}: {name}", form.format(**{**PATHS, parameter: text}), body, headers)
        for parameter in map(quote, QUERIES):
            yield Sent(f"?{parameter}: {name}", f"{plain}?{parameter}={text}", body, headers)
    for name, data in RAW.items():
        for header in HEADERS:
            yield Sent(f"{header}: {name}", plain, body, {**headers, header: data})
    if method == "POST":
        yield from bodies_of(path, plain)


def bodies_of(path: str, plain: str) -> Iterator[Sent]:
    """Every member of a body, with every text; and every member that it may have beside them."""
    for name, text in TEXTS.items() if path in BODIES else ():
        whole = BODIES[path]
        documents = [(str(place), replaced(whole, place, text)) for place in places(whole)]
        documents += [(f"name of {place}", renamed(whole, place, text)) for place in named(whole)]
        documents += [(member, {**whole, member: text}) for member in schema_members(path) - whole.keys()]
        for where, document in documents:
            yield Sent(f"{where}: {name}", plain, json.dumps(document).encode(), JSON_BODY)
    for name, text in ENCODED.items() if path in FORMS else ():
        for member in {**FORMS[path], **dict.fromkeys(schema_members(path)), "\0": ""}:
            others = [f"{one}={quote(value)}" for one, value in FORMS[path].items() if one != member]
            yield Sent(f"{member}: {name}", plain, "&".join([*others, f"{quote(member)}={text}"]).encode(), FORM)


def places(value: object, here: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Return the places of all texts, numbers and flags."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*here, key))
    else:
        yield here


def named(value: object) -> Iterator[tuple[str | int, ...]]:
    """Return the members whose value is a text, number or flag."""
    return (place for place in places(value) if isinstance(place[-1], str))


def replaced(value: Any, place: tuple[str | int, ...], text: str) -> Any:
    """With the text at the place."""
    if not place:
        return text
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = replaced(value[place[0]], place[1:], text)
    return copy


def renamed(value: Any, place: tuple[str | int, ...], text: str) -> Any:
    """With the text as the name of the member at the place."""
    if len(place) == 1:
        return {text if name == place[0] else name: one for name, one in value.items()}
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = renamed(value[place[0]], place[1:], text)
    return copy


def schema_members(path: str) -> set[str]:
    """The members that the OpenAPI document tells of."""
    document = openapi_document()
    operation = document["paths"].get(path, {}).get("post", {})
    schemas = [one["schema"] for one in operation.get("requestBody", {}).get("content", {}).values()]
    names = set[str]()
    for schema in schemas:
        target = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
        names |= target["properties"].keys()
    return names


def test_every_route_that_takes_a_body_has_one_here() -> None:
    posts = {path for method, path in ROUTES if method not in ("GET", "DELETE")}

    assert posts == {*BODIES, *FORMS, *NO_BODY}


@pytest.mark.parametrize(("method", "path"), ROUTES, ids=lambda value: value)
def test_both_databases_answer_alike_whatever_the_text(sides: tuple[Side, Side], method: str, path: str) -> None:
    wrong = []
    for sent in requests_of(method, path):
        answers = [side.send(method, sent.target, personal(sent.body, side), **sent.headers) for side in sides]
        if answers[0] != answers[1] or (answers[0][0] >= 500 and answers[0] != NO_HISTORY):
            wrong.append((sent.name, *answers))

    assert wrong == []


def personal(body: bytes, side: Side) -> bytes:
    """With what this registry alone takes."""
    body = body.replace(b"=TOKEN", f"={side.registry.token}".encode())
    return body.replace(b"=CSRF", f"={side.browser.csrf()}".encode()) if b"=CSRF" in body else body


# -- the case that showed it ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["with_card", "without_card"])
@on_both_databases
def test_a_version_with_nul_is_refused_where_it_is(desk: Desk, registry: OpenDesk, variant: str) -> None:
    case = json.loads((shared_dir() / "cases-2" / "N2-013.json").read_text(encoding="utf-8"))["input"]
    body = request_with_card(case["card"])
    if variant == "without_card":
        del body["card"]
        body["disclosure_contexts"] = [{"context": "public"}]
    before = desk.rows()

    response = registry.post(body)

    assert_refused(response, 422, ("request.malformed", "card/version"))
    assert desk.rows() == before
