"""Status lists in the database: open ones, closing full ones, dropping old ones.

A list is dropped when no SD-Card needs it.
"""

from collections.abc import Sequence

from sqlalchemy import BigInteger, Connection, bindparam, delete, exists, func, insert, or_, select, update

from issuer_service.stores.audit import append_audit
from issuer_service.stores.rows.audit import AuditEvent, AuditRow
from issuer_service.stores.rows.state import Row, Written
from issuer_service.stores.rows.statuses import EXPIRED_LATELY
from issuer_service.stores.tables import status_entries, status_lists
from sdcard.edge.databases import Database
from sdcard.edge.lookups import Lookup

LISTS = 16
"""Open lists, a power of two. More of them hide an SD-Card among fewer others; fewer make more of two SD-Cards of one
agent share a list."""
_CURRENT = exists().where(
    status_entries.c.list_id == status_lists.c.list_id, status_entries.c.expires_at > bindparam("at", type_=BigInteger)
)
KNOWN = Lookup(
    select(status_lists.c.list_id).where(
        status_lists.c.list_id == bindparam("list_id"), or_(status_lists.c.slot.is_not(None), _CURRENT)
    )
)
"""A list that is open, or has an entry of an SD-Card that has not expired."""
MOST_USED = 1 << 16
"""Entries of a list, half of it. Then another list opens: what is free stays quick to find at random."""


def open_missing(connection: Connection, fresh: Sequence[str], at: int) -> None:
    """Open a list in each slot that has none.

    Of two transactions that do it at once, the second finds nothing to do.

    Args:
        connection: in a transaction.
        fresh: random ids, one for each slot.
        at: Unix seconds.
    """
    asked = select(status_lists.c.slot).where(status_lists.c.slot.is_not(None))
    known = set(connection.execute(asked).scalars())
    opened = [{"list_id": fresh[slot], "slot": slot} for slot in range(LISTS) if slot not in known]
    if opened:
        connection.execute(insert(status_lists), opened)
        _record(connection, AuditEvent.LISTS_OPENED, at, Written({"status_lists": opened}))


async def replace_full(database: Database, list_id: str, fresh: str, at: int) -> None:
    """Close a list that is half full, and open another one in its slot.

    Args:
        database: where.
        list_id: the list.
        fresh: a random id.
        at: Unix seconds.
    """
    asked = select(func.count()).where(status_entries.c.list_id == list_id)
    if await database.read(lambda connection: connection.execute(asked).scalar_one()) < MOST_USED:
        return

    def work(connection: Connection) -> None:
        this = status_lists.c.list_id == list_id, status_lists.c.slot.is_not(None)
        slot = connection.execute(select(status_lists.c.slot).where(*this).with_for_update()).scalar()
        if slot is None:
            return
        connection.execute(update(status_lists).where(*this).values(slot=None))
        connection.execute(insert(status_lists).values(list_id=fresh, slot=slot))
        rows: list[Row] = [{"list_id": list_id, "slot": None}, {"list_id": fresh, "slot": slot}]
        _record(connection, AuditEvent.LISTS_OPENED, at, Written({"status_lists": rows}))

    await database.change(work)


def drop_expired(connection: Connection, at: int) -> bool:
    """Delete a closed list whose entries expired a while ago.

    Return whether there was one.

    From the expiry on nobody is served the list. Its rows stay for a while, so a clock that is ahead takes no list away
    for longer than it is ahead.

    Its id is random and was never given twice, so nothing else will have its address.
    """
    needed = exists().where(
        status_entries.c.list_id == status_lists.c.list_id, status_entries.c.expires_at > at - EXPIRED_LATELY
    )
    asked = select(status_lists.c.list_id).where(status_lists.c.slot.is_(None), ~needed)
    first = asked.order_by(status_lists.c.list_id).limit(1).with_for_update(skip_locked=True)
    list_id = connection.execute(first).scalar()
    if list_id is None:
        return False
    connection.execute(delete(status_entries).where(status_entries.c.list_id == list_id))
    connection.execute(delete(status_lists).where(status_lists.c.list_id == list_id))
    _record(connection, AuditEvent.LIST_DROPPED, at, Written(gone={"status_lists": [list_id]}))
    return True


def _record(connection: Connection, event: AuditEvent, at: int, written: Written) -> None:
    append_audit(connection, AuditRow(event, at, "", "", written=written))
