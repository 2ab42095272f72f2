"""The audit chain in the database, records that wait for it, and unchecked reads.

A transaction leaves its record as its last step, after all that it waits for, and waits for no other writer of records.
The chain takes the records later, in the order of their numbers. Two transactions that write the same row are in that
order, and no reader sees the second one without the first. So a replay along the chain finds each row as it became.
"""

import logging
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, Select, bindparam, cast, delete, event, func, select, update

from issuer_service.audit.records import AuditFound, AuditQuery, AuditRow
from issuer_service.db.pairwise import find_own_id
from issuer_service.db.state import state_text
from issuer_service.db.tables import audit, audit_head, audit_waiting, log_leaves
from issuer_service.db.values import StoredText, check_storable, fetch_as_stored
from issuer_service.transparency.records import make_leaves
from sdcard.audit_chain import Head, chain_record
from sdcard.encoding import JsonObject, JsonValue, parse_json, parse_json_object
from sdcard.errors import Part, Refused, Where
from sdcard.instants import is_instant
from sdcard.io.database import Database
from sdcard.io.lookups import Lookup
from sdcard.io.statements import Additions, Statement
from sdcard.rules import Rule

_log = logging.getLogger(__name__)

CHAIN = 1
_OPTIONAL = ("interaction_id", "possession", "supersedes", "checks", "state", "leaf")
"""Members that a record has or has not. Those that come later leave old digests alone."""
_NO_OPTIONAL = dict.fromkeys(_OPTIONAL)
_DEPTH = 4
_HEAD = select(audit_head.c.sequence, audit_head.c.digest).where(audit_head.c.chain == CHAIN)
_KEYS = (audit_head.c.state_key, audit_head.c.log_key)
_READ_KEYS = Lookup(select(*_KEYS).where(audit_head.c.chain == CHAIN))
_SHARED_KEYS = Statement(select(*_KEYS).where(audit_head.c.chain == CHAIN).with_for_update(read=True, key_share=True))
_LOCKED_HEAD = Statement(_HEAD.with_for_update(key_share=True))
_MOVE_HEAD = update(audit_head).values(sequence=bindparam("last_sequence"), digest=bindparam("last_digest"))
_TOUCH_HEAD = (
    update(audit_head).where(audit_head.c.chain == CHAIN).values(sequence=audit_head.c.sequence + bindparam("step"))
)
_LEAVE = Additions(audit_waiting, log_leaves)
_CHAIN = Additions(audit, change=_MOVE_HEAD.where(audit_head.c.chain == CHAIN))
_WAITING = select(audit_waiting.c.number, cast(audit_waiting.c.record, StoredText()).label("record"))
AT_ONCE = 100
"""Records of one transaction, so that the event loop and other writers of SQLite wait for milliseconds."""
_LENGTHS = {column.name: column.type.length for column in audit.c if isinstance(column.type, StoredText)}
"""Text columns, and how many characters they have at most."""
_REQUIRED = {"event", "at", "subject", "agent_id", "batch_id", "disclosed"}
_RECORDS = select(
    audit.c.sequence,
    audit.c.event,
    audit.c.at,
    audit.c.subject,
    audit.c.agent_id,
    audit.c.batch_id,
    cast(audit.c.disclosed, StoredText()).label("disclosed"),
    audit.c.interaction_id,
    audit.c.possession,
    audit.c.supersedes,
    audit.c.checks,
    audit.c.state,
    audit.c.leaf,
    audit.c.previous,
    audit.c.digest,
).order_by(audit.c.sequence)


class Keys(NamedTuple):
    """The secrets of the chain: each None until it is made.

    ``state``: the key of the digests of rows. ``log``: the key of agent digests in the transparency log.
    """

    state: bytes | None
    log: bytes | None


