"""Bytes of files → documents: one text is one document, or it is refused with its place, in time that is bounded."""

import time
from functools import partial
from itertools import product

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sdcard.cards.detect import examine_card, parse_card, parse_card_file
from sdcard.cards.documents import ReadDocument, parse_yaml, read_document
from sdcard.encoding import JsonValue, encode_json, parse_json_object, same_json
from sdcard.errors import Level, Part, Refused, Where
from sdcard.limits import DEFAULT_LIMITS, Limits
from tests.groups import examples
from tests.sdcard.cards.documents import georoute
from tests.world import outcome, raises_rule

HERE = Where(Part.CARD)
BOM = b"\xef\xbb\xbf"


def read(text: str) -> ReadDocument:
    return parse_yaml(text.encode(), HERE, DEFAULT_LIMITS.json_depth)


def value_of(scalar: str) -> JsonValue:
    return read(f"a: {scalar}").document["a"]


def warned(text: str) -> list[tuple[str, str, Level]]:
    return [(finding.rule.value, str(finding.where), finding.level) for finding in read(text).findings]


# -- which reader -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [b"", b"\n", b" \t\r\n"])
def test_what_begins_with_a_brace_is_strict_json(before: bytes) -> None:
    assert same_json(read_document(before + encode_json(georoute())).document, georoute())
    with raises_rule("json.malformed", at="card"):
        read_document(before + b"{a: 1}")
    with raises_rule("json.malformed", at="card"):
        read_document(before + b"[1]")
    with raises_rule("json.duplicate-member", at="card"):
        read_document(before + b'{"a":1,"a":1}')


def test_a_byte_order_mark_before_json_is_a_warning_for_files_and_an_error_for_strangers() -> None:
    data = BOM + encode_json(georoute())

    (finding,) = read_document(data).findings
    assert (finding.rule, finding.level) == ("encoding.byte-order-mark", Level.WARNING)
    assert parse_card_file(data).findings == (finding,)
    with raises_rule("json.malformed", at="card"):
        parse_card(data)


def test_a_byte_order_mark_before_yaml_is_part_of_yaml() -> None:
    assert read_document(BOM + b"a: b") == ReadDocument({"a": "b"}, ())


@pytest.mark.parametrize(
    ("data", "rule"), [(BOM + BOM + b"{}", "yaml.malformed"), (BOM + BOM + b"a: b", "yaml.malformed")]
)
def test_a_second_byte_order_mark_is_refused(data: bytes, rule: str) -> None:
    with raises_rule(rule, at="card"):
        read_document(data)


@pytest.mark.parametrize(
    "data", [b"", b"\n# nothing\n", b"null", b"text", b'"text"', b"- a\n- b", b"<html></html>", b"12"]
)
def test_what_is_no_mapping_is_refused(data: bytes) -> None:
    with raises_rule("yaml.malformed", at="card"):
        read_document(data)


def test_the_library_and_its_peers_give_strict_json_only() -> None:
    for data in (b"name: a", yaml.safe_dump(georoute()).encode()):
        with raises_rule("json.malformed", at="card"):
            parse_card(data)


def test_a_card_in_yaml_is_the_card_that_it_is_in_json() -> None:
    data = yaml.safe_dump(georoute(), allow_unicode=True, sort_keys=False).encode()

    assert parse_card_file(data) == parse_card(encode_json(georoute()))
    assert examine_card(data).kind == "a2a/1.0"


def test_what_is_wrong_with_the_text_is_told_with_what_is_wrong_with_the_card() -> None:
    examined = examine_card(yaml.safe_dump(georoute() | {"name": 1}).encode() + b"x-when: 2026-01-01\n")

    told = [(finding.rule.value, str(finding.where)) for finding in examined.findings]
    assert told[:2] == [("card.member-type", "card/name"), ("yaml.ambiguous", "card/x-when")]
    assert examine_card(b"a: *b").findings[0].rule == "yaml.feature"


def test_the_limits_are_those_of_cards() -> None:
    data = b"a: b"
    assert read_document(data, Limits(card_bytes=4, yaml_bytes=4)).document == {"a": "b"}
    for limits in (Limits(card_bytes=3), Limits(yaml_bytes=3)):
        with raises_rule("limit.bytes", at="card"):
            read_document(data, limits)
    assert read_document(b'{"a":1}', Limits(yaml_bytes=3)).document == {"a": 1}


