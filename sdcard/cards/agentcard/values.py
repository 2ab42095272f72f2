r"""Values of AgentCard members: spellings, amounts, the endpoint, and JSON Schemas.

The project's own validators end their patterns with ``$``, which accepts a final line feed, and use ``\d``, which
accepts digits of every script. Here a pattern matches the whole value, in ASCII.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from ipaddress import ip_address
from typing import TypeAlias

from sdcard.cards.schema import Choice, Member, Need, Object, Reach, Text, Url, find_list
from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Finding, Level, Part, Where
from sdcard.limits import DEFAULT_LIMITS
from sdcard.paths import Place
from sdcard.rules import Rule


@dataclass(frozen=True, slots=True)
class Advice:
    """Advice for a string that is valid but could be better."""

    pattern: re.Pattern[str]
    text: str
    level: Level


@dataclass(frozen=True, slots=True)
class Spelling:
    """A string that matches a pattern as a whole."""

    pattern: re.Pattern[str]
    advice: str
    advices: tuple[Advice, ...] = ()

    def check(self, value: JsonValue, where: Where) -> Iterator[Finding]:
        """Find a value that is not a string or does not match; then give advice."""
        yield from Text().check(value, where)
        if not isinstance(value, str):
            return
        if not self.pattern.fullmatch(value):
            yield Finding(Rule.CARD_MEMBER_VALUE, where, self.advice)
            return
        for other in self.advices:
            if not other.pattern.fullmatch(value):
                yield Finding(Rule.CARD_MEMBER_VALUE, where, other.text, other.level)


@dataclass(frozen=True, slots=True)
class Amount:
    """A number that is not negative, at most ``most``, and zero or at least ``floor``.

    Numbers are compared as written: in binary, one of them rounds to the other side of a bound.
    """

    most: Decimal | None = None
    floor: Decimal = Decimal(0)

    def check(self, value: JsonValue, where: Where) -> Iterator[Finding]:
        """Find a value that is not a number, or out of bounds."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            yield Finding(Rule.CARD_MEMBER_TYPE, where, "This must be a number.")
            return
        number = Decimal(value) if isinstance(value, int) else Decimal(repr(value))
        if not number.is_finite() or number < 0:
            yield Finding(Rule.CARD_MEMBER_VALUE, where, "Use a finite number that is not negative.")
        elif self.most is not None and number > self.most:
            yield Finding(Rule.CARD_MEMBER_VALUE, where, f"Use a number from 0 to {self.most}.")
        elif 0 < number < self.floor:
            hint = f"Use exactly 0, or at least {str(self.floor).lower()}: nothing physical costs less."
            yield Finding(Rule.AGENTCARD_COST_FLOOR, where, hint)


# -- URIs (RFC 3986) --------------------------------------------------------------------------------------------------

