"""Status entries in the database: choosing, claiming and changing them, as parts of a transaction.

Rows of ``status_lists`` are written before their entries and in the order of their contexts, then of their names, so
that two transactions never wait for each other.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlalchemy import ColumnElement, Connection, case, exc, insert, null, select, tuple_, update

from issuer_service.stores.rows.statuses import CardRow, StatusChangeRow, StatusListRow, StatusRow, StatusTaken
from issuer_service.stores.tables import agents, batches, cards, status_entries, status_lists
from sdcard.errors import Part, Refused, Where
from sdcard.rules import Rule
from sdcard.salts import SALT_BYTES, SaltSource
from sdcard.status.reference import StatusValue

Entry: TypeAlias = tuple[str, str, int]
"""Context, list id, index: in the order in which lists are taken."""

LIST_SIZE = 1 << 17
"""Entries of one list: large, so that asking for it says little (TSL-21)."""
MOST_USED = LIST_SIZE // 2
"""Then another list opens: what is free stays quick to find at random."""

_WORD = 4
AT_ONCE = 500
"""Pairs in one statement; SQLite takes 32,766 values."""
_NOT_REVOKED = (int(StatusValue.VALID), int(StatusValue.SUSPENDED))


def free_statuses(
    connection: Connection, wanted: Mapping[str, int], salts: SaltSource
) -> dict[str, tuple[StatusRow, ...]]:
    """For each context so many random entries that nobody has now."""
    opened = connection.execute(
        select(status_lists.c.open_for, status_lists.c.list_id).where(status_lists.c.open_for.in_(wanted))
    )
    lists = {context: list_id for context, list_id in opened}
    chosen: dict[str, tuple[StatusRow, ...]] = {}
    for context, count in wanted.items():
        is_new = context not in lists
        list_id = salts.draw(1).hex() if is_new else lists[context]
        indices = _free_indices(connection, list_id, count, salts)
        chosen[context] = tuple(StatusRow(list_id, index, is_new) for index in indices)
    return chosen


def _free_indices(connection: Connection, list_id: str, count: int, salts: SaltSource) -> list[int]:
    """Distinct, free, at random; in the order they were drawn. About half of what is drawn is free at worst."""
    free: dict[int, None] = {}
    while len(free) < count:
        drawn = _draw_indices(salts, min(2 * (count - len(free)), AT_ONCE))
        asked = select(status_entries.c.index).where(
            status_entries.c.list_id == list_id, status_entries.c.index.in_(drawn)
        )
        taken = set(connection.execute(asked).scalars())
        free |= dict.fromkeys(index for index in drawn if index not in taken)
    return list(free)[:count]


def _draw_indices(salts: SaltSource, count: int) -> list[int]:
    """Random indices; each is equally likely, since the size is a power of two."""
    data = salts.draw(-(-count * _WORD // SALT_BYTES))
    words = [int.from_bytes(data[start : start + _WORD], "big") for start in range(0, count * _WORD, _WORD)]
    return [word % LIST_SIZE for word in words]


@dataclass(slots=True)
class _Work:
    """What one transaction does to one list."""

    is_new: bool = False
    claimed: list[int] = field(default_factory=list)
    revoked: list[Entry] = field(default_factory=list)


def claim_statuses(connection: Connection, rows: Sequence[CardRow], revoked: Sequence[Entry] = ()) -> int:
    """Give the entries of these SD-Cards away, once and for ever, and revoke others; how many were revoked.

    List after list, in one order for all transactions, whatever they do there.
    """
    lists: defaultdict[tuple[str, str], _Work] = defaultdict(_Work)
    for row in rows:
        if row.status is not None:
            work = lists[row.context, row.status.list_id]
            work.is_new |= row.status.is_new
            work.claimed.append(row.status.index)
    for entry in revoked:
        lists[entry[:2]].revoked.append(entry)
    changed = 0
    claimed = list[dict[str, object]]()
    try:
        for (context, list_id), work in sorted(lists.items(), key=lambda item: item[0]):  # new ids are random
            _take(connection, context, list_id, work)
            claimed += [{"list_id": list_id, "index": index, "status": 0} for index in sorted(work.claimed)]
            if work.revoked:
                _new_version(connection, list_id)
                changed += _set_statuses(connection, work.revoked, _NOT_REVOKED, int(StatusValue.INVALID))
        if claimed:
            connection.execute(insert(status_entries), claimed)
    except exc.IntegrityError:
        raise StatusTaken from None
    return changed


def revoke_entries(connection: Connection, entries: Sequence[Entry]) -> int:
    """Revoke entries; how many were not revoked before."""
    return claim_statuses(connection, (), entries)


def _take(connection: Connection, context: str, list_id: str, work: _Work) -> None:
    """Take the row of a list, and count what is claimed. One that is full is open no more."""
    if work.is_new:
        first = {"list_id": list_id, "context": context, "open_for": context, "used": 0, "version": 0}
        connection.execute(insert(status_lists), first)
    if work.claimed:
        used = status_lists.c.used + len(work.claimed)
        still_open = case((used < MOST_USED, status_lists.c.open_for), else_=null())
        this = status_lists.c.list_id == list_id
        connection.execute(update(status_lists).where(this).values(used=used, open_for=still_open))


def change_statuses(connection: Connection, change: StatusChangeRow) -> int:
    """Change the statuses of an agent's SD-Cards; how many changed."""
    own = agents.c.agent_id == change.agent_id, agents.c.subject == change.subject
    mine = (*own, agents.c.deleted_at.is_(None))
    if connection.execute(select(agents.c.agent_id).where(*mine)).first() is None:
        raise Refused(Rule.AGENT_UNKNOWN, Where(Part.REQUEST, ("agent_id",)))
    narrower = []
    if change.batch_id is not None:
        narrower.append(cards.c.batch_id == change.batch_id)
    if change.context is not None:
        narrower.append(cards.c.context == change.context)
    entries = live_entries(connection, change.agent_id, change.at, *narrower)
    for list_id in dict.fromkeys(list_id for _, list_id, _ in entries):
        _new_version(connection, list_id)
    return _set_statuses(connection, entries, change.before, change.after)