# -- plain scalars ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("null", None),
        ("Null", None),
        ("~", None),
        ("", None),
        ("true", True),
        ("True", True),
        ("FALSE", False),
        ("0", 0),
        ("-12", -12),
        ("0.1", 0.1),
        ("1.10", 1.1),
        ("-1.5e+3", -1500.0),
        ("12345678901234567890123", 12345678901234567890123),
        ("text", "text"),
        ("1.2.3", "1.2.3"),
        ("nULL", "nULL"),
        ("1 000", "1 000"),
        ("'1'", "1"),
        ('"true"', "true"),
        ("|\n  12\n", "12\n"),
        (">-\n  null\n", "null"),
        ("[a, {b: c}]", ["a", {"b": "c"}]),
        ("kno://specs/x#y", "kno://specs/x#y"),
        ("pspace-{slug} realm", "pspace-{slug} realm"),
        (r'"\u00fc \U0001F600 \0"', "ü 😀 \0"),
    ],
)
def test_what_both_versions_of_yaml_agree_on_is_read_so(scalar: str, value: JsonValue) -> None:
    assert same_json(value_of(scalar), value)
    assert read(f"a: {scalar}").findings == ()


@pytest.mark.parametrize(
    "scalar",
    [
        *("yes", "no", "On", "OFF", "y", "N"),
        *("2026-03-15", "2026-03-15T23:45:00Z", "2001-12-14 21:59:43.10 -5", "2026-3-1"),
        *("12:30", "190:20:30.15", "1_000", "0b11", "0o17", "08", "1_0.5", "-0x1F"),
        *("1e3", "1E5", "1.5e3", "12e03"),
        *("=", "<<"),
    ],
)
def test_what_they_do_not_agree_on_stays_text_with_a_warning(scalar: str) -> None:
    assert value_of(scalar) == scalar
    assert warned(f"a: {scalar}") == [("yaml.ambiguous", "card/a", Level.WARNING)]
    assert read(f"a: '{scalar}'") == ReadDocument({"a": scalar}, ())


@pytest.mark.parametrize(
    "scalar",
    [
        ".inf",
        "-.INF",
        ".nan",
        ".NaN",
        "0x1F",
        "+1",
        "+1.5",
        ".5",
        "-.5",
        "1.",
        "007",
        "01.5",
        "0.1000000000000000055511151231257827",
    ]
    + ["9" * 5000, "1.0e+999"],
)
def test_numbers_that_json_would_not_spell_or_keep_are_refused(scalar: str) -> None:
    with raises_rule("json.number", at="card/a"):
        value_of(scalar)


