"""Agents over time in the database: stored responses, lists, deletion.

The stored responses are for retries.

Parts of a transaction take rows in the order answers, agents, Holder keys, status entries, nonces, audit.
"""

from collections.abc import Sequence
from dataclasses import replace

from pydantic import TypeAdapter
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    bindparam,
    delete,
    false,
    func,
    insert,
    not_,
    or_,
    select,
    update,
)

from issuer_service.agents import checks_repository as checks
from issuer_service.agents.records import KEPT_SECONDS, AgentListed, AgentRow, DeletionRow, IssuedRow, StoredResponse
from issuer_service.audit.records import AuditEvent, AuditRow, Possession, Row, WrittenRows
from issuer_service.audit.repository import append_audit
from issuer_service.db.tables import agents, answers, batches, cards, status_entries
from issuer_service.db.values import fetch_as_stored, in_force, in_force_for, read_page, read_rows
from issuer_service.delegation.chain_repository import end_chains
from issuer_service.discovery import postings_repository as postings
from issuer_service.reviews import repository as reviews
from issuer_service.status import repository as statuses
from issuer_service.status.records import StatusChangeRow
from issuer_service.transparency import repository as transparency
from sdcard.errors import Part, Refused, Where
from sdcard.rules import Rule
from sdcard.status_list import StatusValue

_REQUEST = Where(Part.REQUEST)
_AT = bindparam("at", type_=BigInteger)
_THIS_ANSWER = answers.c.digest == bindparam("this_answer")
_ANSWER_COUNTS = in_force_for(KEPT_SECONDS, answers.c.expires_at, _AT)
_ANSWER = select(answers).where(_THIS_ANSWER, _ANSWER_COUNTS)
_DELETE_ANSWER = delete(answers).where(_THIS_ANSWER, not_(_ANSWER_COUNTS))
_ANSWERS_BYTES = select(func.coalesce(func.sum(answers.c.bytes), 0)).where(
    answers.c.subject == bindparam("this_subject"), _ANSWER_COUNTS
)
_ADD_ANSWER = insert(answers)
_LISTED, _ISSUED = TypeAdapter(AgentListed), TypeAdapter(IssuedRow)


def store_response(connection: Connection, answer: StoredResponse, agent_id: str, at: int) -> StoredResponse | None:
    """Database a response, or return the one that is stored already.

    Two requests at once meet at the primary key.
    """
    connection.execute(_DELETE_ANSWER, {"this_answer": answer.digest, "at": at})
    kept = find_response(connection, answer.digest, at)
    if kept is not None:
        return kept
    size = len(answer.sealed or b"")
    used = connection.execute(_ANSWERS_BYTES, {"this_subject": answer.subject, "at": at}).scalar_one()
    if used + size > answer.most_bytes:
        hint = "The answers that are kept for you fill their room: register without Idempotency-Key, or tomorrow."
        raise Refused(Rule.LIMIT_BYTES, _REQUEST.within("headers", "idempotency-key"), hint)
    row = {
        "digest": answer.digest,
        "subject": answer.subject,
        "agent_id": agent_id,
        "request": answer.request,
        "sealed": answer.sealed,
        "bytes": size,
        "expires_at": answer.expires_at,
    }
    connection.execute(_ADD_ANSWER, row)
    return None


def find_response(connection: Connection, digest: str, at: int) -> StoredResponse | None:
    """The answer that is kept for a subject and Idempotency-Key."""
    row = connection.execute(_ANSWER, {"this_answer": digest, "at": at}).mappings().first()
    if row is None:
        return None
    return StoredResponse(row["digest"], row["subject"], row["request"], row["sealed"], row["expires_at"])


def owned(subject: str, agent_id: str) -> tuple[ColumnElement[bool], ...]:
    """Require an existing agent of the subject."""
    return agents.c.agent_id == agent_id, agents.c.subject == subject, agents.c.deleted_at.is_(None)


def find_agent(connection: Connection, subject: str, agent_id: str) -> AgentRow | None:
    """The subject's agent of this id."""
    row = connection.execute(select(agents).where(*owned(subject, agent_id))).mappings().first()
    if row is None:
        return None
    return AgentRow(
        agent_id=row["agent_id"],
        card_format=row["card_format"],
        card=row["card"],
        asked=row["asked"],
        possession=Possession(row["possession"] or Possession.NOT_PROVEN),
        batch_id=row["batch_id"],
        registered_at=row["registered_at"],
        updated_at=row["updated_at"],
    )


def list_agents(
    connection: Connection, subject: str, prefixes: Sequence[str] | None, after: str, count: int, at: int
) -> tuple[AgentListed, ...]:
    """Some of the subject's agents."""
    mine = agents.c.subject == subject, agents.c.deleted_at.is_(None), agents.c.agent_id > after
    columns = (agents.c.agent_id, agents.c.card_format, agents.c.registered_at, agents.c.updated_at)
    asked = select(*columns).where(*mine).order_by(agents.c.agent_id)
    if prefixes is not None:  # not LIKE: SQLite's does not tell A from a
        asked = asked.where(or_(false(), *(func.substr(agents.c.agent_id, 1, len(one)) == one for one in prefixes)))
    rows = read_page(connection, agents, asked, count, lambda row: _LISTED.validate_python({**row, "expires_at": None}))
    lasting = (
        select(batches.c.agent_id, func.max(cards.c.expires_at))
        .join_from(cards, batches)
        .join(status_entries, statuses.ENTRY_OF_CARD, isouter=True)
        .where(batches.c.agent_id.in_([row.agent_id for row in rows]), ~cards.c.for_discovery)
        .where(in_force(batches.c.issued_at, cards.c.expires_at, at))
        .where(statuses.STATUS_OF_CARD.not_in([int(StatusValue.INVALID)]))
        .group_by(batches.c.agent_id)
    )
    expires = {agent_id: ends for agent_id, ends in connection.execute(lasting) if isinstance(ends, int)}
    return tuple(replace(row, expires_at=expires.get(row.agent_id)) for row in rows)