_ESCAPE = "%[0-9A-Fa-f]{2}"
_NAME = r"A-Za-z0-9._~!$&'()*+,;=\-"
_URI = re.compile(
    rf"""(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):
    (?: //(?:(?:[{_NAME}:]|{_ESCAPE})*+@)?
        (?P<host>\[[0-9A-Fa-f:.]+\]|\[v[0-9A-Fa-f]+\.[{_NAME}:]+\]|(?:[{_NAME}]|{_ESCAPE})*+)
        (?::[0-9]*)?(?=[/?\#]|\Z)
    |   (?!//))
    (?:[{_NAME}:@/]|{_ESCAPE})*+
    (?:\?(?:[{_NAME}:@/?]|{_ESCAPE})*+)?
    (?:\#(?:[{_NAME}:@/?]|{_ESCAPE})*+)?""",
    re.VERBOSE,
)
_NEEDS_HOST = frozenset({"http", "https"})
_LOCAL_PROGRAM = "stdio"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An object with the ``protocol`` and the ``url`` of an agent.

    Attributes:
        protocols: protocol → URI schemes that fit it; none if any does.
        binding: protocols for which another scheme is an error instead of a warning.
        members: its other members.
    """

    protocols: Mapping[str, tuple[str, ...]]
    binding: frozenset[str]
    members: Mapping[str, Member]

    def check(self, value: JsonValue, where: Where) -> Iterator[Finding]:
        """Find faults of the members, and a URL that does not fit the protocol."""
        protocol = Member(Choice(tuple(self.protocols)), Need.REQUIRED, f"one of {', '.join(self.protocols)}")
        url = Member(Text(), Need.REQUIRED, "the URI where the agent is reached")
        yield from Object({"protocol": protocol, "url": url, **self.members}, notes_unknown=True).check(value, where)
        if isinstance(value, dict) and isinstance(value.get("url"), str):
            yield from self._check_url(str(value["url"]), value.get("protocol"), where.within("url"))

    def _check_url(self, url: str, protocol: JsonValue, where: Where) -> Iterator[Finding]:
        scheme = _scheme(url)
        if scheme is None:
            hint = (
                "Write an absolute URI as in RFC 3986, such as https://agent.example.com/api; escape other characters."
            )
            yield Finding(Rule.CARD_MEMBER_VALUE, where, hint)
            return
        if not (scheme == "file" and protocol == _LOCAL_PROGRAM):
            yield from Url(Reach.NAME).check(url, where)
        fitting = self.protocols.get(protocol, ()) if isinstance(protocol, str) else ()
        if fitting and scheme not in fitting:
            level = Level.ERROR if protocol in self.binding else Level.WARNING
            hint = f"Use a URI that begins with {' or '.join(f'{one}:' for one in fitting)}, or the protocol that fits."
            yield Finding(Rule.CARD_MEMBER_VALUE, where, hint, level)


def _scheme(url: str) -> str | None:
    """Return the scheme of a URI (RFC 3986) in lower case; None for any other text."""
    match = _URI.fullmatch(url)
    if match is None:
        return None
    scheme, host = match["scheme"].lower(), match["host"] or ""
    if (scheme in _NEEDS_HOST and not host) or (host.startswith("[") and not _is_ip_literal(host[1:-1])):
        return None
    return scheme


def _is_ip_literal(text: str) -> bool:
    if text.startswith("v"):
        return True
    try:
        return ip_address(text).version == 6
    except ValueError:
        return False


# -- JSON Schemas -----------------------------------------------------------------------------------------------------

MEMBERS = ("input_schema", "output_schema")
MOST_WORK = 4_096
"""Values in all schemas of one card. The schemas of a real tool have some dozens."""


def faulty_schemas(document: JsonObject) -> Iterator[Finding]:
    """Find the first fault of each JSON Schema, and schemas too large to check.

    A schema is compared with the meta-schema and never used: no ``$ref`` is followed, no address is fetched, no
    ``pattern`` is compiled. The meta-schema of JSON Schema 2020-12 is a table here: a validator that interprets it
    takes 0.3 ms for each value. A test compares the two. AgentCard draft-00 2.4.3 (AEV-9).
    """
    left = MOST_WORK
    for where, schema in _schemas(document):
        left -= _work(schema, left)
        if left < 0:
            hint = "Make the schemas smaller; from here on they are too much to be checked."
            yield Finding(Rule.CARD_MEMBER_VALUE, where, hint, Level.WARNING)
            return
        place = _first_fault(schema)
        if place is not None:
            hint = "Write what JSON Schema 2020-12 allows here."
            yield Finding(Rule.CARD_MEMBER_VALUE, where.within(*place), hint)


def _schemas(document: JsonObject) -> Iterator[tuple[Where, JsonObject]]:
    spelling, capabilities = find_list(document, "capabilities")
    for index, capability in enumerate(capabilities):
        for name in MEMBERS:
            schema = capability.get(name) if isinstance(capability, dict) else None
            if isinstance(schema, dict):
                yield Where(Part.CARD).within(spelling, index, name), schema


def _work(schema: JsonObject, left: int) -> int:
    """Count the values to compare; more than ``left`` if the schema nests too deep."""
    waiting: list[tuple[JsonValue, int]] = [(schema, 1)]
    work = 1
    while waiting and work <= left:
        value, depth = waiting.pop()
        inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
        work += len(inner) if depth <= DEFAULT_LIMITS.json_depth else left + 1
        waiting += [(one, depth + 1) for one in inner]
    return work


_Parts: TypeAlias = "Place | list[tuple[Place, JsonValue]]"
"""The place of a fault within a keyword's value; or the schemas in it, with their places."""
_Keyword: TypeAlias = Callable[[JsonValue], _Parts]

_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_ANCHOR = re.compile("[A-Za-z_][-A-Za-z0-9._]*")
_NOWHERE: Place = ()


