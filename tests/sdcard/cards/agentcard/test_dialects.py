"""Dialects of AgentCards, and cards within a JSON string."""

import json
import time
from typing import Any

import pytest

from sdcard.cards.agentcard.dialects import DIALECTS, DRAFT, MCP, README, parse_embedded
from sdcard.cards.detect import Examination, examine_card, examine_document, parse_card, parse_card_file, read_card
from sdcard.encoding import JsonObject, JsonValue, encode_json, same_json
from sdcard.errors import Level, Misuse, Refused
from sdcard.limits import DEFAULT_LIMITS
from tests.sdcard.cards.agentcard.cards import MINIMAL, conformance, examine, mcp, readme, told, whole
from tests.sdcard.cards.documents import ABSENT, changed, georoute, places
from tests.shared import shared_dir

# -- AgentCards -------------------------------------------------------------------------------------------------------

# Every conformance case, what each dialect takes, how one is chosen, and what is said but not refused.

EACH = pytest.mark.parametrize(
    ("document", "name"),
    [(whole(), "agentcard/draft-00"), (readme(), "agentcard/readme-1.0"), (mcp(), "agentcard/mcp-0.1")],
    ids=["draft", "readme", "mcp"],
)

ENDPOINT: JsonObject = {"protocol": "https", "url": "https://a.example"}
SECURE: JsonObject = {"endpoint": {"protocol": "http", "url": "https://a.example"}}
"""What the README shows and the draft forbids."""


def verdict(examination: Examination) -> str:
    if examination.card is None:
        limits = {"json.depth", "limit.bytes"} & {finding.rule.value for finding in examination.findings}
        return "reject-limits" if limits else "invalid"
    return "valid+warn" if any(f.level is Level.WARNING for f in examination.findings) else "valid"


@pytest.mark.parametrize("expected", [None, "agentcard", "agentcard/draft-00"])
def test_every_conformance_case_gets_its_verdict(expected: str | None) -> None:
    """A case that names a dialect is judged by it; the others name the format."""
    wrong = []
    cases = conformance()
    for case in cases:
        examination = examine_card(
            case["data"], expected=f"agentcard/{case['dialect']}" if "dialect" in case else expected
        )
        if verdict(examination) != case["expect"]:
            wrong.append((case["id"], case["expect"], verdict(examination), [*map(str, examination.findings)]))
    assert wrong == []
    assert len(cases) >= 112


@EACH
def test_a_good_card_of_each_dialect_is_known_and_has_nothing_to_mend(document: JsonObject, name: str) -> None:
    examination = examine(document)
    assert examination.kind == name
    assert examination.card is not None
    assert examination.card.format.name == name
    assert same_json(examination.card.document, document)
    assert told(document) == set()


@EACH
@pytest.mark.parametrize(
    "value", [None, 0, -1, True, "", "canary-7f3a", [], {}, [None], {"canary-7f3a": "canary-7f3a"}]
)
def test_any_change_reads_unchanged_or_is_refused_with_hints_that_quote_nothing(
    document: JsonObject, name: str, value: Any
) -> None:
    for place in places(document):
        other = changed(document, place, value)
        examination = examine_document(other, expected=name)
        assert all(finding.hint and "canary" not in finding.hint for finding in examination.findings)
        if examination.card is not None:
            assert same_json(examination.card.document, other)


# -- which dialect --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({}, "agentcard/draft-00"),
        (SECURE | {"pricing": {"estimated_latency_ms": 1}}, "agentcard/readme-1.0"),
        (SECURE | {"pricing": {"estimated_latency_ms": 1}, "goal_subscriptions": []}, "agentcard/draft-00"),
        (SECURE | {"pricing": {"estimated_latency_ms": 1, "per_token_joules": 1}}, "agentcard/draft-00"),
        (SECURE | {"pricing": {"currency_unit": "EUR", "per_token_joules": 1}}, "agentcard/mcp-0.1"),
        (SECURE | {"pricing": None}, "agentcard/readme-1.0"),
        (SECURE, "agentcard/readme-1.0"),
        ({"endpoint": {"protocol": "http", "url": "HTTPS://a.example"}}, "agentcard/readme-1.0"),
        (SECURE | {"goal_subscriptions": []}, "agentcard/draft-00"),
        (SECURE | {"name": 1}, "agentcard/draft-00"),
        ({"endpoint": {"protocol": "https", "url": "http://a.example"}}, "agentcard/draft-00"),
        ({"endpoint": {"protocol": "http", "url": 1}}, "agentcard/draft-00"),
        (SECURE | {"metadata": {"pacr:influence_rank": 0.1}}, "agentcard/readme-1.0"),
        (SECURE | {"metadata": {"pacr:influence_rank": 0.1, "pacr:trust_tier": "basic"}}, "agentcard/draft-00"),
        ({"name": 1, "metadata": {"pacr:influence_rank": 0.1}}, "agentcard/draft-00"),
        ({"endpoint": {"protocol": "websocket", "url": "wss://a.example"}}, "agentcard/draft-00"),
        ({"agent_id": None}, "agentcard/draft-00"),
        ({"capabilities": {"streaming": True}}, "agentcard/draft-00"),
        ({"endpoint": "https://a.example"}, "agentcard/draft-00"),
        ({"capabilities": {}, "endpoint": "https://a.example"}, ""),
    ],
)
def test_the_dialect_is_told_from_members_that_only_it_has(more: JsonObject, name: str) -> None:
    assert examine(MINIMAL | more).kind == name


