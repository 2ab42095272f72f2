"""Status lists and their entries in the database."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache, partial
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
    exists,
    func,
    insert,
    literal_column,
    or_,
    select,
    tuple_,
    update,
)

from issuer_service.audit.records import AuditEvent, AuditRow, Row, StatusRun, WrittenRows
from issuer_service.audit.repository import append_audit
from issuer_service.db.tables import CHANGED, batches, cards, status_entries, status_lists
from issuer_service.status.records import EXPIRED_LATELY, CardRow, StatusChangeRow, StatusRow, StatusTaken
from sdcard.errors import Part, Refused, Where
from sdcard.io.database import Database
from sdcard.io.lookups import Lookup
from sdcard.io.statements import Statement
from sdcard.rules import Rule
from sdcard.salts import SALT_BYTES, SaltSource
from sdcard.status_list import StatusValue

# -- Status lists in the database: open ones, closing full and old ones -----------------------------------------------
# A closed list is dropped when no SD-Card needs it: ``db/retention.py``.

LISTS = 16
"""Open lists, a power of two. More of them hide an SD-Card among fewer others; fewer make more of two SD-Cards of one
agent share a list."""
_CURRENT = exists().where(
    status_entries.c.list_id == status_lists.c.list_id, status_entries.c.expires_at > bindparam("at", type_=BigInteger)
)
_KNOWN = Lookup(
    select(status_lists.c.list_id).where(
        status_lists.c.list_id == bindparam("list_id"), or_(status_lists.c.slot.is_not(None), _CURRENT)
    )
)
"""A list that is open, or has an entry of an SD-Card that has not expired."""
MOST_USED = 1 << 16
"""Entries after which a list is closed: half of its size, so that a random free entry is found quickly."""


async def has_status_list(database: Database, list_id: str, at: int) -> bool:
    """Whether a list is open or has an SD-Card that is valid after ``at``."""
    return bool(await database.look_up(_KNOWN, list_id=list_id, at=at))


def open_missing(connection: Connection, fresh: Sequence[str], at: int) -> None:
    """Open a list in each slot that has none.

    Of two transactions that do it at once, the second finds nothing to do.

    Args:
        fresh: random ids, one for each slot.
        at: Unix seconds.
    """
    asked = select(status_lists.c.slot).where(status_lists.c.slot.is_not(None))
    known = set(connection.execute(asked).scalars())
    opened = [{"list_id": fresh[slot], "slot": slot} for slot in range(LISTS) if slot not in known]
    if opened:
        connection.execute(insert(status_lists), opened)
        _record(connection, AuditEvent.LISTS_OPENED, at, WrittenRows({"status_lists": opened}))


async def replace_full(database: Database, list_id: str, fresh: str, at: int) -> None:
    """Close a list that is half full, and open another one in its slot.

    Args:
        fresh: a random id.
        at: Unix seconds.
    """
    asked = select(func.count()).where(status_entries.c.list_id == list_id)
    if await database.read(lambda connection: connection.execute(asked).scalar_one()) < MOST_USED:
        return

    await database.change(replace_list, list_id, fresh, at)


def replace_list(connection: Connection, list_id: str, fresh: str, at: int) -> None:
    """Close a list, if it is open, and open another one in its slot."""
    this = status_lists.c.list_id == list_id, status_lists.c.slot.is_not(None)
    slot = connection.execute(select(status_lists.c.slot).where(*this).with_for_update()).scalar()
    if slot is None:
        return
    connection.execute(update(status_lists).where(*this).values(slot=None))
    connection.execute(insert(status_lists).values(list_id=fresh, slot=slot))
    rows: list[Row] = [{"list_id": list_id, "slot": None}, {"list_id": fresh, "slot": slot}]
    _record(connection, AuditEvent.LISTS_OPENED, at, WrittenRows({"status_lists": rows}))


def _record(connection: Connection, event: AuditEvent, at: int, written: WrittenRows) -> None:
    append_audit(connection, AuditRow(event, at, "", "", written=written))


# -- Status entries in the database: choice, claim and change ---------------------------------------------------------
# These are parts of a transaction.
#
# A registration writes entries and no row of ``status_lists``, so registrations that use one list do not wait for
# each other. Whatever writes several entries, or several lists, takes them in the order of their list ids.

T = TypeVar("T")
Entry: TypeAlias = tuple[str, int]
"""List id and index. Entries are written in this order."""

LIST_SIZE = 1 << 17
"""Entries of one list: large, so that asking for it says little (TSL-21)."""
COUNTED_EACH = 1 << 12
"""The entries of a list are counted when an index is drawn that is a multiple of this: so it is seldom done."""

_WORD = 4
AT_ONCE = 500
"""Pairs in one statement; SQLite takes 32,766 values."""
_MOST_NAMED = 20
"""Contexts or Batches that a refusal lists, the newest first."""
_NOT_REVOKED = (int(StatusValue.VALID), int(StatusValue.SUSPENDED))
_ADD_ENTRIES = Statement(insert(status_entries))
ENTRY_OF_CARD = and_(status_entries.c.list_id == cards.c.status_list_id, status_entries.c.index == cards.c.status_index)
STATUS_OF_CARD: ColumnElement[Any] = func.coalesce(status_entries.c.status, literal_column(str(int(StatusValue.VALID))))
"""Status of a card. Cards from before there were status lists are valid."""


async def free_statuses(database: Database, count: int, salts: SaltSource, at: int) -> tuple[StatusRow, ...]:
    """Draw random unused entries: distinct, in the order they were drawn.

    Each is drawn from all open lists with equal probability. At worst about half of the drawn entries are free.
    """
    free: dict[StatusRow, None] = {}
    while len(free) < count:
        drawn = _draw(salts, min(2 * (count - len(free)), AT_ONCE))
        lists, taken = await _open_lists(database, drawn)
        if not {slot for slot, _ in drawn} <= lists.keys():
            fresh = [salts.draw(1).hex() for _ in range(LISTS)]
            await database.change(partial(open_missing, fresh=fresh, at=at))
            continue
        entries = [StatusRow(lists[slot], index) for slot, index in drawn]
        for list_id in sorted({entry.list_id for entry in entries if entry.index % COUNTED_EACH == 0}):
            await replace_full(database, list_id, salts.draw(1).hex(), at)
        free |= dict.fromkeys(entry for entry in entries if entry not in taken)
    return tuple(free)[:count]


async def _open_lists(database: Database, drawn: Sequence[tuple[int, int]]) -> tuple[dict[int, str], set[StatusRow]]:
    """Return the open lists by slot, and the used entries among those drawn."""
    slots, indices = (_filled_up(sorted(set(values))) for values in zip(*drawn, strict=True))
    asked: dict[str, object] = {f"slot{number}": slot for number, slot in enumerate(slots)}
    asked |= {f"index{number}": index for number, index in enumerate(indices)}
    rows = await database.look_up_to_write(_open(len(slots), len(indices)), **asked)
    taken = {StatusRow(list_id, index) for _, list_id, index in rows if index is not None}
    return {slot: list_id for slot, list_id, _ in rows}, taken


def _filled_up(values: list[T]) -> list[T]:
    """Repeat the last one until they are a power of two: so there are few statements."""
    return values + values[-1:] * ((1 << (len(values) - 1).bit_length()) - len(values))


@cache
def _open(slots: int, drawn: int) -> Lookup:
    of_slot = [bindparam(f"slot{number}", type_=Integer) for number in range(slots)]
    of_index = [bindparam(f"index{number}", type_=Integer) for number in range(drawn)]
    entry = and_(status_entries.c.list_id == status_lists.c.list_id, status_entries.c.index.in_(of_index))
    return Lookup(
        select(status_lists.c.slot, status_lists.c.list_id, status_entries.c.index)
        .join(status_entries, entry, isouter=True)
        .where(status_lists.c.slot.in_(of_slot))
    )


def _draw(salts: SaltSource, count: int) -> list[tuple[int, int]]:
    """Draw random slots and indices, each pair equally likely.

    Their numbers are powers of two.
    """
    data = salts.draw(-(-count * _WORD // SALT_BYTES))
    words = [int.from_bytes(data[start : start + _WORD], "big") for start in range(0, count * _WORD, _WORD)]
    return [(word // LIST_SIZE % LISTS, word % LIST_SIZE) for word in words]


def claim_statuses(connection: Connection, rows: Sequence[CardRow]) -> None:
    """Assign entries for ever.

    Raises:
        StatusTaken: when another SD-Card has an entry, or its list was deleted.
    """
    values = entry_values(rows)
    try:
        if values:
            _ADD_ENTRIES.write(connection, *values)
    except exc.IntegrityError:
        raise StatusTaken from None


def entry_values(rows: Sequence[CardRow]) -> list[dict[str, object]]:
    """Return the rows of these SD-Cards' entries, in one order for all transactions."""
    claimed = sorted((row.status.list_id, row.status.index, row.expires_at) for row in rows if row.status is not None)
    return [
        {"list_id": list_id, "index": index, "status": 0, "expires_at": expires_at, "shown": None, "public_at": None}
        for list_id, index, expires_at in claimed
    ]


