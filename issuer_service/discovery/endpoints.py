"""``POST /agents/discover`` (SD-Card 4.2, 5.3.1)."""

from http import HTTPStatus

from fastapi import APIRouter, Request, Response

from issuer_service.access import Scope
from issuer_service.discovery import service
from issuer_service.discovery.schemas import Discovered, DiscoveryRequest
from issuer_service.request_context import authorize, read_small_json_body
from issuer_service.routes import BEARER, FastRoute, container_of, json_body, refusals

router = APIRouter(tags=["discovery"], route_class=FastRoute)

_REFUSALS = refusals(
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.SERVICE_UNAVAILABLE,
)


@router.post(
    "/agents/discover",
    response_model=Discovered,
    summary="Find agents by what a context shows of them",
    responses=_REFUSALS,
    openapi_extra={**json_body(DiscoveryRequest), "security": [{BEARER.scheme_name: []}]},
)
async def discover_agents(request: Request) -> Response:
    """Find agents by the claims that a context shows of them.

    The token says which contexts the caller may search.
    """
    container = container_of(request)
    caller = await authorize(request, container, Scope.AGENTS_DISCOVER)
    body = await read_small_json_body(request, container.bounds)
    answer = await service.discover(container, caller, body)
    return Response(answer, HTTPStatus.OK, {"Cache-Control": "no-store"}, "application/json")
