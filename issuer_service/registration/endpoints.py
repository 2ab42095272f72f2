"""``POST /agents/register`` (SD-Card 3.3.1), and ``POST /nonces`` for proofs."""

from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request, Response

from issuer_service.access import Scope
from issuer_service.bodies import read_json_body
from issuer_service.calling import authorize
from issuer_service.openapi import BEARER, json_body, refusals, wiring_of
from issuer_service.registration import service
from issuer_service.registration.answers import IDEMPOTENCY_KEY, REFUSALS, issued, repeatable
from issuer_service.registration.nonces import NonceIssued, issue_nonce
from issuer_service.registration.schemas import Registered, RegistrationRequest
from issuer_service.routing import DirectRoute

router = APIRouter(tags=["registration"], route_class=DirectRoute)

_SECURITY: dict[str, Any] = {"security": [{BEARER.scheme_name: []}]}
_NONCE_REFUSALS = refusals(HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.SERVICE_UNAVAILABLE)


@router.post(
    "/agents/register",
    status_code=HTTPStatus.CREATED,
    response_model=Registered,
    summary="Register an agent and issue its SD-Cards",
    responses=REFUSALS,
    openapi_extra={**json_body(RegistrationRequest), "parameters": [IDEMPOTENCY_KEY], **_SECURITY},
)
async def register_agent(request: Request) -> Response:
    """Register an agent, and issue one SD-Card for each context and key.

    An agent that is registered already is registered again.
    """
    wiring = wiring_of(request)
    authorization = request.headers.getlist("authorization")
    caller = await authorize(request, wiring, Scope.AGENTS_REGISTER)
    body = await read_json_body(request, wiring.bounds)
    asked = repeatable(request.headers.getlist("idempotency-key"), authorization, caller, "register", body)
    return issued(await service.register_agent(wiring, caller, body, asked))


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
    wiring = wiring_of(request)
    caller = await authorize(request, wiring, Scope.AGENTS_REGISTER, Scope.TOKENS_EXCHANGE)
    return issued((await issue_nonce(wiring, caller)).model_dump_json().encode())
