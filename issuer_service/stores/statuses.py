"""Status entries in the database: choosing, claiming and changing them, as parts of a transaction.

Rows of ``status_lists`` are written before their entries and in the order of their contexts, then of their names, so
that two transactions never wait for each other.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias, TypeVar

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Integer,
    and_,
    bindparam,
    case,
    exc,
    insert,
    null,
    select,
    tuple_,
    update,
)

from issuer_service.stores.rows.state import StatusRun
from issuer_service.stores.rows.statuses import (
    EXPIRED_LATELY,
    CardRow,
    StatusChangeRow,
    StatusListRow,
    StatusRow,
    StatusTaken,
)
from issuer_service.stores.tables import agents, batches, cards, status_entries, status_lists
from sdcard.edge.databases import Database
from sdcard.edge.lookups import Lookup
from sdcard.edge.statements import Statement
from sdcard.errors import Part, Refused, Where
from sdcard.rules import Rule
from sdcard.salts import SALT_BYTES, SaltSource
from sdcard.status.reference import StatusValue

T = TypeVar("T")
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

_USED = status_lists.c.used + bindparam("claimed", type_=Integer)
_CHANGE_LIST = Statement(
    update(status_lists)
    .where(status_lists.c.list_id == bindparam("this_list"))
    .values(
        used=_USED,
        version=status_lists.c.version + bindparam("changes", type_=BigInteger),
        open_for=case((bindparam("most", type_=Integer) > _USED, status_lists.c.open_for), else_=null()),
    )
)
"""What one transaction does to the row of a list. One that is full is open no more."""
_ADD_LISTS, _ADD_ENTRIES = Statement(insert(status_lists)), Statement(insert(status_entries))


async def free_statuses(
    database: Database, wanted: Mapping[str, int], salts: SaltSource
) -> dict[str, tuple[StatusRow, ...]]:
    """For each context so many random entries that nobody has now: distinct, in the order they were drawn.

    About half of what is drawn is free at worst.
    """
    lists = dict[str, str]()
    free: dict[str, dict[int, None]] = {context: {} for context in wanted}
    while missing := {
        context: count - len(free[context]) for context, count in wanted.items() if count > len(free[context])
    }:
        share = max(1, AT_ONCE // len(missing))
        drawn = {context: _draw_indices(salts, min(2 * count, share)) for context, count in missing.items()}
        taken = defaultdict[str, set[int | None]](set)
        for context, list_id, index in await _open_lists(database, list(missing), drawn):
            lists[context] = list_id
            taken[context].add(index)
        for context, indices in drawn.items():
            free[context] |= dict.fromkeys(index for index in indices if index not in taken[context])
    return {
        context: tuple(StatusRow(list_id, index, context not in lists) for index in list(free[context])[:count])
        for context, count in wanted.items()
        for list_id in [lists.get(context) or salts.draw(1).hex()]
    }


async def _open_lists(
    database: Database, contexts: list[str], drawn: Mapping[str, Sequence[int]]
) -> Sequence[Sequence[Any]]:
    """Open lists, each with those of its entries that are taken among the ones drawn, or None for none of them."""
    indices = sorted({index for each in drawn.values() for index in each})
    contexts, indices = _filled_up(contexts), _filled_up(indices)
    asked: dict[str, object] = {f"context{number}": context for number, context in enumerate(contexts)}
    asked |= {f"index{number}": index for number, index in enumerate(indices)}
    return await database.look_up_to_write(_open(len(contexts), len(indices)), **asked)


def _filled_up(values: list[T]) -> list[T]:
    """The last one again and again until they are a power of two: so there are few statements."""
    return values + values[-1:] * ((1 << (len(values) - 1).bit_length()) - len(values))


@cache
def _open(contexts: int, drawn: int) -> Lookup:
    of_context = [bindparam(f"context{number}", type_=status_lists.c.open_for.type) for number in range(contexts)]
    of_index = [bindparam(f"index{number}", type_=Integer) for number in range(drawn)]
    entry = and_(status_entries.c.list_id == status_lists.c.list_id, status_entries.c.index.in_(of_index))
    return Lookup(
        select(status_lists.c.open_for, status_lists.c.list_id, status_entries.c.index)
        .join(status_entries, entry, isouter=True)
        .where(status_lists.c.open_for.in_(of_context))
    )


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

    Lists that are new, then the others, then entries; in one order for all transactions, whatever they do there.
    """
    lists: defaultdict[tuple[str, str], _Work] = defaultdict(_Work)
    for row in rows:
        if row.status is not None:
            work = lists[row.context, row.status.list_id]
            work.is_new |= row.status.is_new
            work.claimed.append(row.status.index)
    for entry in revoked:
        lists[entry[:2]].revoked.append(entry)
    in_order = sorted(lists.items(), key=lambda item: item[0])  # new ids are random
    opened = [_new_list(*names, len(work.claimed)) for names, work in in_order if work.is_new]
    changes = [_list_change(names[1], len(work.claimed), work.revoked) for names, work in in_order if not work.is_new]
    claimed = [
        {"list_id": list_id, "index": index, "status": 0}
        for (_, list_id), work in in_order
        for index in sorted(work.claimed)
    ]
    try:
        for statement, values in ((_ADD_LISTS, opened), (_CHANGE_LIST, changes), (_ADD_ENTRIES, claimed)):
            if values:
                statement.write(connection, *values)
    except exc.IntegrityError:
        raise StatusTaken from None
    return _set_statuses(connection, revoked, _NOT_REVOKED, int(StatusValue.INVALID))


