"""``input_schema`` and ``output_schema``: whether an object is a JSON Schema at all.

A schema from a stranger is compared with the meta-schema and never used: no ``$ref`` is followed, no address is
fetched, no ``pattern`` is compiled or run. What all schemas of a card together may cost is bounded.

JSON Schema 2020-12; AgentCard draft-00 2.4.3 (AEV-9).
"""

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from sdcard.cards.shapes import find_list
from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Finding, Level, Part, Where
from sdcard.limits import DEFAULT_LIMITS
from sdcard.rules import Rule

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

MEMBERS = ("input_schema", "output_schema")
MOST_WORK = 4_096
"""Of one card, in values; comparing one costs up to 0.3 ms. The schemas of a real tool have some dozens."""
_CROWD = 2_000
"""An array of as many values costs twice their number, since each pair of them may be compared."""


@cache
def _meta_schema() -> "Validator":
    """Without a format checker: it would compile every ``pattern``. Imported when there is a schema to compare."""
    from jsonschema import Draft202012Validator

    return Draft202012Validator(Draft202012Validator.META_SCHEMA)


def faulty_schemas(document: JsonObject) -> Iterator[Finding]:
    """Find objects that are no JSON Schema, each at the first place that says so, and those too large to look at."""
    left = MOST_WORK
    for where, schema in _schemas(document):
        left -= _work(schema, left)
        if left < 0:
            hint = "Make the schemas smaller; from here on they are too much to be checked."
            yield Finding(Rule.CARD_MEMBER_VALUE, where, hint, Level.WARNING)
            return
        error = next(_meta_schema().iter_errors(schema), None)
        if error is not None:
            hint = "Write what JSON Schema 2020-12 allows here."
            yield Finding(Rule.CARD_MEMBER_VALUE, where.within(*error.absolute_path), hint)


def _schemas(document: JsonObject) -> Iterator[tuple[Where, JsonObject]]:
    spelling, capabilities = find_list(document, "capabilities")
    for index, capability in enumerate(capabilities):
        for name in MEMBERS:
            schema = capability.get(name) if isinstance(capability, dict) else None
            if isinstance(schema, dict):
                yield Where(Part.CARD).within(spelling, index, name), schema


def _work(schema: JsonObject, left: int) -> int:
    """How many values there are to compare; more than ``left`` where it is deeper than any text that we read."""
    waiting: list[tuple[JsonValue, int]] = [(schema, 1)]
    work = 1
    while waiting and work <= left:
        value, depth = waiting.pop()
        inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
        crowd = len(inner) ** 2 // _CROWD if isinstance(value, list) else 0
        work += len(inner) + crowd if depth <= DEFAULT_LIMITS.json_depth else left + 1
        waiting += [(one, depth + 1) for one in inner]
    return work