def live_entries(connection: Connection, agent_id: str, at: int, *narrower: ColumnElement[bool]) -> list[Entry]:
    """The entries of an agent's SD-Cards that have not expired, sorted."""
    live = (
        select(cards.c.context, cards.c.status_list_id, cards.c.status_index)
        .join(batches)
        .where(batches.c.agent_id == agent_id, cards.c.expires_at > at, cards.c.status_list_id.is_not(None), *narrower)
    )
    return sorted((context, list_id, index) for context, list_id, index in connection.execute(live))


def _new_version(connection: Connection, list_id: str) -> None:
    this = status_lists.c.list_id == list_id
    connection.execute(update(status_lists).where(this).values(version=status_lists.c.version + 1))


def _set_statuses(connection: Connection, entries: Sequence[Entry], before: Sequence[int], after: int) -> int:
    """Set the statuses that are among those of before; how many changed."""
    changed = 0
    for start in range(0, len(entries), AT_ONCE):
        these = tuple_(status_entries.c.list_id, status_entries.c.index).in_(
            [(list_id, index) for _, list_id, index in entries[start : start + AT_ONCE]]
        )
        permitted = status_entries.c.status.in_(before)
        result = connection.execute(update(status_entries).where(these, permitted).values(status=after))
        changed += result.rowcount
    return changed


def status_list_version(connection: Connection, list_id: str) -> int | None:
    """The version of a status list; None when there is no such list."""
    asked = select(status_lists.c.version).where(status_lists.c.list_id == list_id)
    version: int | None = connection.execute(asked).scalar()
    return version


def read_status_list(connection: Connection, list_id: str) -> StatusListRow:
    """A list, its version first: what changes in between is read again with the next version."""
    version = status_list_version(connection, list_id)
    asked = select(status_entries.c.index, status_entries.c.status).where(
        status_entries.c.list_id == list_id, status_entries.c.status != 0
    )
    return StatusListRow(version or 0, {index: status for index, status in connection.execute(asked)})
