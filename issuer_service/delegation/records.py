"""Grants, approvals and chains as values, and the ports that store them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Connection, RowMapping, Table, delete, select

from issuer_service.agents.records import GivenNonce
from issuer_service.audit.records import AuditEvent, AuditRow, Written
from issuer_service.db.tables import approvals, delegations, grants
from issuer_service.db.values import Read, in_force, read_row
from sdcard.rules import Rule

# -- ``Delegations``: the store that delegation needs, and its frozen values ------------------------------------------


class ApprovalState(StrEnum):
    """State of an approval."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    USED = "used"


class GrantExists(Exception):
    """There is a grant for this delegator and target: remove it first."""


@dataclass(frozen=True, slots=True)
class GrantRow:
    """A grant of the operator: what a delegator may delegate to a target.

    Attributes:
        grant_id: names it.
        delegator: ``agent:`` and an agent's id, or the subject of a token.
        target: ``agent:`` and an agent's id.
        scopes: what may be handed on.
        sensitive: those of them for which a person has to approve each time.
        created_at, expires_at: Unix seconds; the end is exclusive.
    """

    grant_id: str
    delegator: str
    target: str
    scopes: tuple[str, ...]
    sensitive: tuple[str, ...]
    created_at: int
    expires_at: int


@dataclass(frozen=True, slots=True)
class LinkRow:
    """A link of a chain: one exchange, and the token that came out of it.

    Attributes:
        token_id: its ``jti``.
        parents: those of the links before it, the first one first.
        root: with what the chain began: ``opaque:`` or ``jwt:`` and the digest of an access token; empty: an SD-Card.
        actor: who handed on.
        target: to which agent, with ``agent:``.
        grant_id: the grant that permits it.
        proof: digest of the SD-Card that an agent showed for it; empty when none was shown.
        client: the subject that asked.
        issued_at, expires_at: Unix seconds.
    """

    token_id: str
    parents: tuple[str, ...]
    root: str
    actor: str
    target: str
    grant_id: str
    proof: str
    client: str
    issued_at: int
    expires_at: int


@dataclass(frozen=True, slots=True)
class ApprovalRow:
    """A request for a person's approval of an exchange.

    Attributes:
        approval_id: names it; the client repeats its request with it.
        client: the subject that asked.
        parties: the chain: the subject, then those who act, in order.
        target: the agent that the token would be for.
        scopes: what it would be for, sorted.
        interaction_id: the interaction, if any.
        state: where it is in its life.
        asked_at, expires_at: Unix seconds; approved and used before the end, or never.
        decided_by: who approved or denied it.
        owners: the owners of the agents of the exchange when it was asked for, sorted.
    """

    approval_id: str
    client: str
    parties: tuple[str, ...]
    target: str
    scopes: tuple[str, ...]
    interaction_id: str | None
    state: ApprovalState
    asked_at: int
    expires_at: int
    decided_by: str = ""
    owners: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExchangeRow:
    """Everything that one exchange writes, all of it or nothing.

    Attributes:
        at: Unix seconds.
        link: what is issued.
        parties, scopes, interaction_id: of the chain, for the audit record.
        nonce: the nonce that an SD-Card was shown with; used up with the exchange.
        proof: digest of the DPoP proof of the request, and until when to remember it; used up with it.
        approval: what has to be approved: the answer to it is used up with it.
    """

    at: int
    link: LinkRow
    parties: tuple[str, ...]
    scopes: tuple[str, ...]
    interaction_id: str | None
    nonce: GivenNonce | None
    proof: tuple[str, int] | None
    approval: ApprovalRow | None


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """A person's decision.

    ``subject``: the person; ``state``: ``APPROVED`` or ``DENIED``; ``at``: Unix seconds.
    """

    approval_id: str
    subject: str
    state: ApprovalState
    at: int


@dataclass(frozen=True, slots=True)
class RevocationRow:
    """The revocation of a token.

    Attributes:
        at: Unix seconds.
        client: the subject that asks.
        kind: what token: ``delegated``, ``opaque`` or ``jwt``.
        token: its ``jti``, or its digest.
        expires_at: from when on nobody needs to remember it.
    """

    at: int
    client: str
    kind: str
    token: str = field(repr=False)
    expires_at: int


class Delegations(Protocol):
    """Grants, delegated tokens and approvals.

    Every method may raise ``Refused`` with ``store.unavailable``.
    """

    async def add_grant(self, grant: GrantRow) -> GrantRow:
        """Add a grant.

        Raises:
            GrantExists: when there is one for its delegator and target.
        """
        ...

    async def remove_grant(self, grant_id: str, at: int) -> GrantRow | None:
        """Remove a grant, and with it every chain that it is a part of.

        None when there was no such grant.
        """
        ...

    async def list_grants(self) -> tuple[GrantRow, ...]:
        """All grants, by delegator and target."""
        ...

    async def find_grant(self, delegator: str, target: str, at: int) -> GrantRow | None:
        """The grant for these two that has not ended."""
        ...

    async def find_own_name(self, party: str) -> str:
        """Resolve an agent's pairwise name to its id.

        Any other party is returned unchanged.
        """
        ...

    async def find_links(self, token_id: str) -> tuple[LinkRow, ...]:
        """Return the chain of a delegated token, its first link first.

        It is empty when a link is unknown.
        """
        ...

    async def find_end(self, links: Sequence[LinkRow], at: int) -> tuple[Rule, int] | None:
        """Explain why a chain is no longer valid, with the number of its link.

        None: it is valid.
        """
        ...

    async def ask_approval(self, exchange: ExchangeRow) -> ApprovalRow:
        """Request an approval; a repeated request returns the open one.

        Raises:
            Refused: as ``record_exchange``; ``rate.exceeded`` when the client has asked for too many.
        """
        ...

    async def record_exchange(self, exchange: ExchangeRow) -> None:
        """Write an exchange in one transaction, if the whole chain counts.

        Raises:
            Refused: ``proof.nonce``; ``dpop.replayed``; ``status.…`` or ``delegation.…`` for the link that does not
                count; ``approval.…``.
        """
        ...

    async def list_approvals(
        self, at: int, count: int, after: tuple[int, str] | None = None, client: str | None = None
    ) -> tuple[ApprovalRow, ...]:
        """Give approvals that wait for a decision, the oldest first.

        Args:
            at: the present instant.
            count: how many at most.
            after: instant and name of the approval that the last page ended with.
            client: whose; None: of every client.
        """
        ...

    async def find_waiting(self, approval_id: str, at: int) -> ApprovalRow | None:
        """Give the approval of this name, if it waits for a decision."""
        ...

    async def decide(self, decision: DecisionRow) -> ApprovalRow:
        """Approve or deny.

        Raises:
            Refused: ``approval.decided`` when none of this name waits; ``approval.self`` when a party of the exchange
                would approve: the client, the delegator, an actor, the target, or an owner of one of these agents.
        """
        ...

    async def revoke(self, revocation: RevocationRow) -> bool:
        """Revoke a token, if it is the client's to revoke; whether anything changed."""
        ...


# -- Rows of grants, links and approvals: columns, validity, audit records --------------------------------------------

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
