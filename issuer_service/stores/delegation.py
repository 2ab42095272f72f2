"""Grants, exchanges of tokens and revocations in the database."""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection, delete, insert, select

from issuer_service.stores.approvals import ask_approval, decide_approval, list_waiting, use_approval, waiting
from issuer_service.stores.audit import append_audit
from issuer_service.stores.chains import check_chain, end_links, find_end, find_links
from issuer_service.stores.delegation_ports import (
    ApprovalRow,
    DecisionRow,
    ExchangeRow,
    GrantExists,
    GrantRow,
    LinkRow,
    RevocationRow,
)
from issuer_service.stores.delegation_rows import (
    READ_GRANT,
    approval_of,
    clear_old,
    columns_of,
    exchange_audit_row,
    grant_audit_row,
    grant_holds,
    grant_of,
)
from issuer_service.stores.nonces import SqlNonces, use_nonce
from issuer_service.stores.pairwise import find_own_name
from issuer_service.stores.readable import as_stored, fetch_as_stored, read_rows
from issuer_service.stores.rows.audit import AuditEvent, AuditRow
from issuer_service.stores.rows.state import Row, Written
from issuer_service.stores.state.digests import NAME_LENGTH
from issuer_service.stores.tables import approvals, delegations, grants, remembered, tokens
from sdcard.edge.databases import Database
from sdcard.errors import Part, Refused, Where
from sdcard.instants import MAX_SKEW, Lifetime
from sdcard.rules import Rule


class SqlDelegations:
    """``Delegations`` in a relational database."""

    def __init__(self, database: Database, nonces: SqlNonces) -> None:
        self._database, self._nonces = database, nonces

    async def add_grant(self, grant: GrantRow) -> GrantRow:
        """Add a grant."""
        return await self._database.change(lambda connection: _add_grant(connection, grant))

    async def remove_grant(self, grant_id: str, at: int) -> GrantRow | None:
        """Remove a grant."""
        return await self._database.change(lambda connection: _remove_grant(connection, grant_id, at))

    async def list_grants(self) -> tuple[GrantRow, ...]:
        """All grants."""
        asked = select(*as_stored(grants)).order_by(grants.c.delegator, grants.c.target)
        rows = await self._database.read(lambda connection: fetch_as_stored(connection, asked))
        return read_rows(grants, rows, READ_GRANT)

    async def find_grant(self, delegator: str, target: str, at: int) -> GrantRow | None:
        """The grant for these two."""
        these = grants.c.delegator == delegator, grants.c.target == target, grant_holds(at)
        asked = select(grants).where(*these)
        row = await self._database.read(lambda connection: connection.execute(asked).mappings().first())
        return None if row is None else grant_of(row)

    async def find_own_name(self, party: str) -> str:
        """The agent behind a pairwise name."""
        return await self._database.read(lambda connection: find_own_name(connection, party))

    async def find_links(self, token_id: str) -> tuple[LinkRow, ...]:
        """The chain of a delegated token."""
        return await self._database.read(lambda connection: find_links(connection, token_id))

    async def find_end(self, links: Sequence[LinkRow], at: int) -> tuple[Rule, int] | None:
        """Explain why a chain is no longer valid."""
        return await self._database.read(lambda connection: find_end(connection, links, at))

    async def ask_approval(self, exchange: ExchangeRow) -> ApprovalRow:
        """Ask for an approval."""
        with self._nonces.in_use():
            return await self._database.change(lambda connection: ask_approval(connection, exchange))

    async def record_exchange(self, exchange: ExchangeRow) -> None:
        """Write an exchange."""
        with self._nonces.in_use():
            await self._database.change(lambda connection: _record(connection, exchange))

    async def list_approvals(
        self, at: int, count: int, after: tuple[int, str] | None = None, client: str | None = None
    ) -> tuple[ApprovalRow, ...]:
        """Give approvals that wait for a decision."""
        return await self._database.read(lambda connection: list_waiting(connection, at, count, after, client))

    async def find_waiting(self, approval_id: str, at: int) -> ApprovalRow | None:
        """Give the approval of this name, if it waits for a decision."""
        asked = select(approvals).where(approvals.c.approval_id == approval_id, *waiting(at))
        row = await self._database.read(lambda connection: connection.execute(asked).mappings().first())
        return None if row is None else approval_of(row)

    async def decide(self, decision: DecisionRow) -> ApprovalRow:
        """Approve or deny."""
        return await self._database.change(lambda connection: decide_approval(connection, decision))

    async def revoke(self, revocation: RevocationRow) -> bool:
        """Revoke a token."""
        return await self._database.change(lambda connection: _revoke(connection, revocation))


# -- grants


