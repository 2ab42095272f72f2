"""JSON Schemas of the card formats, generated from the shapes that the checks use.

A schema demands what an error of a shape demands: types, required members, closed sets, bounds. It accepts every card
that its format accepts. Rules across members, such as unique ids, and warnings are for ``sdcard card check`` alone.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from sdcard.cards.a2a import shared, v0, v1_0
from sdcard.cards.agentcard import dialects
from sdcard.cards.agentcard.values import Amount, Endpoint, Spelling
from sdcard.cards.kno import card as kno
from sdcard.cards.schema import (
    ArrayOf,
    Choice,
    Flag,
    MapOf,
    MediaType,
    Member,
    Need,
    Object,
    Shape,
    Tagged,
    Text,
    Url,
    snake_case,
)
from sdcard.encoding import JsonObject, JsonValue, encode_json
from sdcard.errors import Level, Misuse

DIALECT = "https://json-schema.org/draft/2020-12/schema"
SHAPES: Mapping[str, Object] = {
    v0.V0_1.name: v0.SHAPE_0_1,
    v0.V0_2.name: v0.SHAPE_0_2,
    v0.V0_3.name: v0.SHAPE_0_3,
    v1_0.FORMAT.name: v1_0.SHAPE,
    kno.V0_1.name: kno.SHAPE,
    kno.V0_2.name: kno.SHAPE,
    **{one.format.name: one.shape for one in dialects.DIALECTS},
}
"""Name of a card format → its shape."""
_NULL: JsonObject = {"type": "null"}
_TEXT: JsonObject = {"type": "string"}
_NOT_ECMA = re.compile(r"\(\?(?![:=!])|[*+?}]\+")
"""Syntax of a Python pattern that ECMA 262 lacks."""


def card_schema(name: str) -> JsonObject:
    """Build the JSON Schema (2020-12) of a card format.

    Args:
        name: such as ``a2a/1.0``.

    Raises:
        Misuse: for an unknown name.
    """
    if name not in SHAPES:
        raise Misuse(f"a card format is one of {', '.join(SHAPES)}")
    whole, counts = schema_of(SHAPES[name]), Counter[bytes]()
    shared_parts: JsonObject = {}
    _map_parts(whole, lambda part: _count(part, counts))
    schema = _with_references(whole, counts, shared_parts)
    return {"$schema": DIALECT, "title": name, **schema, "$defs": shared_parts}


_SHORT = 150
"""Bytes of a part that is repeated where it is needed."""


def _map_parts(schema: JsonObject, change: Callable[[JsonObject], JsonValue]) -> JsonObject:
    """Replace each direct part of a schema that is a schema itself."""
    changed: JsonObject = {}
    for name, value in schema.items():
        if name == "properties" and isinstance(value, dict):
            changed[name] = {key: change(part) for key, part in value.items() if isinstance(part, dict)}
        elif name in ("allOf", "anyOf", "oneOf") and isinstance(value, list):
            changed[name] = [change(part) for part in value if isinstance(part, dict)]
        elif name in ("items", "additionalProperties", "not", "if", "then", "else") and isinstance(value, dict):
            changed[name] = change(value)
        else:
            changed[name] = value
    return changed


def _count(part: JsonObject, counts: "Counter[bytes]") -> JsonValue:
    counts[encode_json(part)] += 1
    return _map_parts(part, lambda inner: _count(inner, counts))


def _with_references(schema: JsonObject, counts: Mapping[bytes, int], parts: JsonObject) -> JsonObject:
    """Move long parts that occur several times to ``$defs``."""

    def refer(part: JsonObject) -> JsonValue:
        text = encode_json(part)
        if len(text) < _SHORT or counts[text] < 2:
            return _with_references(part, counts, parts)
        name = hashlib.sha256(text).hexdigest()[:12]
        if name not in parts:
            parts[name] = None  # its place in the order
            parts[name] = _with_references(part, counts, parts)
        return {"$ref": f"#/$defs/{name}"}

    return _map_parts(schema, refer)


def schema_of(shape: Shape) -> JsonObject:
    """Build the JSON Schema of a shape.

    Raises:
        Misuse: for a shape without a row.
    """
    found = next((make for kind, make in _ROWS.items() if isinstance(shape, kind)), None)
    if found is None:
        raise Misuse(f"there is no schema of {type(shape).__name__}")
    return found(shape)


def _text(shape: Text) -> JsonObject:
    return {**_TEXT, "minLength": 1} if shape.empty is Level.ERROR else dict(_TEXT)


def _url(shape: Url) -> JsonObject:
    """Refuse what the shape calls an error: blank, invisible or dangerous text."""
    whole = _safe("javascript", "vbscript", "data", "file")
    return {**_TEXT, "pattern": whole if shape.empty is Level.ERROR else f"^$|{whole}"}


def _safe(*unsafe: str) -> str:
    return rf"^(?!\s*(?:{_any_case(unsafe)}):)[^\u0000-\u001f\u007f]*\S[^\u0000-\u001f\u007f]*$"


def _any_case(schemes: Iterable[str]) -> str:
    return "|".join("".join(f"[{c.upper()}{c}]" for c in one) for one in schemes)


def _spelling(shape: Spelling) -> JsonObject:
    pattern = shape.pattern.pattern.replace(r"\Z", "$").replace("(?s:.", r"(?:[\s\S]")
    is_portable = not shape.pattern.flags & (re.VERBOSE | re.IGNORECASE) and not _NOT_ECMA.search(pattern)
    return {**_TEXT, "pattern": f"^(?:{pattern})$"} if is_portable else dict(_TEXT)


def _amount(shape: Amount) -> JsonObject:
    bounds: JsonObject = {"type": "number", "minimum": 0}
    if shape.most is not None:
        bounds["maximum"] = float(shape.most)
    if shape.floor:
        bounds["anyOf"] = [{"const": 0}, {"minimum": float(shape.floor)}]
    return bounds


def _array(shape: ArrayOf) -> JsonObject:
    least: JsonObject = {"minItems": 1} if shape.empty is Level.ERROR else {}
    return {"type": "array", "items": schema_of(shape.element), **least}


def _object(shape: Object) -> JsonObject:
    properties: JsonObject = {}
    rules = list[JsonValue]()
    for name, member in (*shape.members.items(), *shape.legacy.items()):
        for spelling in _spellings(name):
            properties[spelling] = _nullable(member)
        if member.need is Need.REQUIRED:
            rules.append(_is_there(name))
        rules += _once(name)
    if shape.exactly_one:
        rules.append({"oneOf": [_is_there(name) for name in shape.members]})
    return {"type": "object", "properties": properties, **({"allOf": rules} if rules else {})}


def _spellings(name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((name, snake_case(name))))


def _nullable(member: Member) -> JsonObject:
    schema = schema_of(member.shape)
    return schema if member.null is Level.ERROR else {"anyOf": [schema, _NULL]}


def _is_there(name: str) -> JsonObject:
    """Demand a member that is not null, in either spelling."""
    there: list[JsonValue] = [_not_null(spelling) for spelling in _spellings(name)]
    return {"anyOf": there} if len(there) > 1 else _not_null(name)


def _not_null(spelling: str) -> JsonObject:
    return {"required": [spelling], "properties": {spelling: {"not": _NULL}}}


def _once(name: str) -> Iterator[JsonValue]:
    if len(_spellings(name)) > 1:
        yield {"not": {"allOf": [_not_null(spelling) for spelling in _spellings(name)]}}


def _tagged(shape: Tagged) -> JsonObject:
    cases: list[JsonValue] = [
        {"if": {"required": [shape.tag], "properties": {shape.tag: {"const": tag}}}, "then": schema_of(inner)}
        for tag, inner in shape.cases.items()
    ]
    properties: JsonObject = {shape.tag: {"enum": [*shape.cases]}}
    return {"type": "object", "required": [shape.tag], "properties": properties, "allOf": cases}


def _endpoint(shape: Endpoint) -> JsonObject:
    protocol = Member(Choice(tuple(shape.protocols)), Need.REQUIRED)
    whole = _object(Object({"protocol": protocol, "url": Member(Text(), Need.REQUIRED), **shape.members}))
    rules: list[JsonValue] = [
        _pattern("^[A-Za-z][A-Za-z0-9+.-]*:"),
        _pattern(_safe("javascript", "vbscript", "data")),
        {"if": _protocol("stdio"), "else": _pattern(_safe("file"))},
    ]
    for name in sorted(shape.binding):
        fitting = _pattern(f"^(?:{_any_case(shape.protocols[name])}):")
        rules.append({"if": _protocol(name), "then": fitting})
    known = whole.get("allOf")
    return {**whole, "allOf": [*(known if isinstance(known, list) else []), *rules]}


def _pattern(pattern: str) -> JsonObject:
    return {"properties": {"url": {"pattern": pattern}}}


def _protocol(name: str) -> JsonObject:
    return {"required": ["protocol"], "properties": {"protocol": {"const": name}}}


def _scheme(_: v1_0.Scheme) -> JsonObject:
    wrapped: list[JsonValue] = [_is_there(name) for name in v1_0.WRAPPERS.members]
    of_0_3: JsonObject = {"required": ["type"], "not": {"anyOf": wrapped}}
    return {"type": "object", "if": of_0_3, "then": schema_of(v0.SCHEME), "else": schema_of(v1_0.WRAPPERS)}


def _number(shape: kno._Number) -> JsonObject:
    bounds: JsonObject = {"type": "integer" if shape.whole else "number", "minimum": shape.least}
    return bounds if shape.most is None else {**bounds, "maximum": shape.most}


def _constant(schema: JsonObject, _: Shape) -> JsonObject:
    return dict(schema)


_ROWS: Mapping[type, Callable[..., JsonObject]] = {
    Text: _text,
    Url: _url,
    Spelling: _spelling,
    Amount: _amount,
    ArrayOf: _array,
    Object: _object,
    Tagged: _tagged,
    Endpoint: _endpoint,
    v1_0.Scheme: _scheme,
    kno._Number: _number,
    Choice: lambda shape: {"enum": [*shape.options]},
    MapOf: lambda shape: {"type": "object", "additionalProperties": schema_of(shape.element)},
    Flag: partial(_constant, {"type": "boolean"}),
    MediaType: partial(_constant, _TEXT),
    shared._Secret: partial(_constant, _TEXT),
    v1_0._Struct: partial(_constant, {"type": "object"}),
}
"""Kind of shape → what makes its schema. A test makes the schema of every format."""
