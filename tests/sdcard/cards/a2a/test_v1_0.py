"""A2A 1.0: start from a good card, change one thing, expect one finding at one place."""

from collections.abc import Callable
from functools import reduce
from typing import Any

import pytest

from sdcard.cards.detect import examine_document
from sdcard.encoding import JsonObject, JsonValue
from sdcard.paths import Place
from tests.sdcard.cards.documents import (
    ABSENT,
    changed,
    georoute,
    georoute_0_1,
    georoute_0_2,
    georoute_0_3,
    georoute_plain,
    told,
)

# -- A2A 1.0: start from a good card, change one thing, expect one finding at one place -------------------------------

INTERFACES = "supportedInterfaces"
INTERFACE = {"url": "https://a.example.com", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
FLOW = {"tokenUrl": "https://a.example.com/token", "scopes": {}}


@pytest.mark.parametrize(
    "place",
    [
        ("name",),
        ("description",),
        ("version",),
        (INTERFACES,),
        ("capabilities",),
        ("skills",),
        (INTERFACES, 1, "url"),
        (INTERFACES, 1, "protocolBinding"),
        ("skills", 1, "id"),
        ("skills", 1, "name"),
        ("securitySchemes", "partnerKey", "apiKeySecurityScheme", "name"),
        ("securitySchemes", "partnerKey", "apiKeySecurityScheme", "location"),
        ("securitySchemes", "identity", "openIdConnectSecurityScheme", "openIdConnectUrl"),
        ("securitySchemes", "service", "oauth2SecurityScheme", "flows"),
        ("securitySchemes", "service", "oauth2SecurityScheme", "flows", "clientCredentials", "tokenUrl"),
    ],
)
def test_what_a_reader_cannot_do_without_is_an_error(place: Place) -> None:
    where = "/".join(["card", *map(str, place)])
    assert told(changed(georoute(), place, ABSENT)) == {("error", "card.member-missing", where)}


@pytest.mark.parametrize(
    "place",
    [
        ("defaultInputModes",),
        ("defaultOutputModes",),
        ("provider", "url"),
        ("provider", "organization"),
        (INTERFACES, 0, "protocolVersion"),
        ("skills", 0, "tags"),
        ("skills", 0, "description"),
        ("securitySchemes", "service", "oauth2SecurityScheme", "flows", "clientCredentials", "scopes"),
    ],
)
def test_what_readers_live_without_is_a_warning(place: Place) -> None:
    where = "/".join(["card", *map(str, place)])
    assert told(changed(georoute(), place, ABSENT)) == {("warning", "card.member-missing", where)}


@pytest.mark.parametrize(
    "place",
    [
        ("provider",),
        ("iconUrl",),
        ("documentationUrl",),
        ("securityRequirements",),
        (INTERFACES, 1, "tenant"),
        ("capabilities", "streaming"),
        ("capabilities", "extensions"),
        ("capabilities", "extensions", 0, "uri"),
        ("skills", 0, "examples"),
        ("skills", 0, "inputModes"),
        ("skills", 2, "securityRequirements"),
    ],
)
def test_what_is_optional_may_be_absent(place: Place) -> None:
    assert told(changed(georoute(), place, ABSENT)) == set()


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("name",), 1),
        (("description",), []),
        (("version",), 1.2),
        (("capabilities",), ["streaming"]),
        (("skills",), {}),
        (("skills", 0), "x"),
        (("skills", 0), None),
        (("skills", 0, "tags"), "x"),
        (("skills", 0, "tags", 0), 1),
        (("skills", 0, "examples"), {}),
        (("skills", 0, "examples", 0), {}),
        (("defaultInputModes",), "text/plain"),
        (("capabilities", "streaming"), "true"),
        (("capabilities", "streaming"), 1),
        (("capabilities", "extensions"), {}),
        (("capabilities", "extensions", 0, "params"), []),
        (("provider",), "x"),
        (("iconUrl",), {}),
        ((INTERFACES,), "x"),
        ((INTERFACES, 0), "x"),
        ((INTERFACES, 0, "url"), 1),
        ((INTERFACES, 0, "tenant"), 1),
        (("securitySchemes",), []),
        (("securitySchemes", "identity"), None),
        (("securitySchemes", "identity"), "x"),
        (("securityRequirements",), {}),
        (("securityRequirements", 0), []),
        (("securityRequirements", 0, "schemes"), ["identity"]),
        (("securityRequirements", 0, "schemes", "identity"), ["openid"]),
    ],
)
def test_a_known_member_of_another_type_is_an_error(place: Place, value: Any) -> None:
    where = "/".join(["card", *map(str, place)])
    assert ("error", "card.member-type", where) in told(changed(georoute(), place, value))


