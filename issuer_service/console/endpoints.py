"""Console pages and actions."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, Request, Response

from issuer_service.access import AGENT, Scope
from issuer_service.agents.lifecycle import find_agent, list_agents, show_agent, show_domains
from issuer_service.agents.schemas import AgentShown, IssuedForContext
from issuer_service.audit.service import read_thread
from issuer_service.console.session import (
    COOKIE,
    FIRST_COOKIE,
    FIRST_SECONDS,
    HEADERS,
    SESSION_SECONDS,
    SIGN_IN,
    FromForm,
    FromSession,
    PageRoute,
    Session,
    close_session,
    csrf_of,
    forget,
    keep,
    new_secret,
    no_such_page,
    open_session,
    page,
    read_form,
    secret_of,
    see_other,
)
from issuer_service.console.summaries import summarize
from issuer_service.container import Container
from issuer_service.delegation import service as delegation
from issuer_service.delegation.records import ApprovalState
from issuer_service.request_context import request_context_of
from issuer_service.reviews import service as reviews
from issuer_service.reviews.records import ReviewState
from issuer_service.reviews.repository import find_in_force
from issuer_service.routes import STATUS, FromContainer
from issuer_service.status.service import REINSTATE, REVOKE, SUSPEND, Change, change_statuses
from issuer_service.tokens import token_name
from sdcard.encoding import JsonObject, encode_json, parse_json_object
from sdcard.errors import Part, Refused, Where
from sdcard.issuer import AGENT_ID
from sdcard.lenient import lenient_token
from sdcard.profile import MAX_INTERACTION, is_interaction_id
from sdcard.rules import Rule

# -- Actions at the console: their texts, and the number of SD-Cards they change --------------------------------------


@dataclass(frozen=True, slots=True)
class Action:
    """An action that the user confirms.

    Attributes:
        verb, done: its verb as infinitive and as past participle.
        means: its consequences, in a sentence or two.
        final: whether it is irreversible.
    """

    verb: str
    done: str
    means: str
    final: bool


STATUS_ACTIONS: Mapping[str, tuple[Action, Change]] = {
    "suspend": (Action("Suspend", "suspended", "Verifiers refuse them until they are reinstated.", False), SUSPEND),
    "reinstate": (
        Action("Reinstate", "valid again", "Verifiers accept them again. What was revoked stays revoked.", False),
        REINSTATE,
    ),
    "revoke": (
        Action(
            "Revoke for ever",
            "revoked",
            "Verifiers refuse them from now on. Nothing leads back: the agent has to be given new ones.",
            True,
        ),
        REVOKE,
    ),
}
DECISIONS: Mapping[str, tuple[Action, ApprovalState]] = {
    "approve": (
        Action("Approve", "approved", "The client can make this one exchange, once.", True),
        ApprovalState.APPROVED,
    ),
    "deny": (
        Action("Deny", "denied", "The client is refused, and would have to ask anew.", True),
        ApprovalState.DENIED,
    ),
}
REVIEWS: Mapping[str, tuple[Action, ReviewState]] = {
    "approve": (
        Action("Approve", "approved", "The owner can register exactly this, and gets SD-Cards for it.", True),
        ReviewState.APPROVED,
    ),
    "reject": (
        Action("Reject", "rejected", "The owner reads the reason. The same registration is refused for 30 days.", True),
        ReviewState.REJECTED,
    ),
}


def concerned(agent: AgentShown, change: Change, context: str | None = None) -> int:
    """Count the SD-Cards that would change, as far as an agent's page goes back."""
    named = [one for batch in agent.batches for one in batch.contexts if context in (None, one.context)]
    return sum(_with(one, change) for one in named)


def contexts_of(agent: AgentShown) -> list[str]:
    """The contexts that the agent has SD-Cards of."""
    return sorted({one.context for batch in agent.batches for one in batch.contexts})


