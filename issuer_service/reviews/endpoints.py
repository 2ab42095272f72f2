"""``/reviews``: requests for approval of registrations, and a person's decision."""

from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request, Response, Security

from issuer_service.access import Scope
from issuer_service.agents.schemas import REQUEST, read_section
from issuer_service.delegation.service import check_unlimited
from issuer_service.request_context import authorize, read_small_json_body
from issuer_service.reviews import service
from issuer_service.reviews.records import ReviewState
from issuer_service.reviews.schemas import Rejection, ReviewInList, ReviewList, ReviewShown
from issuer_service.routes import BEARER, FromContainer, json_body, refusals
from sdcard.encoding import parse_json_object
from sdcard.errors import Refused
from sdcard.rules import Rule

router = APIRouter(tags=["reviews"])

_REFUSALS = refusals(
    HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE
)
_WITH_INPUT = {**_REFUSALS, **refusals(HTTPStatus.UNPROCESSABLE_ENTITY)}
_WITH_BODY = {
    **_WITH_INPUT,
    **refusals(
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    ),
}
_DEPENDENCIES = [Security(BEARER)]
_PAGE: dict[str, Any] = {
    "parameters": [
        {
            "name": "cursor",
            "in": "query",
            "required": False,
            "description": "`next_cursor` of the page before.",
            "schema": {"type": "string"},
        }
    ]
}


@router.get(
    "/reviews",
    summary="Registrations that wait for a person",
    responses=_WITH_INPUT,
    openapi_extra=_PAGE,
    dependencies=_DEPENDENCIES,
)
async def list_reviews(request: Request, container: FromContainer, response: Response) -> ReviewList:
    """List the registrations that wait for a person, in pages.

    They are of all owners, the oldest first.
    """
    caller = await authorize(request, container, Scope.AGENTS_APPROVE)
    if not {"cursor"}.issuperset(request.query_params):
        raise Refused(Rule.REQUEST, REQUEST.within("query"), "There is the parameter cursor.")
    response.headers["Cache-Control"] = "no-store"
    return await service.waiting(container, caller, request.query_params.getlist("cursor"))


@router.get(
    "/reviews/{review_id}",
    summary="One registration that waits, with its card",
    responses=_REFUSALS,
    dependencies=_DEPENDENCIES,
)
async def show_review(review_id: str, request: Request, container: FromContainer, response: Response) -> ReviewShown:
    """Return what an approval would cover.

    That is the card, its hosts, and what each context discloses, with its keys. It says what changes, too.
    """
    check_unlimited(await authorize(request, container, Scope.AGENTS_APPROVE))
    response.headers["Cache-Control"] = "no-store"
    return await service.find_waiting(container.database, review_id, int(container.clock.now()))


@router.post(
    "/reviews/{review_id}/approve", summary="Approve a registration", responses=_REFUSALS, dependencies=_DEPENDENCIES
)
async def approve(review_id: str, request: Request, container: FromContainer, response: Response) -> ReviewInList:
    """Approve exactly this registration.

    The owner cannot, nor a party of a grant to or from the agent.
    """
    response.headers["Cache-Control"] = "no-store"
    caller = await authorize(request, container, Scope.AGENTS_APPROVE)
    return await service.decide(container, caller, review_id, ReviewState.APPROVED)


@router.post(
    "/reviews/{review_id}/reject",
    summary="Reject a registration",
    responses=_WITH_BODY,
    openapi_extra=json_body(Rejection),
    dependencies=_DEPENDENCIES,
)
async def reject(review_id: str, request: Request, container: FromContainer, response: Response) -> ReviewInList:
    """Reject a registration, with a reason that its owner reads."""
    response.headers["Cache-Control"] = "no-store"
    caller = await authorize(request, container, Scope.AGENTS_APPROVE)
    body = await read_small_json_body(request, container.bounds)
    given = read_section(Rejection, parse_json_object(body, REQUEST, container.limits.json_depth))
    return await service.decide(container, caller, review_id, ReviewState.REJECTED, given.reason)
