"""Reading of a card file: strict JSON, JSON with a byte order mark, or YAML.

For files that people write. Untrusted input is strict JSON only: ``encoding.parse_json``.

Only YAML that JSON can express is read, so that every reader gets the same document, or it is refused:

- Anchors, aliases, merges, tags, keys that are not strings, and further documents are refused. Without aliases no text
  grows while it is read.
- Two members of one name are refused, at any depth. YAML forbids them, and most readers keep the last one.
- A plain scalar is null, a boolean or a number only if YAML 1.1 and YAML 1.2 agree. Where they differ, as for ``no``,
  ``2026-03-15``, ``12:30``, ``1_000``, ``0o17`` and ``1e3``, it stays text, and a warning asks for quotes.
- A number is spelt as in JSON and kept exactly; ``.inf``, ``.nan``, ``0x1F``, ``+1`` and ``007`` are refused.

PyYAML's Python parser reads event by event: without recursion, in linear time, and with the same result on every
machine. LibYAML is faster where installed, but reads some texts differently.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

import yaml

from sdcard.cards.agentcard.dialects import parse_embedded
from sdcard.encoding import JsonObject, JsonValue, parse_json, parse_json_object, why_not_utf8
from sdcard.errors import Finding, Level, Part, Refused, Where, foreign_code
from sdcard.lenient import lenient_document
from sdcard.limits import DEFAULT_LIMITS, Limits
from sdcard.rules import Rule

_WHERE = Where(Part.CARD)
_BOM, _NEWLINE = "\ufeff", "\n"
_AS_JSON = (b"{", b"[", b"//", b"/*")
"""Starts of JSON, and of JSON with comments, which is refused as JSON."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_LINE_SEPARATOR = re.compile("[\x85\u2028\u2029]")
"""Line breaks in YAML 1.1, ordinary characters in YAML 1.2."""


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """A document as its author wrote it, with warnings about its spelling."""

    document: JsonObject = field(repr=False)
    findings: tuple[Finding, ...] = ()


def read_document(data: bytes, limits: Limits = DEFAULT_LIMITS) -> ReadDocument:
    """Read the document in the bytes of a file.

    Text that begins with a brace, a bracket or a comment of another language is JSON, and so is a card in a string. Any
    other text is YAML.

    Raises:
        Refused: ``limit.bytes`` or ``encoding.utf8``; for JSON a rule of ``parse_json_object`` or ``parse_embedded``;
            for YAML as ``parse_yaml``.
    """
    if len(data) > limits.card_bytes:
        raise Refused(Rule.LIMIT_BYTES, _WHERE, f"A card has at most {limits.card_bytes} bytes.")
    text = lenient_document(data)
    embedded = parse_embedded(text, limits.json_depth)
    if embedded is None and not text.lstrip(b" \t\r\n").startswith(_AS_JSON):
        if len(text) > limits.yaml_bytes:
            hint = f"A card in YAML has at most {limits.yaml_bytes} bytes; in JSON it may be longer."
            raise Refused(Rule.LIMIT_BYTES, _WHERE, hint)
        return parse_yaml(text, _WHERE, limits.json_depth)
    document = parse_json_object(text, _WHERE, limits.json_depth) if embedded is None else embedded
    if text == data:
        return ReadDocument(document)
    hint = "Save the file without a byte order mark: other readers of JSON may refuse it."
    return ReadDocument(document, (Finding(Rule.BYTE_ORDER_MARK, _WHERE, hint, Level.WARNING),))


def parse_yaml(data: bytes, where: Where, depth: int) -> ReadDocument:
    """Parse a YAML mapping in UTF-8. The caller bounds its size.

    Args:
        data: the text, without a byte order mark.
        where: what the text is part of, for refusals.
        depth: how deeply sequences and mappings may nest.

    Raises:
        Refused: ``encoding.utf8`` or ``yaml.malformed`` at the whole; ``yaml.feature``, ``yaml.ambiguous`` for a
            line separator, ``json.duplicate-member``, ``json.number``, ``json.surrogate`` or ``json.depth`` at the
            place. YAML 1.2.2.
    """
    builder = _Builder(where, depth)
    for event in _events(_decode(data, where), where):
        builder.take(event)
    if not isinstance(builder.value, dict):
        hint = "Give a JSON object or a YAML mapping." if data.strip() else "It is empty."
        raise Refused(Rule.YAML_MALFORMED, where, hint)
    return ReadDocument(builder.value, tuple(builder.findings))


