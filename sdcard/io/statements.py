"""``Statement``: a frequent statement of transactions, rendered once.

The driver gets it as text.

SQLAlchemy writes it, and the tables check it. What it would find out again for each execution is kept, and its cursors
are the driver's: that took three times as long as SQLite takes to insert the row.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import Any, TypeAlias

from sqlalchemy import (
    ARRAY,
    Connection,
    Dialect,
    Insert,
    SelectBase,
    Table,
    Update,
    UpdateBase,
    bindparam,
    exc,
    func,
    insert,
    select,
)
from sqlalchemy.engine.interfaces import DBAPICursor
from sqlalchemy.sql.compiler import SQLCompiler

Values: TypeAlias = Mapping[str, object]
_NOTHING: Values = MappingProxyType({})


class Rendered:
    """A statement as a driver takes it.

    Attributes:
        text: for the driver.
        arguments: the values in the order of the text, as the driver takes them.
    """

    def __init__(self, statement: SelectBase | UpdateBase, dialect: Dialect, names: Sequence[str] = ()) -> None:
        compiled = statement.compile(dialect=dialect, column_keys=list(names) or None)
        assert isinstance(compiled, SQLCompiler), "no other is rendered"
        self.text = str(compiled)
        self._names = tuple(compiled.positiontup or ())
        fixed = {name: value for name, value in compiled.params.items() if value is not None}
        self._fixed = {name: value for name, value in fixed.items() if name not in names}
        encoders = ((at, _encoder(compiled, name, dialect)) for at, name in enumerate(self._names))
        self._encode = [(at, encode) for at, encode in encoders if encode]
        self._pick = _picker(self._names)
        is_plain = not self._fixed and not self._encode
        self.arguments: Callable[[Values], tuple[object, ...]] = self._pick if is_plain else self._arguments

    def _arguments(self, values: Values) -> tuple[object, ...]:
        picked = self._pick({**self._fixed, **values} if self._fixed else values)
        if not self._encode:
            return picked
        arguments = list(picked)
        for at, encode in self._encode:
            arguments[at] = encode(arguments[at])
        return tuple(arguments)


def _picker(names: Sequence[str]) -> Callable[[Values], tuple[object, ...]]:
    return itemgetter(*names) if len(names) > 1 else lambda values: tuple([values[name] for name in names])


def _encoder(compiled: SQLCompiler, name: str, dialect: Dialect) -> Callable[[object], object] | None:
    """Return the driver's conversion of a bound value, such as JSON to text."""
    bound = compiled.binds.get(name)
    return None if bound is None else bound.type.dialect_impl(dialect).bind_processor(dialect)


class Statement:
    """A statement of transactions, for both databases."""

    def __init__(self, statement: SelectBase | UpdateBase) -> None:
        self._statement = statement
        self._rendered: dict[tuple[str, ...], Rendered] = {}

    def read(self, connection: Connection, values: Values) -> Sequence[Sequence[Any]]:
        """Return the rows.

        Errors are those of ``Connection.execute``. Errors while rows are fetched are the driver's, not translated.
        """
        cursor = self._run(connection, [values])
        rows: Sequence[Sequence[Any]] = cursor.fetchall()
        cursor.close()
        return rows

    def write(self, connection: Connection, *rows: Values) -> int:
        """Execute the statement with these values, or with each of them.

        For one row of values, return how many rows it met.

        Raises:
            DBAPIError: as ``Connection.execute``.
        """
        cursor = self._run(connection, rows)
        cursor.close()
        return cursor.rowcount

    def _run(self, connection: Connection, rows: Sequence[Values]) -> DBAPICursor:
        known = (connection.dialect.name, *rows[0])
        assert set(map(len, rows)) == {len(rows[0])}, "what the first row lacks would be lost"
        rendered = self._rendered.get(known)
        if rendered is None:
            rendered = self._rendered[known] = Rendered(self._statement, connection.dialect, known[1:])
        return execute(connection, rendered.text, list(map(rendered.arguments, rows)))


class Additions:
    """New rows of several tables, and an optional change, in one write.

    Each row may refer to earlier ones. PostgreSQL receives one statement, because round trips take most of the time.
    """

    def __init__(self, *tables: Table, change: Update | None = None) -> None:
        self._change = None if change is None else Statement(change)
        self._changed = change
        self._inserts = {table.name: Statement(insert(table)) for table in tables}
        self._tables = {table.name: table for table in tables}
        self._rendered: dict[tuple[tuple[str, ...], ...], Rendered] = {}

    def write(self, connection: Connection, changed: Values = _NOTHING, /, **rows: Sequence[Values]) -> None:
        """Insert rows, given by the names of their tables.

        ``changed``: the values of the change, if any.

        Raises:
            DBAPIError: as ``Connection.execute``.
        """
        assert rows.keys() <= self._inserts.keys(), "what has no table would be lost"
        given = [(name, rows[name]) for name in self._inserts if rows.get(name)]
        if connection.dialect.name != "postgresql":
            for name, added in given:
                self._inserts[name].write(connection, *added)
            if given and self._change is not None:
                self._change.write(connection, changed)
        elif given:
            known = tuple((name, *added[0]) for name, added in given)
            rendered = self._rendered.get(known)
            if rendered is None:
                rendered = self._rendered[known] = Rendered(self._in_one(known), connection.dialect)
            assert all(set(map(len, added)) == {len(added[0])} for _, added in given), "or values would be lost"
            columns = {
                f"{name}_{column}": list(map(itemgetter(column), added)) for name, added in given for column in added[0]
            }
            execute(connection, rendered.text, [rendered.arguments({**columns, **changed})]).close()

    def _in_one(self, known: Sequence[Sequence[str]]) -> Insert | Update:
        """Write the additions as one statement.

        Each column is an array of its values, so that the text is the same for any number of rows.
        """
        inserts = [self._of_arrays(self._tables[name], columns) for name, *columns in known]
        last = inserts.pop() if self._changed is None else self._changed
        return last.add_cte(*(one.cte(f"added_to_{one.table.name}") for one in inserts))

    def _of_arrays(self, table: Table, columns: Sequence[str]) -> Insert:
        arrays = [bindparam(f"{table.name}_{name}", type_=ARRAY(table.c[name].type, dimensions=1)) for name in columns]
        return insert(table).from_select(list(columns), select(*map(func.unnest, arrays)), include_defaults=False)


def execute(connection: Connection, text: str, arguments: Sequence[tuple[object, ...]]) -> DBAPICursor:
    """Have the driver execute a text with these arguments, or each of them.

    The caller closes the cursor.

    Raises:
        DBAPIError: as ``Connection.execute``.
    """
    cursor = connection.connection.cursor()
    try:
        if len(arguments) == 1:
            cursor.execute(text, arguments[0])
        else:
            cursor.executemany(text, arguments)
    except connection.dialect.loaded_dbapi.Error as error:
        cursor.close()
        raise exc.DBAPIError.instance(
            text, None, error, connection.dialect.loaded_dbapi.Error, hide_parameters=True, dialect=connection.dialect
        ) from error
    except BaseException as error:
        if not isinstance(error, Exception):  # the caller has left: the state of the connection is unknown
            connection.invalidate(error)
        raise
    return cursor