@pytest.mark.parametrize(
    "more",
    [
        {"pricing": {"estimated_latency_ms": "fast", "currency_unit": 5}},
        {"metadata": {"pacr:influence_rank": "first", "pacr:ossification_risk": "none"}},
        {"capabilities": [{"id": "text.a"}], "pricing": {"cost_per_request": -1}},
        {"endpoint": {**ENDPOINT, "health_url": "x", "auth": {"token_url": 5}}},
    ],
)
def test_what_the_draft_takes_no_other_dialect_refuses(more: JsonObject) -> None:
    """Members that the draft does not know must not make a card invalid (5, rule 10)."""
    examination = examine(MINIMAL | more)
    assert examination.kind == "agentcard/draft-00"
    assert examination.card is not None


def test_the_first_example_of_the_readme_is_valid_without_a_named_dialect() -> None:
    text = (shared_dir() / "seeds" / "agentcard-readme.txt").read_text(encoding="utf-8")
    document, _ = json.JSONDecoder().raw_decode(text[text.index("{") :])
    assert document["endpoint"] == {"protocol": "http", "url": "https://agent.example.com/api"}
    examination = examine(document)
    assert (examination.kind, examination.card is not None) == ("agentcard/readme-1.0", True)
    assert [one for one in examination.findings if one.level is Level.ERROR] == []
    assert examine(document, "agentcard/draft-00").card is None, "the draft refuses it"


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.format.name)
def test_a_named_dialect_is_the_one_that_judges(dialect: Any) -> None:
    for document in (whole(), readme(), mcp(), georoute(), {}):
        assert examine(document, dialect.format.name).kind == dialect.format.name


@pytest.mark.parametrize(
    ("document", "expected", "kind"),
    [
        (readme(), "agentcard", "agentcard/readme-1.0"),
        (georoute(), "agentcard", "agentcard/draft-00"),
        ({"x": 1}, "agentcard", "agentcard/draft-00"),
        (MINIMAL, "a2a", "a2a/1.0"),
        (georoute(), "a2a", "a2a/1.0"),
        (georoute(), "a2a/0.3", "a2a/0.3"),
    ],
)
def test_within_a_named_family_the_marks_decide(document: JsonObject, expected: str, kind: str) -> None:
    assert examine(document, expected).kind == kind


@pytest.mark.parametrize("name", ["", "agent", "agentcard/draft-01", "summary"])
def test_a_format_that_documents_cannot_have_is_a_misuse(name: str) -> None:
    with pytest.raises(Misuse, match=r"agentcard/readme-1\.0"):
        examine(MINIMAL, name)


@pytest.mark.parametrize("protocol", ["websocket", "sse", "google_a2a", "native"])
def test_a_protocol_of_the_readme_alone_is_refused_and_the_dialect_that_has_it_is_named(protocol: str) -> None:
    document = MINIMAL | {"endpoint": {"protocol": protocol, "url": "wss://a.example"}}
    assert told(document) == {("error", "card.member-value", "card/endpoint/protocol")}
    assert hints(document, "agentcard.dialect") == [
        "It fits the README's schema.json; if it follows that, name the format agentcard/readme-1.0."
    ]
    assert examine(document, "agentcard/readme-1.0").card is not None


@pytest.mark.parametrize("document", [readme(), mcp()])
def test_a_dialect_that_is_not_the_default_is_said(document: JsonObject) -> None:
    (hint,) = hints(document, "agentcard.dialect")
    assert "agentcard/draft-00" in hint
    assert hints(whole(), "agentcard.dialect") == []