@pytest.mark.parametrize(
    ("place", "value", "level"),
    [
        (("skills",), [], "warning"),
        (("skills", 0, "tags"), [], "warning"),
        (("defaultInputModes",), [], "warning"),
        (("name",), "", "warning"),
        (("description",), "", "warning"),
        ((INTERFACES, 0, "protocolVersion"), "", "warning"),
        ((INTERFACES,), [], "error"),
        ((INTERFACES, 0, "url"), "", "error"),
        ((INTERFACES, 0, "protocolBinding"), "", "error"),
        (("skills", 0, "id"), "", "error"),
    ],
)
def test_emptiness_matters_as_much_as_readers_care(place: Place, value: Any, level: str) -> None:
    where = "/".join(["card", *map(str, place)])
    assert told(changed(georoute(), place, value)) == {(level, "card.member-value", where)}


@pytest.mark.parametrize("binding", ["JSONRPC", "GRPC", "https://a.example.com/bindings/carrier-pigeon", "x"])
def test_any_binding_is_fine(binding: str) -> None:
    assert told(changed(georoute(), (INTERFACES, 0, "protocolBinding"), binding)) == set()


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("url",), "https://a.example.com"),
        (("protocolVersion",), "0.3.0"),
        (("preferredTransport",), "JSONRPC"),
        (("additionalInterfaces",), []),
        (("security",), [{"identity": []}]),
        (("authentication",), {"schemes": []}),
        (("supportsAuthenticatedExtendedCard",), True),
        (("supports_authenticated_extended_card",), True),
        (("capabilities", "stateTransitionHistory"), False),
        (("skills", 0, "security"), []),
        ((INTERFACES, 0, "transport"), "JSONRPC"),
    ],
)
def test_members_of_other_versions_are_each_warned_about(place: Place, value: Any) -> None:
    where = "/".join(["card", *map(str, place)])
    found = told(changed(georoute(), place, value))
    assert {one for one in found if one[1] == "card.ambiguous"} == {("warning", "card.ambiguous", where)}
    assert all(level == "warning" for level, _, _ in found)


@pytest.mark.parametrize(
    ("place", "value", "rule", "where"),
    [
        (("url",), "javascript:alert(1)", "card.member-value", "card/url"),
        (("url",), 1, "card.member-type", "card/url"),
        (
            ("additionalInterfaces",),
            [{"url": "https://a.example.com"}],
            "card.member-missing",
            "card/additionalInterfaces/0/transport",
        ),
        (("security",), [{"nobody": []}], "card.member-value", "card/security/0/nobody"),
        (("skills", 0, "security"), [{"nobody": []}], "card.member-value", "card/skills/0/security/0/nobody"),
    ],
)
def test_and_they_are_still_checked_for_those_who_read_them(place: Place, value: Any, rule: str, where: str) -> None:
    assert ("error", rule, where) in told(changed(georoute(), place, value))


@pytest.mark.parametrize(
    "place",
    [
        (INTERFACES,),
        ("defaultInputModes",),
        ("iconUrl",),
        ("securitySchemes",),
        ("securityRequirements",),
        (INTERFACES, 0, "protocolBinding"),
        ("skills", 0, "inputModes"),
        ("capabilities", "pushNotifications"),
        ("securitySchemes", "identity", "openIdConnectSecurityScheme"),
    ],
)
def test_snake_case_is_read_with_a_warning(place: Place) -> None:
    snake = "".join("_" + letter.lower() if letter.isupper() else letter for letter in str(place[-1]))
    value: Any = georoute()
    for segment in place:
        value = value[segment]
    respelt = changed(changed(georoute(), place, ABSENT), (*place[:-1], snake), value)
    where = "/".join(["card", *map(str, place[:-1]), snake])
    assert told(respelt) == {("warning", "card.member-value", where)}


def test_one_member_in_two_spellings_is_an_error() -> None:
    assert told(changed(georoute(), ("icon_url",), "https://a.example.com/i.png")) == {
        ("error", "card.ambiguous", "card/icon_url")
    }


