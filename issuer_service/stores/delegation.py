"""Grants, delegated tokens and approvals in the database.

A chain counts while each of its links does: the access token that it began with, the tokens in between, the grants they
were issued by, the SD-Cards that were shown, and the agents. All of that is looked at where it is, whenever it matters.
"""

import hashlib
import json
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    Table,
    delete,
    func,
    insert,
    not_,
    or_,
    select,
    tuple_,
    update,
)

from issuer_service.stores.audit import append_audit
from issuer_service.stores.delegation_ports import (
    ApprovalRow,
    ApprovalState,
    DecisionRow,
    ExchangeRow,
    GrantExists,
    GrantRow,
    LinkRow,
    RevocationRow,
)
from issuer_service.stores.lifetimes import in_force
from issuer_service.stores.nonces import SqlNonces, check_unused, use_nonce
from issuer_service.stores.pairwise import find_own_name
from issuer_service.stores.rows.audit import AuditEvent, AuditRow
from issuer_service.stores.rows.state import Row, Written
from issuer_service.stores.state.digests import NAME_LENGTH
from issuer_service.stores.tables import (
    agents,
    approvals,
    batches,
    cards,
    delegations,
    grants,
    remembered,
    status_entries,
    tokens,
)
from sdcard.edge.databases import Database
from sdcard.errors import Part, Refused, Where
from sdcard.instants import MAX_SKEW, Lifetime
from sdcard.rules import Rule
from sdcard.status.reference import StatusValue

AGENT = "agent:"
MOST_OPEN = 100
"""Approvals that one client may wait for."""

_KEPT = 30 * 86_400
"""Seconds for which what has ended is kept: a clock that is ahead by less deletes nothing that still counts."""
_CLEARED = 100
"""Rows that one write clears away at most."""
_SHOWN = Where(Part.REQUEST, ("subject_token",))
_HANDLE = Where(Part.REQUEST, ("approval_handle",))


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
        asked = select(grants).order_by(grants.c.delegator, grants.c.target)
        return tuple(map(_grant, await self._database.read(lambda one: one.execute(asked).mappings().all())))

    async def find_grant(self, delegator: str, target: str, at: int) -> GrantRow | None:
        """The grant for these two."""
        these = grants.c.delegator == delegator, grants.c.target == target, _granted(at)
        asked = select(grants).where(*these)
        row = await self._database.read(lambda connection: connection.execute(asked).mappings().first())
        return None if row is None else _grant(row)

    async def find_own_name(self, party: str) -> str:
        """The agent behind a pairwise name."""
        return await self._database.read(lambda connection: find_own_name(connection, party))

    async def find_links(self, token_id: str) -> tuple[LinkRow, ...]:
        """The chain of a delegated token."""
        return await self._database.read(lambda connection: _links(connection, token_id))

    async def find_end(self, links: Sequence[LinkRow], at: int) -> tuple[Rule, int] | None:
        """Why a chain counts no more."""
        return await self._database.read(lambda connection: _find_end(connection, links, at))

    async def ask_approval(self, exchange: ExchangeRow) -> ApprovalRow:
        """Ask for an approval."""
        with self._nonces.in_use():
            return await self._database.change(lambda connection: _ask(connection, exchange))

    async def record_exchange(self, exchange: ExchangeRow) -> None:
        """Write an exchange."""
        with self._nonces.in_use():
            await self._database.change(lambda connection: _record(connection, exchange))

    async def list_approvals(
        self, at: int, count: int, after: tuple[int, str] | None = None, client: str | None = None
    ) -> tuple[ApprovalRow, ...]:
        """Give approvals that wait for a decision."""
        order = approvals.c.asked_at, approvals.c.approval_id
        asked = select(approvals).where(*_waiting(at)).order_by(*order).limit(count)
        if after is not None:
            asked = asked.where(tuple_(*order) > after)
        if client is not None:
            asked = asked.where(approvals.c.client == client)
        return tuple(map(_approval, await self._database.read(lambda one: one.execute(asked).mappings().all())))

    async def find_waiting(self, approval_id: str, at: int) -> ApprovalRow | None:
        """Give the approval of this name, if it waits for a decision."""
        asked = select(approvals).where(approvals.c.approval_id == approval_id, *_waiting(at))
        row = await self._database.read(lambda connection: connection.execute(asked).mappings().first())
        return None if row is None else _approval(row)

    async def decide(self, decision: DecisionRow) -> ApprovalRow:
        """Approve or deny."""
        return await self._database.change(lambda connection: _decide(connection, decision))

    async def revoke(self, revocation: RevocationRow) -> bool:
        """Revoke a token."""
        return await self._database.change(lambda connection: _revoke(connection, revocation))


