"""What waits for a person: ``GET /delegations/approvals``, and that person's word. Theirs is for one exchange, once."""

import re
from http import HTTPStatus

from fastapi import APIRouter, Request, Response, Security

from issuer_service.access import Caller, Scope, agent_prefixes
from issuer_service.calling import authorize
from issuer_service.delegation.schemas import HANDLE, REQUEST, ApprovalList, ApprovalShown
from issuer_service.openapi import BEARER, FromWiring, refusals
from issuer_service.stores.delegation_ports import ApprovalRow, ApprovalState, DecisionRow
from issuer_service.wiring import Wiring
from sdcard.errors import Refused
from sdcard.rules import Rule

router = APIRouter(tags=["delegation"])

MOST_LISTED = 100
_REFUSALS = refusals(
    HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE
)
_DEPENDENCIES = [Security(BEARER)]


@router.get(
    "/delegations/approvals", summary="What waits for a person", responses=_REFUSALS, dependencies=_DEPENDENCIES
)
async def list_approvals(request: Request, wiring: FromWiring, response: Response) -> ApprovalList:
    """The exchanges that wait for a person, the oldest first; up to 100 of them."""
    caller = await authorize(request, wiring, Scope.DELEGATIONS_APPROVE)
    response.headers["Cache-Control"] = "no-store"
    check_unlimited(caller)
    return await waiting(wiring)


@router.post(
    "/delegations/approvals/{approval_id}/approve",
    summary="Approve one exchange",
    responses=_REFUSALS,
    dependencies=_DEPENDENCIES,
)
async def approve(approval_id: str, request: Request, wiring: FromWiring, response: Response) -> ApprovalShown:
    """Approve one exchange, once. No party can: the client, the delegator, actors, the target, or their owners."""
    return await _decide(approval_id, request, wiring, response, ApprovalState.APPROVED)


@router.post(
    "/delegations/approvals/{approval_id}/deny",
    summary="Deny one exchange",
    responses=_REFUSALS,
    dependencies=_DEPENDENCIES,
)
async def deny(approval_id: str, request: Request, wiring: FromWiring, response: Response) -> ApprovalShown:
    """Deny one exchange."""
    return await _decide(approval_id, request, wiring, response, ApprovalState.DENIED)


async def _decide(
    approval_id: str, request: Request, wiring: Wiring, response: Response, state: ApprovalState
) -> ApprovalShown:
    caller = await authorize(request, wiring, Scope.DELEGATIONS_APPROVE)
    response.headers["Cache-Control"] = "no-store"
    return await decide(wiring, caller, approval_id, state)


def check_unlimited(caller: Caller) -> None:
    """Refuse a token that is for some agents only: an exchange is about agents of others too.

    Raises:
        Refused: ``token.limit``.
    """
    if agent_prefixes(caller) is not None:
        raise Refused(Rule.TOKEN_LIMIT, REQUEST.within("approval_id"), "An exchange goes through agents of others.")


async def waiting(wiring: Wiring) -> ApprovalList:
    """What waits for a person.

    Raises:
        Refused: ``store.unavailable``.
    """
    rows = await wiring.store.delegations.list_approvals(int(wiring.clock.now()), MOST_LISTED)
    return ApprovalList(approvals=[shown(row) for row in rows])


async def decide(wiring: Wiring, caller: Caller, approval_id: str, state: ApprovalState) -> ApprovalShown:
    """Approve or deny, on the word of a caller whose token is for that.

    Raises:
        Refused: ``token.limit``; ``approval.decided``; ``approval.self``.
    """
    check_unlimited(caller)
    if not re.fullmatch(HANDLE, approval_id):
        raise Refused(Rule.APPROVAL_DECIDED, REQUEST.within("approval_id"))
    decision = DecisionRow(approval_id, caller.subject, state, int(wiring.clock.now()))
    return shown(await wiring.store.delegations.decide(decision))


def shown(row: ApprovalRow) -> ApprovalShown:
    """As people see it."""
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