def test_skills_that_share_an_id_are_an_error() -> None:
    assert told(changed(georoute(), ("skills", 2, "id"), "route-optimizer-traffic")) == {
        ("error", "card.ambiguous", "card/skills/2/id")
    }


@pytest.mark.parametrize(
    ("place", "value", "rule"),
    [
        (("securitySchemes", "identity"), {}, "card.member-missing"),
        (("securitySchemes", "identity", "mtlsSecurityScheme"), {}, "card.ambiguous"),
        (("securitySchemes", "service", "oauth2SecurityScheme", "flows"), {}, "card.member-missing"),
        (("securitySchemes", "service", "oauth2SecurityScheme", "flows", "password"), FLOW, "card.ambiguous"),
    ],
)
def test_a_scheme_and_its_flow_are_exactly_one_of_their_kind(place: Place, value: Any, rule: str) -> None:
    (found,) = [one for one in told(changed(georoute(), place, value)) if one[0] == "error"]
    assert found[1] == rule


@pytest.mark.parametrize(
    "scheme",
    [
        {"mtlsSecurityScheme": {}},
        {"httpAuthSecurityScheme": {"scheme": "Bearer", "bearerFormat": "JWT"}},
        {
            "oauth2SecurityScheme": {
                "flows": {"deviceCode": FLOW | {"deviceAuthorizationUrl": "https://a.example.com/d"}}
            }
        },
        {
            "oauth2SecurityScheme": {
                "flows": {
                    "authorizationCode": FLOW | {"authorizationUrl": "https://a.example.com/a", "pkceRequired": True}
                }
            }
        },
    ],
)
def test_every_kind_of_scheme_is_read(scheme: JsonObject) -> None:
    assert told(changed(georoute(), ("securitySchemes", "more"), scheme)) == set()


@pytest.mark.parametrize("flow", ["implicit", "password"])
def test_nothing_is_demanded_of_a_deprecated_flow_and_it_is_warned_of(flow: str) -> None:
    for wrapper in ("oauth2SecurityScheme", "oauth2_security_scheme"):
        scheme: JsonObject = {wrapper: {"flows": {flow: {}}}}
        where = f"card/securitySchemes/more/{wrapper}/flows/{flow}"
        found = told(changed(georoute(), ("securitySchemes", "more"), scheme))
        assert ("warning", "card.member-value", where) in found
        assert "error" not in {level for level, _, _ in found}


@pytest.mark.parametrize(
    "scheme",
    [
        {"type": "apiKey", "in": "header", "name": "X-Key"},
        {"type": "mutualTLS"},
        {"type": "http", "scheme": "bearer"},
        {"type": "oauth2", "flows": {"implicit": {"authorizationUrl": "https://a.example.com/a", "scopes": {}}}},
    ],
)
def test_a_scheme_written_as_in_0_3_is_read_with_a_warning(scheme: JsonObject) -> None:
    found = told(changed(georoute(), ("securitySchemes", "more"), scheme))
    deprecated = ("warning", "card.member-value", "card/securitySchemes/more/flows/implicit")
    assert found - {deprecated} == {("warning", "card.ambiguous", "card/securitySchemes/more")}
    assert (deprecated in found) == ("flows" in scheme)


@pytest.mark.parametrize(
    ("scheme", "rule", "where"),
    [
        ({"type": "magic"}, "card.member-value", "card/securitySchemes/more/type"),
        ({"type": "apiKey", "name": "X-Key"}, "card.member-missing", "card/securitySchemes/more/in"),
    ],
)
def test_and_it_is_checked_as_one_of_0_3(scheme: JsonObject, rule: str, where: str) -> None:
    assert ("error", rule, where) in told(changed(georoute(), ("securitySchemes", "more"), scheme))


def test_a_wrapper_decides_whatever_type_stands_beside_it() -> None:
    scheme = {"type": "magic", "mtlsSecurityScheme": {}}
    assert told(changed(georoute(), ("securitySchemes", "more"), scheme)) == set()


@pytest.mark.parametrize("wrap", [lambda value: {"a": value}, lambda value: [value]], ids=["objects", "arrays"])
def test_parameters_that_protobuf_readers_cannot_read_are_an_error(wrap: Callable[[Any], Any]) -> None:
    place = ("capabilities", "extensions", 0, "params")
    params: JsonObject = {"a": reduce(lambda value, _: wrap(value), range(38), 1)}
    assert told(changed(georoute(), place, params)) == set()
    assert told(changed(georoute(), place, {"a": wrap(wrap(params["a"]))})) == {
        ("error", "card.member-value", "card/capabilities/extensions/0/params")
    }


