"""Values in columns: lifetimes, texts, and rows that cannot be read."""

import contextlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

from sqlalchemy import JSON, ColumnElement, Connection, Dialect, RowMapping, Select, String, Table, Text, cast, exc
from sqlalchemy.types import TypeDecorator, TypeEngine

from sdcard.encoding import encode_json
from sdcard.errors import Part, Refused, Where
from sdcard.instants import MAX_SKEW
from sdcard.rules import Rule

# -- ``sdcard.instants.Lifetime`` as SQL, for rows with a beginning and an end ----------------------------------------
# A clock may have been wrong when a row was written. A row that was made later than now does not count now, and does
# not take the place of a row that does.


def in_force(
    made_at: ColumnElement[int], ends_at: ColumnElement[int], at: int | ColumnElement[int]
) -> ColumnElement[bool]:
    """Condition that a row is in force at an instant.

    It was made by then, up to the skew of clocks, and has not ended.
    """
    return (ends_at > at) & is_made(made_at, at)


def in_force_for(seconds: int, ends_at: ColumnElement[int], at: int | ColumnElement[int]) -> ColumnElement[bool]:
    """Say the same of a row that tells its end alone, and lives for this many seconds."""
    return (ends_at > at) & is_made(ends_at, at + seconds)


def is_made(made_at: ColumnElement[int], at: int | ColumnElement[int]) -> ColumnElement[bool]:
    """Say that a row was made by an instant, up to the skew of clocks."""
    return made_at <= at + MAX_SKEW


# -- Column types for text and JSON that accept the same in both databases --------------------------------------------
# Both databases store the same values and refuse the same values.
#
# PostgreSQL refuses U+0000 and text that is longer than its column. SQLite stores both. Neither driver takes a lone
# surrogate, because it has no UTF-8. So the types check a value before the driver sees it, in every statement.
#
# JSON is stored as text with escapes, so a JSON value may contain U+0000. ``JSONB`` could not store it.

_log = logging.getLogger(__name__)
_REQUEST = Where(Part.REQUEST)
_SURROGATE = "A text cannot contain a lone surrogate."


class UnstorableText(Refused, exc.DontWrapMixin):
    """A text that a column cannot store. SQLAlchemy does not refuse it."""

    def __init__(self, where: Where, hint: str) -> None:
        super().__init__(Rule.REQUEST, where, hint)


def check_storable(text: str, where: Where = _REQUEST, most: int | None = None) -> None:
    """Refuse a text that a column cannot store.

    Args:
        where: its place in the request.
        most: how many characters the column has; None: no bound.

    Raises:
        Refused: ``request.malformed``.
    """
    if "\0" in text:
        raise UnstorableText(where, "A text cannot contain U+0000.")
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError:
        raise UnstorableText(where, _SURROGATE) from None
    if most is not None and len(text) > most:
        raise UnstorableText(where, f"A text has at most {most} characters here.")


class StoredText(TypeDecorator[str]):
    """Text, with at most ``length`` characters where the column has a length."""

    impl = String
    cache_ok = True

    def __init__(self, length: int | None = None) -> None:
        super().__init__(length)
        self.length = length

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Name the type of the column: ``TEXT`` without a length."""
        return dialect.type_descriptor(Text() if self.length is None else String(self.length))

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Check a value on its way to the driver."""
        if value is not None:
            check_storable(value, most=self.length)
        return value


class StoredJson(TypeDecorator[Any]):
    """JSON as text."""

    impl = JSON
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        """Check a value on its way to the driver."""
        try:
            encode_json(value)
        except ValueError:
            raise UnstorableText(_REQUEST, _SURROGATE) from None
        return value

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any] | None:
        """Report a stored text that is no JSON as an unavailable database.

        Only the registry writes the text.
        """
        read = super().result_processor(dialect, coltype)

        def checked(value: Any) -> Any:
            try:
                return value if read is None else read(value)
            except (ValueError, RecursionError):
                _log.error("a column with JSON cannot be read")
                raise Refused(Rule.STORE_UNAVAILABLE, _REQUEST) from None

        return checked


# -- Listed rows that are read one by one -----------------------------------------------------------------------------
# A row that cannot be read is left out and named in the log.

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

    Unreadable rows are skipped, and the page is filled with later rows.
    """
    seen = 0
    found: list[_T] = []
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
    found: list[_T] = []
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
    """Log the name of a row, never its content."""
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
