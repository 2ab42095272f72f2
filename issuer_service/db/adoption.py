"""Adoption: the recorded state of a database from before row digests.

Its earlier audit records do not name the rows that they wrote. The records of the adoption name every row that is
compared, as it is at that moment. Nobody can tell what was changed before it. It happens once, in the transaction of
the migration; a new database has nothing to adopt.
"""

import secrets
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, select, tuple_, update

from issuer_service.audit.records import AuditEvent, AuditRow, Row, StatusRun, WrittenRows
from issuer_service.audit.repository import append_all, chain_all, read_state_key, stop_writers
from issuer_service.db.state import KEY_BYTES
from issuer_service.db.tables import (
    agents,
    approvals,
    audit_head,
    batches,
    cards,
    delegations,
    discovery_cards,
    domain_proofs,
    grants,
    holder_keys,
    registry_keys,
    remembered,
    reviews,
    sessions,
    status_entries,
    status_lists,
    tokens,
)
from issuer_service.discovery.postings_repository import runs_of

_PUBLIC = {"shown": None, "public_at": None}
"""What changed becomes public at the adoption: records of it are not read again."""
_AT_ONCE = 200
"""Agents, or rows of another table, that are read together."""
_WITHOUT_AGENT = (
    *(tokens, sessions, registry_keys, status_lists, grants, delegations, approvals, remembered),
    *(domain_proofs, reviews),
)
_ENTRY = and_(status_entries.c.list_id == cards.c.status_list_id, status_entries.c.index == cards.c.status_index)


def adopt(connection: Connection, at: int) -> None:
    """Make the key of the digests, and record the state of an older database.

    All other writers of records wait meanwhile.

    Args:
        at: Unix seconds.
    """
    if read_state_key(connection) is not None:
        return
    stop_writers(connection)
    unkeyed = update(audit_head).where(audit_head.c.state_key.is_(None))
    if connection.execute(unkeyed.values(state_key=secrets.token_bytes(KEY_BYTES))).rowcount != 1:
        return
    adopts = True
    for written, agent_id in _state(connection):
        told = WrittenRows(written.rows, {}, written.keys, written.runs, adopts=adopts)
        append_all(connection, [AuditRow(AuditEvent.STATE_ADOPTED, at, "", agent_id, written=told)])
        adopts = False
    chain_all(connection)


def _state(connection: Connection) -> Iterator[tuple[WrittenRows, str]]:
    connection.execute(update(status_entries).where(status_entries.c.public_at.is_not(None)).values(_PUBLIC))
    for table in _WITHOUT_AGENT:
        (key,) = table.primary_key.columns
        for rows in _pages(connection, select(table), key):
            yield WrittenRows({table.name: rows}), ""
    for rows in _pages(connection, select(agents), agents.c.agent_id):
        yield from _of_agents(connection, rows)
    yield from _entries_of_nobody(connection)


def _pages(connection: Connection, asked: Select[Any], *key: ColumnElement[Any]) -> Iterator[list[Row]]:
    """All rows, so many at once, in the order of their key."""
    asked = asked.order_by(*key).limit(_AT_ONCE)
    rows = connection.execute(asked).mappings().all()
    while rows:
        yield [dict(row) for row in rows]
        last = tuple(rows[-1][column.name] for column in key)
        behind = tuple_(*key) > last if len(key) > 1 else key[0] > last[0]
        rows = connection.execute(asked.where(behind)).mappings().all()


def _of_agents(connection: Connection, rows: Sequence[Row]) -> Iterator[tuple[WrittenRows, str]]:
    """Read each agent's rows of all tables that are compared.

    They are its own row, Batches, SD-Cards, keys, status entries and discovery entries.
    """
    named = [str(row["agent_id"]) for row in rows]
    of_table: dict[str, defaultdict[str, list[Row]]] = {}
    found = {
        "agents": select(agents).where(agents.c.agent_id.in_(named)),
        "batches": select(batches).where(batches.c.agent_id.in_(named)),
        "discovery_cards": select(discovery_cards).where(discovery_cards.c.agent_id.in_(named)),
        "holder_keys": select(holder_keys).where(holder_keys.c.agent_id.in_(named)),
        "cards": select(cards, batches.c.agent_id, status_entries.c.status)
        .join_from(cards, batches)
        .join(status_entries, _ENTRY, isouter=True)
        .where(batches.c.agent_id.in_(named)),
    }
    for table, asked in found.items():
        of_table[table] = defaultdict(list)
        for one in connection.execute(asked).mappings():
            of_table[table][one["agent_id"]].append(dict(one))
    for agent_id in named:
        keys = defaultdict[int, list[str]](list)
        for row in of_table["holder_keys"][agent_id]:
            keys[int(str(row["bound_at"]))].append(str(row["thumbprint"]))
        compared = {table: of_table[table][agent_id] for table in found if table != "holder_keys"}
        runs = [*_runs(compared["cards"]), *runs_of(compared["discovery_cards"])]
        yield WrittenRows({table: those for table, those in compared.items() if those}, keys=keys, runs=runs), agent_id


def _runs(issued: Sequence[Row]) -> list[StatusRun]:
    return [_run(**row) for row in issued if row["status"] is not None]


def _run(
    *, context: Any, status_list_id: Any, batch_id: Any, expires_at: Any, status: Any, status_index: Any, **_: object
) -> StatusRun:
    return StatusRun(context, status_list_id, batch_id, expires_at, status, (status_index,))


def _entries_of_nobody(connection: Connection) -> Iterator[tuple[WrittenRows, str]]:
    """Status entries of SD-Cards of agents that were deleted. They stay as they are."""
    rest = select(status_entries).join(cards, _ENTRY, isouter=True).where(cards.c.digest.is_(None))
    for rows in _pages(connection, rest, status_entries.c.list_id, status_entries.c.index):
        yield WrittenRows(runs=[_orphan(**row) for row in rows]), ""


def _orphan(*, list_id: Any, index: Any, status: Any, expires_at: Any, **_: object) -> StatusRun:
    return StatusRun("", list_id, "", expires_at, status, (index,))