def _with(one: IssuedForContext, change: Change) -> int:
    counted = {"VALID": one.valid, "SUSPENDED": one.suspended, "INVALID": one.revoked}
    return sum(counted[status.name] for status in change.before)


# -- ``/console``: sign-in, agents, approvals and the audit thread ----------------------------------------------------
# People sign in with a token. A page asks for confirmation before any change.

router = APIRouter(prefix="/console", include_in_schema=False, route_class=PageRoute)

_STYLE = files(__package__).joinpath("style.css").read_bytes()
_REQUEST = Where(Part.REQUEST)
_CACHED = {"Cache-Control": "public, max-age=300"}
_NO_AGENT_ID = "An agent id has 1 to 128 letters, digits, dots, hyphens and underscores."
_NO_INTERACTION = f"An interaction id has 1 to {MAX_INTERACTION} visible ASCII characters."
_NUMBER = re.compile("0|[1-9][0-9]{0,17}")
_HOMES = {
    Scope.AGENTS_MANAGE: "/console/agents",
    Scope.DELEGATIONS_APPROVE: "/console/approvals",
    Scope.AGENTS_APPROVE: "/console/reviews",
    Scope.AUDIT_READ: "/console/audit",
}


@router.get("/style.css")
async def style() -> Response:
    """Serve the style sheet, which needs no session."""
    return Response(_STYLE, headers={**HEADERS, **_CACHED}, media_type="text/css; charset=utf-8")


# -- signing in and out -----------------------------------------------------------------------------------------------


@router.get("")
async def home(session: FromSession) -> Response:
    """Redirect to the first page of the console that the token's scopes permit."""
    return see_other(next((path for scope, path in _HOMES.items() if session.may(scope)), "/console/session"))


@router.get("/")
async def home_with_a_slash() -> Response:
    """Redirect the address with a slash."""
    return see_other("/console")


@router.get("/sign-in")
async def sign_in_page(request: Request, container: FromContainer) -> Response:
    """Show the sign-in page.

    Browsers that come from another site omit the session's cookie: the page leads on.
    """
    return _way_in(request, container, HTTPStatus.OK, None)


@router.post("/sign-in")
async def sign_in(request: Request, container: FromContainer) -> Response:
    """Open a session. The token is read once, and kept nowhere."""
    form = await read_form(request, container, FIRST_COOKIE)
    try:
        secret = await open_session(request, container, lenient_token(form.get("token", "")))
    except Refused as refusal:
        if refusal.rule is not Rule.TOKEN_INVALID:
            raise
        request_context_of(request.scope).rule = refusal.rule
        return _way_in(request, container, HTTPStatus.UNAUTHORIZED, refusal.rule.sentence)
    await close_session(request, container)
    answer = see_other("/console")
    keep(answer, COOKIE, secret, SESSION_SECONDS)
    forget(answer, FIRST_COOKIE)
    return answer


def _way_in(request: Request, container: Container, status: HTTPStatus, complaint: str | None) -> Response:
    secret = secret_of(request, FIRST_COOKIE) or new_secret(container)
    from_elsewhere = request.headers.get("sec-fetch-site") == "cross-site"
    made = page("sign-in.html", None, status, csrf=csrf_of(secret), complaint=complaint, from_elsewhere=from_elsewhere)
    keep(made, FIRST_COOKIE, secret, FIRST_SECONDS)
    return made


@router.post("/sign-out")
async def sign_out(request: Request, container: FromContainer, _: FromForm) -> Response:
    """End the session in every browser that has its cookie."""
    await close_session(request, container)
    answer = see_other(SIGN_IN)
    forget(answer, COOKIE)
    return answer


@router.get("/session")
async def who(session: FromSession) -> Response:
    """Show the signed-in subject and its scopes."""
    return page("session.html", session, name=token_name(session.token), scopes=list(Scope))


# -- agents -----------------------------------------------------------------------------------------------------------