def _new_list(context: str, list_id: str, claimed: int) -> dict[str, object]:
    open_for = context if claimed < MOST_USED else None
    return {"list_id": list_id, "context": context, "open_for": open_for, "used": claimed, "version": 0}


def _list_change(list_id: str, claimed: int, changed: Sequence[Entry]) -> dict[str, object]:
    return {"this_list": list_id, "claimed": claimed, "changes": int(bool(changed)), "most": MOST_USED}


def runs_of(batch_id: str, rows: Iterable[CardRow]) -> list[StatusRun]:
    """The entries of these SD-Cards, which are valid, for the audit record."""
    runs = defaultdict[tuple[str, str, int], list[int]](list)
    for row in rows:
        if row.status is not None:
            runs[row.context, row.status.list_id, row.expires_at].append(row.status.index)
    return [
        StatusRun(context, list_id, batch_id, expires_at, int(StatusValue.VALID), tuple(sorted(indices)))
        for (context, list_id, expires_at), indices in runs.items()
    ]


def revoke_entries(connection: Connection, entries: Sequence[Entry]) -> int:
    """Revoke entries; how many were not revoked before."""
    return claim_statuses(connection, (), entries)


def hold_agent(connection: Connection, subject: str, agent_id: str) -> None:
    """Make sure that an agent is the subject's, and lock its row: so a registration is whole before a change of
    statuses, or after it, and the audit chain has both in the order in which they happened.
    """
    own = agents.c.agent_id == agent_id, agents.c.subject == subject, agents.c.deleted_at.is_(None)
    if connection.execute(select(agents.c.agent_id).where(*own).with_for_update()).first() is None:
        raise Refused(Rule.AGENT_UNKNOWN, Where(Part.REQUEST, ("agent_id",)))


def change_statuses(connection: Connection, change: StatusChangeRow) -> int:
    """Change the statuses of an agent's SD-Cards; how many changed."""
    narrower = []
    if change.batch_id is not None:
        narrower.append(cards.c.batch_id == change.batch_id)
    if change.context is not None:
        narrower.append(cards.c.context == change.context)
    entries = live_entries(connection, change.agent_id, change.at, *narrower)
    changes = [_list_change(list_id, 0, entries) for list_id in dict.fromkeys(list_id for _, list_id, _ in entries)]
    if changes:
        _CHANGE_LIST.write(connection, *changes)
    return _set_statuses(connection, entries, change.before, change.after)


def live_entries(connection: Connection, agent_id: str, at: int, *narrower: ColumnElement[bool]) -> list[Entry]:
    """The entries of an agent's SD-Cards that have not expired, and of those that expired lately, sorted.

    What a clock says has expired may be good by the right time, so a clock that is ahead spares none.
    """
    live = (
        select(cards.c.context, cards.c.status_list_id, cards.c.status_index)
        .join(batches)
        .where(batches.c.agent_id == agent_id, cards.c.expires_at > at - EXPIRED_LATELY)
        .where(cards.c.status_list_id.is_not(None), *narrower)
    )
    return sorted((context, list_id, index) for context, list_id, index in connection.execute(live))


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
