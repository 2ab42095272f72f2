"""Values of AgentCards, and the JSON Schemas in them."""

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from sdcard.cards.agentcard.dialects import DRAFT
from sdcard.cards.agentcard.values import _KEYWORDS, MOST_WORK, Amount, Endpoint, faulty_schemas
from sdcard.cards.detect import examine_card
from sdcard.encoding import JsonObject, JsonValue, encode_json
from sdcard.errors import Finding, Level, Part, Where
from tests.sdcard.cards.agentcard.cards import MINIMAL, told
from tests.sdcard.cards.documents import Told
from tests.steps import steps

# -- Amounts as they are written, and URLs as RFC 3986 has them, fitting their protocol -------------------------------

COST = "card/pricing/base_cost_joules"


@pytest.mark.parametrize(
    "literal", ["0", "0.0", "-0", "-0.0", "0e9", "2.854e-21", "2.8540000000000005e-21", "1", "9" * 400]
)
def test_a_cost_is_zero_or_at_least_the_floor(literal: str) -> None:
    assert cost(literal) == set()


@pytest.mark.parametrize("literal", ["2.853999e-21", "2.8539999999999997e-21", "1e-30", "5e-324", "0.1e-21"])
def test_a_cost_between_is_no_cost_of_anything_physical(literal: str) -> None:
    assert cost(literal) == {("error", "agentcard.cost-floor", COST)}


@pytest.mark.parametrize("literal", ["1e-400", "2.853999999999999999999999e-21", "1e999", "-1e-400", "NaN", "Infinity"])
def test_a_cost_that_binary_cannot_hold_is_refused_as_it_is_written(literal: str) -> None:
    """Binary numbers would make zero of one cost, and the floor of another."""
    assert cost(literal) <= {("error", "json.number", "card"), ("error", "json.malformed", "card")}
    assert cost(literal)


@pytest.mark.parametrize(
    ("literal", "rule"),
    [
        ("-1", "card.member-value"),
        ("-1e-30", "card.member-value"),
        ("true", "card.member-type"),
        ('"1"', "card.member-type"),
        ("[1]", "card.member-type"),
    ],
)
def test_a_cost_is_a_number_that_is_not_negative(literal: str, rule: str) -> None:
    assert cost(literal) == {("error", rule, COST)}


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_document_from_elsewhere_may_hold_what_json_cannot(number: float) -> None:
    (finding,) = Amount().check(number, Where(Part.CARD))
    assert finding.rule == "card.member-value"


def cost(literal: str) -> Told:
    text = encode_json(MINIMAL)[:-1] + b',"pricing":{"base_cost_joules":' + literal.encode() + b"}}"
    return {(f.level.value, f.rule.value, str(f.where)) for f in examine_card(text).findings}


GOOD = [
    ("https", "https://a.example"),
    ("https", "HTTPS://user@A.example:443/x;y=1/%C3%A9?q=a/b?#f"),
    ("https", "https://[2001:db8::1]:8443/"),
    ("https", "https://a.example:/"),
    ("http", "http://127.0.0.1:80"),
    ("grpc", "grpcs://a.example:443"),
    ("grpc", "grpc://a.example"),
    ("stdio", "stdio:agent"),
    ("stdio", "stdio:/usr/bin/agent"),
    ("mcp", "mcp://a.example/agent"),
]
UNUSUAL = [
    ("stdio", "file:///usr/bin/agent"),
    ("mcp", "https://a.example/mcp"),
    ("grpc", "a.example:443"),
    ("grpc", "https://a.example"),
]
BAD = [
    ("https", "http://a.example"),
    ("http", "https://a.example"),
    ("https", "https:a.example"),
    ("https", "https:///x"),
    ("https", "https://"),
    ("https", "https://:443/"),
    ("https", "//a.example/x"),
    ("https", "a.example"),
    ("https", "/x"),
    ("https", " https://a.example"),
    ("https", "https://a.example\n"),
    ("https", "https://a.example/a b"),
    ("https", "https://a.example/é"),
    ("https", "https://é.example/"),
    ("https", "https://a.example/%zz"),
    ("https", "https://a.example/%2"),
    ("https", "https://a.example/[x]"),
    ("https", 'https://a.example/"'),
    ("https", "https://a.example\\@b.example/"),
    ("https", "https://a@b@c.example/"),
    ("https", "https://a.example:80a/"),
    ("https", "https://[::zz]/"),
    ("https", "https://[1.2.3.4]/"),
    ("https", "https://[:::]/"),
    ("https", "https://a.example/#a#b"),
    ("stdio", "/usr/bin/agent"),
    ("stdio", "usr bin"),
    ("stdio", "1stdio:agent"),
    ("mcp", "javascript:alert(1)"),
    ("mcp", "file:///etc/passwd"),
    ("stdio", "data:text/html,x"),
]


