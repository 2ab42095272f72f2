"""OpenAPI parts that FastAPI cannot infer.

They are bodies that we parse, problem documents and cache headers.
"""

from http import HTTPStatus
from typing import Annotated, Any, TypeAlias

from fastapi import Depends, Request
from fastapi.security import HTTPBasic, HTTPBearer
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema
from starlette.requests import HTTPConnection

from issuer_service.problems import Problem
from issuer_service.wiring import Wiring
from sdcard.problems import PROBLEM

Responses: TypeAlias = dict[int | str, dict[str, Any]]

BEARER = HTTPBearer(auto_error=False, scheme_name="bearer", description="A token of `sdcard token create`.")
"""For the OpenAPI document; ``access.authorize`` reads the header itself."""


class _Documented(HTTPBasic):
    """FastAPI's own refuses what it cannot read."""

    async def __call__(self, request: HTTPConnection) -> None:
        """Do nothing: the dependency only documents."""


BASIC = _Documented(
    auto_error=False,
    scheme_name="client_secret_basic",
    description="A token's subject as name, and the token as password.",
)
"""The same for clients of the token endpoint; ``access.parse_client_credentials`` reads it."""

_BOUND = "sdcard.wiring"
_REFERENCE = "#/components/schemas/{model}"


def wiring_of(request: Request) -> Wiring:
    """Return the wiring of the application or of the mounted router."""
    wiring: Wiring | None = request.scope.get(_BOUND)
    return wiring or request.app.state.wiring


def bind_wiring(request: Request, wiring: Wiring) -> None:
    """Bind a request to this wiring, whatever the application's own is."""
    request.scope[_BOUND] = wiring


async def _wiring(request: Request) -> Wiring:
    """It waits for nothing; but FastAPI would have a thread do what is not ``async``."""
    return wiring_of(request)


FromWiring: TypeAlias = Annotated[Wiring, Depends(_wiring)]


def json_body(model: type[BaseModel]) -> dict[str, Any]:
    """A required JSON body of this shape, which ``components`` must be told of too."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": _reference(model)}}}}


def refusals(*statuses: HTTPStatus) -> Responses:
    """The problem documents that an endpoint answers with."""
    content = {PROBLEM: {"schema": _reference(Problem)}}
    return {
        int(status): {"description": f"{status.phrase}; `rule` says why.", "content": content} for status in statuses
    }


def components(*requests: type[BaseModel]) -> dict[str, Any]:
    """The schemas of problem documents and of these request bodies, by name."""
    models: list[tuple[type[BaseModel], JsonSchemaMode]] = [(Problem, "serialization")]
    models += [(request, "validation") for request in requests]
    _, definitions = models_json_schema(models, ref_template=_REFERENCE)
    schemas: dict[str, Any] = definitions["$defs"]
    return schemas


def _reference(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _REFERENCE.format(model=model.__name__)}
