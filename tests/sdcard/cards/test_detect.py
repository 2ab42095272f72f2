"""Detection and reading of cards of every format."""

import copy
import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sdcard.cards.detect import KNOWN_FORMATS, Examination, examine_document, parse_card, read_card, summary_card
from sdcard.encoding import JsonObject, JsonValue, encode_json, parse_json_object, same_json
from sdcard.errors import Level, Part, Refused, Where
from sdcard.limits import DEFAULT_LIMITS, Limits
from sdcard.paths import Place
from tests.groups import examples
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
from tests.shared import ROOT, shared_dir

# -- Bytes and documents in, Cards out: detection, limits, and what every format has in common ------------------------

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


# -- The card of an agent that registered without one -----------------------------------------------------------------


def test_it_says_what_it_was_given_and_nothing_else() -> None:
    card = summary_card("AI Assistant Agent", "General purpose AI assistant", "2.1.0")
    assert card.format is KNOWN_FORMATS["summary"]
    assert card.findings == ()
    assert card.document == {
        "name": "AI Assistant Agent",
        "description": "General purpose AI assistant",
        "version": "2.1.0",
    }


def test_all_of_it_is_always_disclosed() -> None:
    assert set(KNOWN_FORMATS["summary"].always_disclosed) == {"name", "description", "version"}


@pytest.mark.parametrize("group", ["skills", "endpoints", "operational_info", "security_context", "provider"])
def test_it_knows_every_group_and_has_nothing_behind_any(group: str) -> None:
    summary = KNOWN_FORMATS["summary"]
    assert summary.groups[group]
    assert not any(path.matches((name,)) for path in summary.groups[group] for name in summary.members)


def test_such_a_document_is_never_read_as_one() -> None:
    with pytest.raises(Refused) as refusal:
        read_card(summary_card("a", "b", "1").document)
    assert [str(finding.where) for finding in refusal.value.findings[:3]] == [
        "card/supportedInterfaces",
        "card/capabilities",
        "card/skills",
    ]


# -- Cards as they are found in public --------------------------------------------------------------------------------

# Each is read as the generation that it is of, and nothing of it is lost.
#
# ``../shared/cards/wild/index.csv`` says what each file is; we disagree with none of it. Where it leaves the generation
# open (``0.1/0.2-plain``), a card is read as 0.2, and told so. Files that it calls 0.3-snake or 0.x are of 0.3.

READ_AS = {
    "0.1": {"a2a/0.1"},
    "0.1/0.2-plain": {"a2a/0.1", "a2a/0.2"},
    "0.2.x": {"a2a/0.2"},
    "0.3": {"a2a/0.3"},
    "0.3-snake": {"a2a/0.3"},
    "0.x(pv=1.0)": {"a2a/0.3"},
    "1.0": {"a2a/1.0"},
    "1.0+0.3-mixed": {"a2a/1.0"},
    "wrapped(sigstore)": {"sigstore-a2a"},
}
"""Shape in the index → what such a file may be read as."""

REFUSED = {
    "wild-008.json": "card.member-type",  # securitySchemes are a list: neither SDK reads the card
    "wild-088.json": "card.member-missing",  # skills without an id: nobody can ask for one of them
    "wild-092.json": "card.reserved-member",  # `status`; and capabilities are a list: neither SDK reads the card
    "wild-108.json": "card.member-missing",  # an interface without a binding: nobody knows how to speak to it
}
"""A2A cards with errors, and the rule of the first one."""


def index() -> list[tuple[Path, str]]:
    folder = shared_dir() / "cards" / "wild"
    with (folder / "index.csv").open(encoding="utf-8", newline="") as rows:
        return [(folder / row["file"], row["shape"]) for row in csv.DictReader(rows)]


def document_of(file: Path) -> JsonObject:
    return parse_json_object(file.read_bytes(), Where(Part.CARD), 64)


def examined(*shapes: str) -> Iterator[tuple[str, JsonObject, Examination]]:
    """The files of these shapes, or all of them."""
    for file, shape in index():
        if shape in shapes or not shapes:
            document = document_of(file)
            yield file.name, document, examine_document(document)


def rules(examination: Examination, level: Level) -> set[tuple[str, str]]:
    return {(f.rule.value, str(f.where)) for f in examination.findings if f.level is level}


@pytest.mark.parametrize("shape", sorted(READ_AS))
def test_every_card_is_read_as_its_generation(shape: str) -> None:
    wrong = {name: e.kind for name, _, e in examined(shape) if e.kind not in READ_AS[shape]}
    assert wrong == {}