def test_every_scalar_that_pyyaml_takes_for_something_else_is_the_same_to_us_or_refused_or_warned_about() -> None:
    """A second opinion on our table of YAML 1.1."""
    told_apart = 0
    for text in map("".join, product("0179_.+-:eExXonyNtTfFlu~=<b ", repeat=3)):
        result = outcome(partial(read, f"a: {text}"))
        if isinstance(result, ReadDocument) and not result.findings:
            theirs = yaml.safe_load(f"a: {text}")
            assert same_json(result.document, theirs), text
            told_apart += not isinstance(theirs["a"], str)
    assert told_apart > 100


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rule", "at"),
    [
        ("a: 1\na: 2", "json.duplicate-member", "card/a"),
        ('a: 1\n"a": 2', "json.duplicate-member", "card/a"),
        ("x:\n  - {b: 1, c: 2, b: 1}", "json.duplicate-member", "card/x/0/b"),
        ("'<<': 1\n'<<': 2", "json.duplicate-member", "card/<<"),
        ("a: &x 1", "yaml.feature", "card/a"),
        ("&x a: 1", "yaml.feature", "card"),
        ("a: &x [b]\nc: *x", "yaml.feature", "card/a"),
        ("a: *x", "yaml.feature", "card/a"),
        ("*x : 1", "yaml.feature", "card"),
        ("--- &x\na: 1", "yaml.feature", "card"),
        ("a: {<<: {b: 1}}", "yaml.feature", "card/a"),
        ("<<: [{b: 1}, {c: 2}]", "yaml.feature", "card"),
        ("a: !!str 1", "yaml.feature", "card/a"),
        ("a: ! 1", "yaml.feature", "card/a"),
        ("a: !custom {b: c}", "yaml.feature", "card/a"),
        ("a: !!binary aGk=", "yaml.feature", "card/a"),
        ("a: !!set {b, c}", "yaml.feature", "card/a"),
        ("a: !!omap [b: 1]", "yaml.feature", "card/a"),
        ("a: !!timestamp 2001-01-01", "yaml.feature", "card/a"),
        ("a: !!python/object/apply:os.system ['true']", "yaml.feature", "card/a"),
        ("a: !!python/name:os.system", "yaml.feature", "card/a"),
        ("!!map {a: 1}", "yaml.feature", "card"),
        ("!!str a: 1", "yaml.feature", "card"),
        ("%TAG ! tag:example.com,2026:\n---\na: 1", "yaml.feature", "card"),
        ("a: 1\n---\nb: 2", "yaml.feature", "card"),
        ("a: 1\n...\n---\n", "yaml.feature", "card"),
        ("1: a", "yaml.feature", "card"),
        ("null: a", "yaml.feature", "card"),
        ("?\n: a", "yaml.feature", "card"),
        ("x: {true: a}", "yaml.feature", "card/x"),
        ("? [a, b]\n: c", "yaml.feature", "card"),
        ("? {a: b}\n: c", "yaml.feature", "card"),
        ("{a: b}: c", "json.malformed", "card"),
        ("a: [", "yaml.malformed", "card"),
        ("a: 'b", "yaml.malformed", "card"),
        ("a: b: c", "yaml.malformed", "card"),
        ("a: @b", "yaml.malformed", "card"),
        ("a:\n\tb: c", "yaml.malformed", "card"),
        ("a: {b: [c}", "yaml.malformed", "card"),
        ("a: !h!b c", "yaml.malformed", "card"),
        ("%YAML 3.0\n---\na: 1", "yaml.malformed", "card"),
        ("%YAML 1." + "1" * 5000 + "\n---\na: 1", "yaml.malformed", "card"),
        ("a: b\0c", "yaml.malformed", "card"),
        ("a: b\x07", "yaml.malformed", "card"),
        ("a: b\x7f", "yaml.malformed", "card"),
        ("a: b\ufffe", "yaml.malformed", "card"),
        (r'a: "\UFFFFFFFF"', "yaml.malformed", "card"),
        (r'a: "\q"', "yaml.malformed", "card"),
        (r'a: "\ud83d\ude00"', "json.surrogate", "card/a"),
        (r'"\udc00": 1', "json.surrogate", "card"),
        ("a: b\x85c", "yaml.ambiguous", "card"),
        ("a: b\u2028c", "yaml.ambiguous", "card"),
        ("a: 'b\u2029c'", "yaml.ambiguous", "card"),
    ],
)
def test_what_json_cannot_say_or_readers_differ_on_is_refused(text: str, rule: str, at: str) -> None:
    with raises_rule(rule, at):
        read_document(text.encode())


@pytest.mark.parametrize("data", [b"a: \xff", b"\xff\xfea\0:\0 \0b\0", b"a: \xed\xa0\x80", b"a: \xc0\xaf", b"\x80"])
def test_bytes_that_are_not_utf8_are_refused(data: bytes) -> None:
    with raises_rule("encoding.utf8", at="card"):
        read_document(data)


@pytest.mark.parametrize(
    "text", ["a: &secret-1 x", "secret-1: {a: 1, a: 2, b: [", "a: !secret-1 x", "a: 'secret-1", "1: secret-1"]
)
def test_refusals_quote_nothing_and_carry_nothing(text: str) -> None:
    with pytest.raises(Refused) as caught:
        read(text)
    assert "secret-1" not in "".join(finding.hint for finding in caught.value.findings)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_a_version_of_yaml_may_be_named() -> None:
    for version in ("1.1", "1.2"):
        assert read(f"%YAML {version}\n---\na: no\n...\n").document == {"a": "no"}


def test_the_line_of_a_fault_is_told() -> None:
    with pytest.raises(Refused) as caught:
        read("a: b\nc: 'd\n\n")
    assert "line 4" in caught.value.findings[0].hint


# -- bounds -----------------------------------------------------------------------------------------------------------

