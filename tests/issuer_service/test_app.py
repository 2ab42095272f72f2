"""The application, and its answers against its OpenAPI document."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from issuer_service.agents.schemas import RegistrationRequest
from issuer_service.app import openapi_document
from issuer_service.server import Desk as RunningDesk
from issuer_service.server import running_registry
from tests.issuer_service.desk import Desk, OpenDesk, assert_refused, request
from tests.world import RecordingSalts

# -- What belongs to no endpoint: unknown paths, bugs, the OpenAPI document -------------------------------------------


@pytest.mark.parametrize(
    "path", ["/nowhere", "/agents/register/", "/docs/", "/redoc", "/%00", "/%ff", "/..%2fetc", "/nonces/x"]
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
        "/agents/{agent_id}/domains", "/catalogue", "/schemas/{name}", "/log/checkpoint", "/log/tile/{path}",
        "/agents/{agent_id}/log-proofs",
        "/agents/{agent_id}/revoke", "/agents/{agent_id}/suspend", "/agents/{agent_id}/reinstate",
        "/token", "/introspect", "/revoke", "/.well-known/oauth-authorization-server", "/.well-known/token-jwks.json",
        *(f"/reviews{one}" for one in ("", "/{review_id}", "/{review_id}/approve", "/{review_id}/reject")),
        *(f"/delegations/approvals{one}" for one in ("", "/{approval_id}/approve", "/{approval_id}/deny")),
    }  # fmt: skip
    operation = document["paths"]["/agents/register"]["post"]
    assert set(operation["responses"]) == {
        *("201", "202", "400", "401", "403", "408", "409", "413", "415", "422", "429", "503")
    }
    assert operation["security"] == [{"bearer": []}]
    assert document["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    for status, response in operation["responses"].items():
        media_type = "application/json" if status in ("201", "202") else "application/problem+json"
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


# -- Every answer of a real registry to requests made of its OpenAPI document is one that the document tells of -------

DOCUMENT = openapi_document()
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDesk]:
    with running_registry(Path(tmp_path_factory.mktemp("served"))) as desk:
        yield desk


TOO_MUCH: list[Any] = [positive_data_acceptance]
"""A schema cannot tell which keys are points of a curve, or which contexts the operator has: 422 is an answer."""


def is_sent_as_nothing(case: Case[Any]) -> bool:
    """Whether the query has undocumented parameters whose values leave nothing of them in the URL."""
    documented = {parameter.name for parameter in case.operation.query}
    undocumented = [value for name, value in (case.query or {}).items() if name not in documented]
    return bool(undocumented) and not any(undocumented)


@pytest.mark.slow
@SCHEMA.parametrize()
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_answer_is_as_documented(case: Case[Any], served: RunningDesk) -> None:
    bearer = {"Authorization": f"Bearer {served.token}"}
    too_much = [*TOO_MUCH, negative_data_rejection] if is_sent_as_nothing(case) else TOO_MUCH
    case.call_and_validate(base_url=served.address, headers=bearer, excluded_checks=too_much)