def test_what_is_no_card_is_refused_once_with_advice() -> None:
    seen = list(examined("foreign", "wrapped(sigstore)"))
    for name, _, examination in seen:
        (finding,) = examination.findings
        assert (finding.rule, finding.level) == ("card.format", Level.ERROR), name
        assert not examination.kind.startswith("a2a/"), name
        assert finding.hint, name
    assert len(seen) >= 17


def test_every_file_has_a_shape_that_is_known_here() -> None:
    assert {shape for _, shape in index()} <= READ_AS.keys() | {"foreign"}


def test_the_cards_that_are_refused_are_exactly_these() -> None:
    shapes = READ_AS.keys() - {"wrapped(sigstore)"}
    refused = {name: e.findings[0].rule.value for name, _, e in examined(*shapes) if e.card is None}
    assert refused == REFUSED


def test_no_member_is_lost_and_none_is_added() -> None:
    for name, document, examination in examined():
        document.pop("signatures", None)
        if examination.card is not None:
            assert same_json(examination.card.document, document), name


def test_a_mixed_card_is_told_so_at_each_member_of_the_other_generation() -> None:
    for name, document, examination in examined("1.0+0.3-mixed"):
        older = {"url", "preferredTransport", "additionalInterfaces", "protocolVersion", "security", "authentication"}
        expected = {("card.ambiguous", f"card/{member}") for member in older & document.keys()}
        assert expected, name
        assert expected <= rules(examination, Level.WARNING), name


def test_a_card_that_claims_another_version_is_told_so() -> None:
    for name, _, examination in examined("0.x(pv=1.0)"):
        assert ("card.ambiguous", "card/protocolVersion") in rules(examination, Level.WARNING), name


def test_a_card_in_snake_case_is_told_so() -> None:
    for name, document, examination in examined("0.3-snake"):
        spelt = {("card.member-value", f"card/{member}") for member in document if member.endswith("_modes")}
        assert spelt, name
        assert spelt <= rules(examination, Level.WARNING), name


def test_a_card_that_does_not_tell_its_generation_is_told_so() -> None:
    for name, _, examination in examined("0.1/0.2-plain"):
        assert ("card.ambiguous", "card") in rules(examination, Level.NOTE), name


def test_every_finding_says_what_to_do_and_quotes_nothing() -> None:
    for name, document, examination in examined():
        texts = {text for text in strings(document) if len(text) > 20}
        for finding in examination.findings:
            assert finding.hint, name
            assert not any(text in finding.hint for text in texts), name


def strings(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from strings(inner)


# -- variations -------------------------------------------------------------------------------------------------------

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(max_size=8),
    st.just("javascript:alert(1)"),
    st.just([]),
    st.just({}),
    st.just([None]),
    st.just([{}]),
    st.just({"": None}),
    st.just({"type": "oauth2", "flows": [], "schemes": {}, "list": "x"}),
)
NAMES = (
    *(
        "supportedInterfaces",
        "supported_interfaces",
        "protocolVersion",
        "protocol_version",
        "url",
        "skills",
        "agentCard",
    ),
    *("capabilities", "security", "securitySchemes", "securityRequirements", "signatures", "authentication", "$schema"),
    *("agent_id", "type", "services", "tools", "schema_version", "serverInfo", "additionalInterfaces", "_sd", "exp"),
)


def variation(document: JsonObject, draw: st.DataObject) -> JsonObject:
    """Make one to three changes: a value replaced, removed or exchanged for another part, or a member added."""
    for _ in range(draw.draw(st.integers(1, 3))):
        there: list[Place] = list(places(document))
        if not there or draw.draw(st.booleans()):
            document = {**document, draw.draw(st.sampled_from(NAMES)): draw.draw(VALUES)}
        else:
            place = draw.draw(st.sampled_from(there))
            document = changed(document, place, draw.draw(st.one_of(VALUES, st.just(ABSENT))))
    return document


@settings(max_examples=examples(300), deadline=None, suppress_health_check=list(HealthCheck))
@given(draw=st.data())
def test_any_variation_is_read_unchanged_or_refused_with_advice(draw: st.DataObject) -> None:
    files = [file for file, _ in index()]
    document = variation(document_of(draw.draw(st.sampled_from(files))), draw)
    before = json.dumps(document)

    examination = examine_document(document)

    assert json.dumps(document) == before
    assert all(finding.hint for finding in examination.findings)
    errors = [finding for finding in examination.findings if finding.level is Level.ERROR]
    assert (examination.card is None) == bool(errors)
    if examination.card is not None:
        document.pop("signatures", None)
        assert same_json(examination.card.document, document)
