"""Rows of grants, links and approvals: columns, validity, audit records."""

from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Connection, RowMapping, Table, delete, select

from issuer_service.stores.delegation_ports import ApprovalRow, ExchangeRow, GrantRow, LinkRow
from issuer_service.stores.lifetimes import in_force
from issuer_service.stores.readable import Read, read_row
from issuer_service.stores.rows.audit import AuditEvent, AuditRow
from issuer_service.stores.rows.state import Written
from issuer_service.stores.tables import approvals, delegations, grants

AGENT = "agent:"
_KEPT = 30 * 86_400
"""Seconds for which what has ended is kept: a clock that is ahead by less deletes nothing that still counts."""
_CLEARED = 100
"""Rows that one write clears away at most."""

READ_GRANT: Read[GrantRow] = TypeAdapter(GrantRow).validate_python
READ_LINK: Read[LinkRow] = TypeAdapter(LinkRow).validate_python
READ_APPROVAL: Read[ApprovalRow] = TypeAdapter(ApprovalRow).validate_python


def grant_holds(at: int) -> ColumnElement[bool]:
    """Whether a grant holds now."""
    return in_force(grants.c.created_at, grants.c.expires_at, at)


def approval_is_open(at: int) -> ColumnElement[bool]:
    """Whether an approval is open now."""
    return in_force(approvals.c.asked_at, approvals.c.expires_at, at)


def link_holds(at: int) -> ColumnElement[bool]:
    """Whether a delegated token has begun and not expired."""
    return in_force(delegations.c.issued_at, delegations.c.expires_at, at)


def clear_old(connection: Connection, table: Table, name: ColumnElement[str], at: int) -> list[str]:
    """Delete some rows that ended long ago, and return their names.

    Rows that another transaction deletes are left alone.
    """
    old = select(name).where(table.c.expires_at <= at - _KEPT).limit(_CLEARED).with_for_update(skip_locked=True)
    return list(connection.execute(delete(table).where(name.in_(old)).returning(name)).scalars())


def columns_of(row: GrantRow | LinkRow | ApprovalRow, *lists: str) -> dict[str, Any]:
    """A row of ours as columns; tuples become JSON."""
    values = {name: getattr(row, name) for name in type(row).__slots__}
    return {**values, **{name: list(values[name]) for name in lists}}


def grant_of(row: RowMapping) -> GrantRow:
    """Read a grant."""
    return read_row(grants, row, READ_GRANT)


def link_of(row: RowMapping) -> LinkRow:
    """Read a link."""
    return read_row(delegations, row, READ_LINK)


def approval_of(row: RowMapping) -> ApprovalRow:
    """Read an approval."""
    return read_row(approvals, row, READ_APPROVAL)


def grant_audit_row(event: AuditEvent, grant: GrantRow, at: int, written: Written) -> AuditRow:
    """Make the audit record of a grant."""
    told = {"chain": (grant.delegator,), "scopes": grant.scopes, "grant": (grant.grant_id,)}
    return AuditRow(event, at, "", grant.target.removeprefix(AGENT), "", told, written=written)


def exchange_audit_row(event: AuditEvent, exchange: ExchangeRow, written: Written) -> AuditRow:
    """Make the audit record of an exchange."""
    link = exchange.link
    told = {"chain": exchange.parties, "scopes": exchange.scopes, "token": (link.token_id,), "grant": (link.grant_id,)}
    agent_id = link.target.removeprefix(AGENT)
    return AuditRow(event, exchange.at, link.client, agent_id, "", told, exchange.interaction_id, written=written)


def approval_audit_row(event: AuditEvent, approval: ApprovalRow, subject: str, at: int, written: Written) -> AuditRow:
    """Make the audit record of an approval."""
    told = {"chain": approval.parties, "scopes": approval.scopes, "approval": (approval.approval_id,)}
    agent_id = approval.target.removeprefix(AGENT)
    return AuditRow(event, at, subject, agent_id, "", told, approval.interaction_id, written=written)
