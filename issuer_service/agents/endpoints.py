"""Endpoints of agents: registration, renewal, listing and deletion."""

from collections.abc import Awaitable, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request, Response, Security

from issuer_service.access import Scope
from issuer_service.agents import lifecycle, registration
from issuer_service.agents.idempotency import IDEMPOTENCY_KEY, REFUSALS, read_idempotent_request
from issuer_service.agents.nonces import NonceIssued, issue_nonce
from issuer_service.agents.schemas import (
    MOST_LISTED,
    REQUEST,
    AgentDeleted,
    AgentDomains,
    AgentList,
    AgentShown,
    KeyChange,
    Registered,
    RegistrationRequest,
    Renewal,
)
from issuer_service.request_context import authorize, read_body, read_small_json_body
from issuer_service.reviews.records import ReviewPending
from issuer_service.reviews.schemas import WaitingForApproval, waiting_answer
from issuer_service.routes import BEARER, FastRoute, FromContainer, Responses, container_of, json_body, refusals
from sdcard.errors import Refused
from sdcard.rules import Rule

# -- ``POST /agents/register`` (SD-Card 3.3.1), and ``POST /nonces`` for proofs ---------------------------------------

router = APIRouter(tags=["registration"], route_class=FastRoute)

_WAITING: Responses = {
    int(HTTPStatus.ACCEPTED): {"model": WaitingForApproval, "description": "A person has to approve it first."}
}
_NO_STORE = {"Cache-Control": "no-store"}
_SECURITY: dict[str, Any] = {"security": [{BEARER.scheme_name: []}]}
_NONCE_REFUSALS = refusals(HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.SERVICE_UNAVAILABLE)


@router.post(
    "/agents/register",
    status_code=HTTPStatus.CREATED,
    response_model=Registered,
    summary="Register an agent and issue its SD-Cards",
    responses={**REFUSALS, **_WAITING},
    openapi_extra={**json_body(RegistrationRequest), "parameters": [IDEMPOTENCY_KEY], **_SECURITY},
)
async def register_agent(request: Request) -> Response:
    """Register an agent, and issue one SD-Card for each context and key.

    An agent that is registered already is registered again.
    """
    container = container_of(request)
    caller = await authorize(request, container, Scope.AGENTS_REGISTER)
    body = await read_body(request, container.bounds)
    asked = (
        read_idempotent_request(request, caller, "register", body)
        if IDEMPOTENCY_KEY["name"] in request.headers
        else None
    )
    return await _issued(registration.register_agent(container, caller, body, asked))


@router.post(
    "/nonces",
    status_code=HTTPStatus.CREATED,
    response_model=NonceIssued,
    summary="A nonce for proofs of possession",
    responses=_NONCE_REFUSALS,
    openapi_extra=_SECURITY,
)
async def new_nonce(request: Request) -> Response:
    """A nonce that works once, for a few minutes, and for this caller.

    A body plays no part.
    """
    container = container_of(request)
    caller = await authorize(request, container, Scope.AGENTS_REGISTER, Scope.TOKENS_EXCHANGE)
    answer = (await issue_nonce(container, caller)).model_dump_json().encode()
    return Response(answer, HTTPStatus.CREATED, _NO_STORE, "application/json")


async def _issued(work: Awaitable[bytes]) -> Response:
    """Make the response: 201, or 202 while a person has to approve it."""
    try:
        answer, status = await work, HTTPStatus.CREATED
    except ReviewPending as waiting:
        answer, status = waiting_answer(waiting.review).model_dump_json().encode(), HTTPStatus.ACCEPTED
    return Response(answer, status, _NO_STORE, "application/json")


# -- Endpoints of an owner's agents: list, show, delete, renew, change keys -------------------------------------------
# The paths are ``GET /agents``; ``GET`` and ``DELETE /agents/{agent_id}``; ``…/renew`` and ``…/keys``.

lifecycle_router = APIRouter(tags=["agents"])

_DEPENDENCIES = [Security(BEARER)]
_ISSUING = {**REFUSALS, **_WAITING, **refusals(HTTPStatus.NOT_FOUND)}
_LISTING = refusals(
    HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.SERVICE_UNAVAILABLE
)
_ONE = refusals(HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE)
_ISSUED_BEFORE = {**_ONE, **refusals(HTTPStatus.CONFLICT)}
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


