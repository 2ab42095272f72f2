"""Approvals in the database: open ones, who may decide them, single use."""

import hashlib
import json
import unicodedata
from dataclasses import replace

from sqlalchemy import ColumnElement, Connection, func, insert, not_, select, tuple_, update

from issuer_service.stores.audit import append_audit
from issuer_service.stores.chains import check_chain
from issuer_service.stores.delegation_ports import ApprovalRow, ApprovalState, DecisionRow, ExchangeRow
from issuer_service.stores.delegation_rows import (
    AGENT,
    READ_APPROVAL,
    approval_audit_row,
    approval_is_open,
    approval_of,
    clear_old,
    columns_of,
)
from issuer_service.stores.nonces import check_unused
from issuer_service.stores.readable import as_stored, read_page
from issuer_service.stores.rows.audit import AuditEvent
from issuer_service.stores.rows.state import Row, Written
from issuer_service.stores.tables import agents, approvals
from sdcard.errors import Part, Refused, Where
from sdcard.instants import MAX_SKEW, Lifetime
from sdcard.rules import Rule

MOST_OPEN = 100
"""Approvals that one client may wait for."""
_HANDLE = Where(Part.REQUEST, ("approval_handle",))


def waiting(at: int) -> tuple[ColumnElement[bool], ...]:
    """Whether an approval waits for a decision."""
    return approvals.c.state == ApprovalState.PENDING.value, approval_is_open(at)


def list_waiting(
    connection: Connection, at: int, count: int, after: tuple[int, str] | None, client: str | None
) -> tuple[ApprovalRow, ...]:
    """Give approvals that wait for a decision, from an instant and name on.

    Rows that cannot be read do not count.
    """
    order = approvals.c.asked_at, approvals.c.approval_id
    asked = select(*as_stored(approvals)).where(*waiting(at)).order_by(*order)
    if client is not None:
        asked = asked.where(approvals.c.client == client)
    if after is not None:
        asked = asked.where(tuple_(*order) > after)
    return read_page(connection, approvals, asked, count, READ_APPROVAL)


def ask_approval(connection: Connection, exchange: ExchangeRow) -> ApprovalRow:
    """Ask a person, if everything else permits the exchange.

    Nothing is used up by that.
    """
    if exchange.nonce is not None:
        check_unused(connection, exchange.nonce, exchange.at)
    check_chain(connection, exchange)
    asked = exchange.approval
    assert asked is not None, "an approval is asked for"
    bound = _bound_to(asked)
    over = update(approvals).where(approvals.c.open_for == bound, not_(approval_is_open(exchange.at)))
    ended = connection.execute(over.values(open_for=None).returning(*approvals.c)).mappings().all()
    open_one = connection.execute(select(approvals).where(approvals.c.open_for == bound)).mappings().first()
    if open_one is not None:
        return approval_of(open_one)
    waiting = (
        approvals.c.client == asked.client,
        approvals.c.open_for.is_not(None),
        approval_is_open(exchange.at),
    )
    count = connection.execute(select(func.count()).select_from(approvals).where(*waiting)).scalar_one()
    if count >= MOST_OPEN:
        raise Refused(Rule.RATE_EXCEEDED, Where(Part.REQUEST), "Too many approvals are waited for.")
    asked = replace(asked, owners=tuple(sorted(_owners(connection, asked))))
    row = {**columns_of(asked, "parties", "scopes", "owners"), "state": asked.state.value, "open_for": bound}
    connection.execute(insert(approvals).values(row))
    cleared = clear_old(connection, approvals, approvals.c.approval_id, exchange.at)
    rows = [*(dict(one) for one in ended if one["approval_id"] not in cleared), row]
    written = Written({"approvals": rows}, {"approvals": cleared})
    append_audit(connection, approval_audit_row(AuditEvent.APPROVAL_ASKED, asked, asked.client, exchange.at, written))
    return asked