def _add_grant(connection: Connection, grant: GrantRow) -> GrantRow:
    """Add a grant: the delegator by its own name, the target by the name as given."""
    grant = replace(grant, delegator=find_own_name(connection, grant.delegator))
    same = grants.c.delegator == grant.delegator, grants.c.target == grant.target
    there = connection.execute(select(grants).where(*same)).mappings().first()
    if there is not None:
        if Lifetime(there["created_at"], there["expires_at"]).covers(grant.created_at, MAX_SKEW):
            raise GrantExists
        _remove_grant(connection, there["grant_id"], grant.created_at)
    row = columns_of(grant, "scopes", "sensitive")
    connection.execute(insert(grants).values(row))
    added = Written(rows={"grants": (row,)})
    append_audit(connection, grant_audit_row(AuditEvent.GRANT_ADDED, grant, grant.created_at, added))
    return grant


def _remove_grant(connection: Connection, grant_id: str, at: int) -> GrantRow | None:
    this = grants.c.grant_id == grant_id
    row = connection.execute(select(grants).where(this)).mappings().first()
    if row is None or connection.execute(delete(grants).where(this)).rowcount != 1:
        return None
    gone = Written(gone={"grants": (grant_id,)})
    append_audit(connection, grant_audit_row(AuditEvent.GRANT_REMOVED, grant_of(row), at, gone))
    return grant_of(row)


# -- chains


def _record(connection: Connection, exchange: ExchangeRow) -> None:
    """Write all of an exchange.

    Rows are taken in the order proofs, approvals, links, nonces, audit.
    """
    rows, gone = dict[str, list[Row]](), dict[str, list[str]]()
    if exchange.proof is not None:
        proof = _remember(connection, *exchange.proof, exchange.at)
        if proof is None:
            raise Refused(Rule.DPOP_REPLAYED, Where(Part.DPOP, ("jti",)))
        rows["remembered"], gone["remembered"] = proof
    check_chain(connection, exchange)
    if exchange.approval is not None:
        rows["approvals"] = [use_approval(connection, exchange.approval, exchange.at)]
    gone["delegations"] = clear_old(connection, delegations, delegations.c.token_id, exchange.at)
    link = {**columns_of(exchange.link, "parents"), "revoked_at": None}
    connection.execute(insert(delegations).values(link))
    if exchange.nonce is not None:
        use_nonce(connection, exchange.nonce, exchange.at)
    written = Written({**rows, "delegations": [link]}, gone)
    append_audit(connection, exchange_audit_row(AuditEvent.DELEGATION_ISSUED, exchange, written))


# -- revocation


def _revoke(connection: Connection, revocation: RevocationRow) -> bool:
    written = _REVOKE[revocation.kind](connection, revocation)
    if written is None:
        return False
    told = {"token": (revocation.token[:32],)}
    row = AuditRow(AuditEvent.TOKEN_REVOKED, revocation.at, revocation.client, "", "", told, written=written)
    append_audit(connection, row)
    return True


def _revoke_delegated(connection: Connection, revocation: RevocationRow) -> Written | None:
    """Revoke a delegated token, for the client that requested it.

    The client of a token before it in the chain may revoke it too.
    """
    links = find_links(connection, revocation.token)
    if revocation.client not in {link.client for link in links}:
        return None
    this = delegations.c.token_id == revocation.token
    revoked = end_links(connection, revocation.at, this)
    return Written({"delegations": revoked}) if revoked else None


def _revoke_opaque(connection: Connection, revocation: RevocationRow) -> Written | None:
    this = tokens.c.digest == revocation.token, tokens.c.subject == revocation.client
    return token_gone(revocation.token) if connection.execute(delete(tokens).where(*this)).rowcount == 1 else None


def token_gone(digest: str) -> Written:
    """Build the record of a deleted token."""
    return Written(gone={"tokens": (digest[:NAME_LENGTH],)})


def _revoke_jwt(connection: Connection, revocation: RevocationRow) -> Written | None:
    remembering = _remember(connection, revocation.token, revocation.expires_at, revocation.at)
    if remembering is None:
        return None
    rows, gone = remembering
    return Written({"remembered": rows}, {"remembered": gone})


def _remember(connection: Connection, digest: str, until: int, at: int) -> tuple[list[Row], list[str]] | None:
    """Remember a digest; None when it is remembered.

    Two transactions that do it at once meet at the primary key.

    Returns: the row, and the names of old rows that were deleted.
    """
    this = remembered.c.digest == digest
    if connection.execute(select(remembered.c.digest).where(this)).first() is not None:
        return None
    cleared = clear_old(connection, remembered, remembered.c.digest, at)
    row = {"digest": digest, "expires_at": until}
    connection.execute(insert(remembered).values(row))
    return [row], [one[:NAME_LENGTH] for one in cleared]


_REVOKE = {"delegated": _revoke_delegated, "opaque": _revoke_opaque, "jwt": _revoke_jwt}