def test_the_word_text_is_read_as_a_media_type_with_a_note() -> None:
    found = told(georoute() | {"defaultInputModes": ["text"]})
    assert found == {("note", "card.member-value", "card/defaultInputModes/0")}


@pytest.mark.parametrize(
    ("place", "value", "rule", "where"),
    [
        (
            ("securityRequirements", 0, "schemes", "nobody"),
            {"list": []},
            "card.member-value",
            "card/securityRequirements/0/schemes/nobody",
        ),
        (
            ("skills", 2, "securityRequirements", 0, "schemes", "nobody"),
            {"list": []},
            "card.member-value",
            "card/skills/2/securityRequirements/0/schemes/nobody",
        ),
        (
            ("securityRequirements", 0),
            {"identity": ["openid"]},
            "card.member-missing",
            "card/securityRequirements/0/schemes",
        ),
    ],
)
def test_a_requirement_that_nobody_could_satisfy_is_an_error(place: Place, value: Any, rule: str, where: str) -> None:
    assert told(changed(georoute(), place, value)) == {("error", rule, where)}


def test_requirements_without_any_schemes_dangle_one_by_one() -> None:
    found = told(changed(georoute(), ("securitySchemes",), ABSENT))
    assert {where for level, _, where in found if level == "error"} == {
        "card/securityRequirements/0/schemes/identity",
        "card/securityRequirements/1/schemes/service",
        "card/skills/2/securityRequirements/0/schemes/identity",
        "card/skills/2/securityRequirements/0/schemes/partnerKey",
    }


def test_a_requirement_of_nothing_is_a_way_in_without_credentials() -> None:
    assert told(changed(georoute(), ("securityRequirements", 2), {})) == set()


# -- The generation of a card, and the findings where the card claims another -----------------------------------------

SIGNATURE: JsonObject = {"protected": "eyJhbGciOiJFUzI1NiJ9", "signature": "AAAA"}
ALTERNATIVE: JsonObject = {}
PLAIN_NOTE = ("note", "card.ambiguous", "card")
CLAIM = ("warning", "card.ambiguous", "card/protocolVersion")


def snake(name: str) -> str:
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name)


