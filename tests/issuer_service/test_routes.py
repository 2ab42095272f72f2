"""HEAD and CORS, over every route that the registry has."""

import json
import re
from collections.abc import Iterator, Mapping

import httpx2
import pytest
from starlette.routing import Route
from starlette.testclient import TestClient

from issuer_service.app import create_app, openapi_document
from issuer_service.console.session import is_page
from issuer_service.routes import _OF_A_KIND, _OF_HTTP, PUBLIC_PATHS, STATUS, problem_response
from sdcard import Finding, Refused, Rule, Where
from sdcard.advice import ADVICE_OVER_HTTP
from sdcard.errors import AND_MORE, Level, Part
from sdcard.rules import Kind
from tests.issuer_service.console.visitor import Visitor
from tests.issuer_service.desk import Desk, OpenDesk, all_routes, assert_refused, request
from tests.issuer_service.transparency.logs import begin, grow
from tests.world import ISSUER

# -- HEAD and CORS, over every route that the registry has ------------------------------------------------------------

ORIGIN = {"origin": "https://verifier.example"}
PUBLIC = {
    "/.well-known/jwks.json",
    "/.well-known/status-jwks.json",
    "/.well-known/token-jwks.json",
    "/.well-known/jwt-vc-issuer",
    "/.well-known/oauth-authorization-server",
    "/status/{list_id}",
    "/catalogue",
    "/schemas/{name:path}",
    "/log/checkpoint",
    "/log/tile/{path:path}",
}


@pytest.fixture
def registry(desk: Desk) -> Iterator[OpenDesk]:
    with desk.open(console=True) as opened:
        yield opened


def routes() -> list[Route]:
    found = all_routes()
    assert all(isinstance(route, Route) for route in found), "a route of another kind: say here what HEAD does there"
    return [route for route in found if isinstance(route, Route)]


def paths(registry: OpenDesk, method: str) -> list[str]:
    """Every path that answers the method, with parameters that exist."""
    answer = registry.register(request())
    list_id = answer["cards"][0]["status"]["uri"].rpartition("/")[2]
    known = {"agent_id": "ai-assistant-v2", "list_id": list_id}
    return [filled(route.path, known) for route in routes() if method in (route.methods or ())]


def filled(path: str, known: Mapping[str, str]) -> str:
    """A path with its parameters."""
    return re.sub(r"\{(\w+)[^}]*\}", lambda name: known.get(name[1], "unknown"), path)


def comparable(answer: httpx2.Response) -> dict[str, str]:
    """The headers, without those that are drawn for each answer."""
    return {name: value for name, value in answer.headers.items() if name not in ("x-request-id", "set-cookie")}


def test_every_get_answers_head_with_the_same_headers_and_no_body(desk: Desk, registry: OpenDesk) -> None:
    signed_in = Visitor(registry).signed_in(desk.token).client
    bearer = {"authorization": f"Bearer {desk.token}"}
    every = paths(registry, "GET")
    answered = set()
    for path in every:
        for client, headers in ((registry.client, {}), (registry.client, bearer), (signed_in, {})):
            got = client.get(path, headers={**ORIGIN, **headers}, follow_redirects=False)
            head = client.head(path, headers={**ORIGIN, **headers}, follow_redirects=False)

            assert (head.status_code, comparable(head), head.content) == (got.status_code, comparable(got), b""), path
            assert ("set-cookie" in head.headers) == ("set-cookie" in got.headers), path
            answered |= {path} if got.status_code == 200 else set()

    assert len(every) >= 20
    assert len(answered) >= 15, "most of them were compared with an answer that has a body"


@pytest.mark.parametrize("end", ["%0A", "%0D", "%0D%0A", "%00", "%1F", "%7F", "%C2%85", "%E2%80%A8", "%0A%0A"])
def test_no_route_answers_a_path_with_a_control_character(desk: Desk, registry: OpenDesk, end: str) -> None:
    """A proxy that has rules for exact paths forwards it by other rules."""
    signed_in = Visitor(registry).signed_in(desk.token).client
    bearer = {"authorization": f"Bearer {desk.token}"}
    asked = [(method, path) for method in ("GET", "HEAD", "POST", "DELETE") for path in paths(registry, method)]
    before = desk.rows()
    for method, path in asked:
        for client, headers in ((registry.client, {}), (registry.client, bearer), (signed_in, {})):
            answer = client.request(method, f"{path}{end}", headers=headers)

            assert answer.status_code == 404, (method, path)
            if method != "HEAD" and not is_page(f"{path}\n"):
                assert_refused(answer, 404, ("request.not-found", "request/path"))

    assert desk.rows() == before
    assert len(asked) > 50