# -- grants


def _add_grant(connection: Connection, grant: GrantRow) -> GrantRow:
    """Who hands on is known by its own name. A target is asked for by the very name that was granted."""
    grant = replace(grant, delegator=find_own_name(connection, grant.delegator))
    same = grants.c.delegator == grant.delegator, grants.c.target == grant.target
    there = connection.execute(select(grants).where(*same)).mappings().first()
    if there is not None:
        if Lifetime(there["created_at"], there["expires_at"]).covers(grant.created_at, MAX_SKEW):
            raise GrantExists
        _remove_grant(connection, there["grant_id"], grant.created_at)
    row = _columns(grant, "scopes", "sensitive")
    connection.execute(insert(grants).values(row))
    added = Written(rows={"grants": (row,)})
    append_audit(connection, _grant_audit_row(AuditEvent.GRANT_ADDED, grant, grant.created_at, added))
    return grant


def _remove_grant(connection: Connection, grant_id: str, at: int) -> GrantRow | None:
    this = grants.c.grant_id == grant_id
    row = connection.execute(select(grants).where(this)).mappings().first()
    if row is None or connection.execute(delete(grants).where(this)).rowcount != 1:
        return None
    gone = Written(gone={"grants": (grant_id,)})
    append_audit(connection, _grant_audit_row(AuditEvent.GRANT_REMOVED, _grant(row), at, gone))
    return _grant(row)


# -- chains


def _record(connection: Connection, exchange: ExchangeRow) -> None:
    """Write all of an exchange. Rows are taken in the order proofs, approvals, links, nonces, audit."""
    rows, gone = dict[str, list[Row]](), dict[str, list[str]]()
    if exchange.proof is not None:
        proof = _remember(connection, *exchange.proof, exchange.at)
        if proof is None:
            raise Refused(Rule.DPOP_REPLAYED, Where(Part.DPOP, ("jti",)))
        rows["remembered"], gone["remembered"] = proof
    _check_chain(connection, exchange)
    if exchange.approval is not None:
        rows["approvals"] = [_use_approval(connection, exchange.approval, exchange.at)]
    gone["delegations"] = _clear(connection, delegations, delegations.c.token_id, exchange.at)
    link = {**_columns(exchange.link, "parents"), "revoked_at": None}
    connection.execute(insert(delegations).values(link))
    if exchange.nonce is not None:
        use_nonce(connection, exchange.nonce, exchange.at)
    written = Written({**rows, "delegations": [link]}, gone)
    append_audit(connection, _exchange_audit_row(AuditEvent.DELEGATION_ISSUED, exchange, written))


def _links(connection: Connection, token_id: str) -> tuple[LinkRow, ...]:
    this = connection.execute(select(delegations).where(delegations.c.token_id == token_id)).mappings().first()
    if this is None:
        return ()
    before = connection.execute(select(delegations).where(delegations.c.token_id.in_(this["parents"])))
    known = {row["token_id"]: _link(row) for row in before.mappings()}
    if len(known) < len(this["parents"]):
        return ()
    return (*(known[one] for one in this["parents"]), _link(this))


def _check_chain(connection: Connection, exchange: ExchangeRow) -> None:
    """Refuse a link to a chain that does not count, or that would not."""
    parents = exchange.link.parents
    before = _links(connection, parents[-1]) if parents else ()
    if len(before) < len(parents):
        raise Refused(Rule.DELEGATION_REVOKED, _SHOWN)
    end = _find_end(connection, (*before, exchange.link), exchange.at)
    if end is not None:
        rule, number = end
        raise Refused(rule, _SHOWN.within("chain", number))