@pytest.mark.parametrize(("protocol", "url"), GOOD)
def test_a_uri_that_fits_its_protocol_is_right(protocol: str, url: str) -> None:
    assert endpoint(protocol, url) == set()


@pytest.mark.parametrize(("protocol", "url"), UNUSUAL)
def test_another_scheme_is_warned_of_where_the_protocol_does_not_say(protocol: str, url: str) -> None:
    assert endpoint(protocol, url) == {("warning", "card.member-value", "card/endpoint/url")}


@pytest.mark.parametrize(("protocol", "url"), BAD)
def test_what_is_no_uri_or_does_not_fit_is_refused(protocol: str, url: str) -> None:
    assert ("error", "card.member-value", "card/endpoint/url") in endpoint(protocol, url)


@pytest.mark.parametrize("url", ["a:" + "%41" * 80_000, "http://" + "a" * 200_000 + " ", "http://" + "a@" * 100_000])
def test_a_long_url_takes_no_long_time(url: str) -> None:
    shape = Endpoint({"http": ("http",)}, frozenset({"http"}), {})
    start = time.process_time()
    list(shape.check({"protocol": "http", "url": url}, Where(Part.CARD)))
    assert time.process_time() - start < 1


def endpoint(protocol: Any, url: Any) -> Told:
    document = MINIMAL | {"endpoint": {"protocol": protocol, "url": url}}
    return {(f.level.value, f.rule.value, str(f.where)) for f in DRAFT.shape.check(document, Where(Part.CARD))}


# -- Schemas from strangers: compared with the meta-schema, never used, and never for long ----------------------------

GOOD_SCHEMAS: list[JsonObject] = [
    {},
    {"type": "object", "properties": {"a": {"type": ["string", "null"]}, "b": True}, "required": ["a"]},
    {"$ref": "https://nowhere.invalid/schema", "$defs": {"x": {"$ref": "#/$defs/x"}}},
    {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {}}, "x-own": {"type": 5}},
    {"pattern": "(a+)+$", "patternProperties": {"(": {}}, "examples": ["a" * 64 + "b"]},
    {"const": {"type": 5}, "enum": [], "default": None},
]
BAD_SCHEMAS: list[tuple[JsonObject, str]] = [
    ({"type": 5}, "type"),
    ({"type": "text"}, "type"),
    ({"type": []}, "type"),
    ({"properties": {"a": {"minLength": -1}}}, "properties/a/minLength"),
    ({"properties": {"a": "string"}}, "properties/a"),
    ({"properties": []}, "properties"),
    ({"required": "a"}, "required"),
    ({"required": ["a", "a"]}, "required"),
    ({"items": [{}]}, "items"),
    ({"allOf": []}, "allOf"),
    ({"allOf": [{}, {"not": 1}]}, "allOf/1/not"),
    ({"multipleOf": 0}, "multipleOf"),
    ({"additionalProperties": "no"}, "additionalProperties"),
    ({"$ref": 1}, "$ref"),
    ({"pattern": 1}, "pattern"),
]


def card(*schemas: JsonValue, member: str = "input_schema") -> JsonObject:
    capabilities: list[JsonValue] = [{"id": f"text.n{n}", "description": "d", member: s} for n, s in enumerate(schemas)]
    return MINIMAL | {"capabilities": capabilities}


@pytest.mark.parametrize("schema", GOOD_SCHEMAS)
def test_a_schema_is_a_schema_whatever_it_refers_to(schema: JsonObject) -> None:
    assert told(card(schema)) == set()


@pytest.mark.parametrize("member", ["input_schema", "output_schema"])
@pytest.mark.parametrize(("schema", "place"), BAD_SCHEMAS)
def test_what_is_no_schema_is_refused_at_its_place(schema: JsonObject, place: str, member: str) -> None:
    assert told(card({}, schema, member=member)) == {
        ("error", "card.member-value", f"card/capabilities/1/{member}/{place}")
    }


@pytest.mark.parametrize("schema", ["string", [], True, 1])
def test_a_schema_is_an_object(schema: JsonValue) -> None:
    assert told(card(schema)) == {("error", "card.member-type", "card/capabilities/0/input_schema")}


def nested(name: str, depth: int) -> JsonObject:
    schema: JsonObject = {}
    for _ in range(depth):
        schema = {name: schema}
    return schema


