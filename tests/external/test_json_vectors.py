"""nst/JSONTestSuite: what is JSON is read unchanged or refused for a named reason, and what is none is refused.

The suite leaves 35 texts to the reader. We keep a value exactly or refuse it: no rounding, no replacement characters.
"""

import base64
import json
import zlib
from collections import Counter
from functools import partial

from sdcard import Limits, Refused
from sdcard.encoding import JsonValue, encode_json, parse_json
from sdcard.errors import Part, Where
from tests.external.otherwise import OTHERWISE
from tests.external.vectors import Case, read_json
from tests.world import outcome

FOLDER = "json-test-suite"
HERE = Where(Part.REQUEST)


def data_of(case: Case) -> bytes:
    packed = case.get("zlib_b64")
    return zlib.decompress(base64.b64decode(packed)) if packed else base64.b64decode(case["b64"])


def answer(case: Case) -> str:
    """The rule that refuses, or ``kept``: read, and the same value after writing and reading again."""
    value = outcome(partial(parse_json, data_of(case), HERE, Limits().json_depth))
    if isinstance(value, Refused):
        assert value.where == HERE
        return value.rule.value
    assert repr(parse_json(encode_json(value), HERE, Limits().json_depth)) == repr(value)
    assert repr(value) == repr(json.loads(data_of(case))), "what the standard library reads, where both read it"
    return "kept"


def test_every_text_of_the_suite_is_kept_or_refused() -> None:
    answers: Counter[tuple[str, str]] = Counter()
    for case in read_json(FOLDER, "test_parsing.json"):
        found = answer(case)
        listed = OTHERWISE.get(f"{FOLDER}/{case['name']}")
        if case["expected"] == "accept":
            assert found == (listed.rule if listed else "kept"), case["name"]
        elif case["expected"] == "reject":
            assert found != "kept", case["name"]
            assert not listed
        answers[case["expected"], found] += 1
    assert answers == {
        ("accept", "kept"): 93,
        ("accept", "json.duplicate-member"): 2,
        ("reject", "json.malformed"): 170,
        ("reject", "json.depth"): 2,
        ("reject", "encoding.utf8"): 12,
        ("reject", "json.number"): 4,
        ("either", "kept"): 3,
        ("either", "json.number"): 7,
        ("either", "json.surrogate"): 10,
        ("either", "encoding.utf8"): 13,
        ("either", "json.depth"): 1,
        ("either", "json.malformed"): 1,
    }
    assert sum(answers.values()) == 318


TRANSFORMED: dict[str, JsonValue] = {
    "number_-9223372036854775808.json": [-9223372036854775808],
    "number_-9223372036854775809.json": [-9223372036854775809],
    "number_1.0.json": [1.0],
    "number_1.000000000000000005.json": "json.number",
    "number_1000000000000000.json": [1000000000000000],
    "number_10000000000000000999.json": [10000000000000000999],
    "number_1e-999.json": "json.number",
    "number_1e6.json": [1e6],
    "number_9223372036854775807.json": [9223372036854775807],
    "number_9223372036854775808.json": [9223372036854775808],
    "object_key_nfc_nfd.json": {"\u00e9": "NFC", "e\u0301": "NFD"},
    "object_key_nfd_nfc.json": {"e\u0301": "NFD", "\u00e9": "NFC"},
    "object_same_key_different_values.json": "json.duplicate-member",
    "object_same_key_same_value.json": "json.duplicate-member",
    "object_same_key_unclear_values.json": "json.duplicate-member",
    "string_1_escaped_invalid_codepoint.json": "json.surrogate",
    "string_1_invalid_codepoint.json": "encoding.utf8",
    "string_2_escaped_invalid_codepoints.json": "json.surrogate",
    "string_2_invalid_codepoints.json": "encoding.utf8",
    "string_3_escaped_invalid_codepoints.json": "json.surrogate",
    "string_3_invalid_codepoints.json": "encoding.utf8",
    "string_with_escaped_NULL.json": ["A\x00B"],
}
"""Texts that parsers change: the value they have here, or the rule that refuses them."""


def test_no_text_is_transformed() -> None:
    cases = read_json(FOLDER, "test_transform.json")
    found = {case["name"]: answer(case) for case in cases}
    assert len(found) == 22
    for case in cases:
        expected = TRANSFORMED[case["name"]]
        if found[case["name"]] == "kept":
            assert repr(parse_json(data_of(case), HERE, 2)) == repr(expected), case["name"]
        else:
            assert found[case["name"]] == expected, case["name"]