# -- Text → events ----------------------------------------------------------------------------------------------------


def _decode(data: bytes, where: Where) -> str:
    text = data.decode("utf-8", "surrogateescape")
    if _SURROGATE.search(text):
        raise Refused(Rule.UTF8, where, why_not_utf8(data))
    separator = _LINE_SEPARATOR.search(text)
    if separator:
        hint = f"Line {_line(text, separator.start())} holds an unusual line separator; write it as an escape."
        raise Refused(Rule.YAML_AMBIGUOUS, where, hint)
    if text.startswith(_BOM):
        raise Refused(Rule.YAML_MALFORMED, where, "The text begins with two byte order marks.")
    return text


def _events(text: str, where: Where) -> Iterator[Any]:
    parser = yaml.parse(text, Loader=yaml.SafeLoader)
    while True:
        with foreign_code(Refused, Rule.YAML_MALFORMED, where, "This is no JSON object, and no YAML that can be read."):
            event = _next(parser, text)
        if isinstance(event, str):
            raise Refused(Rule.YAML_MALFORMED, where, f"This is no JSON object, and as YAML it breaks in {event}.")
        if event is None:
            return
        yield event


def _next(parser: Iterator[Any], text: str) -> Any:
    """Return the next event, None at the end, or the line and column of an error.

    The caller raises the refusal, because these exceptions carry the text.
    """
    try:
        return next(parser, None)
    except yaml.MarkedYAMLError as error:
        mark = getattr(error, "problem_mark", None)
        return _place(text, len(text)) if mark is None else f"line {mark.line + 1}, column {mark.column + 1}"
    except yaml.reader.ReaderError as error:  # a character that YAML does not permit
        return _place(text, getattr(error, "position", len(text)))
    except (ValueError, OverflowError):  # an escape beyond Unicode, a version with thousands of digits
        return _place(text, len(text))


def _place(text: str, position: int) -> str:
    return f"line {_line(text, position)}, column {position - text.rfind(_NEWLINE, 0, position)}"


def _line(text: str, position: int) -> int:
    return text.count(_NEWLINE, 0, position) + 1


# -- Events → document ------------------------------------------------------------------------------------------------


class _Container:
    """An open mapping or sequence. ``key`` is the member that waits for its value."""

    def __init__(self, value: JsonObject | list[JsonValue], where: Where) -> None:
        self.value, self.where, self.key = value, where, ""
        self.wants_key = isinstance(value, dict)

    def place(self) -> Where:
        """Return the place of the next node, before its key is known."""
        if isinstance(self.value, list):
            return self.where.within(len(self.value))
        return self.where if self.wants_key else self.where.within(self.key)

    def add(self, node: JsonValue) -> None:
        """Append an element, or set the waiting member."""
        if isinstance(self.value, list):
            self.value.append(node)
        else:
            self.value[self.key] = node
            self.wants_key = True


