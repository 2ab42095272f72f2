"""KNO → A2A: what comes out is valid there, nothing that stays inside is in it, and all that is lost is listed."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings

from sdcard.cards.conversion import Conversion
from sdcard.cards.detect import examine_document, parse_card_file, read_card
from sdcard.cards.kno.card import PERSONA
from sdcard.cards.kno.conversion import to_0_3, to_1_0
from sdcard.cards.model import Card
from sdcard.encoding import JsonObject, encode_json
from sdcard.errors import Level, Misuse
from tests.groups import examples
from tests.sdcard.cards.documents import ABSENT, changed, georoute
from tests.sdcard.cards.kno.cards import CANARY, VALID, kno, outside
from tests.shared import shared_dir
from tests.world import outcome, raises_rule

BOTH = pytest.mark.parametrize("convert", [to_0_3, to_1_0])
Convert = Callable[[Card], Conversion]


def lost(conversion: Conversion) -> set[tuple[str, str, str]]:
    return {(one.level.value, one.rule.value, str(one.where)) for one in conversion.lost}


def converted(convert: Convert, document: JsonObject) -> Any:
    return convert(read_card(document)).document


def test_to_0_3_member_by_member() -> None:
    assert converted(to_0_3, kno()) == {
        "protocolVersion": "0.3.0",
        "name": "Drift Agent",
        "description": "Finds what has drifted",
        "version": "1.0.0",
        "url": "https://agent.example.com/a2a",
        "preferredTransport": "JSONRPC",
        "documentationUrl": "https://agent.example.com/docs",
        "provider": {"organization": "Possibility", "url": "https://possibility.example.com"},
        "capabilities": {"streaming": True, "pushNotifications": False, "stateTransitionHistory": True},
        "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        "security": [{"bearer": []}],
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain", "application/json"],
        "skills": [
            {
                "id": "find",
                "name": "Find",
                "description": "Finds",
                "tags": ["drift"],
                "examples": ["What drifted?"],
                "inputModes": ["text/plain"],
                "outputModes": ["application/json"],
            },
            {"id": "tell", "name": "Tell", "description": "Tell", "tags": []},
        ],
    }


def test_to_1_0_differs_in_the_endpoint_the_security_and_the_history() -> None:
    older, newer = converted(to_0_3, kno()), converted(to_1_0, kno())

    gone = {"protocolVersion", "url", "preferredTransport", "security"}
    assert newer.keys() - older.keys() == {"supportedInterfaces", "securityRequirements"}
    assert older.keys() - newer.keys() == gone
    assert newer["supportedInterfaces"] == [
        {"url": "https://agent.example.com/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    ]
    assert newer["capabilities"] == {"streaming": True, "pushNotifications": False}
    assert newer["securitySchemes"] == {"bearer": {"httpAuthSecurityScheme": {"scheme": "bearer"}}}
    assert newer["securityRequirements"] == [{"schemes": {"bearer": {"list": []}}}]
    same = older.keys() - gone - {"capabilities", "securitySchemes"}
    assert {name: newer[name] for name in same} == {name: older[name] for name in same}


def test_what_is_lost_is_listed() -> None:
    gone = ("id", "slug", *PERSONA, "authentication/credentials")
    in_both = {
        *(("warning", "card.lost-in-conversion", f"card/{name}") for name in gone),
        ("note", "card.lost-in-conversion", "card/$schema"),
        ("warning", "card.member-missing", "card/url"),
        ("warning", "card.member-missing", "card/skills/1/description"),
    }
    card = read_card(kno())

    assert lost(to_0_3(card)) == in_both
    assert lost(to_1_0(card)) == in_both | {
        ("warning", "card.lost-in-conversion", "card/capabilities/state_transition_history"),
        ("warning", "card.member-missing", "card/skills/1/tags"),
    }
    assert all(one.hint for one in (*to_0_3(card).lost, *to_1_0(card).lost))


@BOTH
@pytest.mark.parametrize(
    ("place", "value", "listed"),
    [
        (("description",), ABSENT, ("warning", "card.member-missing", "card/description")),
        (("default_input_modes",), ABSENT, ("note", "card.member-missing", "card/default_input_modes")),
        (("default_output_modes",), None, ("note", "card.member-missing", "card/default_output_modes")),
        (("provider", "url"), ABSENT, ("warning", "card.lost-in-conversion", "card/provider")),
        (("provider", "x"), 1, ("warning", "card.lost-in-conversion", "card/provider/x")),
        (("capabilities", "x"), 1, ("warning", "card.lost-in-conversion", "card/capabilities/x")),
        (("skills", 0, "x"), 1, ("warning", "card.lost-in-conversion", "card/skills/0/x")),
        (("_history",), {"by": CANARY}, ("warning", "card.lost-in-conversion", "card/_history")),
        (("visibility",), "public", ("warning", "card.lost-in-conversion", "card/visibility")),
    ],
    ids=str,
)
def test_what_a_card_has_more_or_less_is_listed(
    convert: Convert, place: tuple[str | int, ...], value: Any, listed: tuple[str, str, str]
) -> None:
    conversion = convert(read_card(changed(kno(), place, value)))
    assert listed in lost(conversion)
    assert encode_json(conversion.document).count(b'"x"') == 0


@BOTH
def test_only_the_names_of_known_members_are_changed(convert: Convert) -> None:
    document = kno() | {"name": "push_notifications", "default_input_modes": ["default_input_modes"]}
    made = converted(convert, document)
    assert (made["name"], made["defaultInputModes"]) == ("push_notifications", ["default_input_modes"])


# -- authentication ---------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    ("authentication", "schemes"),
    [
        (None, []),
        ({}, []),
        ({"schemes": []}, []),
        ({"schemes": ["None"]}, []),
        ({"schemes": ["Bearer", "bearer"]}, ["bearer"]),
        ({"schemes": ["BASIC", "Digest"]}, ["basic", "digest"]),
    ],
)
def test_http_schemes_become_alternatives(convert: Convert, authentication: Any, schemes: list[str]) -> None:
    made = converted(convert, kno() | {"authentication": authentication})
    required = made.get("security", made.get("securityRequirements", []))
    assert list(made.get("securitySchemes", {})) == schemes
    assert [next(iter(one.get("schemes", one))) for one in required] == schemes


@BOTH
@pytest.mark.parametrize("scheme", ["OAuth2", "ApiKey", "apiKey", "OpenIdConnect", "mTLS", "none", "", "Bearer "])
def test_a_scheme_that_says_too_little_is_refused_beside_any_other(convert: Convert, scheme: str) -> None:
    card = read_card(kno() | {"authentication": {"schemes": ["Bearer", scheme]}})
    with raises_rule("card.not-convertible", at="card/authentication/schemes/1"):
        convert(card)


@BOTH
def test_credentials_for_no_scheme_are_refused(convert: Convert) -> None:
    card = read_card(kno() | {"authentication": {"credentials": "https://agent.example.com/token"}})
    with raises_rule("card.not-convertible", at="card/authentication"):
        convert(card)


# -- what holds for every card ----------------------------------------------------------------------------------------


@BOTH
def test_other_cards_are_misuse(convert: Convert) -> None:
    with pytest.raises(Misuse):
        convert(read_card(georoute()))


@BOTH
@pytest.mark.parametrize("name", ["echo-agent.kno", "auth-agent.kno"])
def test_the_examples_become_cards_with_nothing_to_mend(convert: Convert, name: str) -> None:
    card = parse_card_file((shared_dir() / "cards" / "kno" / name).read_bytes())
    examined = examine_document(convert(card).document)
    assert (examined.kind, examined.findings) == ("a2a/0.3" if convert is to_0_3 else "a2a/1.0", ())


@given(VALID)
@settings(max_examples=examples(150))
def test_every_card_becomes_a_valid_one_that_shows_nothing_from_inside(document: JsonObject) -> None:
    card = read_card(document)
    for convert, kind in ((to_0_3, "a2a/0.3"), (to_1_0, "a2a/1.0")):
        conversion = convert(card)
        examined = examine_document(conversion.document)
        assert (examined.kind, [one for one in examined.findings if one.level is Level.ERROR]) == (kind, [])
        assert CANARY.encode() not in encode_json(conversion.document)


@given(VALID)
def test_every_top_level_member_is_carried_or_listed(document: JsonObject) -> None:
    conversion = to_1_0(read_card(document))
    carried = {"name", "version", "description", "url", "documentation_url", "capabilities", "skills"}
    carried |= {"default_input_modes", "default_output_modes", "authentication"}
    carried |= {"provider"} if "provider" in conversion.document else set()
    listed = {one.where.path[0] for one in conversion.lost if one.rule == "card.lost-in-conversion"}
    assert {name for name, value in document.items() if value is not None} <= carried | listed


def test_nothing_that_was_given_is_changed() -> None:
    document = outside()
    card = read_card(document)
    assert isinstance(outcome(lambda: to_0_3(card)), Conversion)
    assert document == outside()


@BOTH
@pytest.mark.parametrize("said", [{"scheme": "bearer"}, {"type": "bearer"}, {"schemes": [], "required": True}])
def test_authentication_that_names_no_scheme_never_becomes_none(convert: Convert, said: JsonObject) -> None:
    card = read_card(kno() | {"authentication": said})
    with raises_rule("card.not-convertible", at="card/authentication"):
        convert(card)


@BOTH
@pytest.mark.parametrize("name", ["security", "securitySchemes", "security_schemes", "securityRequirements", "auth"])
def test_security_stated_where_kno_has_none_never_gets_lost(convert: Convert, name: str) -> None:
    with raises_rule("card.not-convertible", at=f"card/{name}"):
        convert(read_card(kno() | {name: [{"bearer": []}]}))
    skills: Any = kno()["skills"]
    with raises_rule("card.not-convertible", at=f"card/skills/1/{name}"):
        convert(read_card(kno() | {"skills": [skills[0], skills[1] | {name: {"a": {}}}]}))
    converted(convert, kno() | {name: []})
