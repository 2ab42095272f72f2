"""Strict base64url and JSON, and immutable mappings that can be pickled.

A lenient parser accepts padding, foreign characters, spare bits, repeated members and NaN. With each of them two
parties can read one text differently. RFC 7515 2, RFC 8259, RFC 8725 2.4.

The extra ``fast`` (orjson, pybase64) only makes parsing faster: the same texts are accepted without it.
"""

import copyreg
import json
import marshal
from array import array
from binascii import a2b_base64, b2a_base64
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from itertools import accumulate
from types import MappingProxyType
from typing import Any, AnyStr, NoReturn, TypeAlias, TypeVar

from sdcard.errors import Misuse, Refused, Where
from sdcard.limits import BYTES_PER_CONTAINER, MOST_CONTAINERS
from sdcard.rules import Rule

try:
    import orjson
    import pybase64

    _orjson: Any = orjson
    _pybase64: Any = pybase64
except ImportError:
    _orjson = _pybase64 = None

_AS_JSON_ALONE = (_orjson.OPT_PASSTHROUGH_DATACLASS | _orjson.OPT_PASSTHROUGH_DATETIME) if _orjson else 0
_NULL = b"null"
"""orjson also writes NaN as ``null``. ``rfind`` finds it in half the time of ``in``."""

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
JsonObject: TypeAlias = dict[str, JsonValue]

_PADDING = ("", "===", "==", "=")
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_SPACE = b" \t\n\r"
_JSON_SPACE = " \t\n\r"
_EXPECTED = (
    ("Extra data", "text follows the end of the JSON value"),
    ("Expecting property name", "a name in double quotes is expected"),
    ("Expecting ':'", "a colon is expected"),
    ("Expecting ','", "a comma or a closing bracket is expected"),
    ("Unterminated string", "a string has no closing quote"),
    ("Invalid control character", "a string contains a line break or control character"),
    ("Invalid \\", "JSON has no such escape sequence"),
)
"""Prefixes of error messages of ``json``, and their explanations."""
_NO_OBJECT = "A JSON object is expected."
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def encode_base64url(data: bytes) -> str:
    """Encode as base64url without padding."""
    if _pybase64:
        text: str = _pybase64.b64encode_as_string(data, b"-_")
        return text.rstrip("=")
    padded = b2a_base64(data, newline=False).replace(b"+", b"-").replace(b"/", b"_")
    return padded.rstrip(b"=").decode("ascii")


