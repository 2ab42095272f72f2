"""``POST /agents/register`` (SD-Card 3.3.1)."""

from http import HTTPStatus

from fastapi import APIRouter, Request, Response, Security

from issuer_service.access import Scope
from issuer_service.bodies import read_json_body
from issuer_service.calling import authorize
from issuer_service.openapi import BEARER, FromWiring, json_body, refusals
from issuer_service.registration import service
from issuer_service.registration.schemas import Registered, RegistrationRequest

router = APIRouter(tags=["registration"])

_REFUSALS = refusals(
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.CONFLICT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.SERVICE_UNAVAILABLE,
)


@router.post(
    "/agents/register",
    status_code=HTTPStatus.CREATED,
    response_model=Registered,
    summary="Register an agent and issue its SD-Cards",
    responses=_REFUSALS,
    openapi_extra=json_body(RegistrationRequest),
    dependencies=[Security(BEARER)],
)
async def register_agent(request: Request, wiring: FromWiring) -> Response:
    """Register an agent, or register it again, and issue one SD-Card for each context and key."""
    caller = await authorize(request, wiring, Scope.AGENTS_REGISTER)
    body = await read_json_body(request, wiring.bounds)
    answer = await service.register_agent(wiring, caller, body)
    return Response(answer, HTTPStatus.CREATED, {"Cache-Control": "no-store"}, "application/json")
