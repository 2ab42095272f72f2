"""The registry's keys in the database, as parts of a transaction.

What is sealed stays sealed here.

A key's row is written after those of agents and Holder keys and before those of status lists, so that no two
transactions wait for each other.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import BigInteger, Connection, RowMapping, bindparam, exc, func, insert, or_, select, update

from issuer_service.stores.audit import append_audit
from issuer_service.stores.readable import read_row
from issuer_service.stores.rows.audit import AuditEvent, AuditRow
from issuer_service.stores.rows.keys import KeyChange, KeyNotInUse, KeysChanged, KeyState, RegistryKeyRow
from issuer_service.stores.rows.state import Row, Written
from issuer_service.stores.tables import cards, registry_keys
from sdcard.edge.statements import Statement

_KEY = TypeAdapter(RegistryKeyRow)
_OPERATOR = ""
"""Actor of key changes: no token, but the operator of the registry's database."""
_SIGNING = (KeyState.ACTIVE.value, KeyState.NEXT.value)
"""A next key signs where a process was told to sign with it."""
_THIS = (registry_keys.c.kid == bindparam("this_key"), or_(*(registry_keys.c.state == state for state in _SIGNING)))
_UNTIL = bindparam("until", type_=BigInteger)
_NOTED = Statement(
    select(registry_keys.c.kid).where(
        *_THIS, or_(registry_keys.c.signs_until.is_(None), registry_keys.c.signs_until >= _UNTIL)
    )
)
_NOTE = Statement(update(registry_keys).where(*_THIS, registry_keys.c.signs_until < _UNTIL).values(signs_until=_UNTIL))


def latest_expiry(connection: Connection) -> int | None:
    """Return when the last SD-Card there expires."""
    expires_at: int | None = connection.execute(select(func.max(cards.c.expires_at))).scalar()
    return expires_at


def read_keys(connection: Connection) -> tuple[RegistryKeyRow, ...]:
    """All keys, the oldest first.

    One row that cannot be read refuses all: it could be the key that signs, or one that is removed. A process that runs
    goes on with the keys that it knows.
    """
    asked = select(registry_keys).order_by(registry_keys.c.created_at, registry_keys.c.kid)
    return tuple(_row(found) for found in connection.execute(asked).mappings())


def record_key_use(connection: Connection, kid: str, until: int) -> list[Row]:
    """Record until when a key must stay published; return the changed row.

    It is until everything that the key signed has expired.

    SD-Cards of one step end at one instant, so this writes about once a step, and else only looks.

    Raises:
        KeyNotInUse: when the key is no longer used for signing.
    """
    use = {"this_key": kid, "until": until}
    if _NOTED.read(connection, use):
        return []
    if _NOTE.write(connection, use):
        return _rows_of(connection, [kid])
    if not _NOTED.read(connection, use):  # else another transaction noted it in between
        raise KeyNotInUse
    return []


def add_keys(connection: Connection, added: Sequence[RegistryKeyRow]) -> None:
    """Add keys."""
    try:
        connection.execute(insert(registry_keys), [row_values(key) for key in added])
    except exc.IntegrityError:
        raise KeysChanged from None
    for key in added:
        _audit(connection, AuditEvent.KEY_ADDED, key.created_at, key.use, [row_values(key)])


def change_keys(connection: Connection, event: AuditEvent, at: int, changes: Sequence[KeyChange]) -> None:
    """Change keys that are still as they were."""
    for before, after in changes:
        this = registry_keys.c.kid == before.kid
        values = row_values(after)
        until = values.pop("signs_until")
        same = (registry_keys.c.state == before.state.value, registry_keys.c.sealed == before.sealed)
        if not connection.execute(update(registry_keys).where(this, *same).values(values)).rowcount:
            raise KeysChanged
        if until is not None:
            longer = update(registry_keys).where(this, registry_keys.c.signs_until < until)
            connection.execute(longer.values(signs_until=until))
    use = changes[0][0].use if len({before.use for before, _ in changes}) == 1 else ""
    _audit(connection, event, at, use, _rows_of(connection, [before.kid for before, _ in changes]))


def _rows_of(connection: Connection, kids: Sequence[str]) -> list[Row]:
    """The rows of these keys, in this order."""
    found = connection.execute(select(registry_keys).where(registry_keys.c.kid.in_(kids))).mappings()
    rows = {row["kid"]: dict(row) for row in found}
    return [rows[kid] for kid in dict.fromkeys(kids)]


def _audit(connection: Connection, event: AuditEvent, at: int, use: str, changed: Sequence[Row]) -> None:
    """Append the audit record of a change of keys, the transaction's last step.

    ``disclosed`` maps each use to keys.
    """
    told = {str(use): tuple(str(row["kid"]) for row in changed)}
    written = Written(rows={"registry_keys": changed})
    append_audit(connection, AuditRow(event, at, subject=_OPERATOR, agent_id="", disclosed=told, written=written))


def row_values(key: RegistryKeyRow) -> dict[str, Any]:
    """Key → its columns."""
    return {
        "kid": key.kid,
        "use": key.use.value,
        "public_jwk": dict(key.public_jwk),
        "sealed": key.sealed,
        "state": key.state.value,
        "active_for": key.use.value if key.state is KeyState.ACTIVE else None,
        "created_at": key.created_at,
        "not_before": key.not_before,
        "activated_at": key.activated_at,
        "retired_at": key.retired_at,
        "signs_until": key.signs_until,
    }


def _row(found: Mapping[str, Any] | RowMapping) -> RegistryKeyRow:
    return read_row(registry_keys, found, _KEY.validate_python)
