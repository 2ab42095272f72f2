"""Chains of delegated tokens in the database, and checks of their validity.

A chain is valid while each part is: the first access token, the tokens in between, their grants, the presented
SD-Cards, and the agents. Each check reads all of them.
"""

import unicodedata
from collections.abc import Callable, Collection, Sequence
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Connection, RowMapping, not_, or_, select, update

from issuer_service.audit.records import AuditEvent, AuditRow, Row, WrittenRows
from issuer_service.db.tables import (
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
from issuer_service.db.values import Read, in_force, read_row
from issuer_service.delegation.records import ApprovalRow, Decider, ExchangeRow, GrantRow, LinkRow
from issuer_service.status.repository import ENTRY_OF_CARD, STATUS_OF_CARD
from sdcard.errors import Part, Refused, Where
from sdcard.oauth import EXTERNAL
from sdcard.oauth import WHERE as TOKEN
from sdcard.rules import Rule
from sdcard.status_list import StatusValue

AGENT = "agent:"

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


def grant_audit_row(event: AuditEvent, grant: GrantRow, at: int, written: WrittenRows) -> AuditRow:
    """Make the audit record of a grant."""
    told = {"chain": (grant.delegator,), "scopes": grant.scopes, "grant": (grant.grant_id,)}
    return AuditRow(event, at, "", grant.target.removeprefix(AGENT), "", told, written=written)


def exchange_audit_row(event: AuditEvent, exchange: ExchangeRow, written: WrittenRows) -> AuditRow:
    """Make the audit record of an exchange."""
    link = exchange.link
    told = {"chain": exchange.parties, "scopes": exchange.scopes, "token": (link.token_id,), "grant": (link.grant_id,)}
    agent_id = link.target.removeprefix(AGENT)
    return AuditRow(event, exchange.at, link.client, agent_id, "", told, exchange.interaction_id, written=written)


def approval_audit_row(
    event: AuditEvent, approval: ApprovalRow, subject: str, at: int, written: WrittenRows
) -> AuditRow:
    """Make the audit record of an approval."""
    told = {"chain": approval.parties, "scopes": approval.scopes, "approval": (approval.approval_id,)}
    agent_id = approval.target.removeprefix(AGENT)
    return AuditRow(event, at, subject, agent_id, "", told, approval.interaction_id, written=written)


# -- People who may not decide ----------------------------------------------------------------------------------------


def check_decider(
    connection: Connection, by: Decider, at: int, where: Where, parties: Callable[[], Collection[str]] | None
) -> None:
    """Refuse a decision of a person whose token has ended, or who profits from it.

    It follows the audit record of the decision, whose transaction then has the head of the chain: what ends a token or
    makes a party is recorded entirely before the decision, and seen here, or after it.

    Args:
        connection: the transaction.
        by: the person.
        at: Unix seconds.
        where: the place of the request for approval.
        parties: returns who profits from an approval; None for a denial, which anybody may give.

    Raises:
        Refused: ``token.invalid`` or ``approval.self``.
    """
    if by.token is not None:
        digest, ends_at = by.token
        kind = "jwt" if by.subject.startswith(EXTERNAL) else "opaque"
        if ends_at <= at or not _root_counts(connection, f"{kind}:{digest}", at):
            raise Refused(Rule.TOKEN_INVALID, TOKEN)
    if parties is not None and _profits(connection, by.subject, parties()):
        raise Refused(Rule.APPROVAL_SELF, where)


def _profits(connection: Connection, subject: str, parties: Collection[str]) -> bool:
    """Whether a subject profits from a decision, which it then may not approve.

    It does if it is a party, or owns an agent among them. An agent approves nothing.

    Names that people would take for the same are the same here: `--by` of a command takes any text.
    """
    names = {*parties, *owners_of(connection, parties)}
    return subject.startswith(AGENT) or _as_read(subject) in set(map(_as_read, names))


def owners_of(connection: Connection, parties: Collection[str]) -> set[str]:
    """Return the present owners of the agents among these parties."""
    named = [party.removeprefix(AGENT) for party in parties if party.startswith(AGENT)]
    return set(connection.execute(select(agents.c.subject).where(agents.c.agent_id.in_(named))).scalars())


def _as_read(subject: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", subject).casefold().split())


# -- Chains, and what ends one ----------------------------------------------------------------------------------------

_SHOWN = Where(Part.REQUEST, ("subject_token",))


def find_links(connection: Connection, token_id: str) -> tuple[LinkRow, ...]:
    """Find the chain of a delegated token, its first link first.

    It is empty when a link is missing.
    """
    this = connection.execute(select(delegations).where(delegations.c.token_id == token_id)).mappings().first()
    if this is None:
        return ()
    before = connection.execute(select(delegations).where(delegations.c.token_id.in_(this["parents"])))
    known = {row["token_id"]: link_of(row) for row in before.mappings()}
    if len(known) < len(this["parents"]):
        return ()
    return (*(known[one] for one in this["parents"]), link_of(this))


def check_chain(connection: Connection, exchange: ExchangeRow) -> None:
    """Refuse a new link if its chain is or would be invalid."""
    parents = exchange.link.parents
    before = find_links(connection, parents[-1]) if parents else ()
    if len(before) < len(parents):
        raise Refused(Rule.DELEGATION_REVOKED, _SHOWN)
    end = find_end(connection, (*before, exchange.link), exchange.at)
    if end is not None:
        rule, number = end
        raise Refused(rule, _SHOWN.within("chain", number))


def find_end(connection: Connection, links: Sequence[LinkRow], at: int) -> tuple[Rule, int] | None:
    """Return the rule and the number of the first link that ended."""
    if not _root_counts(connection, links[0].root, at):
        return Rule.DELEGATION_REVOKED, 0
    named = [link.token_id for link in links]
    gone = select(delegations.c.token_id).where(
        delegations.c.token_id.in_(named), or_(delegations.c.revoked_at.is_not(None), not_(link_holds(at)))
    )
    revoked = set(connection.execute(gone).scalars())
    theirs = grants.c.grant_id.in_([link.grant_id for link in links])
    granted = set(connection.execute(select(grants.c.grant_id).where(theirs, grant_holds(at))).scalars())
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


def _in_good_standing(connection: Connection, parties: set[str], at: int) -> set[str]:
    """Filter the agents to those that have a valid SD-Card now."""
    asked = (
        select(batches.c.agent_id)
        .join_from(cards, batches)
        .join(agents, agents.c.agent_id == batches.c.agent_id)
        .join(status_entries, ENTRY_OF_CARD, isouter=True)
        .where(batches.c.agent_id.in_([party.removeprefix(AGENT) for party in parties]))
        .where(
            ~cards.c.for_discovery,
            agents.c.deleted_at.is_(None),
            in_force(batches.c.issued_at, cards.c.expires_at, at),
            STATUS_OF_CARD.in_([int(StatusValue.VALID)]),
        )
        .distinct()
    )
    return {AGENT + agent_id for agent_id in connection.execute(asked).scalars()}


def _statuses(connection: Connection, digests: set[str], at: int) -> dict[str, int]:
    """Map each unexpired SD-Card that the registry issued to its status."""
    asked = (
        select(cards.c.digest, STATUS_OF_CARD)
        .join(status_entries, ENTRY_OF_CARD, isouter=True)
        .where(cards.c.digest.in_(digests), cards.c.expires_at > at)
    )
    return {digest: status for digest, status in connection.execute(asked)}


def end_chains(connection: Connection, agent_id: str, at: int) -> list[Row]:
    """Revoke every token that an agent handed on or was given; their rows.

    Its SD-Cards were revoked, and later ones change nothing about that.
    """
    party = AGENT + agent_id
    of_it = or_(delegations.c.actor == party, delegations.c.target == party)
    return end_links(connection, at, of_it)  # expired or not: the clock may be ahead


def end_links(connection: Connection, at: int, *which: ColumnElement[bool]) -> list[Row]:
    """Revoke these links, unless they are revoked; their rows then."""
    counting = update(delegations).where(*which, delegations.c.revoked_at.is_(None))
    ended = connection.execute(counting.values(revoked_at=at).returning(*delegations.c))
    return [dict(row) for row in ended.mappings()]
