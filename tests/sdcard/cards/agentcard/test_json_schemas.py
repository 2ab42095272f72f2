"""Schemas from strangers: compared with the meta-schema, never used, and never for long."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from sdcard.cards.agentcard.values import _KEYWORDS, MOST_WORK, faulty_schemas
from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Finding, Level
from tests.sdcard.cards.agentcard.cards import MINIMAL, told
from tests.steps import steps

GOOD: list[JsonObject] = [
    {},
    {"type": "object", "properties": {"a": {"type": ["string", "null"]}, "b": True}, "required": ["a"]},
    {"$ref": "https://nowhere.invalid/schema", "$defs": {"x": {"$ref": "#/$defs/x"}}},
    {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {}}, "x-own": {"type": 5}},
    {"pattern": "(a+)+$", "patternProperties": {"(": {}}, "examples": ["a" * 64 + "b"]},
    {"const": {"type": 5}, "enum": [], "default": None},
]
BAD: list[tuple[JsonObject, str]] = [
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


@pytest.mark.parametrize("schema", GOOD)
def test_a_schema_is_a_schema_whatever_it_refers_to(schema: JsonObject) -> None:
    assert told(card(schema)) == set()


@pytest.mark.parametrize("member", ["input_schema", "output_schema"])
@pytest.mark.parametrize(("schema", "place"), BAD)
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