class ChainKeys:
    """The secrets of the chain, as a process read them last.

    They change when the database is adopted, and when the log begins.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: Keys | None = None

    async def current(self) -> Keys:
        """Return the keys.

        Raises:
            Refused: ``store.unavailable``.
        """
        if self._known is None:
            rows = await self._database.look_up(_READ_KEYS)
            self._known = Keys(*rows[0]) if rows else Keys(None, None)
        return self._known

    def forget(self) -> None:
        """Read them again next time: they may have changed."""
        self._known = None


def append_audit(connection: Connection, entry: AuditRow) -> None:
    """Leave a record for the chain, as the last step of a transaction.

    Raises:
        Refused: ``store.unavailable`` when the chain has no head, which only tampering explains; ``request.malformed``
            for a text that the record cannot store.
    """
    append_all(connection, [entry])


def append_all(connection: Connection, entries: Sequence[AuditRow]) -> None:
    """Leave a record for each, one after the other. As ``append_audit``."""
    found = _SHARED_KEYS.read(connection, {})
    if not found:
        raise _no_head()
    keys, records, leaves = Keys(*found[0]), list[dict[str, Any]](), list[dict[str, Any]]()
    for entry in entries:
        record, added = record_of(entry, keys)
        records.append({"record": record})
        leaves += added
    _LEAVE.write(connection, audit_waiting=records, log_leaves=leaves)


def stop_writers(connection: Connection) -> None:
    """Let no other transaction leave a record until this one ends.

    Those that left one have ended. A SQLite transaction that writes is alone.
    """
    connection.execute(_HEAD.with_for_update())


def chain_waiting(connection: Connection) -> bool:
    """Add the first records that wait to the chain; return whether more may wait.

    Other processes wait meanwhile, and then find other records. No transaction that leaves a record waits.

    Raises:
        Refused: ``store.unavailable`` when the chain has no head, or cannot take the first record that waits.
    """
    found = _LOCKED_HEAD.read(connection, {})
    if not found:
        raise _no_head()
    taken = list(islice(chain_ahead(connection, Head(*found[0])), AT_ONCE))
    records = [record for _, record in taken if record is not None]
    if taken and not records:
        raise Refused(Rule.STORE_UNAVAILABLE, Where(Part.REQUEST))
    if records:
        moved = {"last_sequence": records[-1]["sequence"], "last_digest": records[-1]["digest"]}
        _CHAIN.write(connection, moved, audit=[{**_NO_OPTIONAL, **record} for record in records])
        numbers = [number for number, record in taken if record is not None]
        connection.execute(delete(audit_waiting).where(audit_waiting.c.number.in_(numbers)))
    return len(taken) == AT_ONCE or len(taken) > len(records)


def chain_all(connection: Connection) -> None:
    """Add all records that wait to the chain. As ``chain_waiting``."""
    while chain_waiting(connection):
        pass


def chain_ahead(connection: Connection, head: Head) -> Iterator[AuditFound]:
    """Return the records that wait as the chain would have them.

    With their numbers in the table. The chain, which ends at ``head``, stops at the first one that it cannot take. That
    one comes last, as None.
    """
    for number, content in read_waiting(connection):
        if content is None:
            _log.error("the audit record %d that waits for the chain cannot be read", number)
            yield number, None
            return
        record = chain_record(content, head)
        head = Head(head.sequence + 1, str(record["digest"]))
        yield number, record


def count_waiting(connection: Connection) -> int:
    """Count the records that wait for the chain."""
    return connection.execute(select(func.count()).select_from(audit_waiting)).scalar_one()


def first_waiting(connection: Connection) -> int | None:
    """Return the number of the record that the chain takes next; None when none waits."""
    return connection.execute(select(func.min(audit_waiting.c.number))).scalar()


def read_waiting(connection: Connection) -> Iterator[AuditFound]:
    """Read the records that wait for the chain, in the order in which it takes them.

    One that the chain cannot take is None.
    """
    asked = _WAITING.order_by(audit_waiting.c.number).limit(AT_ONCE)
    page = fetch_as_stored(connection, asked)
    while page:
        for row in page:
            yield row["number"], _takeable(str(row["record"]))
        page = fetch_as_stored(connection, asked.where(audit_waiting.c.number > page[-1]["number"]))


def _takeable(text: str) -> JsonObject | None:
    """Parse a record that waits.

    None unless the chain can store all of it, and nothing else.
    """
    try:
        content = parse_json_object(text.encode(), Where(Part.AUDIT), _DEPTH)
    except (Refused, UnicodeEncodeError):
        return None
    if not _REQUIRED <= content.keys() <= {*_REQUIRED, *_OPTIONAL}:
        return None
    at, disclosed = content["at"], content["disclosed"]
    is_dated = type(at) is int and is_instant(at)
    tells_paths = isinstance(disclosed, dict) and all(map(_is_list_of_texts, disclosed.values()))
    fits = all(_fits(content[name], most) for name, most in _LENGTHS.items() if name in content)
    return content if is_dated and tells_paths and fits else None


def _is_list_of_texts(value: JsonValue) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _fits(value: JsonValue, most: int | None) -> bool:
    """Whether a column of text can store a value."""
    if not isinstance(value, str):
        return False
    try:
        check_storable(value, most=most)
    except Refused:
        return False
    return True


async def check_commit(database: Database) -> None:
    """Make sure that a transaction can be committed now. No audit record is made.

    Raises:
        Refused: ``store.unavailable``.
    """
    await database.check_room()  # it tells a read-only file system, of which SQLite says that it cannot open
    await database.change(_touch_head)


def _touch_head(connection: Connection) -> None:
    """Change the head and change it back.

    SQLite does not write a row that did not change.
    """
    for step in (1, -1):
        if connection.execute(_TOUCH_HEAD, {"step": step}).rowcount != 1:
            raise _no_head()


def _no_head() -> Refused:
    _log.error("the audit chain has no head; `sdcard audit verify` says more")
    return Refused(Rule.STORE_UNAVAILABLE, Where(Part.REQUEST))


def record_of(entry: AuditRow, keys: Keys) -> tuple[JsonObject, list[dict[str, Any]]]:
    """Return a record without its place in the chain, and its leaves for the log.

    A member without a value is left out.

    Raises:
        Refused: ``request.malformed`` for a text that the table of the chain cannot store.
    """
    members: JsonObject = {
        "event": entry.event.value,
        "at": entry.at,
        "subject": entry.subject,
        "agent_id": entry.agent_id,
        "batch_id": entry.batch_id,
        "disclosed": {audience: list[JsonValue](paths) for audience, paths in entry.disclosed.items()},
    }
    state = None if keys.state is None else state_text(keys.state, entry.written)
    optional = {**{name: getattr(entry, name) for name in _OPTIONAL[:-2]}, "state": state}
    content: JsonObject = {**members, **{name: str(value) for name, value in optional.items() if value is not None}}
    for name, value in content.items():
        if isinstance(value, str):
            check_storable(value, most=_LENGTHS[name])
    if keys.log is None:
        return content, []
    leaves = make_leaves(keys.log, entry, content)
    return {**content, "leaf": leaves[0]["entry"].hex()}, leaves


def read_state_key(connection: Connection) -> bytes | None:
    """Return the key of the digests of rows; None for a database that was not adopted."""
    key = connection.execute(select(audit_head.c.state_key).where(audit_head.c.chain == CHAIN)).scalar()
    return None if key is None else bytes(key)


def read_head(connection: Connection) -> Head | None:
    """Return the end of the chain; None when nothing states it."""
    row = connection.execute(_HEAD).first()
    known = row is not None and type(row.sequence) is int and isinstance(row.digest, str)
    return Head(row.sequence, row.digest) if row is not None and known else None


def read_end(connection: Connection, up_to: int) -> tuple[Head | None, list[Head]]:
    """Return the end of the chain, and those that it will have, up to this one.

    With the records that wait. The transaction sees one snapshot.
    """
    head, later = read_head(connection), list[Head]()
    if head is not None and head.sequence < up_to:
        taken = (record for _, record in chain_ahead(connection, head) if record is not None)
        for number, record in enumerate(islice(taken, up_to - head.sequence), head.sequence + 1):
            later.append(Head(number, str(record["digest"])))
    return head, later


def read_records(connection: Connection, query: AuditQuery) -> tuple[AuditFound, ...]:
    """Records as they are found, with the text of ``disclosed`` read strictly."""
    asked = _asked(query)
    if query.agent_id is not None:
        asked = asked.where(audit.c.agent_id.in_({query.agent_id, find_own_id(connection, query.agent_id)}))
    found = connection.execute(asked).all()
    return tuple((row.sequence, _record(row)) for row in found)


def _asked(query: AuditQuery) -> Select[Any]:
    asked = _RECORDS.limit(query.limit)
    if query.after is not None:
        asked = asked.where(audit.c.sequence > query.after)
    if query.up_to is not None:
        asked = asked.where(audit.c.sequence <= query.up_to)
    if query.interaction_id is not None:
        asked = asked.where(audit.c.interaction_id == query.interaction_id)
    if query.since is not None:
        asked = asked.where(audit.c.at >= query.since)
    return asked


def _record(row: Row[Any]) -> JsonObject | None:
    record: JsonObject = dict(row._mapping)
    for name in _OPTIONAL:
        if record[name] is None:
            del record[name]
    if not all(isinstance(value, str | int) for value in record.values()):
        return None
    try:
        record["disclosed"] = parse_json(str(record["disclosed"]).encode(), Where(Part.AUDIT), _DEPTH)
    except (Refused, UnicodeEncodeError):
        return None
    return record


def read_as_found(database: Database) -> None:
    """Have SQLite return text that is not UTF-8, with lone surrogates.

    So the place of the text can be reported.
    """

    def prepare(connection: Any, _: object) -> None:
        connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")

    if database.engine.dialect.name == "sqlite":
        event.listen(database.engine, "connect", prepare)