def hints(document: JsonObject, rule: str) -> list[str]:
    return [finding.hint for finding in examine(document).findings if finding.rule == rule]


# -- the draft ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["agent_id", "name", "version", "capabilities", "endpoint"])
@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.format.name)
def test_five_members_are_required_in_every_dialect(name: str, dialect: Any) -> None:
    missing = ("error", "card.member-missing", f"card/{name}")
    assert missing in told(changed(MINIMAL, (name,), ABSENT), dialect.format.name)
    assert examine(MINIMAL | {name: None}, dialect.format.name).card is None


@pytest.mark.parametrize(
    ("place", "value", "level"),
    [
        (("agent_id",), "01HZQK3P8EMXR9V7T5N2W4J6C", "error"),
        (("agent_id",), "01HZQK3P8EMXR9V7T5N2W4J6C0\n", "error"),
        (("agent_id",), "01HZQK3P8EMXR9V7T5N2W4J6CU", "error"),
        (("agent_id",), "80000000000000000000000000", "warning"),
        (("name",), "a" * 129, "error"),
        (("name",), "", "error"),
        (("name",), " \t\u200b", "warning"),
        (("name",), "\n\x00", "warning"),
        (("version",), "1.0.0\n", "error"),
        (("version",), "1.0.0+", "error"),
        (("version",), "01.0.0", "error"),
        (("version",), "1.0.0-0-0", None),
        (("version",), "1.0.0-00", "warning"),
        (("version",), "1.0.0-0a.0+00", None),
        (("version",), "1.0.0+a.", "warning"),
        (("capabilities", 0, "id"), "text..a", "warning"),
        (("capabilities", 0, "id"), "text.", "warning"),
        (("capabilities", 0, "id"), ".text", "error"),
        (("capabilities", 0, "id"), "tÉxt", "error"),
        (("goal_subscriptions", 0, "priority"), 1, None),
        (("goal_subscriptions", 0, "priority"), 1.5, "error"),
        (("metadata", "pacr:trust_tier"), "Verified", "error"),
        (("endpoint", "auth", "scheme"), "Bearer", "error"),
    ],
)
def test_values_are_judged_as_a_whole_and_in_ascii(place: tuple[Any, ...], value: Any, level: str | None) -> None:
    where = "/".join(["card", *map(str, place)])
    expected = {(level, "card.member-value", where)} if level else set()
    assert told(changed(whole(), place, value)) == expected


@pytest.mark.parametrize("place", [("pricing",), ("endpoint", "auth"), ("pricing", "base_cost_joules")])
def test_null_is_warned_of_where_the_readme_has_it(place: tuple[Any, ...]) -> None:
    document = changed(whole(), place, None)
    assert told(document) == {("warning", "card.member-type", "/".join(["card", *place]))}


@pytest.mark.parametrize("place", [("metadata",), ("goal_subscriptions",), ("capabilities", 0, "tags")])
def test_null_is_refused_where_no_dialect_has_it(place: tuple[Any, ...]) -> None:
    document = changed(whole(), place, None)
    assert told(document) == {("error", "card.member-type", "/".join(["card", *map(str, place)]))}


@EACH
def test_unknown_members_at_every_level_are_kept_and_noted(document: JsonObject, name: str) -> None:
    more = {"deep": [{"a": None}, 1.5, "ü"]}
    inside: list[tuple[Any, ...]] = [(), ("capabilities", 0), ("endpoint",), ("endpoint", "auth"), ("pricing",)]
    for place in inside:
        document = changed(document, (*place, "x_more"), more)
    document = changed(document, ("metadata", "x_more"), more)
    assert told(document) == set()
    noted = {("note", "card.member-unknown", "/".join(["card", *map(str, p), "x_more"])) for p in inside}
    assert noted <= told(document, notes=True)
    assert same_json(read_card(document).document, document)


def test_signatures_are_a_member_like_any_other() -> None:
    """AgentCard has none, so what stands there is not ours to drop."""
    document = MINIMAL | {"signatures": [{"protected": "x", "signature": "y"}]}
    assert same_json(read_card(document).document, document)


def test_what_is_recommended_is_noted() -> None:
    document = changed(MINIMAL, ("capabilities", 0), {"id": "summarise"})
    assert told(document, notes=True) == {
        ("note", "card.member-missing", "card/capabilities/0/description"),
        ("note", "card.member-value", "card/capabilities/0/id"),
    }


