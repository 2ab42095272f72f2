"""What FastAPI cannot see by itself: bodies that we read ourselves, problem documents, cache headers."""

from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

from fastapi import Depends, Request
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from issuer_service.problems import MEDIA_TYPE, STATUS, Problem
from issuer_service.wiring import Wiring
from sdcard.rules import Rule

Responses: TypeAlias = dict[int | str, dict[str, Any]]

_REFERENCE = "#/components/schemas/{model}"


def wiring_of(request: Request) -> Wiring:
    """The wiring that the application was created with."""
    wiring: Wiring = request.app.state.wiring
    return wiring


FromWiring: TypeAlias = Annotated[Wiring, Depends(wiring_of)]


def json_body(model: type[BaseModel]) -> dict[str, Any]:
    """A required JSON body of this shape, which ``components`` must be told of too."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": _reference(model)}}}}


def refusals(*rules: Rule) -> Responses:
    """The problem documents that an endpoint answers with, by status, with the rules behind each."""
    by_status: dict[int, list[Rule]] = {}
    for rule in rules:
        by_status.setdefault(STATUS[rule], []).append(rule)
    return {status: _problem(by_status[status]) for status in sorted(by_status)}


def components(*requests: type[BaseModel]) -> dict[str, Any]:
    """The schemas of problem documents and of these request bodies, by name."""
    models: list[tuple[type[BaseModel], JsonSchemaMode]] = [(Problem, "serialization")]
    models += [(request, "validation") for request in requests]
    _, definitions = models_json_schema(models, ref_template=_REFERENCE)
    schemas: dict[str, Any] = definitions["$defs"]
    return schemas


def _reference(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _REFERENCE.format(model=model.__name__)}


def _problem(rules: Sequence[Rule]) -> dict[str, Any]:
    described = " ".join(f"`{rule}`: {rule.sentence}" for rule in rules)
    return {"description": described, "content": {MEDIA_TYPE: {"schema": _reference(Problem)}}}
