"""``GET /status/{list_id}`` (Token Status List 8), and changes of statuses.

An owner changes the statuses of an agent's SD-Cards.
"""

import math
import re
from collections.abc import Sequence
from http import HTTPStatus

from fastapi import APIRouter, Request, Response, Security

from issuer_service.access import Scope
from issuer_service.agents.schemas import REQUEST
from issuer_service.container import Container
from issuer_service.request_context import authorize, read_small_json_body
from issuer_service.routes import (
    BEARER,
    JSON_REFUSALS,
    NOT_MODIFIED,
    FromContainer,
    json_body,
    public_response,
    refusals,
)
from issuer_service.status import service
from issuer_service.status.service import StatusChange, StatusChanged
from sdcard.errors import Refused
from sdcard.rules import Rule
from sdcard.status_list import MEDIA_TYPE

router = APIRouter(tags=["status"])

_REFUSALS = {**JSON_REFUSALS, **refusals(HTTPStatus.NOT_FOUND)}
_ASKED = json_body(StatusChange)
_WEIGHT = re.compile(r"(?:q=(?P<q>0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?))?")
_DEPENDENCIES = [Security(BEARER)]


@router.get(
    "/status/{list_id}",
    response_class=Response,
    summary="A status list",
    responses={
        200: {"description": "A Status List Token.", "content": {MEDIA_TYPE: {"schema": {"type": "string"}}}},
        **NOT_MODIFIED,
        **refusals(HTTPStatus.NOT_FOUND, HTTPStatus.NOT_IMPLEMENTED, HTTPStatus.SERVICE_UNAVAILABLE),
    },
)
async def status_list(list_id: str, request: Request, container: FromContainer) -> Response:
    """A status list, signed. Lists of the past are not kept.

    Shared caches keep it until the next one, so a Verifier behind them caches it no longer than one that asks here.
    """
    if "time" in request.query_params:
        raise Refused(Rule.STATUS_LIST_TIME, REQUEST.within("query", "time"))
    published = await service.published_list(container, list_id)
    compressed = prefers_gzip(request.headers.getlist("accept-encoding"))
    headers = {"ETag": published.gzip_etag if compressed else published.etag, "Vary": "Accept-Encoding"}
    fresh = max(0, math.floor(published.instant + container.status.period - container.clock.now()))
    if compressed:
        headers["Content-Encoding"] = "gzip"
    content = published.gzipped if compressed else published.token
    return public_response(request, content, MEDIA_TYPE, str(fresh), headers)


def prefers_gzip(accepted: Sequence[str]) -> bool:
    """Whether ``Accept-Encoding`` prefers gzip to no coding (RFC 9110 12.5.3).

    An unlisted coding has the weight of ``*``. Without ``*``, no coding is acceptable but has the lowest weight. A
    client that accepts neither gets the list without a coding, because a Verifier without the list refuses every
    SD-Card.
    """
    weights: dict[str, float] = {}
    for entry in ",".join(accepted).lower().split(","):
        coding, _, parameter = (part.strip() for part in entry.partition(";"))
        weight = _WEIGHT.fullmatch(parameter)
        if coding and weight:
            weights["gzip" if coding == "x-gzip" else coding] = float(weight["q"] or 1)
    others = weights.get("*", 0.0)
    return weights.get("gzip", others) > 0 and weights.get("gzip", others) >= weights.get("identity", 0.0)


@router.post(
    "/agents/{agent_id}/revoke",
    summary="Revoke an agent's SD-Cards, for ever",
    responses=_REFUSALS,
    openapi_extra=_ASKED,
    dependencies=_DEPENDENCIES,
)
async def revoke(agent_id: str, request: Request, container: FromContainer) -> StatusChanged:
    """Revoke an agent's SD-Cards, for ever."""
    return await _change(agent_id, request, container, service.REVOKE)


@router.post(
    "/agents/{agent_id}/suspend",
    summary="Suspend an agent's SD-Cards",
    responses=_REFUSALS,
    openapi_extra=_ASKED,
    dependencies=_DEPENDENCIES,
)
async def suspend(agent_id: str, request: Request, container: FromContainer) -> StatusChanged:
    """Suspend an agent's SD-Cards."""
    return await _change(agent_id, request, container, service.SUSPEND)


@router.post(
    "/agents/{agent_id}/reinstate",
    summary="End a suspension",
    responses=_REFUSALS,
    openapi_extra=_ASKED,
    dependencies=_DEPENDENCIES,
)
async def reinstate(agent_id: str, request: Request, container: FromContainer) -> StatusChanged:
    """End a suspension. Revoked SD-Cards stay revoked."""
    return await _change(agent_id, request, container, service.REINSTATE)


async def _change(agent_id: str, request: Request, container: Container, change: service.Change) -> StatusChanged:
    caller = await authorize(request, container, Scope.AGENTS_MANAGE)
    body = await read_small_json_body(request, container.bounds)
    return await service.change_statuses(container, caller, agent_id, change, body)