def issued_for(connection: Connection, agent_id: str, most_batches: int, at: int) -> tuple[IssuedRow, ...]:
    """Return the unexpired part of an agent's newest Batches."""
    held = cards.c.expires_at > at, ~cards.c.for_discovery
    living = select(cards.c.batch_id).where(cards.c.batch_id == batches.c.batch_id, *held).exists()
    newest = (
        select(batches.c.batch_id)
        .where(batches.c.agent_id == agent_id, living)
        .order_by(batches.c.issued_at.desc(), batches.c.batch_id)
        .limit(most_batches)
    )
    kind = batches.c.batch_id, batches.c.issued_at, cards.c.context, statuses.STATUS_OF_CARD
    asked = (
        select(
            *kind[:3],
            statuses.STATUS_OF_CARD.label("status"),
            func.count().label("cards"),
            func.max(cards.c.expires_at).label("expires_at"),
        )
        .join_from(cards, batches)
        .join(status_entries, statuses.ENTRY_OF_CARD, isouter=True)
        .where(batches.c.batch_id.in_(newest), *held)
        .group_by(*kind)
        .order_by(batches.c.issued_at.desc(), batches.c.batch_id, cards.c.context, statuses.STATUS_OF_CARD)
    )
    return read_rows(batches, fetch_as_stored(connection, asked), _ISSUED.validate_python)


def delete_agent(connection: Connection, deletion: DeletionRow) -> int:
    """Revoke an agent's SD-Cards, and delete everything but its id and keys.

    Returns: how many SD-Cards were revoked.

    Raises:
        Refused: ``agent.unknown`` when the subject has no such agent.
    """
    agent_id = deletion.agent_id
    nothing = {"card": "", "card_format": "", "asked": None, "possession": None, "batch_id": None}
    nothing |= {"card_version": None, "content": None}
    times = {"updated_at": deletion.at, "deleted_at": deletion.at}
    mine = owned(deletion.subject, agent_id)
    changed = connection.execute(update(agents).where(*mine).values({**nothing, **times}).returning(*agents.c))
    agent = changed.mappings().first()
    if agent is None:
        raise Refused(Rule.AGENT_UNKNOWN, _REQUEST.within("agent_id"))
    postings.remove_postings(connection, agent_id)  # first: see ``change_statuses`` of discovery
    revoked = statuses.revoke_all(connection, agent_id, deletion.at, deletion.public_at)
    issued = select(batches.c.batch_id).where(batches.c.agent_id == agent_id)
    connection.execute(delete(cards).where(cards.c.batch_id.in_(issued)))
    connection.execute(delete(batches).where(batches.c.agent_id == agent_id))
    checks.forget(connection, agent_id)
    reviewed = reviews.forget(connection, agent_id)
    kept = answers.c.agent_id == agent_id, answers.c.expires_at > deletion.at
    connection.execute(update(answers).where(*kept).values(sealed=None, bytes=0))
    ended = end_chains(connection, agent_id, deletion.at)
    transparency.erase(connection, agent_id)
    rows: dict[str, list[Row]] = {"agents": [dict(agent)], **({"delegations": ended} if ended else {})}
    written = WrittenRows(rows, {"reviews": reviewed} if reviewed else {}, public_at=deletion.public_at)
    entry = AuditRow(AuditEvent.AGENT_DELETED, deletion.at, deletion.subject, agent_id, written=written)
    append_audit(connection, entry)
    return revoked


def change_statuses(connection: Connection, change: StatusChangeRow) -> int:
    """Change the statuses of an agent's SD-Cards, and dependent rows.

    Returns: how many SD-Cards changed.

    Raises:
        Refused: ``agent.unknown`` when the subject has no such agent; ``agent.no-such-cards``.
    """
    locked = select(agents.c.agent_id).where(*owned(change.subject, change.agent_id)).with_for_update()
    if connection.execute(locked).first() is None:  # a registration is entirely before the change, or after it
        raise Refused(Rule.AGENT_UNKNOWN, _REQUEST.within("agent_id"))
    hidden = postings.change_statuses(connection, change)
    changed = statuses.change_statuses(connection, change)
    if not (changed or hidden):
        statuses.check_selected(connection, change)
    ended: list[Row] = []
    if changed and change.after == StatusValue.INVALID:
        ended = end_chains(connection, change.agent_id, change.at)
    if changed or hidden:
        entry = AuditRow(
            event=change.event,
            at=change.at,
            subject=change.subject,
            agent_id=change.agent_id,
            batch_id=change.batch_id or "",
            disclosed={} if change.context is None else {change.context: ()},
            interaction_id=change.interaction_id,
            written=WrittenRows({"delegations": ended} if ended else {}, public_at=change.public_at),
        )
        append_audit(connection, entry)
    return changed
