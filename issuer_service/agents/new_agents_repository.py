"""Registration of a new agent in PostgreSQL: one statement, one round trip.

The statement may only say yes. It writes nothing if the agent or a key is known, or the signing key is not in use; and
PostgreSQL executes none of it if a status entry was taken, or the keys of the audit chain are others. The transaction
of ``repository.record_registration`` decides then.

Like that transaction it writes agent, keys and status entries first, and shares the head of the audit chain after all
that it may wait for. So no two transactions wait for each other.
"""

from collections.abc import Sequence

from sqlalchemy import (
    ARRAY,
    CTE,
    BindParameter,
    ColumnElement,
    Insert,
    LargeBinary,
    Select,
    Table,
    any_,
    bindparam,
    exists,
    func,
    insert,
    literal,
    select,
    true,
)

from issuer_service.agents.records import RegistrationRow
from issuer_service.agents.repository import agent_row, audit_row, key_rows
from issuer_service.audit.records import AuditEvent, Row, Supersedes
from issuer_service.audit.repository import CHAIN, ChainKeys, record_of
from issuer_service.db.tables import (
    agents,
    audit_head,
    audit_waiting,
    batches,
    cards,
    discovery_cards,
    discovery_postings,
    holder_keys,
    log_leaves,
    status_entries,
    status_lists,
)
from issuer_service.discovery.postings_repository import posted
from issuer_service.keys.repository import NOTED
from issuer_service.status.repository import card_values, entry_values
from sdcard.io.database import Database
from sdcard.io.lookups import Lookup
from sdcard.issuer_checks import IssuerCheck

_FIRST = (agents, holder_keys, status_entries)
"""What another transaction may have too, in the order in which all transactions write it."""
_OTHERS = (batches, discovery_cards, discovery_postings, cards, log_leaves)


async def add_agent(database: Database, new: RegistrationRow, secret: bytes, chain_keys: ChainKeys) -> bool:
    """Write the registration of a new agent; return whether it was written.

    Args:
        database: PostgreSQL, or another one, which never writes it.
        secret: the key of discovery's hashes.
        chain_keys: the keys of digests in audit records and in the log.

    Raises:
        Refused: as ``Database.try_to_change``.
    """
    is_plain = (
        new.event is AuditEvent.AGENT_REGISTERED and new.made_from is None and new.supersedes is Supersedes.RUN_OUT
    )
    is_more = new.answer is not None or new.nonce is not None or new.is_checked or IssuerCheck.APPROVED in new.checks
    if not database.is_remote or not is_plain or is_more:
        return False
    places, postings = posted(secret, [new])
    given: dict[str, Sequence[Row]] = {
        "agents": [agent_row(new)],
        "holder_keys": key_rows(new),
        "status_entries": entry_values(new.cards),
        "batches": [{"batch_id": new.batch_id, "agent_id": new.agent_id, "issued_at": new.at}],
        "discovery_cards": places,
        "discovery_postings": postings,
        "cards": [card_values(new.batch_id, card, for_discovery=False) for card in new.cards],
    }
    keys = await chain_keys.current()
    recorded = {table: given[table] for table in ("agents", "batches", "discovery_cards", "cards")}
    bound = [str(one["thumbprint"]) for one in given["holder_keys"]]
    record, given["log_leaves"] = record_of(audit_row(new, bound, recorded), keys)
    values: dict[str, object] = {
        "this_key": new.kid,
        "until": max(card.expires_at for card in new.cards),
        "state_key": keys.state,
        "log_key": keys.log,
        "record": record,
    }
    for table in (*_FIRST, *_OTHERS):
        rows = given[table.name]
        values |= {_name(table, column.name): [row[column.name] for row in rows] for column in table.c}
    if await database.try_to_change(_ADD, values):
        return True
    chain_keys.forget()
    return False


def _name(table: Table, column: str) -> str:
    return f"{table.name}_{column}"


def _array(column: ColumnElement[object], name: str) -> BindParameter[Sequence[object]]:
    return bindparam(name, type_=ARRAY(column.type, dimensions=1))


def _given(table: Table, column: str) -> BindParameter[Sequence[object]]:
    """The values of a column, as one array."""
    return _array(table.c[column], _name(table, column))


def _statement() -> Select[tuple[int]]:
    free = select(literal(1)).where(
        ~exists().where(agents.c.folded_id == any_(_given(agents, "folded_id"))),
        ~exists().where(holder_keys.c.thumbprint == any_(_given(holder_keys, "thumbprint"))),
        NOTED.exists(),
    )
    is_free = exists(select(literal(1)).select_from(free.cte("free")))
    lists = select(status_lists.c.list_id).where(status_lists.c.list_id == any_(_given(status_entries, "list_id")))
    first = [
        *(_adding(table, is_free).returning(literal(1)).cte(f"added_{table.name}") for table in _FIRST),
        lists.with_for_update(read=True, key_share=True).cte("lists"),
    ]
    record = select(bindparam("record", type_=audit_waiting.c.record.type).label("record")).select_from(_shared(first))
    given = record.subquery("given")
    # The number is drawn for a row of the join, so after the waits. Without a head, its record is null, and that fails.
    row = select(literal(1)).subquery("row").outerjoin(given, true())
    waiting = select(given.c.record).select_from(row).where(is_free)
    left = insert(audit_waiting).from_select(["record"], waiting, include_defaults=False)
    others = [_adding(table, is_free).cte(f"added_{table.name}") for table in _OTHERS]
    return select(left.returning(literal(1).label("one")).cte("left_record").c.one).add_cte(*others)


def _adding(table: Table, is_free: ColumnElement[bool]) -> Insert:
    arrays = [_given(table, column.name) for column in table.c]
    rows = select(*map(func.unnest, arrays)).where(is_free)
    return insert(table).from_select(table.c.keys(), rows, include_defaults=False)


def _shared(first: Sequence[CTE]) -> CTE:
    """Share the head of the audit chain, and so its keys, when ``first`` was done."""
    agent, *others = (select(func.count()).select_from(one).scalar_subquery() for one in first)
    done = agent > 0, *(other >= 0 for other in others)  # to count them, all of them have to be there
    keys = (audit_head.c.state_key, audit_head.c.log_key)
    same_keys = [key.is_not_distinct_from(bindparam(key.name, type_=LargeBinary)) for key in keys]
    head = select(audit_head.c.chain).where(audit_head.c.chain == CHAIN, *same_keys, *done)
    return head.with_for_update(read=True, key_share=True).cte("head")


_ADD = Lookup(_statement())
