"""Bytes and documents in, Cards out: detection, limits, and what every format has in common."""

import copy
import json
from typing import Any

import pytest

from sdcard.cards.detect import KNOWN_FORMATS, parse_card, read_card
from sdcard.encoding import JsonObject, encode_json, same_json
from sdcard.errors import Level, Refused
from sdcard.limits import DEFAULT_LIMITS, Limits
from tests.sdcard.cards.documents import (
    ABSENT,
    changed,
    findings,
    georoute,
    georoute_0_1,
    georoute_0_2,
    georoute_0_3,
    places,
    reads,
    told,
)
from tests.shared import ROOT

GOOD = pytest.mark.parametrize(
    "card", [georoute(), georoute_0_3(), georoute_0_2(), georoute_0_1()], ids=["1.0", "0.3", "0.2", "0.1"]
)
SIGNED = pytest.mark.parametrize("card", [georoute(), georoute_0_3()], ids=["1.0", "0.3"])
"""Of the generations that have signatures: a card with signatures is never read as another."""
SIGNATURE: JsonObject = {"protected": "eyJhbGciOiJFUzI1NiJ9", "signature": "AAAA", "header": {"kid": "1"}}


@pytest.mark.parametrize(("file", "name"), [("georoute.json", "a2a/1.0"), ("georoute-0.3.json", "a2a/0.3")])
def test_the_examples_have_nothing_to_mend(file: str, name: str) -> None:
    card = parse_card((ROOT / "examples" / file).read_bytes())
    assert (card.format, card.findings) == (KNOWN_FORMATS[name], ())


def test_the_known_formats_are_named_as_they_are_looked_up() -> None:
    older = {"a2a/0.1", "a2a/0.2", "a2a/0.3"}
    agentcards = {"agentcard/draft-00", "agentcard/readme-1.0", "agentcard/mcp-0.1"}
    assert set(KNOWN_FORMATS) == {*older, "a2a/1.0", "kno/0.1", "kno/0.2", "summary", *agentcards}
    assert all(card_format.name == name for name, card_format in KNOWN_FORMATS.items())


# -- bytes ----------------------------------------------------------------------------------------------------------


def test_a_card_of_exactly_the_limit_is_read() -> None:
    data = encode_json(georoute())
    parse_card(data, Limits(card_bytes=len(data)))
    parse_card(data.ljust(DEFAULT_LIMITS.card_bytes))


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b" " * (DEFAULT_LIMITS.card_bytes + 1), "limit.bytes"),
        (b"\xff", "encoding.utf8"),
        (b"", "json.malformed"),
        (b"[]", "json.malformed"),
        (b'{"name":"a","name":"b"}', "json.duplicate-member"),
        (b'{"x":NaN}', "json.number"),
        (b'{"x":' + b"[" * 64 + b"]" * 64 + b"}", "json.depth"),
    ],
    ids=["long", "utf8", "empty", "array", "twice", "nan", "deep"],
)
def test_bytes_that_are_no_strict_json_object_are_refused(data: bytes, rule: str) -> None:
    with pytest.raises(Refused) as refusal:
        parse_card(data)
    assert (refusal.value.rule, str(refusal.value.where)) == (rule, "card")


# -- which format ---------------------------------------------------------------------------------------------------

OLD = {
    "name": "a",
    "description": "b",
    "version": "1",
    "url": "https://a.example.com",
    "capabilities": {},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "s", "name": "S", "description": "d", "tags": ["t"]}],
}


@pytest.mark.parametrize(
    ("document", "hint"),
    [
        ({"agentCard": georoute(), "attestations": {}}, "sigstore"),
        ({"agent_id": "a", "name": "b", "version": "1", "endpoint": "https://a.example.com"}, "agent_id"),
        ({"$schema": "agent-blueprint@0.2.0", "id": "a", **OLD}, "blueprint"),
        ({"schema_version": "v1", "name_for_model": "a", "api": {}, "auth": {}}, "manifest"),
        ({"type": "https://eips.example.com/8004", "name": "a", "services": []}, "ERC-8004"),
        ({"protocolVersion": "2025-06-18", "serverInfo": {}, "capabilities": {}, "tools": []}, "MCP"),
        ({"agent_id": "a", "url": "https://a.example.com", "skills": [{"name": "s"}]}, "agent_id"),
        ({"schema_version": "v1", "url": "https://a.example.com", "skills": [{"name": "s", "id": 1}]}, "manifest"),
        ({"mcpServers": {}}, "MCP"),
        ({"$schema": "https://static.modelcontextprotocol.io/x.json", "name": "a", "remotes": []}, "MCP"),
        ({"name": "a", "tools": [], "capabilities": ["x"]}, "manifest"),
        ({"url": "https://a.example.com", "capabilities": {"tools": {}}, "serverInfo": {}}, "MCP"),
        ({"name": "a", "url": "https://a.example.com", "capabilities": {"chat": True}}, "no agent card"),
        ({"name": "a", "url": "https://a.example.com", "skills": ["python"], "x": 1}, "no agent card"),
        ({"name": "a", "url": "https://a.example.com", "capabilities": ["x"]}, "no skills"),
        ({"id": "a", "owner": "b"}, "no agent card"),
    ],
)
def test_other_documents_are_refused_once_with_what_they_look_like(document: JsonObject, hint: str) -> None:
    (finding,) = findings(document)
    assert (finding.rule, str(finding.where), finding.level) == ("card.format", "card", Level.ERROR)
    assert hint in finding.hint