@router.get("/agents")
async def agents(request: Request, container: FromContainer, session: FromSession) -> Response:
    """Show a page of the caller's agents, optionally with a prefix of their ids."""
    caller, query = session.caller(Scope.AGENTS_MANAGE), request.query_params
    begins = lenient_token(query.get("begins", "")).removeprefix(AGENT)
    first = "cursor" not in query
    if begins and not re.fullmatch(AGENT_ID, begins):
        return _ask_again(request, "agents.html", session, _NO_AGENT_ID, begins=begins, found=None, first=first)
    found = await list_agents(container, caller, query.getlist("cursor"), [], begins)
    return page("agents.html", session, found=found, begins=begins, first=first, complaint=None)


def _ask_again(request: Request, template: str, session: Session, complaint: str, **values: object) -> Response:
    """Show the submitted form again, with its faults."""
    request_context_of(request.scope).rule = Rule.REQUEST
    return page(template, session, STATUS[Rule.REQUEST], complaint=complaint, **values)


@router.get("/agents/{agent_id}")
async def agent(agent_id: str, container: FromContainer, session: FromSession) -> Response:
    """Show an agent of the caller: card, checks, SD-Cards and actions."""
    caller = session.caller(Scope.AGENTS_MANAGE)
    shown = await show_agent(container, caller, agent_id)
    kept = await find_agent(container, caller, agent_id)
    document = parse_json_object(kept.card.encode(), Where(Part.CARD), container.limits.json_depth)
    said = summarize(document, kept.card_format)
    domains = await show_domains(container, caller, agent_id) if container.checks.are_on and kept.asked else None
    approved = await container.database.read(find_in_force, [agent_id]) if container.approval_for else None
    offered = {
        name: action
        for name, (action, change) in STATUS_ACTIONS.items()
        if shown.more_batches or concerned(shown, change)
    }
    return page("agent.html", session, agent=shown, said=said, offered=offered, domains=domains, approved=approved)


@router.get("/agents/{agent_id}/{name}")
async def ask_about_statuses(agent_id: str, name: str, container: FromContainer, session: FromSession) -> Response:
    """The page that asks before anything changes."""
    if name not in STATUS_ACTIONS:
        raise no_such_page()
    action, change = STATUS_ACTIONS[name]
    shown = await show_agent(container, session.caller(Scope.AGENTS_MANAGE), agent_id)
    counts = {one: concerned(shown, change, one) for one in contexts_of(shown)}
    return page(
        "confirm-status.html",
        session,
        name=name,
        agent=shown,
        action=action,
        counts=counts,
        seconds=container.status.longest,
    )


@router.post("/agents/{agent_id}/{name}")
async def change_agent(
    agent_id: str, name: str, container: FromContainer, session: FromSession, form: FromForm
) -> Response:
    """Change statuses, as ``POST /agents/{agent_id}/revoke`` and its sisters do."""
    if name not in STATUS_ACTIONS:
        raise no_such_page()
    action, change = STATUS_ACTIONS[name]
    caller = session.caller(Scope.AGENTS_MANAGE)
    asked: JsonObject = {one: form[one] for one in ("context", "interaction_id") if one in form}
    answer = await change_statuses(container, caller, agent_id, change, encode_json(asked))
    return page(
        "changed.html",
        session,
        agent_id=agent_id,
        action=action,
        changed=answer.changed,
        seconds=container.status.longest,
    )


# -- approvals --------------------------------------------------------------------------------------------------------


@router.get("/approvals")
async def approvals_waiting(request: Request, container: FromContainer, session: FromSession) -> Response:
    """List pending approvals, in pages; of all clients, or of one."""
    delegation.check_unlimited(session.caller(Scope.DELEGATIONS_APPROVE))
    query = request.query_params
    cursor, client = query.getlist("cursor"), query.getlist("client")
    found = await delegation.waiting(container, cursor, client)
    return page("approvals.html", session, found=found, first=not cursor, client=client[0] if client else None)


