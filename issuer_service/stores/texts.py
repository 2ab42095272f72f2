"""Column types for text and JSON that accept the same in both databases.

Both databases store the same values and refuse the same values.

PostgreSQL refuses U+0000 and text that is longer than its column. SQLite stores both. Neither driver takes a lone
surrogate, because it has no UTF-8. So the types check a value before the driver sees it, in every statement.

JSON is stored as text with escapes, so a JSON value may contain U+0000. ``JSONB`` could not store it.
"""

import logging
from collections.abc import Callable
from typing import Any

from sqlalchemy import JSON, Dialect, String, Text, exc
from sqlalchemy.types import TypeDecorator, TypeEngine

from sdcard.encoding import encode_json
from sdcard.errors import Part, Refused, Where
from sdcard.rules import Rule

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
        text: the value.
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
