"""Listed rows that are read one by one.

A row that cannot be read is left out and named in the log.
"""

import contextlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, Table, cast

from issuer_service.stores.texts import StoredJson, StoredText
from sdcard.errors import Part, Refused, Where
from sdcard.rules import Rule

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

Read: TypeAlias = Callable[[dict[str, Any]], _T]
"""Makes a value of the columns of a row. It raises ``ValueError`` when a column has another type."""


def as_stored(table: Table) -> list[ColumnElement[Any]]:
    """Return the columns of a table, with JSON as text.

    So a row with malformed JSON can be fetched.
    """
    return [cast(one, StoredText()).label(one.name) if isinstance(one.type, StoredJson) else one for one in table.c]


def fetch_as_stored(connection: Connection, asked: Select[Any]) -> list[RowMapping]:
    """Fetch rows, with any byte that is not UTF-8 as a lone surrogate."""
    with _lenient(connection):
        return list(connection.execute(asked).mappings())


def read_page(connection: Connection, table: Table, asked: Select[Any], count: int, read: Read[_T]) -> tuple[_T, ...]:
    """Fetch and read so many rows.

    Rows that cannot be read do not count, so a page is full while there are more.
    """
    found, seen = list[_T](), 0
    while len(found) < count:
        wanted = count - len(found)
        rows = fetch_as_stored(connection, asked.limit(wanted).offset(seen))
        found += read_rows(table, rows, read)
        seen += len(rows)
        if len(rows) < wanted:
            break
    return tuple(found)


def read_row(table: Table, row: Mapping[str, Any] | RowMapping, read: Read[_T]) -> _T:
    """Read one row, whose JSON may be text.

    Raises:
        Refused: ``store.unavailable``, when it cannot be read.
    """
    try:
        return _read(table, row, read)
    except (ValueError, RecursionError):
        raise _left_out(table, row) from None


def read_rows(table: Table, rows: list[RowMapping], read: Read[_T]) -> tuple[_T, ...]:
    """Read the rows that can be read.

    The others are in the log, by the name in their first column.
    """
    found = list[_T]()
    for row in rows:
        with contextlib.suppress(Refused):
            found.append(read_row(table, row, lambda values: read(_checked(values))))
    return tuple(found)


def _read(table: Table, row: Mapping[str, Any] | RowMapping, read: Read[_T]) -> _T:
    values = dict(row)
    for column in table.c:
        if isinstance(column.type, StoredJson) and isinstance(values.get(column.name), str):
            values[column.name] = json.loads(values[column.name])
    return read(values)


def _checked(values: dict[str, Any]) -> dict[str, Any]:
    """The columns, unless a text was not UTF-8."""
    json.dumps(values, ensure_ascii=False).encode()
    return values


def _left_out(table: Table, row: Mapping[str, Any] | RowMapping) -> Refused:
    """Log the name of a row, and never what it says."""
    name = str(next(iter(row.values())))[:16]
    _log.error("left out: a row of %s that cannot be read: %s", table.name, ascii(name))
    return Refused(Rule.STORE_UNAVAILABLE, Where(Part.REQUEST))


@contextlib.contextmanager
def _lenient(connection: Connection) -> Iterator[None]:
    """Let SQLite give text that is not UTF-8. PostgreSQL stores none."""
    driver: Any = connection.connection.driver_connection
    if connection.dialect.name != "sqlite":
        yield
        return
    before, driver.text_factory = driver.text_factory, lambda data: data.decode("utf-8", "surrogateescape")
    try:
        yield
    finally:
        driver.text_factory = before
