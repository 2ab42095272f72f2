"""``Statement``: what transactions do often, rendered once, and given to the driver as text.

SQLAlchemy writes it, and the tables check it. What it would find out again for each execution is kept: that took three
times as long as SQLite takes to insert the row.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

from sqlalchemy import Connection, CursorResult, Dialect, SelectBase, UpdateBase
from sqlalchemy.sql.compiler import SQLCompiler

Values: TypeAlias = Mapping[str, object]


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
    """What makes text of JSON, for a value that is JSON."""
    bound = compiled.binds.get(name)
    return None if bound is None else bound.type.dialect_impl(dialect).bind_processor(dialect)


class Statement:
    """A statement of transactions, for both databases."""

    def __init__(self, statement: SelectBase | UpdateBase) -> None:
        self._statement = statement
        self._rendered: dict[tuple[str, ...], Rendered] = {}

    def read(self, connection: Connection, values: Values) -> Sequence[Sequence[Any]]:
        """The rows. Raises as ``Connection.execute``."""
        return self._run(connection, [values]).all()

    def write(self, connection: Connection, *rows: Values) -> int:
        """Execute it with these values, or with each of these; how many rows it met, where it is one.

        Raises:
            DBAPIError: as ``Connection.execute``.
        """
        return self._run(connection, rows).rowcount

    def _run(self, connection: Connection, rows: Sequence[Values]) -> CursorResult[Any]:
        known = (connection.dialect.name, *rows[0])
        assert set(map(len, rows)) == {len(rows[0])}, "what the first row lacks would be lost"
        rendered = self._rendered.get(known)
        if rendered is None:
            rendered = self._rendered[known] = Rendered(self._statement, connection.dialect, known[1:])
        arguments = list(map(rendered.arguments, rows))
        return connection.exec_driver_sql(rendered.text, arguments[0] if len(rows) == 1 else arguments)
