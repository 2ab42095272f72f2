"""Scheduled checks of agents in the database, and the proofs of domain control.

Several processes may check. A process claims an agent until an instant; a process that was killed lets it expire. The
result of an expired claim is not written.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, case, delete, exists, insert, literal, or_, select, update

from issuer_service.agents.records import CheckedAgent, CheckResult, ClaimedCheck, StoredCheck
from issuer_service.audit.records import AuditEvent, AuditRow, Row, WrittenRows
from issuer_service.audit.repository import append_audit
from issuer_service.db.tables import agent_checks, agents, domain_proofs
from sdcard.instants import MAX_FUTURE
from sdcard.io.statements import Statement
from sdcard.issuer import DAY

CLAIM_SECONDS = 120
"""For which a process claims an agent. If it is killed, another one checks the agent then."""
SOON = 60
"""Seconds from an issuance to the check after it, and between the first two checks of a host that proves nothing."""

_ADD = Statement(
    insert(agent_checks).from_select(
        ["agent_id", "due_at", "leased_until", "failures"],
        select(
            bindparam("agent_id", type_=agents.c.agent_id.type),
            bindparam("at", type_=agent_checks.c.due_at.type),
            literal(0),
            literal(0),
        ).where(~exists().where(agent_checks.c.agent_id == bindparam("agent_id"))),
    )
)
_AGENT = agents.c.agent_id, agents.c.subject, agents.c.card_format, agents.c.card, agents.c.asked
_STORED = agent_checks.c.due_at, agent_checks.c.checked_at, agent_checks.c.outcome, domain_proofs.c.proved
_PROOFS = domain_proofs.c.agent_id == agent_checks.c.agent_id
_HASTEN = (
    update(agent_checks)
    .where(
        agent_checks.c.agent_id == bindparam("this_agent"),
        or_(agent_checks.c.due_at > bindparam("soon"), agent_checks.c.leased_until > bindparam("at")),
    )
    .values(due_at=bindparam("soon"), failures=0)
)


def schedule(connection: Connection, agent_id: str, at: int) -> None:
    """Have an agent checked: a new one now, and another one within a minute.

    The caller's transaction has locked the agent.
    """
    if _ADD.write(connection, {"agent_id": agent_id, "at": at}) == 0:
        connection.execute(_HASTEN, {"this_agent": agent_id, "soon": at + SOON, "at": at})


def is_due(connection: Connection, at: int) -> bool:
    """Whether an agent can be claimed now."""
    return bool(connection.execute(select(exists().where(*_due(at)))).scalar())


def _due(at: int) -> tuple[ColumnElement[bool], ...]:
    """Require an agent whose check is due, and which no process checks.

    Times that are too far ahead were written by a wrong clock, and count as past.
    """
    due_at, leased_until = agent_checks.c.due_at, agent_checks.c.leased_until
    return (
        or_(due_at <= at, due_at > at + DAY + MAX_FUTURE),
        or_(leased_until <= at, leased_until > at + CLAIM_SECONDS + MAX_FUTURE),
    )


def claim(connection: Connection, at: int, count: int) -> tuple[ClaimedCheck, ...]:
    """Claim some agents that are due, the longest overdue first.

    No other process gets them for ``CLAIM_SECONDS``.
    """
    until = at + CLAIM_SECONDS
    due = select(agent_checks.c.agent_id).where(*_due(at)).order_by(agent_checks.c.due_at).limit(count)
    chosen = due.with_for_update(skip_locked=True).cte("chosen")
    claiming = update(agent_checks).where(agent_checks.c.agent_id.in_(select(chosen.c.agent_id)))
    columns = agent_checks.c.agent_id, agent_checks.c.due_at, agent_checks.c.failures
    rows = connection.execute(claiming.values(leased_until=until).returning(*columns)).all()
    claimed = {agent_id: {"due_at": due_at, "failures": failures} for agent_id, due_at, failures in rows}
    asked = select(*_AGENT).where(agents.c.agent_id.in_(claimed), agents.c.deleted_at.is_(None))
    found = [CheckedAgent(*row) for row in connection.execute(asked)]
    return tuple([ClaimedCheck(agent, **claimed[agent.agent_id], until=until) for agent in found])


def find_check(connection: Connection, agent_id: str) -> StoredCheck | None:
    """Return the last result of an agent's checks; None if it is not checked."""
    asked = select(*_STORED).join(domain_proofs, _PROOFS, isouter=True).where(agent_checks.c.agent_id == agent_id)
    row = connection.execute(asked).first()
    return None if row is None else _stored(*row)


def find_checked(connection: Connection, agent_ids: Sequence[str]) -> list[tuple[CheckedAgent, StoredCheck]]:
    """Return those of the agents that proved something, with their last results."""
    joined = select(*_AGENT, *_STORED).join_from(agents, agent_checks).join(domain_proofs, _PROOFS)
    rows = connection.execute(joined.where(agents.c.agent_id.in_(agent_ids)))
    count = len(_AGENT)
    return [(CheckedAgent(*row[:count]), _stored(*row[count:])) for row in rows]


def _stored(due_at: int, checked_at: int | None, outcome: Any, proved: Any) -> StoredCheck:
    return StoredCheck(due_at, checked_at, outcome or {}, proved or {})


def finish(connection: Connection, result: CheckResult) -> bool:
    """Write the result of a claimed check, unless the claim has expired.

    A check that was asked for meanwhile stays due. The audit chain has a record only when the proofs change.
    """
    this = agent_checks.c.agent_id == result.agent_id, agent_checks.c.leased_until == result.claimed.until
    values = {
        "leased_until": 0,
        "checked_at": result.at,
        "due_at": case((agent_checks.c.due_at == result.claimed.due_at, result.due_at), else_=agent_checks.c.due_at),
        "failures": result.failures,
        "outcome": result.outcome,
    }
    if connection.execute(update(agent_checks).where(*this).values(values)).rowcount == 0:
        return False
    own = domain_proofs.c.agent_id == result.agent_id
    before = connection.execute(select(domain_proofs.c.proved).where(own)).scalar() or {}
    if before == result.proved:
        return True
    connection.execute(delete(domain_proofs).where(own))
    written = WrittenRows(gone={"domain_proofs": [result.agent_id]})
    if result.proved:
        row: Row = {"agent_id": result.agent_id, "proved": result.proved}
        connection.execute(insert(domain_proofs), row)
        written = WrittenRows({"domain_proofs": [row]})
    append_audit(
        connection, AuditRow(AuditEvent.DOMAINS_CHECKED, result.at, result.subject, result.agent_id, written=written)
    )
    return True


def forget(connection: Connection, agent_id: str) -> None:
    """Delete the checks and proofs of an agent."""
    for table in (agent_checks, domain_proofs):
        connection.execute(delete(table).where(table.c.agent_id == agent_id))
