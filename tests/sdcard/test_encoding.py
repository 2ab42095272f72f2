"""Strict base64url and strict JSON: one spelling in, one spelling out, and every other text refused quickly."""

import json
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdcard import Misuse, Refused, encoding
from sdcard.encoding import (
    JsonValue,
    cut,
    decode_base64url,
    decode_json,
    encode_alike_base64url,
    encode_base64url,
    encode_json,
    parse_json,
    parse_json_object,
    same_json,
)
from sdcard.errors import Part, Where
from sdcard.limits import MOST_CONTAINERS
from tests.world import outcome, raises_rule

HERE = Where(Part.CARD)


@pytest.fixture(autouse=True, scope="module", params=["with the extra fast", "without it"])
def libraries(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test of this file holds either way."""
    if request.param == "without it":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(encoding, "_orjson", None)
            patch.setattr(encoding, "_pybase64", None)
            yield
    else:
        pytest.importorskip("orjson")
        pytest.importorskip("pybase64")
        yield


# -- base64url --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "data"),
    [("AA", b"\0"), ("_w", b"\xff"), ("AAA", bytes(2)), ("-_8", b"\xfb\xff"), ("AAAA", bytes(3)), ("Zm9vYg", b"foob")],
)
def test_one_spelling(text: str, data: bytes) -> None:
    assert decode_base64url(text, HERE) == data
    assert encode_base64url(data) == text


def test_many_of_one_size_are_written_as_each_alone() -> None:
    for size in range(1, 70):
        parts = [bytes([(7 * number + place) % 256 for place in range(size)]) for number in range(5)]
        assert encode_alike_base64url(parts) == [encode_base64url(part) for part in parts]
    assert encode_alike_base64url([]) == []


@pytest.mark.parametrize("count", [0, 1, 2, 64, 65])
@pytest.mark.parametrize(("step", "size"), [(1, 1), (3, 3), (4, 3)])
def test_a_text_is_cut_into_pieces_of_one_size(count: int, step: int, size: int) -> None:
    whole = "abcdefghij" * 26
    assert cut(whole[: count * step], step, size) == [whole[n * step :][:size] for n in range(count)]
    assert cut(whole[: count * step].encode(), step, size) == [whole[n * step :][:size].encode() for n in range(count)]


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_is_no_json_number_is_not_written(number: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        encode_json({"a": number})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A",
        "AAAAA",
        "AB",
        "AAB",
        "_x",
        "-_9",
        "AA==",
        "AA=",
        "AAA=",
        "=",
        "A+",
        "A/",
        "AA\n",
        "\nAA",
        " AA",
        "AA ",
        "A A",
        "AA.AA",
        "AA~A",
        "AA\0A",
        "\u00c4\u00c4",
        "\uff21\uff21",
        "\u0661\u0661",
        "!!!!",
        "\ud800AAA",
    ],
)
def test_every_other_spelling_is_refused(text: str) -> None:
    with raises_rule("encoding.base64url", at="card"):
        decode_base64url(text, HERE)


@given(st.binary(min_size=1, max_size=70))
def test_bytes_come_back(data: bytes) -> None:
    assert decode_base64url(encode_base64url(data), HERE) == data


@given(st.text(alphabet="AQgwBZaz09-_=+/ \n", min_size=1, max_size=6))
def test_a_text_is_refused_or_is_the_only_one(text: str) -> None:
    result = outcome(lambda: decode_base64url(text, HERE))
    assert isinstance(result, Refused) or encode_base64url(result) == text


# -- JSON -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("null", None),
        ("-0", 0),
        ("0.1", 0.1),
        ("1.0", 1.0),
        ("1e2", 100.0),
        ("1E+2", 100.0),
        ("5e-324", 5e-324),
        ("1.7976931348623157e308", 1.7976931348623157e308),
        ("0.30000000000000004", 0.30000000000000004),
        ("-0.0", -0.0),
        ("9007199254740993", 9007199254740993),
        ("1" * 4000, int("1" * 4000)),
        ('"\\ud83d\\ude00"', "\U0001f600"),
        ('"\\u0000"', "\0"),
        ('{"a":{"a":1}}', {"a": {"a": 1}}),
        ('{"":1}', {"": 1}),
        ('"[[[[[[[[[[[[["', "[[[[[[[[[[[[["),
        ('"\\"[[[[[[[[[[[[["', '"[[[[[[[[[[[[['),
        ('["\\\\",[[[]]]]', ["\\", [[[]]]]),
        (" [1 ,\n2 ]\t\r", [1, 2]),
    ],
)
def test_json_is_read_exactly(text: str, value: Any) -> None:
    assert same_json(parse_json(text.encode(), HERE, 4), value)


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b"", "json.malformed"),
        (b" ", "json.malformed"),
        (b"{", "json.malformed"),
        (b"[1,]", "json.malformed"),
        (b"{'a':1}", "json.malformed"),
        (b'{"a":1,}', "json.malformed"),
        (b"{a:1}", "json.malformed"),
        (b"01", "json.malformed"),
        (b"+1", "json.malformed"),
        (b".5", "json.malformed"),
        (b"1.", "json.malformed"),
        (b"0x10", "json.malformed"),
        (b"True", "json.malformed"),
        (b"1 2", "json.malformed"),
        (b"null\0", "json.malformed"),
        (b'"a\nb"', "json.malformed"),
        (b'"\\x41"', "json.malformed"),
        (b"// a\n1", "json.malformed"),
        ("\ufeff{}".encode(), "json.malformed"),
        ('{"a":1}'.encode("utf-16"), "encoding.utf8"),
        (b"\xff", "encoding.utf8"),
        (b'"\xc0\x80"', "encoding.utf8"),
        (b'"\xed\xa0\x80"', "encoding.utf8"),
        (b'"\xf4\x90\x80\x80"', "encoding.utf8"),
        (b'{"a":1,"a":1}', "json.duplicate-member"),
        (b'{"a":1,"\\u0061":2}', "json.duplicate-member"),
        (b'[{"b":{"a":1,"a":null}}]', "json.duplicate-member"),
        (b"NaN", "json.number"),
        (b"Infinity", "json.number"),
        (b"[-Infinity]", "json.number"),
        (b"1e400", "json.number"),
        (b"-1e400", "json.number"),
        (b"1e-400", "json.number"),
        (b"1e9999999999999999999999", "json.number"),
        (b"1e-9999999999999999999999", "json.number"),
        (b"0.1234567890123456789012345", "json.number"),
        (b"9007199254740993.0", "json.number"),
        (b'"\\ud800"', "json.surrogate"),
        (b'{"\\udc00":1}', "json.surrogate"),
        (b'["\\ude00\\ud83d"]', "json.surrogate"),
        (b"[[[[[]]]]]", "json.depth"),
        (b'{"a":{"a":{"a":{"a":{}}}}}', "json.depth"),
    ],
)
def test_everything_else_is_refused(data: bytes, rule: str) -> None:
    with raises_rule(rule, at="card"):
        parse_json(data, HERE, 4)


@pytest.mark.parametrize("depth", [3, 4, 5])
def test_depth_at_its_bound(depth: int) -> None:
    for text in (
        "[" * depth + "]" * depth,
        '{"a":' * depth + "1" + "}" * depth,
        "[[],[]," * (depth - 1) + "[]" + "]" * (depth - 1),
    ):
        if depth > 4:
            with raises_rule("json.depth", at="card"):
                parse_json(text.encode(), HERE, 4)
        else:
            assert parse_json(text.encode(), HERE, 4) is not None


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        pytest.param(b"[" * 100_000, "json.depth", id="brackets"),
        pytest.param(b"[" * 65, "json.depth", id="one bracket too many"),
        pytest.param(b'{"a":' * 65, "json.depth", id="one object too many"),
        pytest.param(b"[" * 50_000 + b"]" * 50_000, "json.depth", id="closed brackets"),
        pytest.param(b'{"a":' * 100_000, "json.depth", id="objects"),
        pytest.param(b"1" * 5_000, "json.number", id="digits"),
        pytest.param(b"[" + b"1" * 500_000 + b"]", "json.number", id="more digits"),
        pytest.param(b"0." + b"1" * 500_000, "json.number", id="a long fraction"),
        pytest.param(b"1e" + b"1" * 500_000, "json.number", id="a long exponent"),
        pytest.param(b'"' + b"\\" * 500_001, "json.malformed", id="backslashes"),
        pytest.param(b'["' * 3 + b'\\"' * 250_000, "json.malformed", id="quotes"),
        pytest.param(b"[" + b'"' * 300_001, "json.malformed", id="empty strings"),
    ],
)
def test_hostile_texts_are_refused_quickly(data: bytes, rule: str) -> None:
    began = time.process_time()
    with raises_rule(rule, at="card"):
        parse_json(data, HERE, 64)
    assert time.process_time() - began < 1


@pytest.mark.parametrize("inside", [b"[]", b"{}", b'{"[{":"}]"}', b'{"\\\\":"\\"[{"}', b"[ ]", b'"[",[]'])
def test_arrays_and_objects_are_counted_at_their_bound(inside: bytes) -> None:
    def text(count: int) -> bytes:
        return b"[" + b",".join([inside] * (count - 1)) + b"]"

    assert isinstance(parse_json(text(MOST_CONTAINERS), HERE, 2), list)
    assert decode_json(encode_base64url(text(MOST_CONTAINERS)), HERE, 2)[0] == text(MOST_CONTAINERS)
    with raises_rule("limit.containers", at="card"):
        parse_json(text(MOST_CONTAINERS + 1), HERE, 2)
    with raises_rule("limit.containers", at="card"):
        decode_json(encode_base64url(text(MOST_CONTAINERS + 1)), HERE, 2)


def test_a_longer_text_may_have_more_of_them() -> None:
    text = b"[" + b",".join([b'{"...":"' + b"A" * 43 + b'"}'] * 2 * MOST_CONTAINERS) + b"]"
    assert isinstance(parse_json(text, HERE, 2), list)


@pytest.mark.parametrize("inside", [b"[]", b"[" * 63 + b"]" * 63, b'{"":0}', b"[ ]", b'["\\u00e9",{}]'])
def test_a_megabyte_of_arrays_and_objects_costs_little(inside: bytes) -> None:
    text = b"[" + b",".join([inside] * (1_000_000 // (len(inside) + 1))) + b"]"
    began = time.process_time()
    with raises_rule("limit.containers", at="card"):
        parse_json(text, HERE, 64)
    assert time.process_time() - began < 0.1


WRITTEN = st.recursive(
    st.sampled_from(["[", '"]', "{}", "\\", '\\"', "\\[", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(['"', "{", "\\"]), inner, max_size=3),
    max_leaves=12,
)


def depth_of(value: Any) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list) else 0


@given(WRITTEN, st.integers(0, 5), st.sampled_from([None, 1]))
def test_depth_is_exact_whatever_texts_hold(value: Any, depth: int, indent: int | None) -> None:
    text = json.dumps(value, indent=indent).encode()
    if depth_of(value) > depth:
        with raises_rule("json.depth", at="card"):
            parse_json(text, HERE, depth)
    else:
        assert parse_json(text, HERE, depth) == value


def test_what_is_written_as_we_would_is_read_at_once_whatever_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "_orjson", pytest.importorskip("orjson"))
    monkeypatch.setattr(encoding, "_read_json", lambda _: pytest.fail("read a second time"))
    value: JsonValue = [{"id": str(number), "tags": ["[", '"{', "\\"]} for number in range(5_000)]
    assert parse_json(encode_json(value), HERE, 64) == value
    assert parse_json(json.dumps(value, indent=1).encode(), HERE, 64) == value


@pytest.mark.parametrize("data", [b"[]", b"1", b'"{}"', b"null"])
def test_an_object_is_an_object(data: bytes) -> None:
    assert parse_json_object(b'{"a":1}', HERE, 4) == {"a": 1}
    with raises_rule("json.malformed", at="card"):
        parse_json_object(data, HERE, 4)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_what_is_written_is_read(value: Any) -> None:
    assert same_json(parse_json(encode_json(value), HERE, 64), value)


def read_both_ways(data: bytes) -> tuple[Any, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoding, "_orjson", None)
        unaided = outcome(lambda: parse_json(data, HERE, 8))
    return outcome(lambda: parse_json(data, HERE, 8)), unaided


@given(JSON.map(encode_json) | st.text(alphabet='[]{}",:\\u0123456789eE.-+ntfalsr d', max_size=40).map(str.encode))
def test_the_extra_fast_changes_no_outcome(data: bytes) -> None:
    one, other = read_both_ways(data)
    assert str(one) == str(other)


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":1}',
        "[1.0,-0,-0.0]",
        "12345678901234567890",
        "123456789012345678901",
        "1e16",
        "1e+16",
        "1e-05",
        "1e-5",
    ]
    + [
        "0.1000000000000000055",
        "9007199254740993.0",
        '"\\ud800"',
        '"\\u00e9"',
        "NaN",
        "[ ]",
        '{"a": 1, "a": 1}',
        '{"a b": 1, "ab": 1, "a  b": " "}',
        '{" a": [1.0, 1.00]}',
        "[1.0 , 9007199254740993.0]",
        '["\\u0020", " "]',
        "[1,\f2]",
        "\ufeff1",
        "[[[[[[[[[1]]]]]]]]]",
    ],
)
def test_what_orjson_alone_would_mend(text: str) -> None:
    one, other = read_both_ways(text.encode())
    assert repr(one) == repr(other)


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {"a": -float("inf")}, "\ud800", {"\udfff": 1}])
def test_what_is_no_json_is_not_written(value: Any) -> None:
    with pytest.raises(Misuse, match="JSON cannot express this value"):
        encode_json(value)


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, '\x1f\x7f\u2028"\\/', {"é": None}, 1.0, -0.0, 0.1, [True, 1]])
def test_what_is_written_looks_the_same_either_way(value: Any) -> None:
    written = encode_json(value)
    assert written == json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


@given(st.binary(max_size=60) | st.text(alphabet='[]{}",:\\u0123456789eE.-+ntfalsr d', max_size=40).map(str.encode))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    result = outcome(lambda: parse_json(data, HERE, 8))
    if isinstance(result, Refused):
        assert result.where == HERE
    else:
        assert same_json(parse_json(encode_json(result), HERE, 8), result)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (1, True),
        (0, False),
        (0, None),
        ("1", 1),
        ([1], [1.0]),
        ({"a": 1}, {"a": True}),
        ([], {}),
        ([1], [1, 1]),
    ],
)
def test_values_of_another_type_are_not_the_same(one: Any, other: Any) -> None:
    assert one is not other
    assert not same_json(one, other)
    assert same_json(one, one)
    assert same_json(other, other)


# -- both at once -----------------------------------------------------------------------------------------------------


def at_once(text: str) -> tuple[bytes, Any]:
    return decode_json(text, HERE, 3)


def in_two_steps(text: str) -> tuple[bytes, Any]:
    data = decode_base64url(text, HERE)
    return data, parse_json(data, HERE, 3)


def said(read: Callable[[str], tuple[bytes, Any]], text: str) -> object:
    found = outcome(lambda: read(text))
    return found.rule if isinstance(found, Refused) else (found[0], repr(found[1]))


@given(st.text("AQgw-_+/=Wxy0IjE\n\u0661", max_size=12))
def test_any_text_is_read_at_once_as_it_is_in_two_steps(text: str) -> None:
    assert said(at_once, text) == said(in_two_steps, text)


@pytest.mark.parametrize(
    "change", [str, lambda text: text + "=", lambda text: text[:-1] + "+", lambda text: text + "A"]
)
@pytest.mark.parametrize(
    "data",
    [
        b'{"a":[1,2.5,"x"]}', b'{"a":1,"a":1}', b"[[[[1]]]]", b"[[[1]]]", b'{"a": 1}', b"[NaN]", b"[1e400]", b"1",
        b'["\\ud800"]', b'["\xff"]', b"[1", b"[0.10000000000000000001]", b"[18446744073709551616]", b'["[[[["]',
        b"\xef\xbb\xbf[]",
    ],
)  # fmt: skip
def test_json_is_read_at_once_as_it_is_in_two_steps(data: bytes, change: Callable[[str], str]) -> None:
    text = change(encode_base64url(data))
    assert said(at_once, text) == said(in_two_steps, text)