@lifecycle_router.get(
    "/agents", summary="The caller's agents", responses=_LISTING, openapi_extra=_PAGE, dependencies=_DEPENDENCIES
)
async def list_agents(request: Request, container: FromContainer, response: Response) -> AgentList:
    """The caller's agents, in pages."""
    caller = await authorize(request, container, Scope.AGENTS_MANAGE)
    query = request.query_params
    _check_query(list(query), ("limit", "cursor"))
    response.headers["Cache-Control"] = "no-store"
    return await lifecycle.list_agents(container, caller, query.getlist("cursor"), query.getlist("limit"))


def _check_query(given: Sequence[str], known: Sequence[str]) -> None:
    """A misspelt parameter would silently mean nothing."""
    if any(name not in known for name in given):
        raise Refused(Rule.REQUEST, REQUEST.within("query"), f"There are the parameters {' and '.join(known)}.")


@lifecycle_router.get(
    "/agents/{agent_id}", summary="One of the caller's agents", responses=_ONE, dependencies=_DEPENDENCIES
)
async def show_agent(agent_id: str, request: Request, container: FromContainer, response: Response) -> AgentShown:
    """Return the caller's agent: its registration and its unexpired SD-Cards.

    A token that registers may read it too: a renewal begins with it.
    """
    caller = await authorize(request, container, Scope.AGENTS_MANAGE, Scope.AGENTS_REGISTER)
    response.headers["Cache-Control"] = "no-store"
    return await lifecycle.show_agent(container, caller, agent_id)


@lifecycle_router.get(
    "/agents/{agent_id}/domains",
    summary="The hosts of an agent, and what they have to publish",
    responses=_ISSUED_BEFORE,
    dependencies=_DEPENDENCIES,
)
async def show_domains(agent_id: str, request: Request, container: FromContainer, response: Response) -> AgentDomains:
    """Return what the hosts of the agent's card publish to prove control.

    The result of the last check is with it.
    """
    caller = await authorize(request, container, Scope.AGENTS_MANAGE)
    response.headers["Cache-Control"] = "no-store"
    return await lifecycle.show_domains(container, caller, agent_id)


@lifecycle_router.delete("/agents/{agent_id}", summary="Delete an agent", responses=_ONE, dependencies=_DEPENDENCIES)
async def delete_agent(agent_id: str, request: Request, container: FromContainer, response: Response) -> AgentDeleted:
    """Revoke an agent's SD-Cards and forget it. Its id and keys stay reserved."""
    caller = await authorize(request, container, Scope.AGENTS_MANAGE)
    response.headers["Cache-Control"] = "no-store"
    return await lifecycle.delete_agent(container, caller, agent_id)


@lifecycle_router.post(
    "/agents/{agent_id}/renew",
    status_code=HTTPStatus.CREATED,
    response_model=Registered,
    summary="Issue an agent's SD-Cards again",
    responses=_ISSUING,
    openapi_extra={**json_body(Renewal), "parameters": [IDEMPOTENCY_KEY]},
    dependencies=_DEPENDENCIES,
)
async def renew_agent(agent_id: str, request: Request, container: FromContainer) -> Response:
    """Issue an agent's SD-Cards again under the present policy.

    The card, contexts and keys stay the same.
    """
    caller = await authorize(request, container, Scope.AGENTS_REGISTER)
    body = await read_small_json_body(request, container.bounds)
    asked = read_idempotent_request(request, caller, f"renew {agent_id}", body)
    return await _issued(lifecycle.renew_agent(container, caller, agent_id, body, asked))


@lifecycle_router.post(
    "/agents/{agent_id}/keys",
    status_code=HTTPStatus.CREATED,
    response_model=Registered,
    summary="Change an agent's Holder keys",
    responses=_ISSUING,
    openapi_extra={**json_body(KeyChange), "parameters": [IDEMPOTENCY_KEY]},
    dependencies=_DEPENDENCIES,
)
async def change_keys(agent_id: str, request: Request, container: FromContainer) -> Response:
    """Issue an agent's SD-Cards again, bound to other keys."""
    caller = await authorize(request, container, Scope.AGENTS_REGISTER)
    body = await read_body(request, container.bounds)
    asked = read_idempotent_request(request, caller, f"keys {agent_id}", body)
    return await _issued(lifecycle.change_keys(container, caller, agent_id, body, asked))
