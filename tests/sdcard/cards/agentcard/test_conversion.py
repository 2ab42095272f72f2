"""AgentCard → A2A 1.0: what comes out reads as A2A, what does not is refused, and what was lost is listed."""

from typing import Any

import pytest

from sdcard.cards.agentcard.conversion import EXTENSION
from sdcard.cards.conversion import Conversion
from sdcard.cards.converting import convert_card
from sdcard.cards.detect import examine_card, examine_document, read_card
from sdcard.cards.model import Card
from sdcard.encoding import JsonObject
from sdcard.errors import Level, Refused
from tests.sdcard.cards.agentcard.cards import MINIMAL, conformance, mcp, readme, whole
from tests.sdcard.cards.documents import ABSENT, Told, changed

ASSUMED = {("warning", "card/description"), ("warning", "card/endpoint/protocol"), ("note", "card/agent_id")}


def to_1_0(card: Card) -> Conversion:
    return convert_card(card, "a2a/1.0")


def convert(document: JsonObject) -> JsonObject:
    return to_1_0(read_card(document)).document


def lost(document: JsonObject) -> set[tuple[str, str]]:
    found = to_1_0(read_card(document)).lost
    assert {finding.rule.value for finding in found} == {"card.lost-in-conversion"}
    assert all(finding.hint for finding in found)
    return {(finding.level.value, str(finding.where)) for finding in found}


def test_a_card_becomes_an_a2a_card() -> None:
    source = whole()
    assert convert(source) == {
        "name": "GeoRoute Agent",
        "description": "Find the best route between stops, with the traffic that is expected. "
        "Send vehicles of the own fleet to places.",
        "version": "1.4.0",
        "supportedInterfaces": [
            {"url": "https://georoute-agent.example.com/api", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}
        ],
        "capabilities": {
            "extensions": [
                {
                    "uri": EXTENSION,
                    "description": "What the AgentCard says that A2A has no member for.",
                    "params": {
                        name: source[name] for name in ("agent_id", "pricing", "metadata", "goal_subscriptions")
                    },
                }
            ]
        },
        "skills": [
            {
                "id": "tool.route_optimizer",
                "name": "tool.route_optimizer",
                "description": "Find the best route between stops, with the traffic that is expected.",
                "tags": ["maps", "routing", "traffic"],
            },
            {
                "id": "com.example.fleet.dispatch",
                "name": "com.example.fleet.dispatch",
                "description": "Send vehicles of the own fleet to places.",
                "tags": ["fleet"],
            },
        ],
        "securitySchemes": {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
        "securityRequirements": [{"schemes": {"bearer": {"list": []}}}],
    }
    assert lost(source) == ASSUMED | {
        ("note", "card/pricing"),
        ("note", "card/metadata"),
        ("note", "card/goal_subscriptions"),
        ("warning", "card/capabilities/0/input_schema"),
        ("warning", "card/capabilities/0/output_schema"),
    }


@pytest.mark.parametrize("document", [MINIMAL, whole(), readme(), mcp()])
def test_what_comes_out_is_an_a2a_card_by_its_marks(document: JsonObject) -> None:
    examination = examine_document(convert(document))
    assert examination.kind == "a2a/1.0"
    assert [f for f in examination.findings if f.level is Level.ERROR] == []


def test_every_valid_conformance_case_is_converted_or_refused_for_a_reason() -> None:
    """All but those without a binding, and the one whose capabilities share an id, which A2A forbids."""
    refused: dict[str, Told] = {}
    for case in conformance():
        card = examine_card(case["data"]).card
        if card is None:
            continue
        try:
            assert examine_document(to_1_0(card).document).card is not None, case["id"]
        except Refused as refusal:
            refused[case["id"]] = {(f.level.value, f.rule.value, str(f.where)) for f in refusal.findings}
    no_binding = {("error", "card.not-convertible", "card/endpoint/protocol")}
    for case_id, findings in refused.items():
        assert findings == no_binding or case_id == "cap-dup-id", case_id
    assert refused["cap-dup-id"] == {("error", "card.not-convertible", "card/skills/1/id")}


@pytest.mark.parametrize("protocol", ["mcp", "stdio"])
def test_an_endpoint_without_a_binding_is_refused(protocol: str) -> None:
    document = MINIMAL | {"endpoint": {"protocol": protocol, "url": f"{protocol}://a.example"}}
    with pytest.raises(Refused) as refusal:
        convert(document)
    assert (refusal.value.rule, str(refusal.value.where)) == ("card.not-convertible", "card/endpoint/protocol")


@pytest.mark.parametrize("protocol", ["websocket", "sse", "native"])
def test_neither_have_those_of_the_readme(protocol: str) -> None:
    document = readme() | {
        "endpoint": {"protocol": protocol, "url": "https://a.example", "health_url": "https://a.example"}
    }
    with pytest.raises(Refused, match=r"card\.not-convertible"):
        convert(document)


@pytest.mark.parametrize(
    ("endpoint", "binding"),
    [
        ({"protocol": "http", "url": "http://a.example"}, "HTTP+JSON"),
        ({"protocol": "grpc", "url": "grpc://a.example:443"}, "GRPC"),
        ({"protocol": "google_a2a", "url": "https://a.example", "health_url": "https://a.example/h"}, "JSONRPC"),
    ],
)
def test_a_binding_is_assumed_from_the_protocol_and_that_is_said(endpoint: JsonObject, binding: str) -> None:
    document = MINIMAL | {"endpoint": endpoint}
    assert convert(document)["supportedInterfaces"] == [
        {"url": endpoint["url"], "protocolBinding": binding, "protocolVersion": "1.0"}
    ]
    assert ("warning", "card/endpoint/protocol") in lost(document)


AUTH: list[tuple[JsonObject, JsonObject | None, set[str]]] = [
    ({}, None, set()),
    ({"scheme": "none"}, None, set()),
    ({"scheme": "bearer"}, {"httpAuthSecurityScheme": {"scheme": "Bearer"}}, set()),
    ({"scheme": "mtls"}, {"mtlsSecurityScheme": {}}, set()),
    ({"scheme": "mtls", "x": 1}, {"mtlsSecurityScheme": {}}, {"x"}),
    (
        {"scheme": "api_key", "header": "X-Key"},
        {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}},
        set(),
    ),
    ({"scheme": "oauth2"}, {"httpAuthSecurityScheme": {"scheme": "Bearer"}}, {"scheme"}),
    (
        {"scheme": "oauth2", "token_url": "https://a.example/t", "scopes": ["r"]},
        {
            "oauth2SecurityScheme": {
                "flows": {"clientCredentials": {"tokenUrl": "https://a.example/t", "scopes": {"r": ""}}}
            }
        },
        {"scheme"},
    ),
    (
        {"scheme": "bearer", "token_url": "https://a.example/t"},
        {"httpAuthSecurityScheme": {"scheme": "Bearer"}},
        {"token_url"},
    ),
]