@router.get("/approvals/{approval_id}/{name}")
async def ask_about_approval(approval_id: str, name: str, container: FromContainer, session: FromSession) -> Response:
    """The page that asks before a decision."""
    delegation.check_unlimited(session.caller(Scope.DELEGATIONS_APPROVE))
    if name not in DECISIONS:
        raise no_such_page()
    shown = await delegation.find_waiting(container, approval_id)
    return page("confirm-approval.html", session, name=name, approval=shown, action=DECISIONS[name][0])


@router.post("/approvals/{approval_id}/{name}")
async def decide(approval_id: str, name: str, container: FromContainer, session: FromSession, _: FromForm) -> Response:
    """Decide an approval from the console.

    It does the same as ``POST /delegations/approvals/{approval_id}/approve`` and ``…/deny``.
    """
    if name not in DECISIONS:
        raise no_such_page()
    action, state = DECISIONS[name]
    shown = await delegation.decide(container, session.caller(Scope.DELEGATIONS_APPROVE), approval_id, state)
    return page("decided.html", session, approval=shown, action=action)


# -- reviews: registrations that wait for a person --------------------------------------------------------------------


@router.get("/reviews")
async def reviews_waiting(request: Request, container: FromContainer, session: FromSession) -> Response:
    """List registrations that wait for a person, in pages."""
    cursor = request.query_params.getlist("cursor")
    found = await reviews.waiting(container, session.caller(Scope.AGENTS_APPROVE), cursor)
    return page("reviews.html", session, found=found, first=not cursor)


@router.get("/reviews/{review_id}/{name}")
async def ask_about_review(review_id: str, name: str, container: FromContainer, session: FromSession) -> Response:
    """The page that shows all that an approval covers, before a decision."""
    delegation.check_unlimited(session.caller(Scope.AGENTS_APPROVE))
    if name not in REVIEWS:
        raise no_such_page()
    shown = await reviews.find_waiting(container.database, review_id, int(container.clock.now()))
    said, card = summarize(shown.card, shown.card_format), encode_json(shown.card).decode()
    return page("confirm-review.html", session, name=name, review=shown, said=said, card=card, action=REVIEWS[name][0])


@router.post("/reviews/{review_id}/{name}")
async def decide_review(
    review_id: str, name: str, container: FromContainer, session: FromSession, form: FromForm
) -> Response:
    """Decide as ``POST /reviews/{review_id}/approve`` and ``…/reject`` do."""
    if name not in REVIEWS:
        raise no_such_page()
    action, state = REVIEWS[name]
    caller = session.caller(Scope.AGENTS_APPROVE)
    shown = await reviews.decide(container, caller, review_id, state, form.get("reason", ""))
    return page("reviewed.html", session, review=shown, action=action)


# -- audit ------------------------------------------------------------------------------------------------------------


_NO_RECORDS: dict[str, Any] = {"records": (), "more": False, "waiting": 0}


@router.get("/audit")
async def audit(request: Request, container: FromContainer, session: FromSession) -> Response:
    """The thread of an interaction, in pages."""
    caller, query = session.caller(Scope.AUDIT_READ), request.query_params
    interaction_id, after = lenient_token(query.get("interaction_id", "")), query.get("after", "0")
    if not interaction_id:
        return page("audit.html", session, interaction_id="", complaint=None, **_NO_RECORDS)
    if not is_interaction_id(interaction_id):
        shown = {"interaction_id": interaction_id, **_NO_RECORDS}
        return _ask_again(request, "audit.html", session, _NO_INTERACTION, **shown)
    if not _NUMBER.fullmatch(after):
        raise Refused(Rule.REQUEST, _REQUEST.within("query", "after"), "Send the number of a record.")
    records, more, waiting = await read_thread(container, caller, interaction_id, int(after))
    shown = {**_NO_RECORDS, "interaction_id": interaction_id, "records": records, "more": more, "waiting": waiting}
    return page("audit.html", session, complaint=None, **shown)


@router.get("/{path:path}")
async def nothing(session: FromSession) -> Response:
    """Refuse every other path."""
    raise no_such_page()