def card_values(batch_id: str, card: CardRow, *, for_discovery: bool) -> dict[str, object]:
    """Return the columns of an SD-Card."""
    return {
        "digest": card.digest,
        "batch_id": batch_id,
        "context": card.context,
        "thumbprint": card.thumbprint,
        "expires_at": card.expires_at,
        "status_list_id": card.status and card.status.list_id,
        "status_index": card.status and card.status.index,
        "for_discovery": for_discovery,
        "subject": card.subject,
    }


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


def revoke_all(connection: Connection, agent_id: str, at: int, public_at: int) -> int:
    """Revoke the SD-Cards of an agent whose row is locked; return how many.

    SD-Cards that were already revoked are not counted.
    """
    entries = _live_entries(connection, agent_id, at)
    return _set_statuses(connection, entries, _NOT_REVOKED, int(StatusValue.INVALID), at, public_at)


def change_statuses(connection: Connection, change: StatusChangeRow) -> int:
    """Change the statuses of an agent's SD-Cards; how many changed."""
    entries = _live_entries(connection, change.agent_id, change.at, *_selected(change))
    return _set_statuses(connection, entries, change.before, change.after, change.at, change.public_at)


def check_selected(connection: Connection, change: StatusChangeRow) -> None:
    """Check that the agent has an SD-Card of the named Batch and context.

    Raises:
        Refused: ``agent.no-such-cards``, with those that it has.
    """
    live = batches.c.agent_id == change.agent_id, cards.c.expires_at > change.at - EXPIRED_LATELY
    named = select(cards.c.digest).join(batches).where(*live, *_selected(change)).limit(1)
    if connection.execute(named).first() is not None:
        return
    member = cards.c.context if change.batch_id is None else batches.c.batch_id
    newest = (
        select(member)
        .select_from(cards)
        .join(batches)
        .where(batches.c.agent_id == change.agent_id, cards.c.expires_at > change.at)
        .group_by(member)
        .order_by(func.max(batches.c.issued_at).desc(), member)
        .limit(_MOST_NAMED)
    )
    found = [str(name) for name in connection.scalars(newest)]
    raise Refused(Rule.AGENT_CARDS, Where(Part.REQUEST, (member.name,)), f"It has: {', '.join(found) or 'none'}.")