def test_head_of_a_path_without_get_is_refused_as_get_is(registry: OpenDesk) -> None:
    refused = 0
    for path in set(paths(registry, "POST")) - set(paths(registry, "GET")):
        got, head = registry.client.get(path), registry.client.head(path)

        assert (head.status_code, comparable(head), head.content) == (got.status_code, comparable(got), b""), path
        if got.status_code == 405:
            refused += 1
            assert "HEAD" not in head.headers["allow"]

    assert refused > 5


def test_allow_names_head_wherever_it_names_get(registry: OpenDesk) -> None:
    for path in paths(registry, "GET"):
        allowed = registry.client.request("TRACE", path).headers["allow"].split(", ")

        assert {"GET", "HEAD"} <= set(allowed), path


def test_head_is_not_documented_beside_every_get(registry: OpenDesk) -> None:
    documented = registry.get("/openapi.json").json()["paths"]

    assert not any("head" in operations for operations in documented.values())


def test_scripts_of_any_origin_read_keys_metadata_and_lists_and_nothing_else(desk: Desk, registry: OpenDesk) -> None:
    bearer = {"authorization": f"Bearer {desk.token}"}
    public = {route.path for route in routes() if route.path.startswith(PUBLIC_PATHS)}
    assert public == PUBLIC

    for method in ("GET", "HEAD", "POST", "DELETE", "OPTIONS"):
        for path in paths(registry, "GET") + paths(registry, "POST") + ["/nowhere", "/status", "/.well-known"]:
            for headers in ({}, bearer):
                if method in ("POST", "DELETE") and not path.startswith(PUBLIC_PATHS):
                    continue
                answer = registry.client.request(method, path, headers={**ORIGIN, **headers}, follow_redirects=False)
                expected = "*" if path.startswith(PUBLIC_PATHS) else None
                assert answer.headers.get("access-control-allow-origin") == expected, (method, path)
                assert not {name for name in answer.headers if name.startswith("access-control-")} - {
                    "access-control-allow-origin"
                }


CACHED = {
    **dict.fromkeys([path for path in sorted(PUBLIC) if path.startswith("/.well-known/")], "max-age=300"),
    **dict.fromkeys(["/schemas/{name:path}", "/inspector", "/docs", "/openapi.json"], "max-age=300"),
    "/status/{list_id}": r"max-age=([0-9]|[1-5][0-9]|60)",
    "/catalogue": "max-age=60",
    "/log/checkpoint": "max-age=5",
    "/log/tile/{path:path}": "max-age=31536000, immutable",
    "/console/style.css": "max-age=300",
}
"""What shared caches may keep of the answers to GET, and for how long."""


def test_shared_caches_keep_public_documents_and_nothing_else(desk: Desk) -> None:
    begin(desk)
    served = {route.path for route in routes() if "GET" in (route.methods or ())}
    documented = {path for path, operations in openapi_document()["paths"].items() if "get" in operations}
    assert documented <= {path.replace(":path}", "}") for path in served}
    with desk.open(console=True, catalogue=True) as registry:
        list_id = registry.register(request())["cards"][0]["status"]["uri"].rpartition("/")[2]
        grow(desk)
        known = {"agent_id": "ai-assistant-v2", "list_id": list_id, "name": "a2a/1.0"}
        signed_in = Visitor(registry).signed_in(desk.token).client
        for path in served:
            asked = filled(path, known | ({"path": "entries/000.p/16"} if path.startswith("/log/") else {}))
            answers = [
                client.get(asked, headers=headers, follow_redirects=False)
                for client in (registry.client, signed_in)
                for headers in ({}, {"authorization": f"Bearer {desk.token}"}, {"authorization": "Bearer wrong"})
            ]
            told = [one.headers["cache-control"] for one in answers if path not in CACHED or one.status_code == 200]
            if path not in CACHED:
                assert set(told) == {"no-store"}, path
                continue
            assert len(told) == 6, path
            assert all(re.fullmatch(f"public, {CACHED[path]}", one) for one in told), (path, told)
            assert len({one.content for one in answers}) == 1, f"{path} is the same for everybody"
            assert not any("set-cookie" in one.headers for one in answers), path
            if path != "/console/style.css":
                tag = answers[0].headers["etag"]
                same = registry.client.get(asked, headers={"if-none-match": tag})
                assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag), path
                assert same.headers["cache-control"] == told[0]
    assert set(CACHED) <= served


