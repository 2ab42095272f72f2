"""An AgentCard in a JSON string: one level of it, and an AgentCard alone."""

import json
from typing import Any

import pytest

from sdcard.cards.agentcard.dialects import parse_embedded
from sdcard.cards.detect import examine_card, parse_card, parse_card_file, read_card
from sdcard.encoding import encode_json
from sdcard.errors import Refused
from sdcard.limits import DEFAULT_LIMITS
from tests.sdcard.cards.agentcard.cards import MINIMAL, mcp, readme, whole
from tests.sdcard.cards.documents import georoute


def embedded(document: Any, levels: int = 1) -> bytes:
    text = json.dumps(document)
    for _ in range(levels):
        text = json.dumps(text)
    return text.encode()


@pytest.mark.parametrize("document", [whole(), readme(), mcp()])
def test_an_embedded_card_is_the_card(document: Any) -> None:
    assert parse_card(embedded(document)) == read_card(document)
    assert parse_card(b" \r\n\t" + embedded(document) + b"\n") == read_card(document)
    assert parse_card(embedded(document).replace(b"{", b"\\u007b")) == read_card(document)
    assert parse_card_file(embedded(document)) == read_card(document)


def test_an_embedded_card_may_stand_behind_a_byte_order_mark() -> None:
    examination = examine_card(b"\xef\xbb\xbf" + embedded(MINIMAL))
    assert examination.card is not None
    assert [finding.rule.value for finding in examination.findings] == ["encoding.byte-order-mark"]


@pytest.mark.parametrize("data", [b'"a": {"b": 1}', b'"{": "}"', b'"text"', embedded(MINIMAL, 2)])
def test_other_texts_in_quotation_marks_are_left_to_the_other_readers(data: bytes) -> None:
    assert parse_embedded(data, 64) is None


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (embedded(MINIMAL, 2), "json.malformed"),
        (embedded(georoute()), "json.malformed"),
        (embedded([MINIMAL]), "json.malformed"),
        (b'""', "json.malformed"),
        (b'"', "json.malformed"),
        (embedded(MINIMAL) + b"x", "json.malformed"),
        (json.dumps(json.dumps(MINIMAL)[:-1] + ', "name": "b"}').encode(), "json.duplicate-member"),
        (json.dumps(json.dumps(MINIMAL)[:-1] + ', "x": 1e400}').encode(), "json.number"),
        (json.dumps(json.dumps(MINIMAL)[:-1] + ', "x": "\\ud800"}').encode(), "json.surrogate"),
        (b'"\\ud800"', "json.surrogate"),
        (json.dumps('{"x":' + "[" * 64 + "]" * 64 + "}").encode(), "json.depth"),
        (b'"' + b" " * DEFAULT_LIMITS.card_bytes + b'"', "limit.bytes"),
    ],
)
def test_what_is_in_a_string_is_read_as_strictly(data: bytes, rule: str) -> None:
    with pytest.raises(Refused) as refusal:
        parse_card(data)
    assert (refusal.value.rule, str(refusal.value.where)) == (rule, "card")


def test_a_string_inside_a_document_is_a_string() -> None:
    document = MINIMAL | {"metadata": {"card": encode_json(MINIMAL).decode()}}
    assert read_card(document).document == document
