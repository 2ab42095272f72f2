"""Bounds are whole numbers, and no deeper than the reader can go."""

import math
from typing import Any

import pytest

from sdcard import Limits, Misuse
from sdcard.encoding import JsonValue, decode_json, encode_base64url, encode_json, parse_json
from sdcard.errors import Part, Where
from sdcard.sdjwt.model import DigestAlgorithm, make_disclosure
from sdcard.sdjwt.verification import process_payload
from tests.world import raises_rule

DEEPEST = 128
HERE = Where(Part.CARD)


@pytest.mark.parametrize("name", Limits.__dataclass_fields__)
@pytest.mark.parametrize("bound", [-1, 1.0, math.inf, True, None, "4096"])
def test_a_bound_is_a_whole_number(name: str, bound: Any) -> None:
    with pytest.raises(Misuse, match=name):
        Limits(**{name: bound})
    assert getattr(Limits(**{name: 0}), name) == 0


def test_the_deepest_there_may_be_is_read_and_one_deeper_is_none() -> None:
    limits = Limits(json_depth=DEEPEST)
    with pytest.raises(Misuse, match="128"):
        Limits(json_depth=DEEPEST + 1)
    value, hidden, elements = deep(DEEPEST - 1), deep(DEEPEST - 2, {"_sd": []}), deep(DEEPEST - 2, [{"...": "x"}])
    for text in (encode_json({"v": value}), b' {"exact": 1.50, "v": ' + encode_json(value) + b"}"):
        assert decode_json(encode_base64url(text), HERE, DEEPEST)[1] == parse_json(text, HERE, DEEPEST)
    assert process_payload({"v": value}, (), limits).claims == {"v": value}
    for part in (hidden, elements):
        process_payload({"v": part}, (), limits)
    with raises_rule("json.depth", at="card"):
        parse_json(encode_json([{"v": value}]), HERE, DEEPEST)


def test_so_is_a_chain_of_disclosures() -> None:
    inner: JsonValue = {"x": 1}
    texts: list[str] = []
    for number in range(DEEPEST - 1):
        texts.append(make_disclosure(bytes(16), f"c{number}", inner).encoded)
        inner = {"_sd": [DigestAlgorithm.SHA_256.digest(texts[-1])]}
    assert isinstance(inner, dict)
    assert len(process_payload(inner, texts, Limits(json_depth=DEEPEST)).revealed) == DEEPEST - 1
    with raises_rule("json.depth", at="disclosure/0"):
        process_payload(inner, texts, Limits(json_depth=DEEPEST - 1))


def deep(levels: int, inside: JsonValue = 1) -> JsonValue:
    """A value in so many objects."""
    for _ in range(levels):
        inside = {"d": inside}
    return inside