@pytest.mark.parametrize("name", ["text.a", "tool.a", "data.a", "fn.a", "a2a.a", "com.example.a"])
def test_conventional_names_are_not_noted(name: str) -> None:
    assert told(changed(MINIMAL, ("capabilities", 0, "id"), name), notes=True) == set()


def test_two_capabilities_of_one_id_are_warned_of() -> None:
    capability = {"id": "text.a", "description": "A."}
    document = MINIMAL | {"capabilities": [capability, "x", {"id": 1}, capability]}
    assert ("warning", "card.ambiguous", "card/capabilities/3/id") in told(document)


@pytest.mark.parametrize("tier", ["untrusted", "basic", "established", "verified", "banned"])
def test_a_self_declared_tier_is_only_ever_a_note(tier: str) -> None:
    """It makes nothing better and nothing worse; the agent that calls itself banned is pointed out."""
    document = MINIMAL | {"metadata": {"pacr:trust_tier": tier, "x": tier}}
    assert told(document, notes=True) == {("note", "agentcard.self-declared", "card/metadata/pacr:trust_tier")}
    (hint,) = hints(document, "agentcard.self-declared")
    assert ("do not call it" in hint) is (tier == "banned")


# -- the others -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "value", "rule"),
    [
        (("capabilities", 0, "description"), ABSENT, "card.member-missing"),
        (("capabilities", 0, "description"), "", "card.member-value"),
        (("capabilities", 0, "description"), "a" * 513, "card.member-value"),
        (("capabilities", 0, "id"), "a" * 129, "card.member-value"),
        (("endpoint", "protocol"), "https", "card.member-value"),
        (("endpoint", "auth", "scheme"), ABSENT, "card.member-missing"),
        (("endpoint", "health_url"), "javascript:alert(1)", "card.member-value"),
        (("metadata", "pacr:reputation_score"), 1.1, "card.member-value"),
        (("pricing", "base_cost_joules"), 1e-30, "agentcard.cost-floor"),
        (("pricing", "estimated_latency_ms"), "fast", "card.member-type"),
    ],
)
def test_the_readme_refuses(place: tuple[Any, ...], value: Any, rule: str) -> None:
    found = told(changed(readme(), place, value), README.format.name)
    assert found == {("error", rule, "/".join(["card", *map(str, place)]))}


def test_the_readme_takes_null_and_https_behind_http() -> None:
    document = readme() | {"pricing": {"base_cost_joules": None}}
    assert told(changed(document, ("endpoint", "auth"), None), README.format.name) == set()
    assert ("error", "card.member-value", "card/endpoint/url") in told(readme(), DRAFT.format.name)


@pytest.mark.parametrize(
    ("place", "value", "rule"),
    [
        (("endpoint", "auth", "scopes"), "read", "card.member-type"),
        (("endpoint", "auth"), None, "card.member-type"),
        (("pricing", "base_cost_currency"), -1, "card.member-value"),
        (("metadata", "pacr:ossification_risk"), "none", "card.member-value"),
        (("endpoint", "protocol"), "websocket", "card.member-value"),
    ],
)
def test_the_mcp_server_refuses(place: tuple[Any, ...], value: Any, rule: str) -> None:
    found = told(changed(mcp(), place, value), MCP.format.name)
    assert found == {("error", rule, "/".join(["card", *map(str, place)]))}


def test_reading_takes_time_that_grows_with_the_document() -> None:
    capability: JsonValue = {"id": "text.a", "input_schema": {"properties": {f"p{n}": {} for n in range(20)}}}
    document: JsonObject = MINIMAL | {"capabilities": [capability] * 2000}
    start = time.process_time()
    examine_document(document)
    assert time.process_time() - start < 10


# -- An AgentCard in a JSON string: one level of it, and an AgentCard alone -------------------------------------------


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


def test_the_first_example_of_the_readme_is_valid_without_naming_its_dialect() -> None:
    document: JsonObject = {
        "agent_id": "01HZQK3P8EMXR9V7T5N2W4J6C0",
        "name": "My Agent",
        "version": "1.0.0",
        "capabilities": [{"id": "text.generate", "description": "Generate text given a prompt"}],
        "endpoint": {"protocol": "http", "url": "https://agent.example.com/api"},
    }
    examination = examine(document)
    assert (examination.kind, examination.card is not None) == ("agentcard/readme-1.0", True)
    assert any("checked against the README" in finding.hint for finding in examination.findings)