@pytest.mark.parametrize(("auth", "scheme", "gone"), AUTH)
def test_authentication_stays_demanded(auth: JsonObject, scheme: JsonObject | None, gone: set[str]) -> None:
    document = changed(MINIMAL, ("endpoint", "auth"), auth)
    converted = convert(document)
    name = str(auth.get("scheme"))
    assert converted.get("securitySchemes") == ({name: scheme} if scheme else None)
    assert converted.get("securityRequirements") == (
        [{"schemes": {name: {"list": auth.get("scopes", [])}}}] if scheme else None
    )
    assert {place for _, place in lost(document) - ASSUMED} == {f"card/endpoint/auth/{one}" for one in gone}


@pytest.mark.parametrize("header", [ABSENT, "", 1])
def test_a_key_of_which_nobody_knows_where_it_goes_is_refused(header: Any) -> None:
    auth: JsonObject = {"scheme": "api_key"} if header is ABSENT else {"scheme": "api_key", "header": header}
    with pytest.raises(Refused) as refusal:
        convert(changed(MINIMAL, ("endpoint", "auth"), auth))
    assert (refusal.value.rule, str(refusal.value.where)) == ("card.not-convertible", "card/endpoint/auth/header")


def test_everything_that_is_nowhere_in_the_result_is_listed() -> None:
    document = changed(MINIMAL | {"x": 1, "y": None}, ("capabilities", 0, "cost"), 1)
    document = changed(document, ("endpoint", "health_url"), "https://a.example/h")
    assert lost(document) - ASSUMED == {
        ("warning", "card/x"),
        ("warning", "card/capabilities/0/cost"),
        ("warning", "card/endpoint/health_url"),
    }


@pytest.mark.parametrize(
    ("more", "description"),
    [
        ({"description": "Mine."}, "Mine."),
        ({"description": ""}, "Summarise."),
        ({"description": 1}, "Summarise."),
        ({"capabilities": [{"id": "text.a"}, {"id": "text.b", "description": "B."}]}, "text.a B."),
    ],
)
def test_the_description_is_the_agents_own_words(more: JsonObject, description: str) -> None:
    assert convert(MINIMAL | more)["description"] == description
    assert (("warning", "card/description") in lost(MINIMAL | more)) is (description != "Mine.")


def test_it_cannot_become_a_card_of_0_3() -> None:
    with pytest.raises(Refused, match=r"card\.not-convertible"):
        convert_card(read_card(MINIMAL), "a2a/0.3")


@pytest.mark.parametrize("auth", [{"type": "bearer"}, {"schemes": ["bearer"]}, {"header": "X-Key"}])
def test_authentication_that_names_no_scheme_never_becomes_none(auth: JsonObject) -> None:
    with pytest.raises(Refused) as refusal:
        convert(changed(MINIMAL, ("endpoint", "auth"), auth))
    assert (refusal.value.rule, str(refusal.value.where)) == ("card.not-convertible", "card/endpoint/auth/scheme")


@pytest.mark.parametrize(
    "place",
    [("auth",), ("securitySchemes",), ("security",), ("endpoint", "authentication"), ("endpoint", "security_schemes")]
    + [("capabilities", 0, "security"), ("authorization",)],
)
def test_security_stated_where_agentcard_has_none_never_gets_lost(place: tuple[str | int, ...]) -> None:
    with pytest.raises(Refused) as refusal:
        convert(changed(MINIMAL, place, {"scheme": "bearer"}))
    where = "/".join(map(str, ("card", *place)))
    assert (refusal.value.rule, str(refusal.value.where)) == ("card.not-convertible", where)