def use_approval(connection: Connection, wanted: ApprovalRow, at: int) -> Row:
    """Use an approval up, if it is for exactly this; the row then.

    The transaction that changes the row has used it.
    """
    this = approvals.c.approval_id == wanted.approval_id
    row = connection.execute(select(approvals).where(this)).mappings().first()
    if row is None or _bound_to(approval_of(row)) != _bound_to(wanted):
        raise Refused(Rule.APPROVAL_OTHER, _HANDLE)
    if row["state"] == ApprovalState.USED.value:
        raise Refused(Rule.APPROVAL_USED, _HANDLE)
    if row["state"] == ApprovalState.DENIED.value:
        raise Refused(Rule.APPROVAL_DENIED, _HANDLE)
    if not Lifetime(row["asked_at"], row["expires_at"]).covers(at, MAX_SKEW):
        raise Refused(Rule.APPROVAL_EXPIRED, _HANDLE)
    if row["state"] == ApprovalState.PENDING.value:
        raise Refused(Rule.APPROVAL_PENDING, _HANDLE)
    approved = update(approvals).where(this, approvals.c.state == ApprovalState.APPROVED.value)
    used = {"state": ApprovalState.USED.value, "open_for": None}
    if (connection.execute(approved.values(used))).rowcount != 1:
        raise Refused(Rule.APPROVAL_USED, _HANDLE)
    return {**row, **used}


def decide_approval(connection: Connection, decision: DecisionRow) -> ApprovalRow:
    """Approve or deny, unless the subject is a party of the exchange."""
    where = Where(Part.REQUEST, ("approval_id",))
    this = approvals.c.approval_id == decision.approval_id, approvals.c.state == ApprovalState.PENDING.value
    waiting = (*this, approval_is_open(decision.at))
    row = connection.execute(select(approvals).where(*waiting)).mappings().first()
    if row is None:
        raise Refused(Rule.APPROVAL_DECIDED, where)
    approval, granted = approval_of(row), decision.state is ApprovalState.APPROVED
    if granted and _profits(connection, approval, decision.subject):
        raise Refused(Rule.APPROVAL_SELF, where)
    decided: dict[str, str | None] = {"state": decision.state.value, "decided_by": decision.subject}
    if not granted:
        decided["open_for"] = None
    if (connection.execute(update(approvals).where(*waiting).values(decided))).rowcount != 1:
        raise Refused(Rule.APPROVAL_DECIDED, where)
    event = AuditEvent.APPROVAL_GRANTED if granted else AuditEvent.APPROVAL_DENIED
    written = Written({"approvals": ({**row, **decided},)})
    append_audit(connection, approval_audit_row(event, approval, decision.subject, decision.at, written))
    return approval


def _profits(connection: Connection, approval: ApprovalRow, subject: str) -> bool:
    """Whether a subject is a party of an exchange, which it then may not approve.

    Parties are the client, the delegator, an actor, the target, and the owners of these agents, now or when the
    approval was requested. An agent approves nothing.

    Names that people would take for the same are the same here: `sdcard approvals approve --by` takes any text.
    """
    parties = {approval.client, *approval.parties, approval.target, *approval.owners, *_owners(connection, approval)}
    return subject.startswith(AGENT) or _as_read(subject) in set(map(_as_read, parties))


def _as_read(subject: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", subject).casefold().split())


def _owners(connection: Connection, approval: ApprovalRow) -> set[str]:
    """The owners of the agents of an exchange: those of the chain, and the target."""
    parties = (*approval.parties, approval.target)
    named = [party.removeprefix(AGENT) for party in parties if party.startswith(AGENT)]
    return set(connection.execute(select(agents.c.subject).where(agents.c.agent_id.in_(named))).scalars())


def _bound_to(approval: ApprovalRow) -> str:
    """Digest of everything that an approval is for.

    It covers the client, the chain, the target, the scopes and the interaction.
    """
    bound = [approval.client, approval.parties, approval.target, approval.scopes, approval.interaction_id]
    return hashlib.sha256(json.dumps(bound).encode()).hexdigest()