class _Builder:
    """The document so far. Open containers are on a stack, so that nothing recurses."""

    def __init__(self, where: Where, depth: int) -> None:
        self.value: JsonValue = None
        self.findings: list[Finding] = []
        self._where, self._depth = where, depth
        self._open: list[_Container] = []
        self._begun = False

    def take(self, event: Any) -> None:
        """Process the next event."""
        if isinstance(event, yaml.DocumentStartEvent):
            self._begin(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._open.pop()
        elif isinstance(event, yaml.NodeEvent):
            self._take_node(event, self._open[-1].place() if self._open else self._where)

    def _begin(self, event: Any) -> None:
        if self._begun:
            raise Refused(Rule.YAML_FEATURE, self._where, "Give each document a file of its own.")
        if event.tags:
            raise Refused(Rule.YAML_FEATURE, self._where, "Remove the `%TAG` lines: tags are not read.")
        self._begun = True

    def _take_node(self, event: Any, where: Where) -> None:
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise Refused(Rule.YAML_FEATURE, where, "Write the value out instead of the anchor or alias.")
        if event.tag is not None:
            raise Refused(Rule.YAML_FEATURE, where, "Remove the tag; put quotes around what must be a string.")
        container = self._open[-1] if self._open else None
        if container and container.wants_key:
            self._take_key(event, container)
        elif isinstance(event, yaml.ScalarEvent):
            self._add(self._scalar(event, where))
        else:
            self._enter({} if isinstance(event, yaml.MappingStartEvent) else [], where)

    def _take_key(self, event: Any, container: _Container) -> None:
        name = self._scalar(event, container.where) if isinstance(event, yaml.ScalarEvent) else None
        if not isinstance(name, str) or (event.value == "<<" and event.implicit[0]):
            raise Refused(Rule.YAML_FEATURE, container.where, "Name members by strings, and do not merge with `<<`.")
        if name in container.value:
            raise Refused(Rule.JSON_DUPLICATE, container.where.within(name))
        container.key, container.wants_key = name, False

    def _enter(self, value: JsonObject | list[JsonValue], where: Where) -> None:
        if len(self._open) == self._depth:
            raise Refused(Rule.JSON_DEPTH, self._where)
        self._add(value)
        self._open.append(_Container(value, where))

    def _add(self, value: JsonValue) -> None:
        if self._open:
            self._open[-1].add(value)
        else:
            self.value = value

    def _scalar(self, event: Any, where: Where) -> JsonValue:
        text: str = event.value
        if _SURROGATE.search(text):
            raise Refused(Rule.JSON_SURROGATE, where, "Write the character itself, or one escape with `\\U`.")
        plain, _ = event.implicit
        if not plain:
            return text
        kind = _kind(text, _YAML_1_2)
        if kind is not _kind(text, _YAML_1_1):
            hint = "Put it in quotes, or write null, true, false or a plain number: YAML readers differ on this value."
            self.findings.append(Finding(Rule.YAML_AMBIGUOUS, where, hint, Level.WARNING))
            return text
        if kind is _Kind.NUMBER:
            return _number(text, where)
        if kind is _Kind.BOOLEAN:
            return text.lower() == "true"
        return None if kind is _Kind.NULL else text


# -- Plain scalars ----------------------------------------------------------------------------------------------------


class _Kind(Enum):
    TEXT = auto()
    NULL = auto()
    BOOLEAN = auto()
    NUMBER = auto()
    OTHER = auto()


_Kinds = Mapping[_Kind, re.Pattern[str]]
_NULL = re.compile("|~|null|Null|NULL")
_YAML_1_1: _Kinds = {
    _Kind.NULL: _NULL,
    _Kind.BOOLEAN: re.compile("[yYnN]|yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF"),
    _Kind.NUMBER: re.compile(
        r"""[-+]?(?: 0b[01_]+ | 0[0-7_]+ | 0x[0-9a-fA-F_]+ | 0 | [1-9][0-9_]*
        | (?:\.[0-9][0-9_]*|[0-9][0-9_]*\.[0-9_]*)(?:[eE][-+][0-9]+)? | [0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?
        | \.(?:inf|Inf|INF)) | \.(?:nan|NaN|NAN)""",
        re.VERBOSE,
    ),
    _Kind.OTHER: re.compile(r"<<|=|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:(?:[Tt]|[ \t]+)[0-9:.Zz \t+-]*)?"),
}
"""Plain scalars by the types of YAML 1.1 (int, float, bool, null, timestamp, merge, value)."""
_YAML_1_2: _Kinds = {
    _Kind.NULL: _NULL,
    _Kind.BOOLEAN: re.compile("true|True|TRUE|false|False|FALSE"),
    _Kind.NUMBER: re.compile(
        r"""[-+]?(?: [0-9]+ | (?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)? | \.(?:inf|Inf|INF))
        | 0o[0-7]+ | 0x[0-9a-fA-F]+ | \.(?:nan|NaN|NAN)""",
        re.VERBOSE,
    ),
}
"""Plain scalars by the core schema of YAML 1.2.2 (10.3.2)."""
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")


def _kind(text: str, kinds: _Kinds) -> _Kind:
    return next((kind for kind, pattern in kinds.items() if pattern.fullmatch(text)), _Kind.TEXT)


def _number(text: str, where: Where) -> JsonValue:
    if not _JSON_NUMBER.fullmatch(text):
        raise Refused(Rule.JSON_NUMBER, where, "Spell the number as JSON does, or put it in quotes.")
    return parse_json(text.encode(), where, 0)
