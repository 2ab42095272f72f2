"""Endpoints of an owner's agents: list, show, delete, renew, change keys.

The paths are ``GET /agents``; ``GET`` and ``DELETE /agents/{agent_id}``; ``…/renew`` and ``…/keys``.
"""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request, Response, Security

from issuer_service.access import Scope
from issuer_service.bodies import read_json_body, read_small_json_body
from issuer_service.calling import authorize
from issuer_service.lifecycle import service
from issuer_service.lifecycle.schemas import MOST_LISTED, AgentDeleted, AgentList, AgentShown, KeyChange, Renewal
from issuer_service.openapi import BEARER, FromWiring, json_body, refusals
from issuer_service.registration.answers import IDEMPOTENCY_KEY, REFUSALS, issued, repeatable
from issuer_service.registration.schemas import REQUEST, Registered
from sdcard.errors import Refused
from sdcard.rules import Rule

router = APIRouter(tags=["agents"])

_DEPENDENCIES = [Security(BEARER)]
_ISSUING = {**REFUSALS, **refusals(HTTPStatus.NOT_FOUND)}
_LISTING = refusals(
    HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.SERVICE_UNAVAILABLE
)
_ONE = refusals(HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE)
_PAGE: dict[str, Any] = {
    "parameters": [
        {
            "name": "limit",
            "in": "query",
            "required": False,
            "schema": {"type": "integer", "minimum": 1, "maximum": MOST_LISTED, "default": MOST_LISTED // 2},
        },
        {
            "name": "cursor",
            "in": "query",
            "required": False,
            "description": "`next_cursor` of the page before.",
            "schema": {"type": "string"},
        },
    ]
}


@router.get(
    "/agents",
    summary="The caller's agents",
    responses=_LISTING,
    openapi_extra=_PAGE,
    dependencies=_DEPENDENCIES,
)
async def list_agents(request: Request, wiring: FromWiring, response: Response) -> AgentList:
    """The caller's agents, in pages."""
    caller = await authorize(request, wiring, Scope.AGENTS_MANAGE)
    query = request.query_params
    _check_query(list(query), ("limit", "cursor"))
    response.headers["Cache-Control"] = "no-store"
    return await service.list_agents(wiring, caller, query.getlist("cursor"), query.getlist("limit"))


def _check_query(given: Sequence[str], known: Sequence[str]) -> None:
    """A misspelt parameter would silently mean nothing."""
    if any(name not in known for name in given):
        raise Refused(Rule.REQUEST, REQUEST.within("query"), f"There are the parameters {' and '.join(known)}.")


@router.get("/agents/{agent_id}", summary="One of the caller's agents", responses=_ONE, dependencies=_DEPENDENCIES)
async def show_agent(agent_id: str, request: Request, wiring: FromWiring, response: Response) -> AgentShown:
    """Return the caller's agent: its registration and its unexpired SD-Cards."""
    caller = await authorize(request, wiring, Scope.AGENTS_MANAGE)
    response.headers["Cache-Control"] = "no-store"
    return await service.show_agent(wiring, caller, agent_id)


@router.delete("/agents/{agent_id}", summary="Delete an agent", responses=_ONE, dependencies=_DEPENDENCIES)
async def delete_agent(agent_id: str, request: Request, wiring: FromWiring, response: Response) -> AgentDeleted:
    """Revoke an agent's SD-Cards and forget it. Its id and keys stay reserved."""
    caller = await authorize(request, wiring, Scope.AGENTS_MANAGE)
    response.headers["Cache-Control"] = "no-store"
    return await service.delete_agent(wiring, caller, agent_id)


@router.post(
    "/agents/{agent_id}/renew",
    status_code=HTTPStatus.CREATED,
    response_model=Registered,
    summary="Issue an agent's SD-Cards again",
    responses=_ISSUING,
    openapi_extra={**json_body(Renewal), "parameters": [IDEMPOTENCY_KEY]},
    dependencies=_DEPENDENCIES,
)
async def renew_agent(agent_id: str, request: Request, wiring: FromWiring) -> Response:
    """Issue an agent's SD-Cards again under the present policy.

    The card, contexts and keys stay the same.
    """
    caller = await authorize(request, wiring, Scope.AGENTS_REGISTER)
    body = await read_small_json_body(request, wiring.bounds)
    asked = repeatable(*_headers(request), caller, f"renew {agent_id}", body)
    return issued(await service.renew_agent(wiring, caller, agent_id, body, asked))


@router.post(
    "/agents/{agent_id}/keys",
    status_code=HTTPStatus.CREATED,
    response_model=Registered,
    summary="Change an agent's Holder keys",
    responses=_ISSUING,
    openapi_extra={**json_body(KeyChange), "parameters": [IDEMPOTENCY_KEY]},
    dependencies=_DEPENDENCIES,
)
async def change_keys(agent_id: str, request: Request, wiring: FromWiring) -> Response:
    """Issue an agent's SD-Cards again, bound to other keys."""
    caller = await authorize(request, wiring, Scope.AGENTS_REGISTER)
    body = await read_json_body(request, wiring.bounds)
    asked = repeatable(*_headers(request), caller, f"keys {agent_id}", body)
    return issued(await service.change_keys(wiring, caller, agent_id, body, asked))


def _headers(request: Request) -> tuple[list[str], list[str]]:
    return request.headers.getlist("idempotency-key"), request.headers.getlist("authorization")
