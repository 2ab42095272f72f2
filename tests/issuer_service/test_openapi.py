"""Every answer of a real registry to requests made of its OpenAPI document is one that the document tells of."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from issuer_service.app import openapi_document
from issuer_service.cli.registry_process import Desk, running_registry

DOCUMENT = openapi_document()
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
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
def test_every_answer_is_as_documented(case: Case[Any], served: Desk) -> None:
    bearer = {"Authorization": f"Bearer {served.token}"}
    too_much = [*TOO_MUCH, negative_data_rejection] if is_sent_as_nothing(case) else TOO_MUCH
    case.call_and_validate(base_url=served.address, headers=bearer, excluded_checks=too_much)