def _find_end(connection: Connection, links: Sequence[LinkRow], at: int) -> tuple[Rule, int] | None:
    """What has ended first, from the beginning of the chain on."""
    if not _root_counts(connection, links[0].root, at):
        return Rule.DELEGATION_REVOKED, 0
    named = [link.token_id for link in links]
    gone = select(delegations.c.token_id).where(
        delegations.c.token_id.in_(named), or_(delegations.c.revoked_at.is_not(None), not_(_counts(at)))
    )
    revoked = set(connection.execute(gone).scalars())
    theirs = grants.c.grant_id.in_([link.grant_id for link in links])
    granted = set(connection.execute(select(grants.c.grant_id).where(theirs, _granted(at))).scalars())
    parties = {party for link in links for party in (link.actor, link.target) if party.startswith(AGENT)}
    standing = _in_good_standing(connection, parties, at)
    shown = _statuses(connection, {link.proof for link in links} - {""}, at)
    for number, link in enumerate(links):
        if link.token_id in revoked:
            return Rule.DELEGATION_REVOKED, number
        if link.grant_id not in granted:
            return Rule.DELEGATION_GRANT_ENDED, number
        if link.proof and shown.get(link.proof) != StatusValue.VALID:
            return _BY_STATUS.get(shown.get(link.proof, -1), Rule.DELEGATION_AGENT_ENDED), number
        if not {party for party in (link.actor, link.target) if party.startswith(AGENT)} <= standing:
            return Rule.DELEGATION_AGENT_ENDED, number
    return None


_BY_STATUS = {int(StatusValue.INVALID): Rule.STATUS_REVOKED, int(StatusValue.SUSPENDED): Rule.STATUS_SUSPENDED}


def _root_counts(connection: Connection, root: str, at: int) -> bool:
    kind, _, digest = root.partition(":")
    if kind == "opaque":
        counts = in_force(tokens.c.created_at, tokens.c.expires_at, at)
        asked = select(tokens.c.digest).where(tokens.c.digest == digest, counts)
        return connection.execute(asked).first() is not None
    asked = select(remembered.c.digest).where(remembered.c.digest == digest)
    return connection.execute(asked).first() is None


def _entry() -> ColumnElement[bool]:
    same_list = status_entries.c.list_id == cards.c.status_list_id
    return same_list & (status_entries.c.index == cards.c.status_index)


_STATUS: ColumnElement[Any] = func.coalesce(status_entries.c.status, int(StatusValue.VALID))
"""Of a card; those of before there were lists are valid."""


def _in_good_standing(connection: Connection, parties: set[str], at: int) -> set[str]:
    """Those of these agents that have an SD-Card that is valid now."""
    asked = (
        select(batches.c.agent_id)
        .join_from(cards, batches)
        .join(agents, agents.c.agent_id == batches.c.agent_id)
        .join(status_entries, _entry(), isouter=True)
        .where(batches.c.agent_id.in_([party.removeprefix(AGENT) for party in parties]))
        .where(
            ~cards.c.for_discovery,
            agents.c.deleted_at.is_(None),
            in_force(batches.c.issued_at, cards.c.expires_at, at),
            _STATUS.in_([int(StatusValue.VALID)]),
        )
        .distinct()
    )
    return {AGENT + agent_id for agent_id in connection.execute(asked).scalars()}


def _statuses(connection: Connection, digests: set[str], at: int) -> dict[str, int]:
    """SD-Card → its status, of those that the registry issued and that have not expired."""
    asked = (
        select(cards.c.digest, _STATUS)
        .join(status_entries, _entry(), isouter=True)
        .where(cards.c.digest.in_(digests), cards.c.expires_at > at)
    )
    return {digest: status for digest, status in connection.execute(asked)}


# -- approvals


def _waiting(at: int) -> tuple[ColumnElement[bool], ...]:
    return approvals.c.state == ApprovalState.PENDING.value, _open(at)