def test_refusals_of_public_documents_can_be_read_too(registry: OpenDesk) -> None:
    for path in ("/status/unknown", "/.well-known/unknown", "/status/1?time=1"):
        answer = registry.client.get(path, headers=ORIGIN)

        assert answer.status_code in (404, 501)
        assert answer.headers["access-control-allow-origin"] == "*"


def test_the_log_says_that_head_was_asked(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with TestClient(create_app(desk.container()), ISSUER) as client:
        client.head("/healthz")

    lines = [record for record in caplog.records if record.getMessage() == "request"]
    assert [(one.__dict__["method"], one.__dict__["route"], one.__dict__["status"]) for one in lines] == [
        ("HEAD", "/healthz", 200)
    ]


# -- HTTP statuses of rules, and problem documents --------------------------------------------------------------------

WHERE = Where(Part.CARD, ("skills", 0))


def test_every_rule_has_the_status_of_its_kind_and_only_rules_of_http_another() -> None:
    statuses = {kind: {STATUS[rule] for rule in Rule if rule.kind is kind and rule not in _OF_HTTP} for kind in Kind}

    assert statuses == {kind: {status} for kind, status in _OF_A_KIND.items()}
    assert len(set(_OF_A_KIND.values()) | set(_OF_HTTP.values())) == len(_OF_A_KIND) + len(_OF_HTTP)
    assert {str(rule).partition(".")[0] for rule in _OF_HTTP} == {"request"}
    assert set(STATUS) == set(Rule)


def test_every_rule_makes_a_problem_document() -> None:
    for rule in Rule:
        response = problem_response(Refused(rule, WHERE, "a hint"))

        document = json.loads(bytes(response.body))
        assert document == {
            "type": f"urn:sd-card:rule:{rule}",
            "title": rule.sentence,
            "status": response.status_code,
            "detail": "a hint",
            "rule": rule.value,
            "where": "card/skills/0",
            "advice": ADVICE_OVER_HTTP[rule],
            "findings": [{"rule": rule.value, "level": "error", "where": "card/skills/0", "hint": "a hint"}],
        }
        assert 400 <= response.status_code <= 503, rule
        assert response.media_type == "application/problem+json", rule
        assert ("www-authenticate" in response.headers) == (response.status_code in (401, 403)), rule
        assert ("connection" in response.headers) == (response.status_code == 408), rule
        assert ("retry-after" in response.headers) == (response.status_code == 503), rule


def test_only_the_registry_itself_is_to_blame_for_a_500() -> None:
    assert [rule for rule, status in STATUS.items() if status == 500] == [Rule.REGISTRY_FAILED]


def test_the_first_finding_names_the_problem() -> None:
    refusal = Refused.because([
        Finding(Rule.KEY_PRIVATE, WHERE), Finding(Rule.CARD_SIGNATURES, WHERE, level=Level.WARNING)
    ])  # fmt: skip

    document = json.loads(bytes(problem_response(refusal).body))

    assert document["rule"] == "key.private"
    assert document["detail"] == Rule.KEY_PRIVATE.sentence
    assert [one["level"] for one in document["findings"]] == ["error", "warning"]


@pytest.mark.parametrize(("count", "listed"), [(199, 199), (200, 200), (201, 200)])
def test_an_answer_lists_two_hundred_findings_and_says_that_there_are_more(count: int, listed: int) -> None:
    refusal = Refused.because([Finding(Rule.CARD_MEMBER_TYPE, WHERE)] * count)

    document = json.loads(bytes(problem_response(refusal).body))

    assert len(document["findings"]) == listed
    assert (AND_MORE in document["detail"]) == (count == 201)
