"""Grants, approvals and delegated tokens in the database."""

import hashlib
import json
from dataclasses import replace

from sqlalchemy import ColumnElement, Connection, delete, func, insert, not_, select, tuple_, update

from issuer_service.agents.repository import check_unused, use_nonce
from issuer_service.audit.records import AuditEvent, AuditRow, Row, WrittenRows
from issuer_service.audit.repository import append_audit
from issuer_service.db.pairwise import find_own_id, find_own_name
from issuer_service.db.state import NAME_LENGTH
from issuer_service.db.tables import agents, approvals, delegations, grants, remembered, tokens
from issuer_service.db.values import as_stored, fetch_as_stored, read_page, read_rows
from issuer_service.delegation.chain_repository import (
    READ_APPROVAL,
    READ_GRANT,
    approval_audit_row,
    approval_is_open,
    approval_of,
    check_chain,
    check_decider,
    columns_of,
    end_links,
    exchange_audit_row,
    find_links,
    grant_audit_row,
    grant_holds,
    grant_of,
    owners_of,
)
from issuer_service.delegation.records import (
    ApprovalRow,
    ApprovalState,
    DecisionRow,
    ExchangeRow,
    GrantExists,
    GrantRow,
    RevocationRow,
)
from sdcard.errors import Part, Refused, Where
from sdcard.instants import MAX_SKEW, Lifetime
from sdcard.rules import Rule

# -- Approvals in the database: open ones, who may decide them, single use --------------------------------------------

MOST_OPEN = 100
"""Approvals that one client may wait for."""
_HANDLE = Where(Part.REQUEST, ("approval_handle",))


def waiting(at: int) -> tuple[ColumnElement[bool], ...]:
    """Whether an approval waits for a decision."""
    return approvals.c.state == ApprovalState.PENDING.value, approval_is_open(at)


def list_waiting(
    connection: Connection, at: int, count: int, after: tuple[int, str] | None = None, client: str | None = None
) -> tuple[ApprovalRow, ...]:
    """List approvals that wait for a decision, from an instant and name on.

    Unreadable rows are skipped.
    """
    order = approvals.c.asked_at, approvals.c.approval_id
    asked = select(*as_stored(approvals)).where(*waiting(at)).order_by(*order)
    if client is not None:
        asked = asked.where(approvals.c.client == client)
    if after is not None:
        asked = asked.where(tuple_(*order) > after)
    return read_page(connection, approvals, asked, count, READ_APPROVAL)


def find_waiting(connection: Connection, approval_id: str, at: int) -> ApprovalRow | None:
    """Find the approval of this name, if it waits for a decision."""
    asked = select(approvals).where(approvals.c.approval_id == approval_id, *waiting(at))
    row = connection.execute(asked).mappings().first()
    return None if row is None else approval_of(row)


