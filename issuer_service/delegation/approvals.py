"""Approvals: ``GET /delegations/approvals``, and a person's decision.

A decision is on one exchange and is used once.
"""

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request, Response, Security

from issuer_service.access import MOST_SUBJECT, Caller, Scope, agent_prefixes
from issuer_service.container import Container
from issuer_service.delegation import repository
from issuer_service.delegation.records import ApprovalRow, ApprovalState, DecisionRow
from issuer_service.delegation.schemas import HANDLE, REQUEST, ApprovalList, ApprovalShown
from issuer_service.request_context import authorize
from issuer_service.routes import BEARER, FromContainer, refusals
from sdcard.encoding import decode_base64url, encode_base64url
from sdcard.errors import Refused
from sdcard.rules import Rule

router = APIRouter(tags=["delegation"])

MOST_LISTED = 100
_CURSOR = re.compile("(0|[1-9][0-9]{0,17}) ([0-9a-f]{1,32})")
_REFUSALS = refusals(
    HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE
)
_LISTING = {**_REFUSALS, **refusals(HTTPStatus.UNPROCESSABLE_ENTITY)}
_DEPENDENCIES = [Security(BEARER)]
_PAGE: dict[str, Any] = {
    "parameters": [
        {"name": name, "in": "query", "required": False, "description": what, "schema": {"type": "string"}}
        for name, what in (
            ("client", "Only what this client waits for."),
            ("cursor", "`next_cursor` of the page before."),
        )
    ]
}


@router.get(
    "/delegations/approvals",
    summary="What waits for a person",
    responses=_LISTING,
    openapi_extra=_PAGE,
    dependencies=_DEPENDENCIES,
)
async def list_approvals(request: Request, container: FromContainer, response: Response) -> ApprovalList:
    """List the exchanges that wait for a person, oldest first, in pages.

    The list is of all clients, or of one.
    """
    check_unlimited(await authorize(request, container, Scope.DELEGATIONS_APPROVE))
    query = request.query_params
    if not {"client", "cursor"}.issuperset(query):
        raise Refused(Rule.REQUEST, REQUEST.within("query"), "There are the parameters client and cursor.")
    response.headers["Cache-Control"] = "no-store"
    return await waiting(container, query.getlist("cursor"), query.getlist("client"))


@router.post(
    "/delegations/approvals/{approval_id}/approve",
    summary="Approve one exchange",
    responses=_REFUSALS,
    dependencies=_DEPENDENCIES,
)
async def approve(approval_id: str, request: Request, container: FromContainer, response: Response) -> ApprovalShown:
    """Approve one exchange, once.

    No party can: the client, the delegator, actors, the target, or their owners.
    """
    response.headers["Cache-Control"] = "no-store"
    caller = await authorize(request, container, Scope.DELEGATIONS_APPROVE)
    return await decide(container, caller, approval_id, ApprovalState.APPROVED)


@router.post(
    "/delegations/approvals/{approval_id}/deny",
    summary="Deny one exchange",
    responses=_REFUSALS,
    dependencies=_DEPENDENCIES,
)
async def deny(approval_id: str, request: Request, container: FromContainer, response: Response) -> ApprovalShown:
    """Deny one exchange."""
    response.headers["Cache-Control"] = "no-store"
    caller = await authorize(request, container, Scope.DELEGATIONS_APPROVE)
    return await decide(container, caller, approval_id, ApprovalState.DENIED)


def check_unlimited(caller: Caller) -> None:
    """Refuse a token that is for some agents only.

    An exchange is also about agents of others.

    Raises:
        Refused: ``token.limit``.
    """
    if agent_prefixes(caller) is not None:
        raise Refused(Rule.TOKEN_LIMIT, REQUEST.within("approval_id"), "An exchange goes through agents of others.")


async def waiting(container: Container, cursor: Sequence[str], client: Sequence[str]) -> ApprovalList:
    """Give a page of what waits for a person.

    Args:
        container: the registry.
        cursor, client: the values of these parameters of the query.

    Raises:
        Refused: ``request.malformed``, ``store.unavailable``.
    """
    after, whose, now = _read_cursor(cursor), _read_client(client), int(container.clock.now())
    rows = await container.database.read(repository.list_waiting, now, MOST_LISTED + 1, after, whose)
    page, more = rows[:MOST_LISTED], len(rows) > MOST_LISTED
    last = encode_base64url(f"{page[-1].asked_at} {page[-1].approval_id}".encode()) if more else None
    return ApprovalList(approvals=[shown(row) for row in page], next_cursor=last)


async def find_waiting(container: Container, approval_id: str) -> ApprovalShown:
    """Give one exchange that waits for a person.

    Raises:
        Refused: ``approval.decided``, ``store.unavailable``.
    """
    is_name, now = re.fullmatch(HANDLE, approval_id), int(container.clock.now())
    row = await container.database.read(repository.find_waiting, approval_id, now) if is_name else None
    if row is None:
        raise Refused(Rule.APPROVAL_DECIDED, REQUEST.within("approval_id"))
    return shown(row)


def _read_cursor(given: Sequence[str]) -> tuple[int, str] | None:
    """Instant and name of the approval that the last page ended with."""
    if not given:
        return None
    where = REQUEST.within("query", "cursor")
    try:
        text = decode_base64url(given[0], where).decode("ascii") if len(given) == 1 else ""
    except (Refused, UnicodeDecodeError):
        text = ""
    match = _CURSOR.fullmatch(text)
    if match is None:
        raise Refused(Rule.REQUEST, where, "Send the next_cursor of the last page, once and unchanged.")
    return int(match.group(1)), match.group(2)


def _read_client(given: Sequence[str]) -> str | None:
    if not given:
        return None
    if len(given) > 1 or not 1 <= len(given[0]) <= MOST_SUBJECT or not given[0].isprintable():
        hint = f"Send one subject of 1 to {MOST_SUBJECT} printable characters."
        raise Refused(Rule.REQUEST, REQUEST.within("query", "client"), hint)
    return given[0]


async def decide(container: Container, caller: Caller, approval_id: str, state: ApprovalState) -> ApprovalShown:
    """Approve or deny, on the word of a caller whose token is for that.

    Raises:
        Refused: ``token.limit``; ``approval.decided``; ``approval.self``.
    """
    check_unlimited(caller)
    if not re.fullmatch(HANDLE, approval_id):
        raise Refused(Rule.APPROVAL_DECIDED, REQUEST.within("approval_id"))
    decision = DecisionRow(approval_id, caller.subject, state, int(container.clock.now()))
    return shown(await container.database.change(repository.decide_approval, decision))


def shown(row: ApprovalRow) -> ApprovalShown:
    """Describe an approval for people."""
    return ApprovalShown(
        approval_id=row.approval_id,
        client=row.client,
        chain=list(row.parties),
        target=row.target,
        scope=" ".join(row.scopes),
        interaction_id=row.interaction_id,
        asked_at=row.asked_at,
        expires_at=row.expires_at,
    )