def _first_fault(schema: JsonObject) -> Place | None:
    """Find the first place that JSON Schema 2020-12 does not allow, if any."""
    waiting: list[tuple[Place, JsonValue]] = [((), schema)]
    for place, value in waiting:  # which grows
        if isinstance(value, bool):
            continue
        if not isinstance(value, dict):
            return place
        for name, inner in value.items():
            parts = _KEYWORDS[name](inner) if name in _KEYWORDS else []
            if isinstance(parts, tuple):
                return (*place, name, *parts)
            waiting += [((*place, name, *below), part) for below, part in parts]
    return None


def _if(allowed: bool) -> _Parts:
    return [] if allowed else _NOWHERE


def _schema(value: JsonValue) -> _Parts:
    return [((), value)]


def _schema_array(value: JsonValue) -> _Parts:
    return [((index,), one) for index, one in enumerate(value)] if isinstance(value, list) and value else _NOWHERE


def _schema_map(value: JsonValue) -> _Parts:
    return [((name,), one) for name, one in value.items()] if isinstance(value, dict) else _NOWHERE


def _names(value: JsonValue) -> _Parts:
    """Check an array of different strings."""
    if not isinstance(value, list):
        return _NOWHERE
    texts = [one for one in value if isinstance(one, str)]
    return _if(len(set(texts)) == len(value))


def _dependent_names(value: JsonValue) -> _Parts:
    if not isinstance(value, dict):
        return _NOWHERE
    return next(((name,) for name, one in value.items() if isinstance(_names(one), tuple)), [])


def _dependencies(value: JsonValue) -> _Parts:
    """Split ``dependencies`` of JSON Schema before 2019-09: member → schema or names."""
    if not isinstance(value, dict):
        return _NOWHERE
    lists = {name: one for name, one in value.items() if isinstance(one, list)}
    schemas: list[tuple[Place, JsonValue]] = [((name,), one) for name, one in value.items() if name not in lists]
    wrong = _dependent_names({**lists})
    return wrong if isinstance(wrong, tuple) else schemas


def _types(value: JsonValue) -> _Parts:
    if isinstance(value, list):
        return _if(bool(value) and isinstance(_names(value), list) and all(one in _TYPES for one in value))
    return _if(isinstance(value, str) and value in _TYPES)


def _number(value: JsonValue) -> _Parts:
    return _if(isinstance(value, int | float) and not isinstance(value, bool))


def _positive(value: JsonValue) -> _Parts:
    return _if(isinstance(value, int | float) and not isinstance(value, bool) and value > 0)


def _count(value: JsonValue) -> _Parts:
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return _if(whole and not isinstance(value, bool) and isinstance(value, int | float) and value >= 0)


def _text(value: JsonValue) -> _Parts:
    return _if(isinstance(value, str))


def _identifier(value: JsonValue) -> _Parts:
    return _if(isinstance(value, str) and "#" not in value[:-1])


def _anchor(value: JsonValue) -> _Parts:
    return _if(isinstance(value, str) and _ANCHOR.fullmatch(value) is not None)


def _flag(value: JsonValue) -> _Parts:
    return _if(isinstance(value, bool))


def _array(value: JsonValue) -> _Parts:
    return _if(isinstance(value, list))


def _vocabulary(value: JsonValue) -> _Parts:
    return _if(isinstance(value, dict) and all(isinstance(one, bool) for one in value.values()))


def _rows(*rows: tuple[_Keyword, str]) -> Mapping[str, _Keyword]:
    return {name: keyword for keyword, names in rows for name in names.split()}


_KEYWORDS = _rows(
    (_identifier, "$id"),
    (_text, "$schema $ref $dynamicRef $recursiveRef $comment"),
    (_anchor, "$anchor $dynamicAnchor $recursiveAnchor"),
    (_vocabulary, "$vocabulary"),
    (_schema_map, "$defs definitions properties patternProperties dependentSchemas"),
    (_schema_array, "prefixItems allOf anyOf oneOf"),
    (_schema, "items contains additionalProperties propertyNames if then else not"),
    (_schema, "unevaluatedItems unevaluatedProperties contentSchema"),
    (_types, "type"),
    (_array, "enum examples"),
    (_positive, "multipleOf"),
    (_number, "maximum exclusiveMaximum minimum exclusiveMinimum"),
    (_count, "maxLength minLength maxItems minItems maxContains minContains maxProperties minProperties"),
    (_flag, "uniqueItems deprecated readOnly writeOnly"),
    (_names, "required"),
    (_dependent_names, "dependentRequired"),
    (_dependencies, "dependencies"),
    (_text, "pattern title description format contentEncoding contentMediaType"),
)
"""Keyword → check of its value. ``const``, ``default`` and unknown keywords may be anything."""