def _ask(connection: Connection, exchange: ExchangeRow) -> ApprovalRow:
    """Ask a person, if everything else permits the exchange. Nothing is used up by that."""
    if exchange.nonce is not None:
        check_unused(connection, exchange.nonce, exchange.at)
    _check_chain(connection, exchange)
    asked = exchange.approval
    assert asked is not None, "an approval is asked for"
    bound = _bound_to(asked)
    over = update(approvals).where(approvals.c.open_for == bound, not_(_open(exchange.at)))
    ended = connection.execute(over.values(open_for=None).returning(*approvals.c)).mappings().all()
    open_one = connection.execute(select(approvals).where(approvals.c.open_for == bound)).mappings().first()
    if open_one is not None:
        return _approval(open_one)
    waiting = (
        approvals.c.client == asked.client,
        approvals.c.open_for.is_not(None),
        _open(exchange.at),
    )
    count = connection.execute(select(func.count()).select_from(approvals).where(*waiting)).scalar_one()
    if count >= MOST_OPEN:
        raise Refused(Rule.RATE_EXCEEDED, Where(Part.REQUEST), "Too many approvals are waited for.")
    asked = replace(asked, owners=tuple(sorted(_owners(connection, asked))))
    row = {**_columns(asked, "parties", "scopes", "owners"), "state": asked.state.value, "open_for": bound}
    connection.execute(insert(approvals).values(row))
    cleared = _clear(connection, approvals, approvals.c.approval_id, exchange.at)
    rows = [*(dict(one) for one in ended if one["approval_id"] not in cleared), row]
    written = Written({"approvals": rows}, {"approvals": cleared})
    append_audit(connection, _approval_audit_row(AuditEvent.APPROVAL_ASKED, asked, asked.client, exchange.at, written))
    return asked


def _use_approval(connection: Connection, wanted: ApprovalRow, at: int) -> Row:
    """Use an approval up, if it is for exactly this; the row then. The transaction that changes the row has used it."""
    this = approvals.c.approval_id == wanted.approval_id
    row = connection.execute(select(approvals).where(this)).mappings().first()
    if row is None or _bound_to(_approval(row)) != _bound_to(wanted):
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


def _decide(connection: Connection, decision: DecisionRow) -> ApprovalRow:
    where = Where(Part.REQUEST, ("approval_id",))
    this = approvals.c.approval_id == decision.approval_id, approvals.c.state == ApprovalState.PENDING.value
    waiting = (*this, _open(decision.at))
    row = connection.execute(select(approvals).where(*waiting)).mappings().first()
    if row is None:
        raise Refused(Rule.APPROVAL_DECIDED, where)
    approval, granted = _approval(row), decision.state is ApprovalState.APPROVED
    if granted and _profits(connection, approval, decision.subject):
        raise Refused(Rule.APPROVAL_SELF, where)
    decided: dict[str, str | None] = {"state": decision.state.value, "decided_by": decision.subject}
    if not granted:
        decided["open_for"] = None
    if (connection.execute(update(approvals).where(*waiting).values(decided))).rowcount != 1:
        raise Refused(Rule.APPROVAL_DECIDED, where)
    event = AuditEvent.APPROVAL_GRANTED if granted else AuditEvent.APPROVAL_DENIED
    written = Written({"approvals": ({**row, **decided},)})
    append_audit(connection, _approval_audit_row(event, approval, decision.subject, decision.at, written))
    return approval