def encode_alike_base64url(parts: Sequence[bytes]) -> list[str]:
    """Encode parts of one size, not 0, in one pass."""
    if len(parts) < 2:
        return [encode_base64url(part) for part in parts]
    size = len(parts[0])
    fill = bytes(-size % 3)  # to whole groups of four characters; `cut` removes its characters
    text = encode_base64url(fill.join(parts) + fill)
    return cut(text, (size + len(fill)) // 3 * 4, (size * 4 + 2) // 3)


def cut(whole: AnyStr, step: int, size: int) -> list[AnyStr]:
    """Cut a text into steps, and return the first ``size`` characters of each."""
    return [whole[start : start + size] for start in range(0, len(whole), step)]


def decode_base64url(text: str, where: Where, *within: str) -> bytes:
    """Decode base64url without padding. Each byte string has one valid text (R-5).

    Args:
        where: its place, or the place of its container.
        within: its name in the container, if any.

    Raises:
        Refused: ``encoding.base64url`` for an empty text, another character, padding, or spare bits that are not zero.
    """
    padded = text + _PADDING[len(text) % 4]
    try:
        if _pybase64 and "+" not in text and "/" not in text:
            data: bytes = _pybase64.b64decode(padded, b"-_", True)
        else:
            data = a2b_base64(padded.replace("-", "+").replace("_", "/"))
    except ValueError:
        data = b""
    if not data or encode_base64url(data) != text:  # several texts decode to the same bytes
        raise Refused(Rule.BASE64URL, where.within(*within))
    return data


def decode_json(text: str, where: Where, depth: int) -> tuple[bytes, JsonValue]:
    """Decode base64url of JSON to its bytes and value.

    It equals ``decode_base64url`` followed by ``parse_json``, and is faster.

    Raises:
        Refused: as these two.
    """
    if _orjson and _pybase64 and "+" not in text and "/" not in text:
        try:
            data: bytes = _pybase64.b64decode(text + _PADDING[len(text) % 4], b"-_", True)
            if _excess(data, depth) is None and _pybase64.b64encode_as_string(data, b"-_").rstrip("=") == text:
                found: JsonValue = _orjson.loads(data)
                if _orjson.dumps(found) == data:
                    return data, found
        except (ValueError, TypeError):
            pass  # the strict path below finds the fault
    data = decode_base64url(text, where)
    return data, parse_json(data, where, depth)


def decode_json_object(text: str, where: Where, depth: int) -> JsonObject:
    """Decode as ``decode_json``, and require an object.

    Raises:
        Refused: as ``decode_json``; ``json.malformed`` for any other JSON value.
    """
    value = decode_json(text, where, depth)[1]
    if not isinstance(value, dict):
        raise Refused(Rule.JSON_MALFORMED, where, _NO_OBJECT)
    return value


def check_containers(text: str, where: Where, depth: int) -> None:
    """Refuse arrays and objects as ``decode_json`` would, without building them.

    Raises:
        Refused: ``json.depth``, ``limit.containers`` or ``encoding.base64url``.
    """
    excess = _excess(decode_base64url(text, where), depth)
    if excess:
        raise Refused(excess, where)


def encode_json(value: JsonValue) -> bytes:
    """Encode as compact UTF-8 JSON.

    Raises:
        Misuse: for a lone surrogate, NaN, an infinity, or unbounded nesting.
    """
    if _orjson:
        try:
            text: bytes = _orjson.dumps(value, None, _AS_JSON_ALONE)
        except TypeError:
            text = _NULL
        if text.rfind(_NULL) < 0:
            return text
    try:
        return _ENCODER.encode(value).encode()
    except (ValueError, RecursionError):
        raise Misuse(
            "JSON cannot express this value: it has a lone surrogate, NaN or infinity, or is nested too deeply"
        ) from None


def parse_json(data: bytes, where: Where, depth: int) -> JsonValue:
    """Parse UTF-8 JSON. A value is never repaired or rounded (R-57).

    Args:
        data: the text. The caller bounds its size.
        depth: how deeply arrays and objects may nest.

    Raises:
        Refused: ``encoding.utf8``, ``json.malformed``, ``json.duplicate-member``, ``json.number``, ``json.surrogate``,
            ``json.depth`` or ``limit.containers``.
    """
    excess = _excess(data, depth)
    if _orjson and excess is None:
        try:
            found: JsonValue = _orjson.loads(data)
            written: bytes = _orjson.dumps(found)
            if written == data or written.translate(None, _SPACE) == data.translate(None, _SPACE):
                return found  # equal but for white space: nothing was repeated or rounded
        except (ValueError, TypeError):
            pass  # the strict path below finds the fault
    text = _decode_utf8(data)
    if text is None:
        raise Refused(Rule.UTF8, where, why_not_utf8(data))
    if excess:
        raise Refused(excess, where)
    value, fault, hint = _read_json(text)
    if fault:
        raise Refused(fault, where, hint)
    return value


def parse_json_object(data: bytes, where: Where, depth: int) -> JsonObject:
    """Parse as ``parse_json``, and require an object.

    Raises:
        Refused: as ``parse_json``; ``json.malformed`` for any other JSON value.
    """
    value = parse_json(data, where, depth)
    if not isinstance(value, dict):
        raise Refused(Rule.JSON_MALFORMED, where, _NO_OBJECT)
    return value


def copied(value: JsonObject) -> JsonObject:
    """Make a deep copy."""
    copy: JsonObject = marshal.loads(marshal.dumps(value))
    return copy


def has_more_values(value: JsonValue, most: int) -> bool:
    """Whether a value contains more than ``most`` values, itself included."""
    waiting = [value]
    for one in waiting:  # which grows
        waiting += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        if len(waiting) > most:
            return True
    return False


def same_json(one: Any, other: Any) -> bool:
    """Whether two JSON values have the same type and value; ``1`` and ``1.0`` differ."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_json(value, other[name]) for name, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same_json, one, other))
    return bool(one == other)


def why_not_utf8(data: bytes) -> str:
    """Return a hint for bytes that are not UTF-8."""
    return "It is UTF-16: save it as UTF-8." if data[:2] in (BOM_UTF16_LE, BOM_UTF16_BE) else ""


def _decode_utf8(data: bytes) -> str | None:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _read_json(text: str) -> tuple[JsonValue, Rule | None, str]:
    """Return the value; or the broken rule with a hint.

    The caller raises the refusal, so that it does not carry these exceptions and the text in them.
    """
    text = text.rstrip(_JSON_SPACE)
    try:
        value, end = _DECODER.raw_decode(text, len(text) - len(text.lstrip(_JSON_SPACE)))
    except _Inexact as inexact:
        return None, inexact.rule, ""
    except json.JSONDecodeError as error:
        return None, Rule.JSON_MALFORMED, _fault(text, error.pos, error.msg)
    except RecursionError:
        return None, Rule.JSON_MALFORMED, ""
    except ValueError:  # the interpreter's bound on the digits of an integer
        return None, Rule.JSON_NUMBER, ""
    if end != len(text):
        return None, Rule.JSON_MALFORMED, _fault(text, end, "Extra data")
    if "\\u" in text and _has_lone_surrogate(value):
        return None, Rule.JSON_SURROGATE, ""
    return value, None, ""


def _fault(text: str, at: int, message: str) -> str:
    """Describe a syntax error: line, column and kind.

    The description quotes nothing of the text except punctuation.
    """
    if not text:
        return "It is empty."
    if message == "Extra data":
        at += len(text[at:]) - len(text[at:].lstrip(_JSON_SPACE))
    before = text[:at].rstrip(_JSON_SPACE)
    if text[at : at + 1] in ("]", "}") and before.endswith(","):
        at = len(before) - 1  # where Python 3.13 says that it is
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return f"Line {line}, column {column}: {_why(text, at, message)}."


def _why(text: str, at: int, message: str) -> str:
    found = text[at : at + 1]
    if not found:
        return "the text ends too early"
    if found == "\ufeff":
        return "remove the byte order mark"
    if found == "#" or text[at : at + 2] in ("//", "/*"):
        return "JSON has no comments"
    if found in "'\u2018\u2019\u201c\u201d\u201e":
        return "names and strings need straight double quotes"
    if found == "," and text[at + 1 :].lstrip(_JSON_SPACE)[:1] in ("]", "}"):
        return "remove the comma before the closing bracket"
    what = next((what for begins, what in _EXPECTED if message.startswith(begins)), "a value is expected")
    return f"`{found}` is unexpected: {what}" if found in "{}[]:," else what


class _Inexact(Exception):
    """The JSON is well-formed, but its value would differ from its text."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule


def _unique(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _Inexact(Rule.JSON_DUPLICATE)
    return members


def _exact(literal: str) -> float:
    number = float(literal)
    written = repr(number)
    if written == literal:
        return number
    try:
        kept = Decimal(literal) == Decimal(written)
    except InvalidOperation:  # an exponent beyond what even Decimal can hold
        kept = False
    if not kept:
        raise _Inexact(Rule.JSON_NUMBER)
    return number


def _no_constant(_: str) -> NoReturn:
    raise _Inexact(Rule.JSON_NUMBER)


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_exact, parse_constant=_no_constant)
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False)