def test_an_empty_document_is_told_all_that_is_missing() -> None:
    required = ["name", "description", "version", "supportedInterfaces", "capabilities", "skills"]
    expected = ["defaultInputModes", "defaultOutputModes"]
    assert told({}) == {("error", "card.member-missing", f"card/{name}") for name in required} | {
        ("warning", "card.member-missing", f"card/{name}") for name in expected
    }


@pytest.mark.parametrize("more", [{}, {"x-more": 1}, {"protocolVersion": "1.0"}])
def test_a_card_whose_author_forgot_the_interfaces_is_told_so(more: JsonObject) -> None:
    found = told(changed(georoute(), ("supportedInterfaces",), ABSENT) | more)
    assert ("error", "card.member-missing", "card/supportedInterfaces") in found


# -- what every card may count on -----------------------------------------------------------------------------------


def test_errors_come_first_and_all_at_once() -> None:
    document = georoute() | {"defaultInputModes": [], "name": 1, "version": None, "status": "up", "x-more": 1}
    with pytest.raises(Refused) as refusal:
        read_card(document)
    assert [(str(finding.where), finding.level.value) for finding in refusal.value.findings] == [
        ("card/status", "error"),
        ("card/name", "error"),
        ("card/version", "error"),
        ("card/defaultInputModes", "warning"),
    ]


@GOOD
def test_unknown_members_survive_at_any_depth(card: JsonObject) -> None:
    more = {"deep": [{"a": None}, 1.5, "ü"]}
    document = changed(changed(changed(card, ("x-more",), more), ("skills", 0, "x"), more), ("provider", "x"), more)
    read = read_card(document)
    assert same_json(read.document, document)
    assert told(document) == {("note", "card.member-unknown", "card/x-more")}


@GOOD
def test_null_counts_as_absent_and_is_kept(card: JsonObject) -> None:
    document = card | {"iconUrl": None, "x-more": None}
    assert told(document) == set()
    assert same_json(read_card(document).document, document)
    assert told(card | {"name": None}) == {("error", "card.member-missing", "card/name")}


@SIGNED
def test_signatures_are_dropped_and_that_is_said(card: JsonObject) -> None:
    read = read_card(card | {"signatures": [SIGNATURE]})
    assert same_json(read.document, card)
    assert [(one.rule, str(one.where), one.level) for one in read.findings] == [
        ("card.signatures", "card/signatures", Level.NOTE),
        ("card.signature-untrusted", "card/signatures/0", Level.WARNING),
    ]


@pytest.mark.parametrize("nothing", [[], None])
def test_an_empty_list_of_signatures_is_dropped_with_a_note(nothing: Any) -> None:
    read = read_card(georoute() | {"signatures": nothing})
    assert "signatures" not in read.document
    assert [finding.level for finding in read.findings] == [Level.NOTE]


@SIGNED
@pytest.mark.parametrize(
    ("signatures", "rule", "place"),
    [
        ("x", "card.member-type", "card/signatures"),
        ({}, "card.member-type", "card/signatures"),
        (["x"], "card.member-type", "card/signatures/0"),
        ([None], "card.member-type", "card/signatures/0"),
        ([SIGNATURE, {"protected": "x"}], "card.member-missing", "card/signatures/1/signature"),
        ([{"signature": "x"}], "card.member-missing", "card/signatures/0/protected"),
        ([SIGNATURE | {"protected": {}}], "card.member-type", "card/signatures/0/protected"),
        ([SIGNATURE | {"header": "x"}], "card.member-type", "card/signatures/0/header"),
    ],
)
def test_malformed_signatures_are_refused(card: JsonObject, signatures: Any, rule: str, place: str) -> None:
    assert ("error", rule, place) in told(card | {"signatures": signatures})


@GOOD
def test_reading_changes_nothing_that_it_was_given(card: JsonObject) -> None:
    document = card | {"signatures": [SIGNATURE]}
    before = copy.deepcopy(document)
    read_card(document)
    assert same_json(document, before)


@GOOD
@pytest.mark.parametrize("value", [None, 0, True, "", "canary-7f3a", [], {}, [None], {"canary-7f3a": "canary-7f3a"}])
def test_any_change_reads_or_is_refused_with_hints_that_quote_nothing(card: JsonObject, value: Any) -> None:
    for place in places(card):
        document = changed(card, place, value)
        found = findings(document)
        assert all(finding.hint and "canary" not in finding.hint for finding in found)
        if reads(document):
            assert same_json(read_card(document).document, document)


def test_a_card_survives_its_own_text() -> None:
    assert parse_card(json.dumps(georoute(), indent=3).encode()) == read_card(georoute())