def ask_approval(connection: Connection, exchange: ExchangeRow) -> ApprovalRow:
    """Request an approval, if everything else permits the exchange.

    A repeated request returns the open approval. No nonce or proof is consumed.

    Raises:
        Refused: as ``record_exchange``; ``rate.exceeded`` when the client has requested too many.
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
    waiting = (approvals.c.client == asked.client, approvals.c.open_for.is_not(None), approval_is_open(exchange.at))
    count = connection.execute(select(func.count()).select_from(approvals).where(*waiting)).scalar_one()
    if count >= MOST_OPEN:
        raise Refused(Rule.RATE_EXCEEDED, Where(Part.REQUEST), "Too many approvals are waited for.")
    asked = replace(asked, owners=tuple(sorted(owners_of(connection, (*asked.parties, asked.target)))))
    row = {**columns_of(asked, "parties", "scopes", "owners"), "state": asked.state.value, "open_for": bound}
    connection.execute(insert(approvals).values(row))
    written = WrittenRows({"approvals": [*map(dict, ended), row]})
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
    """Approve or deny.

    Raises:
        Refused: ``approval.decided`` when none of this name waits; ``token.invalid`` when the person's token has
            ended; ``approval.self`` when a party of the exchange would approve: the client, the delegator, an actor,
            the target, or an owner of one of these agents.
    """
    where = Where(Part.REQUEST, ("approval_id",))
    this = approvals.c.approval_id == decision.approval_id, approvals.c.state == ApprovalState.PENDING.value
    waiting = (*this, approval_is_open(decision.at))
    row = connection.execute(select(approvals).where(*waiting)).mappings().first()
    if row is None:
        raise Refused(Rule.APPROVAL_DECIDED, where)
    approval, granted = approval_of(row), decision.state is ApprovalState.APPROVED
    decided: dict[str, str | None] = {"state": decision.state.value, "decided_by": decision.by.subject}
    if not granted:
        decided["open_for"] = None
    if (connection.execute(update(approvals).where(*waiting).values(decided))).rowcount != 1:
        raise Refused(Rule.APPROVAL_DECIDED, where)
    event = AuditEvent.APPROVAL_GRANTED if granted else AuditEvent.APPROVAL_DENIED
    written = WrittenRows({"approvals": ({**row, **decided},)})
    append_audit(connection, approval_audit_row(event, approval, decision.by.subject, decision.at, written))
    parties = {approval.client, *approval.parties, approval.target, *approval.owners}
    check_decider(connection, decision.by, decision.at, where, (lambda: parties) if granted else None)
    return approval


def _bound_to(approval: ApprovalRow) -> str:
    """Digest of everything that an approval is for.

    It covers the client, the chain, the target, the scopes and the interaction.
    """
    bound = [approval.client, approval.parties, approval.target, approval.scopes, approval.interaction_id]
    return hashlib.sha256(json.dumps(bound).encode()).hexdigest()


# -- Grants, exchanges of tokens and revocations in the database ------------------------------------------------------


def list_grants(connection: Connection) -> tuple[GrantRow, ...]:
    """List all grants, by delegator and target."""
    asked = select(*as_stored(grants)).order_by(grants.c.delegator, grants.c.target)
    return read_rows(grants, fetch_as_stored(connection, asked), READ_GRANT)


def is_registered(connection: Connection, agent_id: str) -> bool:
    """Whether there is an agent of this id, by its own id or a pairwise one."""
    asked = select(agents.c.agent_id).where(
        agents.c.agent_id == find_own_id(connection, agent_id), agents.c.deleted_at.is_(None)
    )
    return connection.execute(asked).first() is not None


def find_grant(connection: Connection, delegator: str, target: str, at: int) -> GrantRow | None:
    """Find the grant for these two that has not ended."""
    asked = select(grants).where(grants.c.delegator == delegator, grants.c.target == target, grant_holds(at))
    row = connection.execute(asked).mappings().first()
    return None if row is None else grant_of(row)


def add_grant(connection: Connection, grant: GrantRow) -> GrantRow:
    """Add a grant: the delegator by its own name, the target by the name as given.

    Raises:
        GrantExists: when there is one for its delegator and target.
    """
    grant = replace(grant, delegator=find_own_name(connection, grant.delegator))
    same = grants.c.delegator == grant.delegator, grants.c.target == grant.target
    there = connection.execute(select(grants).where(*same)).mappings().first()
    if there is not None:
        if Lifetime(there["created_at"], there["expires_at"]).covers(grant.created_at, MAX_SKEW):
            raise GrantExists
        remove_grant(connection, there["grant_id"], grant.created_at)
    row = columns_of(grant, "scopes", "sensitive")
    connection.execute(insert(grants).values(row))
    added = WrittenRows(rows={"grants": (row,)})
    append_audit(connection, grant_audit_row(AuditEvent.GRANT_ADDED, grant, grant.created_at, added))
    return grant


def remove_grant(connection: Connection, grant_id: str, at: int) -> GrantRow | None:
    """Remove a grant, and end every chain that it is part of.

    Returns: the grant; None when it does not exist.
    """
    this = grants.c.grant_id == grant_id
    row = connection.execute(select(grants).where(this)).mappings().first()
    if row is None or connection.execute(delete(grants).where(this)).rowcount != 1:
        return None
    gone = WrittenRows(gone={"grants": (grant_id,)})
    append_audit(connection, grant_audit_row(AuditEvent.GRANT_REMOVED, grant_of(row), at, gone))
    return grant_of(row)


# -- chains


def record_exchange(connection: Connection, exchange: ExchangeRow) -> None:
    """Write an exchange if its whole chain is valid.

    Rows are locked in the order proofs, approvals, links, nonces, audit.

    Raises:
        Refused: ``proof.nonce``; ``dpop.replayed``; ``status.…`` or ``delegation.…`` for an invalid link;
            ``approval.…``.
    """
    rows = dict[str, list[Row]]()
    if exchange.proof is not None:
        proof = _remember(connection, *exchange.proof)
        if proof is None:
            raise Refused(Rule.DPOP_REPLAYED, Where(Part.DPOP, ("jti",)))
        rows["remembered"] = [proof]
    check_chain(connection, exchange)
    if exchange.approval is not None:
        rows["approvals"] = [use_approval(connection, exchange.approval, exchange.at)]
    link = {**columns_of(exchange.link, "parents"), "revoked_at": None}
    connection.execute(insert(delegations).values(link))
    if exchange.nonce is not None:
        use_nonce(connection, exchange.nonce, exchange.at)
    written = WrittenRows({**rows, "delegations": [link]})
    append_audit(connection, exchange_audit_row(AuditEvent.DELEGATION_ISSUED, exchange, written))


# -- revocation


def revoke(connection: Connection, revocation: RevocationRow) -> bool:
    """Revoke a token of the client.

    Returns: whether anything changed.
    """
    written = _REVOKE[revocation.kind](connection, revocation)
    if written is None:
        return False
    told = {"token": (revocation.token[:32],)}
    row = AuditRow(AuditEvent.TOKEN_REVOKED, revocation.at, revocation.client, "", "", told, written=written)
    append_audit(connection, row)
    return True


def _revoke_delegated(connection: Connection, revocation: RevocationRow) -> WrittenRows | None:
    """Revoke a delegated token, for the client that requested it.

    The client of a token before it in the chain may revoke it too.
    """
    links = find_links(connection, revocation.token)
    if revocation.client not in {link.client for link in links}:
        return None
    this = delegations.c.token_id == revocation.token
    revoked = end_links(connection, revocation.at, this)
    return WrittenRows({"delegations": revoked}) if revoked else None


def _revoke_opaque(connection: Connection, revocation: RevocationRow) -> WrittenRows | None:
    this = tokens.c.digest == revocation.token, tokens.c.subject == revocation.client
    return token_gone(revocation.token) if connection.execute(delete(tokens).where(*this)).rowcount == 1 else None


def token_gone(digest: str) -> WrittenRows:
    """Build the record of a deleted token."""
    return WrittenRows(gone={"tokens": (digest[:NAME_LENGTH],)})


def _revoke_jwt(connection: Connection, revocation: RevocationRow) -> WrittenRows | None:
    row = _remember(connection, revocation.token, revocation.expires_at)
    return None if row is None else WrittenRows({"remembered": [row]})


def _remember(connection: Connection, digest: str, until: int) -> Row | None:
    """Remember a digest, and return its row; None when it is remembered.

    Two transactions that do it at once meet at the primary key.
    """
    this = remembered.c.digest == digest
    if connection.execute(select(remembered.c.digest).where(this)).first() is not None:
        return None
    row = {"digest": digest, "expires_at": until}
    connection.execute(insert(remembered).values(row))
    return row


_REVOKE = {"delegated": _revoke_delegated, "opaque": _revoke_opaque, "jwt": _revoke_jwt}