def _selected(change: StatusChangeRow) -> list[ColumnElement[bool]]:
    """Select the SD-Cards of the Batch and context that a change names."""
    named = ((cards.c.batch_id, change.batch_id), (cards.c.context, change.context))
    return [column == name for column, name in named if name is not None]


def _live_entries(connection: Connection, agent_id: str, at: int, *narrower: ColumnElement[bool]) -> list[Entry]:
    """Return the entries of an agent's unexpired SD-Cards, sorted.

    Entries of SD-Cards that expired lately are included.

    What a clock says has expired may be good by the right time, so a clock that is ahead spares none.
    """
    live = (
        select(cards.c.status_list_id, cards.c.status_index)
        .join(batches)
        .where(batches.c.agent_id == agent_id, cards.c.expires_at > at - EXPIRED_LATELY)
        .where(cards.c.status_list_id.is_not(None), *narrower)
    )
    return sorted((list_id, index) for list_id, index in connection.execute(live))


def _set_statuses(
    connection: Connection, entries: Sequence[Entry], before: Sequence[int], after: int, at: int, public_at: int
) -> int:
    """Change entries that have an earlier status; return how many changed.

    If an earlier change of an entry is not public yet, both become public at the time of the first.
    """
    changed = 0
    is_pending = and_(status_entries.c.public_at > at, status_entries.c.public_at <= public_at)
    values = {
        "status": after,
        "shown": case((is_pending, status_entries.c.shown), else_=status_entries.c.status),
        "public_at": case((is_pending, status_entries.c.public_at), else_=public_at),
    }
    for start in range(0, len(entries), AT_ONCE):
        these = tuple_(status_entries.c.list_id, status_entries.c.index).in_(entries[start : start + AT_ONCE])
        permitted = status_entries.c.status.in_(before)
        result = connection.execute(update(status_entries).where(these, permitted).values(values))
        changed += result.rowcount
    return changed


async def read_status_list(database: Database, list_id: str, instant: int, latest: int) -> dict[int, int]:
    """Return a list as it is published at an instant.

    The result is index → status of each entry that is not VALID.

    Args:
        instant: Unix seconds.
        latest: the latest publication time of a change that was made by now. A change with a later publication time was
            written by a clock that was ahead; it is published now.
    """
    found = await database.read(lambda connection: _shown(connection, list_id, instant))
    if any(public_at > latest for _, _, public_at in found if public_at is not None):
        in_future = status_entries.c.list_id == list_id, status_entries.c.public_at > latest
        mended = update(status_entries).where(*in_future).values(public_at=instant)
        await database.change(lambda connection: connection.execute(mended).rowcount)
        found = await database.read(lambda connection: _shown(connection, list_id, instant))
    return {index: status for index, status, _ in found if status != StatusValue.VALID}


def _shown(connection: Connection, list_id: str, instant: int) -> Sequence[Any]:
    is_pending = status_entries.c.public_at > instant
    asked = select(
        status_entries.c.index,
        case((is_pending, status_entries.c.shown), else_=status_entries.c.status),
        status_entries.c.public_at,
    ).where(status_entries.c.list_id == list_id, CHANGED)
    return connection.execute(asked).all()