def respelt(card: JsonObject) -> JsonObject:
    """The same with its own members in snake_case; what is inside stays."""
    return {snake(name): value for name, value in card.items()}


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        (georoute(), "a2a/1.0"),
        (respelt(georoute()), "a2a/1.0"),
        (georoute() | {"url": "https://a.example.com", "protocolVersion": "0.3.0"}, "a2a/1.0"),
        (georoute() | {"protocolVersion": "0.2.9", "authentication": {"schemes": ["Bearer"]}}, "a2a/1.0"),
        (georoute() | {"agent_id": "a", "schema_version": "v1", "type": "x", "services": []}, "a2a/1.0"),
        (georoute_0_3(), "a2a/0.3"),
        (georoute_0_3() | {"protocolVersion": "0.3"}, "a2a/0.3"),
        (georoute_0_3() | {"protocolVersion": "1.0"}, "a2a/0.3"),
        (georoute_0_3() | {"protocolVersion": 1.0}, "a2a/0.3"),
        (georoute_0_3() | {"supportedInterfaces": None}, "a2a/0.3"),
        (changed(georoute_0_3(), ("protocolVersion",), ABSENT), "a2a/0.3"),
        (respelt(georoute_0_3()), "a2a/0.3"),
        (respelt(changed(georoute_0_3(), ("protocolVersion",), ABSENT)), "a2a/0.3"),
        (respelt(georoute_plain()), "a2a/0.3"),
        (georoute_plain() | {"protocolVersion": "2.0"}, "a2a/0.3"),
        (georoute_plain() | {"protocolVersion": "1.0", "type": "x", "registrations": []}, "a2a/0.3"),
        (georoute_plain() | {"signatures": [SIGNATURE]}, "a2a/0.3"),
        (georoute_plain() | {"signatures": []}, "a2a/0.3"),
        (georoute_plain() | {"protocol_version": "0.3.0"}, "a2a/0.3"),
        (georoute_plain() | {"securitySchemes": {"m": {"type": "mutualTLS"}}}, "a2a/0.3"),
        (changed(georoute_plain(), ("skills", 0, "security"), [ALTERNATIVE]), "a2a/0.3"),
        (georoute_0_2() | {"signatures": [SIGNATURE]}, "a2a/0.3"),
        (georoute_0_2(), "a2a/0.2"),
        (georoute_0_2() | {"protocolVersion": "0.2"}, "a2a/0.2"),
        (georoute_0_2() | {"protocolVersion": "0.2.9"}, "a2a/0.2"),
        (respelt(georoute_0_2()), "a2a/0.2"),
        (changed(georoute_0_2(), ("protocolVersion",), ABSENT), "a2a/0.2"),
        (changed(georoute_0_2(), ("url",), ABSENT), "a2a/0.2"),
        (georoute_plain(), "a2a/0.2"),
        (georoute_plain() | {"signatures": None, "protocolVersion": None}, "a2a/0.2"),
        (georoute_plain() | {"agent_id": "a", "tools": [], "schema_version": "v1"}, "a2a/0.2"),
        (changed(georoute_plain(), ("skills",), ABSENT), "a2a/0.2"),
        (georoute_plain() | {"preferredTransport": "JSONRPC"}, "a2a/0.2"),
        (georoute_plain() | {"additionalInterfaces": []}, "a2a/0.2"),
        (georoute_plain() | {"securitySchemes": {}}, "a2a/0.2"),
        (georoute_plain() | {"security": []}, "a2a/0.2"),
        (georoute_0_1() | {"supportsAuthenticatedExtendedCard": False}, "a2a/0.2"),
        (georoute_0_2() | {"authentication": {"schemes": ["Bearer"]}}, "a2a/0.2"),
        (georoute_0_1() | {"protocolVersion": "0.2.0"}, "a2a/0.2"),
        (georoute_0_2() | {"protocolVersion": "0.1.0"}, "a2a/0.2"),
        (georoute_0_1(), "a2a/0.1"),
        (georoute_0_1() | {"iconUrl": "https://a.example.com/i.png"}, "a2a/0.1"),
        (georoute_plain() | {"protocolVersion": "0.1.0"}, "a2a/0.1"),
        (changed(georoute_plain(), ("description",), ABSENT), "a2a/0.1"),
    ],
)
def test_the_generation_is_told_from_the_marks_that_only_it_has(document: JsonObject, kind: str) -> None:
    assert examine_document(document).kind == kind


@pytest.mark.parametrize(
    ("document", "finding"),
    [
        (georoute_plain(), PLAIN_NOTE),
        (changed(georoute_plain(), ("description",), ABSENT), PLAIN_NOTE),
        (georoute_0_3() | {"protocolVersion": "1.0"}, CLAIM),
        (georoute_0_3() | {"protocolVersion": "0.2.9"}, CLAIM),
        (georoute_0_2() | {"protocolVersion": "0.1.0"}, CLAIM),
        (respelt(georoute_0_3()) | {"protocol_version": "1.0"}, ("warning", "card.ambiguous", "card/protocol_version")),
        (georoute() | {"protocolVersion": "0.3.0"}, CLAIM),
        (respelt(georoute_plain()), ("warning", "card.member-value", "card/default_input_modes")),
    ],
)
def test_a_card_that_does_not_say_what_it_is_is_told_so_and_read(
    document: JsonObject, finding: tuple[str, str, str]
) -> None:
    assert finding in told(document)
    assert examine_document(document).card is not None


@pytest.mark.parametrize("card", [georoute(), georoute_0_3(), georoute_0_2(), georoute_0_1()])
def test_a_card_that_says_what_it_is_is_told_nothing(card: JsonObject) -> None:
    assert told(card) == set()


@pytest.mark.parametrize(
    ("name", "value", "since"),
    [
        ("supportsAuthenticatedExtendedCard", True, 1),
        ("iconUrl", "https://a.example.com/i.png", 2),
        ("preferredTransport", "JSONRPC", 4),
        ("additional_interfaces", [], 4),
    ],
)
def test_a_member_that_is_younger_than_the_claimed_version_is_noted(name: str, value: JsonValue, since: int) -> None:
    card = {**georoute_plain(), name: value}
    note = ("note", "card.ambiguous", f"card/{name}")
    assert note in told({**card, "protocolVersion": f"0.2.{since - 1}"})
    assert note not in told({**card, "protocolVersion": f"0.2.{since}"})