def _excess(data: bytes, depth: int) -> Rule | None:
    """Return the rule that too many or too deep containers break, before any is built.

    The result is exact up to the first syntax error. Each step is one pass in C. ``replace`` skips bytes that ``count``
    would look at.
    """
    size = len(data)
    if size <= depth or 2 * size - len(data.replace(b"[", b"")) - len(data.replace(b"{", b"")) <= depth:
        return None
    outside = b"".join(data.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])
    steps = outside.translate(_STEPS, _NO_BRACKETS)
    most = max(MOST_CONTAINERS, size // BYTES_PER_CONTAINER)
    if max(accumulate(array("b", steps[: 2 * most])), default=0) > depth:
        return Rule.JSON_DEPTH
    return Rule.LIMIT_CONTAINERS if steps.count(1) > most else None


def _has_lone_surrogate(value: JsonValue) -> bool:
    try:
        encode_json(value)
    except Misuse:
        return True
    return False


K = TypeVar("K")
V = TypeVar("V")


def frozen(mapping: Mapping[K, V]) -> MappingProxyType[K, V]:
    """Make an immutable shallow copy of a mapping."""
    return MappingProxyType(dict(mapping))


def _reduced(mapping: MappingProxyType[K, V]) -> tuple[Callable[[Mapping[K, V]], MappingProxyType[K, V]], Any]:
    return frozen, (dict(mapping),)


copyreg.pickle(MappingProxyType, _reduced)  # the one type in our values that Python itself does not pickle