SIZE = DEFAULT_LIMITS.yaml_bytes


@pytest.mark.parametrize(
    ("before", "opening", "after"),
    [("a: ", "[", "]"), ("", "{a: ", "}"), ("a:\n  ", "- ", "")],
    ids=["list", "map", "block"],
)
def test_nesting_is_bounded(before: str, opening: str, after: str) -> None:
    def nested(times: int) -> ReadDocument:
        return parse_yaml(f"{before}{opening * times}b{after * times}".encode(), HERE, 8)

    assert nested(7).document
    with raises_rule("json.depth", at="card"):
        nested(9)
    with raises_rule("json.depth", at="card"):
        nested(50_000)


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "x" * SIZE,
        "a: [" + ("[" * 60 + "]" * 60 + ",") * (SIZE // 122) + "]",
        "a: [" + "1," * (SIZE // 2),
        "a: [" + "{}," * (SIZE // 3),
        "[" * SIZE,
        "a: " + "[" * SIZE,
        "a: " + "{" * SIZE,
        "- " * (SIZE // 2),
        "? " * (SIZE // 2),
        ": " * (SIZE // 2),
        "--- a\n" * (SIZE // 6),
        "%a\n" * (SIZE // 3),
        "&a " * (SIZE // 3),
        "a: !" + "%41" * (SIZE // 3),
        "a: '" + "\n" * SIZE,
        'a: "' + "\\\n" * (SIZE // 2),
        "a: |\n" + "  x\n" * (SIZE // 4),
        "a: " + "1:" * (SIZE // 2),
        "a: " + "1_" * (SIZE // 2),
        "a: " + "9" * SIZE,
        "#" * SIZE,
        "\n" * SIZE,
        "a: no\n" + "".join(f"b{n}: no\n" for n in range(SIZE // 12)),
    ],
    ids=lambda text: text[:12].encode().hex(),
)
def test_the_time_for_hostile_text_is_bounded(text: str) -> None:
    start = time.process_time()
    result = outcome(lambda: read(text[:SIZE]))

    assert isinstance(result, Refused | ReadDocument)
    assert time.process_time() - start < 20  # 1.2 s on an idle machine; what is not linear takes minutes


def test_a_laughing_text_does_not_grow() -> None:
    lines = ["a0: &a0 [x, x, x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}]" for n in range(1, 30)]
    with raises_rule("yaml.feature", at="card/a0"):
        read("\n".join(lines))


# -- properties -------------------------------------------------------------------------------------------------------

SNIPPETS = st.lists(
    st.sampled_from(
        [*"ab:-?![]{}&*#|>'\"%@`,~=\\\n\r\t 0189._+eExo", ": ", "- ", "\n  ", "<<", "---\n", "...\n", "!!", "\\U",
         "\\x", "\ufeff", "\x85", "\u2028", "é", "yes", "null", "1.5", "%YAML 1.2\n", "%TAG ! x\n", "'x'", '"x"', "a: "]
    ),
    max_size=30,
).map("".join)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)


@given(st.binary(max_size=80) | SNIPPETS.map(str.encode))
@example(b"a: ")
@settings(max_examples=examples(500))
def test_any_bytes_give_a_document_or_are_refused(data: bytes) -> None:
    result = outcome(lambda: read_document(data))
    if isinstance(result, ReadDocument):
        assert same_json(parse_json_object(encode_json(result.document), HERE, 64), result.document)
        assert all(finding.level is not Level.ERROR for finding in result.findings)


@given(SNIPPETS)
@settings(max_examples=examples(500))
def test_where_pyyaml_reads_the_same_text_it_reads_what_we_do_unless_we_say_otherwise(text: str) -> None:
    result = outcome(lambda: read(text))
    if isinstance(result, ReadDocument) and not result.findings:
        assert same_json(yaml.safe_load(text), result.document)


@given(st.dictionaries(st.text(max_size=8), VALUES, max_size=4))
@settings(max_examples=examples(200))
def test_what_pyyaml_writes_is_read_back_or_refused_never_changed(document: dict[str, JsonValue]) -> None:
    result = outcome(
        lambda: read_document(yaml.safe_dump(document, allow_unicode=False, default_flow_style=False).encode())
    )
    if isinstance(result, ReadDocument) and not result.findings:
        assert same_json(result.document, document)
