"""What belongs to no endpoint: unknown paths, bugs, the OpenAPI document."""

import logging
from typing import Any

import pytest

from issuer_service.agents.schemas import RegistrationRequest
from tests.issuer_service.desk import Desk, OpenDesk, assert_refused, request
from tests.world import RecordingSalts


@pytest.mark.parametrize(
    "path", ["/", "/nowhere", "/agents/register/", "/docs", "/redoc", "/%00", "/%ff", "/..%2fetc", "//", "/nonces/x"]
)
def test_an_unknown_path_is_a_problem_document(registry: OpenDesk, path: str) -> None:
    assert_refused(registry.get(path), 404, ("request.not-found", "request/path"))


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS", "NONSENSE"])
def test_another_method_is_a_problem_document(registry: OpenDesk, method: str) -> None:
    response = registry.client.request(method, "/agents/register")

    assert_refused(response, 405, ("request.method", "request/method"))
    assert response.headers["allow"] == "POST"


@pytest.mark.parametrize(
    ("path", "methods"),
    [("/agents", "GET, HEAD"), ("/agents/x", "DELETE, GET, HEAD"), ("/agents/x/renew", "POST"), ("/nonces", "POST")],
)
def test_a_path_says_all_methods_that_it_answers(registry: OpenDesk, path: str, methods: str) -> None:
    assert registry.client.request("PATCH", path).headers["allow"] == methods


class BrokenSalts(RecordingSalts):
    """A source of randomness that fails, with a message that nobody may see."""

    def draw(self, count: int) -> bytes:
        raise ValueError("canary-in-an-exception")


def test_a_bug_shows_and_logs_nothing_of_what_was_sent(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with desk.open(salts=BrokenSalts()) as registry:
        response = registry.post(request())

    assert_refused(response, 500, ("registry.failed", "request"))
    assert "canary-in-an-exception" not in response.text
    assert "canary-in-an-exception" not in caplog.text
    assert "unforeseen ValueError at draw" in caplog.text


def test_the_openapi_document_is_complete(registry: OpenDesk) -> None:
    document = registry.get("/openapi.json").json()

    assert set(document["paths"]) == {
        "/agents/register", "/agents/discover", "/.well-known/jwt-vc-issuer", "/.well-known/jwks.json", "/healthz",
        "/.well-known/status-jwks.json", "/status/{list_id}", "/readyz",
        "/agents", "/agents/{agent_id}", "/agents/{agent_id}/renew", "/agents/{agent_id}/keys", "/nonces",
        "/agents/{agent_id}/revoke", "/agents/{agent_id}/suspend", "/agents/{agent_id}/reinstate",
        "/token", "/introspect", "/revoke", "/.well-known/oauth-authorization-server", "/.well-known/token-jwks.json",
        *(f"/delegations/approvals{one}" for one in ("", "/{approval_id}/approve", "/{approval_id}/deny")),
    }  # fmt: skip
    operation = document["paths"]["/agents/register"]["post"]
    assert set(operation["responses"]) == {"201", "400", "401", "403", "408", "409", "413", "415", "422", "429", "503"}
    assert operation["security"] == [{"bearer": []}]
    assert document["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    for status, response in operation["responses"].items():
        media_type = "application/json" if status == "201" else "application/problem+json"
        assert set(response["content"]) == {media_type}


def test_every_reference_of_the_openapi_document_leads_somewhere(registry: OpenDesk) -> None:
    document = registry.get("/openapi.json").json()

    references = set(_references(document))

    assert {"#/components/schemas/RegistrationRequest", "#/components/schemas/Problem"} <= references
    for reference in references:
        assert reference.rpartition("/")[2] in document["components"]["schemas"]


def test_the_openapi_document_names_every_member_of_a_request(registry: OpenDesk) -> None:
    schema = registry.get("/openapi.json").json()["components"]["schemas"]["RegistrationRequest"]

    assert set(schema["properties"]) == set(RegistrationRequest.model_fields)
    assert schema["additionalProperties"] is False
    assert "null" not in repr(schema)
    assert schema["properties"]["public_keys"]["maxItems"] == 64


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if "$ref" in value else []
        return own + [reference for member in value.values() for reference in _references(member)]
    return [reference for element in value for reference in _references(element)] if isinstance(value, list) else []
