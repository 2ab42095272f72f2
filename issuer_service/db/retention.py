"""Retention: how long rows are kept, and the job that deletes them.

Every process runs the job. It looks for ended rows without a lock, and deletes a few in each transaction, so that other
writers wait for milliseconds. A deletion tests its condition again: of two processes that found the same rows, one
deletes them. A process that is killed leaves whole transactions behind, and the next run goes on. The audit chain
records each deletion. No audit record is deleted.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, and_, delete, exists, func, select

from issuer_service.audit.records import AuditEvent, AuditRow, WrittenRows
from issuer_service.audit.repository import append_audit, read_state_key
from issuer_service.db.state import COMPARED
from issuer_service.db.tables import (
    agents,
    answers,
    approvals,
    batches,
    cards,
    delegations,
    discovery_cards,
    grants,
    remembered,
    reviews,
    sessions,
    status_entries,
    status_lists,
    tokens,
    used_nonces,
)
from issuer_service.status.records import EXPIRED_LATELY
from issuer_service.status.repository import replace_list
from sdcard.instants import Clock
from sdcard.io.database import Database
from sdcard.issuer import DAY
from sdcard.salts import SaltSource

AT_ONCE = 200
"""Keys of one transaction."""
MOST_TRANSACTIONS = 1_000
"""For one kind of rows in one run. The next run goes on."""
PAUSE = 0.05
"""Seconds between two transactions, in which other writers have their turn."""
KEPT = 30 * DAY
"""Seconds for which most rows are kept, so that a clock that is ahead by less deletes nothing that is in force."""
_UNRECORDED = ("answers", "used_nonces")
"""Tables that the audit chain does not describe."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """Rows that are deleted some time after their end.

    Attributes:
        key: the column that selects them.
        kept: for people, how long they are kept.
        ended: Unix seconds → the condition of rows that may be deleted.
        at_once: how many keys one transaction deletes at most.
        parts: a column of another table that refers to the key. Its rows are deleted with them.
    """

    key: ColumnElement[Any]
    kept: str
    ended: Callable[[int], ColumnElement[bool]]
    at_once: int = AT_ONCE
    parts: ColumnElement[Any] | None = None

    @property
    def table(self) -> Table:
        """The table of the rows."""
        table: Table = self.key.table
        return table

    def find(self, connection: Connection, at: int) -> list[Any]:
        """Find the keys of some rows that may be deleted."""
        asked = select(self.key).where(self.ended(at)).limit(self.at_once)
        if self.table is used_nonces:
            asked = asked.order_by(self.key.desc())  # from above, where fresh slots are added
        return list(connection.execute(asked).scalars())

    def delete(self, connection: Connection, found: Sequence[Any], at: int) -> Counter[str]:
        """Delete the rows of these keys that have ended, and record it.

        Returns: table → the number of deleted rows.
        """
        deleted, these = Counter[str](), and_(self.key.in_(found), self.ended(at))
        if self.parts is not None:
            of_them = delete(self.parts.table).where(self.parts.in_(select(self.key).where(these)))
            deleted[self.parts.table.name] = connection.execute(of_them).rowcount
        name, removing = self.table.name, delete(self.table).where(these)
        if name in _UNRECORDED:
            return Counter({name: connection.execute(removing).rowcount})
        rows = [dict(row) for row in connection.execute(removing.returning(*self.table.c)).mappings()]
        if rows:
            key = read_state_key(connection) or b""
            gone = {name: sorted({COMPARED[name].name(key, row) for row in rows})}
            event = AuditEvent.LIST_DROPPED if self.table is status_lists else AuditEvent.ROWS_DELETED
            append_audit(connection, AuditRow(event, at, "", "", written=WrittenRows(gone=gone)))
        return deleted + Counter({name: len(rows)})


# -- How long rows are kept -------------------------------------------------------------------------------------------


def _expired(table: Table, seconds: int = KEPT) -> Callable[[int], ColumnElement[bool]]:
    return lambda at: table.c.expires_at <= at - seconds


def _list_ended(at: int) -> ColumnElement[bool]:
    """Whether a list is closed, and all its SD-Cards expired long ago."""
    needed = status_entries.c.list_id == status_lists.c.list_id, status_entries.c.expires_at > at - EXPIRED_LATELY
    return and_(status_lists.c.slot.is_(None), ~exists().where(*needed))


def _card_ended(at: int, table: Any = cards) -> ColumnElement[bool]:
    """Whether an SD-Card expired long ago and its status list is gone.

    So no Verifier accepts it, even if the clock is ahead.
    """
    listed = exists().where(status_lists.c.list_id == table.c.status_list_id)
    return and_(table.c.expires_at <= at - EXPIRED_LATELY, ~listed)


def _found_card_ended(at: int) -> ColumnElement[bool]:
    return and_(cards.c.for_discovery, _card_ended(at))


def _issued_cards_ended(at: int) -> ColumnElement[bool]:
    """Whether all SD-Cards of a registration ended.

    They are compared with the audit chain together.
    """
    other = cards.alias()
    of_batch = other.c.batch_id == cards.c.batch_id, ~other.c.for_discovery
    return and_(~cards.c.for_discovery, _card_ended(at), ~exists().where(*of_batch, ~_card_ended(at, other)))


def _batch_ended(at: int) -> ColumnElement[bool]:
    """Whether a Batch has no SD-Cards, and no other row refers to it."""
    is_of = batches.c.batch_id
    last = exists().where(agents.c.agent_id == batches.c.agent_id, agents.c.batch_id == is_of)
    found = exists().where(discovery_cards.c.agent_id == batches.c.agent_id, discovery_cards.c.batch_id == is_of)
    old = batches.c.issued_at <= at - EXPIRED_LATELY
    return and_(old, ~last, ~found, ~exists().where(cards.c.batch_id == is_of))


def _nonce_ended(at: int) -> ColumnElement[bool]:
    """Whether this slot and all above it were free for long.

    A use takes the free slot with the oldest nonce, so free slots below are taken first.
    """
    old, other = used_nonces.c.until <= at - KEPT, used_nonces.alias()
    highest = select(func.coalesce(func.max(other.c.slot), -1)).where(other.c.until > at - KEPT, other.c.slot >= 0)
    return and_(old, used_nonces.c.slot >= 0, used_nonces.c.slot > highest.scalar_subquery())


_MONTH, _LATELY = f"{KEPT // DAY} days after its end", f"{EXPIRED_LATELY // DAY} days after its last SD-Card expired"
PRUNED = (
    Pruned(answers.c.digest, "24 hours", _expired(answers, 0)),
    Pruned(used_nonces.c.slot, _MONTH, _nonce_ended),
    Pruned(sessions.c.digest, _MONTH, _expired(sessions)),
    Pruned(tokens.c.digest, _MONTH, _expired(tokens)),
    Pruned(grants.c.grant_id, _MONTH, _expired(grants)),
    Pruned(delegations.c.token_id, _MONTH, _expired(delegations)),
    Pruned(approvals.c.approval_id, _MONTH, _expired(approvals)),
    Pruned(reviews.c.review_id, f"{_MONTH}; an approval in force ends with its registration", _expired(reviews)),
    Pruned(remembered.c.digest, _MONTH, _expired(remembered)),
    Pruned(status_lists.c.list_id, _LATELY, _list_ended, at_once=1, parts=status_entries.c.list_id),
    Pruned(cards.c.batch_id, "as its status list", _issued_cards_ended),
    Pruned(cards.c.digest, "as its status list", _found_card_ended),
    Pruned(batches.c.batch_id, "as its SD-Cards; the last one as its agent", _batch_ended),
)
"""What the job deletes, in this order: later rows wait for earlier ones."""

KEPT_OTHERWISE: Mapping[str, str] = {
    "status_entries": "as its status list",
    "agents": "for ever: no other subject gets the id. A deletion empties the row",
    "holder_keys": "for ever: no other agent gets the key",
    "discovery_cards": "until the agent registers again or is deleted",
    "discovery_postings": "until the agent registers again or is deleted",
    "agent_checks": "until the agent is deleted",
    "domain_proofs": "until the agent is deleted, or a check proves no host of it",
    "registry_keys": "for ever: an old signature can be attributed",
    "secrets": "for ever: two rows",
    "log_leaves": "for ever; the salts until the agent is deleted",
    "log_tiles": "for ever",
    "log_head": "for ever: one row",
    "heartbeats": "for ever: one row",
    "audit": "for ever",
    "audit_waiting": "until the chain has them: seconds",
    "audit_head": "for ever: one row",
}
"""Table → how long its rows are kept, for tables that the job does not look through."""


# -- The job ----------------------------------------------------------------------------------------------------------


async def delete_ended(
    database: Database, clock: Clock, salts: SaltSource, count: Callable[[str, int], object]
) -> Counter[str]:
    """Delete rows that were kept long enough, and close old status lists.

    Args:
        clock: tells the time of each transaction.
        salts: for the ids of new status lists.
        count: is told a table and how many of its rows were deleted.

    Returns: table → the number of deleted rows.

    Raises:
        Refused: ``store.unavailable``.
    """
    for list_id in await database.read(_old_lists, int(clock.now())):
        await database.change(replace_list, list_id, salts.draw(1).hex(), int(clock.now()))
    deleted = Counter[str]()
    for pruned in PRUNED:
        for _ in range(MOST_TRANSACTIONS):
            at = int(clock.now())
            found = await database.read(pruned.find, at)
            if not found:
                break
            gone = await database.change(pruned.delete, found, at)
            for table, rows in gone.items():
                count(table, rows)
            deleted += gone
            await asyncio.sleep(PAUSE)
    return deleted


def _old_lists(connection: Connection, at: int) -> list[str]:
    """List the open status lists with an SD-Card that expired a month ago.

    Without a busy registry they would never be half full, and never end.
    """
    old = status_entries.c.list_id == status_lists.c.list_id, status_entries.c.expires_at <= at - KEPT
    asked = select(status_lists.c.list_id).where(status_lists.c.slot.is_not(None), exists().where(*old))
    return list(connection.execute(asked.order_by(status_lists.c.list_id)).scalars())
