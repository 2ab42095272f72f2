"""Requests for approval of registrations in the database.

Parts of a transaction take rows in the order agents, Holder keys, reviews, status entries, audit.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, not_, or_, select, tuple_, update

from issuer_service.agents.records import RegistrationRow
from issuer_service.audit.records import AuditEvent, AuditRow, Row, WrittenRows
from issuer_service.audit.repository import append_audit
from issuer_service.db.pairwise import find_own_name
from issuer_service.db.tables import agents, batches, cards, grants, reviews
from issuer_service.db.values import Read, as_stored, in_force, read_page, read_row
from issuer_service.delegation.chain_repository import AGENT, check_decider
from issuer_service.reviews.records import (
    MOST_OPEN,
    OPEN_SECONDS,
    Registered,
    ReviewDecision,
    ReviewRow,
    ReviewState,
    contexts_asked,
    covers_of,
)
from sdcard.errors import Part, Refused, Where
from sdcard.issuer_checks import IssuerCheck
from sdcard.rules import Rule

_REQUEST = Where(Part.REQUEST)
_READ: Read[ReviewRow] = TypeAdapter(ReviewRow).validate_python
_NO_CARD = {"card": "", "expires_at": None}


def _is(*states: ReviewState) -> ColumnElement[bool]:
    return reviews.c.state.in_([one.value for one in states])


def _holds(at: int) -> ColumnElement[bool]:
    return or_(reviews.c.expires_at.is_(None), in_force(reviews.c.asked_at, reviews.c.expires_at, at))


def _review(row: Any) -> ReviewRow:
    return read_row(reviews, {name: value for name, value in row.items() if name != "open_for"}, _READ)


# -- What a registration reads and writes -----------------------------------------------------------------------------


def find_open(connection: Connection, covers: str, at: int) -> ReviewRow | None:
    """Return the request that covers exactly this, unless it has ended."""
    row = connection.execute(select(reviews).where(reviews.c.open_for == covers, _holds(at))).mappings().first()
    return None if row is None else _review(row)


def find_in_force(connection: Connection, agent_ids: Sequence[str]) -> frozenset[str]:
    """Return those of these agents that are registered as a person approved them."""
    asked = select(reviews.c.agent_id).where(reviews.c.agent_id.in_(agent_ids), _is(ReviewState.IN_FORCE))
    return frozenset(connection.execute(asked).scalars())


def add(connection: Connection, new: RegistrationRow, review_id: str) -> ReviewRow:
    """Ask a person, unless this was asked already; the request.

    Earlier requests for the agent that still wait end.

    Raises:
        Refused: ``rate.exceeded`` when the owner waits for too many.
    """
    covers = covers_of(new)
    if (found := find_open(connection, covers, new.at)) is not None:
        return found
    mine = reviews.c.subject == new.subject, reviews.c.open_for.is_not(None)
    replaced = and_(*mine, reviews.c.agent_id == new.agent_id, or_(_is(ReviewState.PENDING), not_(_holds(new.at))))
    ended = _end(connection, new.at, replaced)
    waiting = select(func.count()).select_from(reviews).where(*mine, _is(ReviewState.PENDING), _holds(new.at))
    if connection.execute(waiting).scalar_one() >= MOST_OPEN:
        raise Refused(Rule.RATE_EXCEEDED, _REQUEST, "Too many approvals are waited for.")
    row: Row = {
        "review_id": review_id,
        "open_for": covers,
        "subject": new.subject,
        "agent_id": new.agent_id,
        "card_format": new.card_format,
        "card": new.card,
        "contexts": contexts_asked(new),
        "state": ReviewState.PENDING.value,
        "reason": "",
        "decided_by": "",
        "asked_at": new.at,
        "expires_at": new.at + OPEN_SECONDS,
    }
    connection.execute(insert(reviews), row)
    review = _review(row)
    append_audit(connection, _audit_row(AuditEvent.REVIEW_ASKED, review, new.subject, new.at, [*ended, row]))
    return review


def use(connection: Connection, new: RegistrationRow) -> list[Row]:
    """Put the approval of a registration in force, and end the one before.

    Returns: the changed rows.

    Raises:
        Refused: ``approval.pending`` when the approval that its SD-Cards state has ended meanwhile.
    """
    covers, of_agent = covers_of(new), reviews.c.agent_id == new.agent_id
    changed = _end(connection, new.at, and_(of_agent, _is(ReviewState.IN_FORCE), reviews.c.open_for != covers))
    if IssuerCheck.APPROVED not in new.checks:
        return changed
    this = reviews.c.open_for == covers
    begun = update(reviews).where(this, _is(ReviewState.APPROVED), _holds(new.at))
    used = connection.execute(begun.values(state=ReviewState.IN_FORCE.value, **_NO_CARD).returning(*reviews.c))
    rows = [dict(row) for row in used.mappings()]
    if not rows and connection.execute(select(reviews.c.state).where(this, _is(ReviewState.IN_FORCE))).first() is None:
        raise Refused(Rule.APPROVAL_PENDING, _REQUEST, "The approval has just ended. Send the request again.")
    return [*changed, *rows]


def forget(connection: Connection, agent_id: str) -> list[str]:
    """Delete all requests for an agent; their ids."""
    gone = delete(reviews).where(reviews.c.agent_id == agent_id).returning(reviews.c.review_id)
    return sorted(connection.execute(gone).scalars())


def _end(connection: Connection, at: int, which: ColumnElement[bool]) -> list[Row]:
    ended = {"state": ReviewState.ENDED.value, "open_for": None, **_NO_CARD, "expires_at": at}
    found = connection.execute(update(reviews).where(which).values(ended).returning(*reviews.c))
    return [dict(row) for row in found.mappings()]


# -- What people read and decide --------------------------------------------------------------------------------------


def list_waiting(
    connection: Connection, at: int, count: int, after: tuple[int, str] | None = None
) -> tuple[ReviewRow, ...]:
    """List requests that wait for a person, from an instant and id on.

    Unreadable rows are skipped.
    """
    order = reviews.c.asked_at, reviews.c.review_id
    columns = [one for one in as_stored(reviews) if one.name != "open_for"]
    asked = select(*columns).where(_is(ReviewState.PENDING), _holds(at)).order_by(*order)
    if after is not None:
        asked = asked.where(tuple_(*order) > after)
    return read_page(connection, reviews, asked, count, _READ)


def find_waiting(connection: Connection, review_id: str, at: int) -> tuple[ReviewRow, Registered | None] | None:
    """Find the request of this id, if it waits for a person.

    With it is the present registration of its agent, if there is one.
    """
    waits = _is(ReviewState.PENDING), _holds(at)
    row = connection.execute(select(reviews).where(reviews.c.review_id == review_id, *waits)).mappings().first()
    if row is None:
        return None
    this = agents.c.agent_id == row["agent_id"], agents.c.deleted_at.is_(None)
    present = connection.execute(select(agents.c.card_format, agents.c.card, agents.c.asked).where(*this)).first()
    return _review(row), None if present is None else Registered(*present)


def decide(connection: Connection, decision: ReviewDecision) -> ReviewRow:
    """Approve or reject.

    Raises:
        Refused: ``approval.decided`` when none of this id waits; ``token.invalid`` when the person's token has ended;
            ``approval.self`` when the owner would approve, or a party of a grant to or from the agent.
    """
    where, approves = _REQUEST.within("review_id"), decision.state is ReviewState.APPROVED
    waits = reviews.c.review_id == decision.review_id, _is(ReviewState.PENDING), _holds(decision.at)
    values = {"state": decision.state.value, "reason": decision.reason, "decided_by": decision.by.subject}
    values_and_end = {**values, "expires_at": decision.at + OPEN_SECONDS}
    decided = connection.execute(update(reviews).where(*waits).values(values_and_end).returning(*reviews.c))
    found = decided.mappings().first()
    if found is None:
        raise Refused(Rule.APPROVAL_DECIDED, where)
    row = dict(found)
    review, event = _review(row), AuditEvent.REVIEW_APPROVED if approves else AuditEvent.REVIEW_REJECTED
    append_audit(connection, _audit_row(event, review, decision.by.subject, decision.at, [row]))
    parties = partial(_parties, connection, review.subject, review.agent_id)
    check_decider(connection, decision.by, decision.at, where, parties if approves else None)
    return review


def _parties(connection: Connection, owner: str, agent_id: str) -> set[str]:
    """Return who profits from an agent.

    It is the owner, the agent itself, and the parties of grants to or from it.
    """
    pairwise = select(cards.c.subject).join_from(cards, batches).where(batches.c.agent_id == agent_id).distinct()
    names = [AGENT + one for one in (agent_id, *connection.execute(pairwise).scalars()) if one is not None]
    of_agent = or_(grants.c.delegator.in_(names), grants.c.target.in_(names))
    granted = connection.execute(select(grants.c.delegator, grants.c.target).where(of_agent))
    return {owner, *names, *(find_own_name(connection, party) for grant in granted for party in grant)}


def _audit_row(event: AuditEvent, review: ReviewRow, subject: str, at: int, rows: Sequence[Row]) -> AuditRow:
    told = {"review": (review.review_id,), "owner": (review.subject,)}
    return AuditRow(event, at, subject, review.agent_id, "", told, written=WrittenRows({"reviews": rows}))