def test_a_schema_as_deep_as_a_card_can_hold_is_read() -> None:
    assert told(card(nested("not", 60))) == set()


MIXED: list[JsonValue] = [value for n in range(20_000) for value in (n, str(n))]
HOSTILE: dict[str, JsonValue] = {
    "deep": nested("not", 100_000),
    "wide": {"allOf": [True] * 50_000},
    "many": {"properties": {f"p{n}": {} for n in range(50_000)}},
    "crowded": {"type": MIXED},
    "crowded beside": {"dependencies": {"a": MIXED}},
    "crowded within the bound": {"type": MIXED[:2000]},
    "a long text": {"$anchor": "a" * 250_000 + "!", "$id": "#" * 250_000, "pattern": "(a+)+" * 40_000},
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_schema_costs_a_few_steps_for_each_value_that_is_looked_at(what: str) -> None:
    findings: list[Finding] = []
    document = card(HOSTILE[what])
    assert steps(lambda: findings.extend(faulty_schemas(document))) < 12 * MOST_WORK
    assert findings
    assert all(str(f.where).startswith("card/capabilities/0/input_schema") for f in findings)


WHOLE: list[JsonValue] = [
    {"properties": {f"p{n}": {"type": ["string", "null"], "required": ["a"]} for n in range(650)}},
    {"allOf": [{"$anchor": "a", "items": True}] * 1_300},
    {"type": "object", "required": [f"p{n}" for n in range(4_000)]},
    {"dependentRequired": {f"p{n}": ["a", "b"] for n in range(1_300)}},
]


@pytest.mark.parametrize("schema", WHOLE)
def test_a_schema_as_large_as_may_be_costs_a_few_steps_a_value(schema: JsonValue) -> None:
    document = card(schema)
    assert steps(lambda: list(faulty_schemas(document))) < 12 * MOST_WORK
    assert list(faulty_schemas(document)) == []


VALIDATOR = Draft202012Validator(Draft202012Validator.META_SCHEMA)
KEYWORDS = sorted({*_KEYWORDS, "const", "default", "x-own"})
VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2.0, 0.5, 1e300, "", "a", "a#", "#a", "-a", "string", [], ["a"], ["a", "a"], [1]),
    *(["string"], ["string", "null"], ["text"], [True], [None], [{}], [[]], {}, {"a": {}}, {"a": 1}, {"a": ["b"]}),
    *({"a": True}, {"a": ["b", "b"]}, {"a": [1]}, {"type": 5}, [{"type": 5}], {"a": {"type": 5}}, {"a": None}),
    *([1, 1.0], ["a", 1], {"$ref": 1}, ["integer", "integer"], 1.0, -0.0, 10**30),
]


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_each_keyword_allows_what_the_meta_schema_allows(keyword: str) -> None:
    for value in VALUES:
        schema: JsonObject = {"properties": {"x": {keyword: value}}}
        assert (list(faulty_schemas(card(schema))) == []) is VALIDATOR.is_valid(schema), value


@settings(max_examples=60)
@given(
    st.recursive(
        st.sampled_from(VALUES),
        lambda inner: st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=4) | st.lists(inner, max_size=3),
        max_leaves=8,
    )
)
def test_a_schema_is_what_the_meta_schema_says(value: JsonValue) -> None:
    schema: JsonObject = {"not": value}
    assert (list(faulty_schemas(card(schema))) == []) is VALIDATOR.is_valid(schema)


def test_the_table_names_every_keyword_of_the_meta_schema() -> None:
    root = "https://json-schema.org/draft/2020-12/"
    registry: Any = VALIDATOR._registry
    meta = [registry.contents(root + "schema")]
    meta += [registry.contents(root + one["$ref"]) for one in meta[0]["allOf"]]
    assert {name for one in meta for name in one["properties"]} - {"const", "default"} == _KEYWORDS.keys()


def test_all_schemas_of_a_card_share_one_bound() -> None:
    """Each is small; together they are too much, and it is said from where on."""
    schema: JsonObject = {"properties": {f"p{n}": {} for n in range(100)}}
    fitting = MOST_WORK // 102
    findings = list(faulty_schemas(card(*[schema] * 200)))
    (finding,) = findings
    assert finding.level is Level.WARNING
    assert str(finding.where) == f"card/capabilities/{fitting}/input_schema"
    assert list(faulty_schemas(card(*[schema] * fitting))) == []


@pytest.mark.parametrize("capabilities", [None, {}, "x", [None, 1, []]])
def test_what_is_no_capability_has_no_schema(capabilities: Any) -> None:
    assert list(faulty_schemas(MINIMAL | {"capabilities": capabilities})) == []