def _profits(connection: Connection, approval: ApprovalRow, subject: str) -> bool:
    """Whether a subject is a party of an exchange: the client, the delegator, an actor, the target, or an owner of one
    of these agents, now or when the approval was asked for. An agent approves nothing.

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
    """Digest of all that an approval is for: who asks, the chain, target, scopes and interaction."""
    bound = [approval.client, approval.parties, approval.target, approval.scopes, approval.interaction_id]
    return hashlib.sha256(json.dumps(bound).encode()).hexdigest()


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
    """The client that asked for a token, or for one before it in the chain, can revoke it."""
    links = _links(connection, revocation.token)
    if revocation.client not in {link.client for link in links}:
        return None
    this = delegations.c.token_id == revocation.token
    revoked = _end_links(connection, revocation.at, this)
    return Written({"delegations": revoked}) if revoked else None


def end_chains(connection: Connection, agent_id: str, at: int) -> list[Row]:
    """Revoke every token that an agent handed on or was given; their rows. Its SD-Cards were revoked, and later ones
    change nothing about that.
    """
    party = AGENT + agent_id
    of_it = or_(delegations.c.actor == party, delegations.c.target == party)
    return _end_links(connection, at, of_it)  # expired or not: the clock may be ahead


def _end_links(connection: Connection, at: int, *which: ColumnElement[bool]) -> list[Row]:
    """Revoke these links, unless they are revoked; their rows then."""
    counting = update(delegations).where(*which, delegations.c.revoked_at.is_(None))
    ended = connection.execute(counting.values(revoked_at=at).returning(*delegations.c))
    return [dict(row) for row in ended.mappings()]


def _revoke_opaque(connection: Connection, revocation: RevocationRow) -> Written | None:
    this = tokens.c.digest == revocation.token, tokens.c.subject == revocation.client
    return token_gone(revocation.token) if connection.execute(delete(tokens).where(*this)).rowcount == 1 else None


def token_gone(digest: str) -> Written:
    """What a record says of a token that was deleted."""
    return Written(gone={"tokens": (digest[:NAME_LENGTH],)})


def _revoke_jwt(connection: Connection, revocation: RevocationRow) -> Written | None:
    remembering = _remember(connection, revocation.token, revocation.expires_at, revocation.at)
    if remembering is None:
        return None
    rows, gone = remembering
    return Written({"remembered": rows}, {"remembered": gone})


def _remember(connection: Connection, digest: str, until: int, at: int) -> tuple[list[Row], list[str]] | None:
    """Remember a digest; None when it is remembered. Two transactions that do it at once meet at the primary key.

    Returns: the row, and the names of old rows that were deleted.
    """
    this = remembered.c.digest == digest
    if connection.execute(select(remembered.c.digest).where(this)).first() is not None:
        return None
    cleared = _clear(connection, remembered, remembered.c.digest, at)
    row = {"digest": digest, "expires_at": until}
    connection.execute(insert(remembered).values(row))
    return [row], [one[:NAME_LENGTH] for one in cleared]


_REVOKE = {"delegated": _revoke_delegated, "opaque": _revoke_opaque, "jwt": _revoke_jwt}


# -- rows


def _granted(at: int) -> ColumnElement[bool]:
    return in_force(grants.c.created_at, grants.c.expires_at, at)


def _open(at: int) -> ColumnElement[bool]:
    return in_force(approvals.c.asked_at, approvals.c.expires_at, at)


def _counts(at: int) -> ColumnElement[bool]:
    return in_force(delegations.c.issued_at, delegations.c.expires_at, at)


def _clear(connection: Connection, table: Table, name: ColumnElement[str], at: int) -> list[str]:
    """Delete some rows that ended long ago, but none that another transaction deletes; their names."""
    old = select(name).where(table.c.expires_at <= at - _KEPT).limit(_CLEARED).with_for_update(skip_locked=True)
    return list(connection.execute(delete(table).where(name.in_(old)).returning(name)).scalars())


def _columns(row: GrantRow | LinkRow | ApprovalRow, *lists: str) -> dict[str, Any]:
    """A row of ours as columns; tuples become JSON."""
    values = {name: getattr(row, name) for name in type(row).__slots__}
    return {**values, **{name: list(values[name]) for name in lists}}


def _grant(row: RowMapping) -> GrantRow:
    return GrantRow(**{**row, "scopes": tuple(row["scopes"]), "sensitive": tuple(row["sensitive"])})


def _link(row: RowMapping) -> LinkRow:
    known = {name: value for name, value in row.items() if name != "revoked_at"}
    return LinkRow(**{**known, "parents": tuple(row["parents"])})


def _approval(row: RowMapping) -> ApprovalRow:
    known = {name: value for name, value in row.items() if name != "open_for"}
    lists = {name: tuple(row[name]) for name in ("parties", "scopes", "owners")}
    return ApprovalRow(**{**known, **lists, "state": ApprovalState(row["state"])})


def _grant_audit_row(event: AuditEvent, grant: GrantRow, at: int, written: Written) -> AuditRow:
    told = {"chain": (grant.delegator,), "scopes": grant.scopes, "grant": (grant.grant_id,)}
    return AuditRow(event, at, "", grant.target.removeprefix(AGENT), "", told, written=written)


def _exchange_audit_row(event: AuditEvent, exchange: ExchangeRow, written: Written) -> AuditRow:
    link = exchange.link
    told = {"chain": exchange.parties, "scopes": exchange.scopes, "token": (link.token_id,), "grant": (link.grant_id,)}
    agent_id = link.target.removeprefix(AGENT)
    return AuditRow(event, exchange.at, link.client, agent_id, "", told, exchange.interaction_id, written=written)


def _approval_audit_row(event: AuditEvent, approval: ApprovalRow, subject: str, at: int, written: Written) -> AuditRow:
    told = {"chain": approval.parties, "scopes": approval.scopes, "approval": (approval.approval_id,)}
    agent_id = approval.target.removeprefix(AGENT)
    return AuditRow(event, at, subject, agent_id, "", told, approval.interaction_id, written=written)
