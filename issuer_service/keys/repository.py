"""Signing keys in the database."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import BigInteger, Connection, RowMapping, bindparam, exc, func, insert, or_, select, update

from issuer_service.audit.records import AuditEvent, AuditRow, Row, WrittenRows
from issuer_service.audit.repository import append_audit
from issuer_service.db.tables import cards, registry_keys
from issuer_service.db.values import read_row
from sdcard.io.statements import Statement

# -- The registry's own keys in its memory ----------------------------------------------------------------------------


class KeyUse(StrEnum):
    """Exclusive use of a key of the registry. A closed set; ids are never reused."""

    CARDS = "cards"
    STATUS = "status"
    TOKENS = "tokens"
    AUDIT = "audit"
    LOG = "log"


class KeyState(StrEnum):
    """State of a key of the registry, which changes in one direction."""

    NEXT = "next"
    ACTIVE = "active"
    RETIRED = "retired"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class RegistryKeyRow:
    """A key of the registry.

    Attributes:
        kid: its thumbprint.
        use: the kind of document that it signs.
        public_jwk: the published public key.
        sealed: the private key or its location, encrypted and bound to ``kid``, ``use`` and algorithm; empty if
            removed.
        state: next, active, retired or removed.
        created_at, activated_at, retired_at: Unix seconds; None: not yet.
        not_before: Unix seconds from which Verifiers are expected to know the key.
        signs_until: Unix seconds, exclusive, until which its signatures are valid; None for no end.
    """

    kid: str
    use: KeyUse
    public_jwk: Mapping[str, str]
    sealed: str = field(repr=False)
    state: KeyState
    created_at: int
    not_before: int
    activated_at: int | None = None
    retired_at: int | None = None
    signs_until: int | None = 0


KeyChange = tuple[RegistryKeyRow, RegistryKeyRow]
"""A key's present row and its new row."""


class KeyNotInUse(Exception):
    """The signing key has been retired or removed meanwhile: sign again.

    Use the key that took its place.
    """


class KeysChanged(Exception):
    """Another process changed the registry's keys, or has this key: retry."""


# -- The registry's keys in the database, as parts of a transaction ---------------------------------------------------
# What is sealed stays sealed here.
#
# A key's row is written after those of agents and Holder keys and before those of status lists, so that no two
# transactions wait for each other.

_KEY = TypeAdapter(RegistryKeyRow)
_OPERATOR = ""
"""Actor of key changes: no token, but the operator of the registry's database."""
_SIGNING = (KeyState.ACTIVE.value, KeyState.NEXT.value)
"""A next key signs where a process was told to sign with it."""
_THIS = (registry_keys.c.kid == bindparam("this_key"), or_(*(registry_keys.c.state == state for state in _SIGNING)))
_UNTIL = bindparam("until", type_=BigInteger)
NOTED = select(registry_keys.c.kid).where(
    *_THIS, or_(registry_keys.c.signs_until.is_(None), registry_keys.c.signs_until >= _UNTIL)
)
"""That the key ``this_key`` is in use, and stays published ``until`` then."""
_NOTED = Statement(NOTED)
_NOTE = Statement(update(registry_keys).where(*_THIS, registry_keys.c.signs_until < _UNTIL).values(signs_until=_UNTIL))


def latest_expiry(connection: Connection) -> int | None:
    """Return when the last SD-Card there expires."""
    expires_at: int | None = connection.execute(select(func.max(cards.c.expires_at))).scalar()
    return expires_at


def read_keys(connection: Connection) -> tuple[RegistryKeyRow, ...]:
    """Read all keys, the oldest first.

    An unreadable row refuses all, because it could be the active key or a removed one. A running process continues with
    the keys that it has.
    """
    asked = select(registry_keys).order_by(registry_keys.c.created_at, registry_keys.c.kid)
    return tuple(_row(found) for found in connection.execute(asked).mappings())


def record_key_use(connection: Connection, kid: str, until: int) -> list[Row]:
    """Record until when a key must stay published; return the changed row.

    A key stays published until everything that it signed has expired. SD-Cards expire in steps, so this writes about
    once a step.

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
    written = WrittenRows(rows={"registry_keys": changed})
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
