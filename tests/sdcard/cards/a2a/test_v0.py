"""A2A 0.1 to 0.3: start from a good card, change one thing, expect one finding."""

from typing import Any

import pytest

from sdcard.encoding import JsonObject
from sdcard.paths import Place
from tests.sdcard.cards.documents import ABSENT, changed, georoute_0_1, georoute_0_2, georoute_0_3, told

# -- A2A 0.1: start from a good card, change one thing, expect one finding at one place -------------------------------


@pytest.mark.parametrize(
    "place", [("name",), ("version",), ("capabilities",), ("skills",), ("skills", 1, "id"), ("skills", 1, "name")]
)
def test_what_a_reader_cannot_do_without_is_an_error(place: Place) -> None:
    where = "/".join(["card", *map(str, place)])
    assert told(changed(georoute_0_1(), place, ABSENT)) == {("error", "card.member-missing", where)}


def test_without_an_endpoint_only_the_claim_tells_what_it_is() -> None:
    without_url = changed(georoute_0_1(), ("url",), ABSENT)
    assert ("error", "card.member-missing", "card/supportedInterfaces") in told(without_url)
    errors = {one for one in told(without_url | {"protocolVersion": "0.1.0"}) if one[0] == "error"}
    assert errors == {("error", "card.member-missing", "card/url")}


@pytest.mark.parametrize("place", [("provider", "organization"), ("authentication", "schemes")])
def test_what_readers_live_without_is_a_warning(place: Place) -> None:
    where = "/".join(["card", *map(str, place)])
    assert told(changed(georoute_0_1(), place, ABSENT)) == {("warning", "card.member-missing", where)}


@pytest.mark.parametrize(
    "place",
    [
        ("description",),
        ("provider",),
        ("provider", "url"),
        ("documentationUrl",),
        ("defaultInputModes",),
        ("defaultOutputModes",),
        ("capabilities", "streaming"),
        ("skills", 0, "description"),
        ("skills", 0, "tags"),
        ("skills", 0, "examples"),
        ("skills", 0, "outputModes"),
    ],
)
def test_much_was_optional(place: Place) -> None:
    assert told(changed(georoute_0_1(), place, ABSENT)) == set()
    assert told(changed(georoute_0_1(), place, None)) == set()


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("description",), 1),
        (("url",), {}),
        (("authentication",), "none"),
        (("authentication", "schemes"), "Bearer"),
        (("authentication", "schemes", 0), 1),
        (("authentication", "credentials"), {}),
        (("capabilities",), ["streaming"]),
        (("capabilities", "stateTransitionHistory"), 0),
        (("defaultInputModes",), "text"),
        (("skills",), "x"),
        (("skills", 0, "tags"), "maps"),
    ],
)
def test_a_known_member_of_another_type_is_an_error(place: Place, value: Any) -> None:
    where = "/".join(["card", *map(str, place)])
    assert ("error", "card.member-type", where) in told(changed(georoute_0_1(), place, value))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("iconUrl",), "https://a.example.com/i.png"),
        (("securityRequirements",), []),
        (("capabilities", "extensions"), [{"uri": "https://a.example.com/x"}]),
    ],
)
def test_members_that_later_versions_brought_are_warned_about(place: Place, value: Any) -> None:
    where = "/".join(["card", *map(str, place)])
    assert told(changed(georoute_0_1(), place, value)) == {("warning", "card.ambiguous", where)}


def test_credentials_in_the_card_are_warned_about_and_none_are_fine() -> None:
    assert told(changed(georoute_0_1(), ("authentication", "credentials"), "x")) == {
        ("warning", "card.secret", "card/authentication/credentials")
    }
    assert told(changed(georoute_0_1(), ("authentication", "credentials"), None)) == set()


def test_skills_that_share_an_id_are_an_error() -> None:
    assert told(changed(georoute_0_1(), ("skills", 1, "id"), "fleet-dispatch")) == {
        ("error", "card.ambiguous", "card/skills/2/id")
    }


# -- A2A 0.2: start from a good card, change one thing, expect one finding at one place -------------------------------


@pytest.mark.parametrize(
    "place",
    [
        ("name",),
        ("description",),
        ("version",),
        ("url",),
        ("capabilities",),
        ("skills",),
        ("additionalInterfaces", 1, "url"),
        ("additionalInterfaces", 1, "transport"),
        ("skills", 1, "id"),
        ("skills", 1, "name"),
        ("securitySchemes", "partnerKey", "in"),
        ("securitySchemes", "partnerKey", "name"),
        ("securitySchemes", "partnerKey", "type"),
        ("securitySchemes", "service", "flows"),
        ("securitySchemes", "service", "flows", "clientCredentials", "tokenUrl"),
        ("securitySchemes", "identity", "openIdConnectUrl"),
    ],
)
def test_what_a_reader_cannot_do_without_is_an_error_of_v0_2(place: Place) -> None:
    where = "/".join(["card", *map(str, place)])
    assert told(changed(georoute_0_2(), place, ABSENT)) == {("error", "card.member-missing", where)}


@pytest.mark.parametrize(
    "place",
    [
        ("defaultInputModes",),
        ("defaultOutputModes",),
        ("provider", "organization"),
        ("provider", "url"),
        ("skills", 0, "description"),
        ("skills", 0, "tags"),
        ("capabilities", "extensions", 0, "uri"),
    ],
)
def test_what_readers_live_without_is_a_warning_of_v0_2(place: Place) -> None:
    where = "/".join(["card", *map(str, place)])
    assert told(changed(georoute_0_2(), place, ABSENT)) == {("warning", "card.member-missing", where)}


@pytest.mark.parametrize(
    "place",
    [
        ("protocolVersion",),
        ("preferredTransport",),
        ("additionalInterfaces",),
        ("provider",),
        ("documentationUrl",),
        ("security",),
        ("supportsAuthenticatedExtendedCard",),
        ("capabilities", "streaming"),
        ("capabilities", "extensions"),
        ("skills", 0, "examples"),
        ("skills", 0, "inputModes"),
    ],
)
def test_what_is_optional_may_be_absent_or_null(place: Place) -> None:
    assert told(changed(georoute_0_2(), place, ABSENT)) == set()
    assert told(changed(georoute_0_2(), place, None)) == set()


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("protocolVersion",), 0.2),
        (("url",), []),
        (("iconUrl",), 1),
        (("preferredTransport",), 1),
        (("additionalInterfaces",), {}),
        (("capabilities",), ["streaming"]),
        (("capabilities", "pushNotifications"), "yes"),
        (("skills",), {}),
        (("skills", 0, "tags"), "maps"),
        (("securitySchemes",), []),
        (("securitySchemes", "service", "flows"), []),
        (("security",), {}),
        (("security", 0, "identity"), "openid"),
        (("supportsAuthenticatedExtendedCard",), 1),
    ],
)
def test_a_known_member_of_another_type_is_an_error_of_v0_2(place: Place, value: Any) -> None:
    where = "/".join(["card", *map(str, place)])
    assert ("error", "card.member-type", where) in told(changed(georoute_0_2(), place, value))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("authentication",), {"type": "none"}),
        (("securityRequirements",), [{"schemes": {"identity": {"list": ["openid"]}}}]),
        (("capabilities", "extendedAgentCard"), True),
    ],
)
def test_members_of_other_generations_are_warned_about(place: Place, value: Any) -> None:
    where = "/".join(["card", *map(str, place)])
    assert told(changed(georoute_0_2(), place, value)) == {("warning", "card.ambiguous", where)}


@pytest.mark.parametrize("flow", ["authorizationCode", "clientCredentials", "implicit", "password"])
def test_every_flow_is_read_and_several_at_once(flow: str) -> None:
    urls = {"authorizationUrl": "https://a.example.com/a", "tokenUrl": "https://a.example.com/t"}
    whole: JsonObject = {**urls, "refreshUrl": "https://a.example.com/r", "scopes": {"x": "X"}}
    assert told(changed(georoute_0_2(), ("securitySchemes", "service", "flows", flow), whole)) == set()


def test_a_requirement_of_a_scheme_that_is_not_there_is_an_error() -> None:
    assert told(changed(georoute_0_2(), ("security", 0, "nobody"), [])) == {
        ("error", "card.member-value", "card/security/0/nobody")
    }


def test_skills_that_share_an_id_are_an_error_of_v0_2() -> None:
    assert told(changed(georoute_0_2(), ("skills", 1, "id"), "fleet-dispatch")) == {
        ("error", "card.ambiguous", "card/skills/2/id")
    }


# -- A2A 0.3: start from a good card, change one thing, expect one finding at one place -------------------------------


@pytest.mark.parametrize(
    "place",
    [
        ("name",),
        ("description",),
        ("version",),
        ("url",),
        ("capabilities",),
        ("skills",),
        ("additionalInterfaces", 1, "url"),
        ("additionalInterfaces", 1, "transport"),
        ("skills", 1, "id"),
        ("skills", 1, "name"),
        ("securitySchemes", "partnerKey", "in"),
        ("securitySchemes", "partnerKey", "name"),
        ("securitySchemes", "partnerKey", "type"),
        ("securitySchemes", "service", "flows"),
        ("securitySchemes", "identity", "openIdConnectUrl"),
    ],
)
def test_what_a_reader_cannot_do_without_is_an_error_of_v0_3(place: Place) -> None:
    where = "/".join(["card", *map(str, place)])
    assert told(changed(georoute_0_3(), place, ABSENT)) == {("error", "card.member-missing", where)}


@pytest.mark.parametrize(
    "place",
    [
        ("protocolVersion",),
        ("defaultInputModes",),
        ("defaultOutputModes",),
        ("skills", 0, "tags"),
        ("capabilities", "extensions", 0, "uri"),
        ("securitySchemes", "service", "flows", "clientCredentials", "scopes"),
    ],
)
def test_what_readers_live_without_is_a_warning_of_v0_3(place: Place) -> None:
    where = "/".join(["card", *map(str, place)])
    assert told(changed(georoute_0_3(), place, ABSENT)) == {("warning", "card.member-missing", where)}


@pytest.mark.parametrize(
    "place",
    [
        ("preferredTransport",),
        ("additionalInterfaces",),
        ("provider",),
        ("security",),
        ("supportsAuthenticatedExtendedCard",),
        ("capabilities", "stateTransitionHistory"),
    ],
)
def test_what_is_optional_may_be_absent(place: Place) -> None:
    assert told(changed(georoute_0_3(), place, ABSENT)) == set()


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("protocolVersion",), 0.3),
        (("url",), []),
        (("preferredTransport",), 1),
        (("additionalInterfaces",), {}),
        (("additionalInterfaces", 0), "x"),
        (("capabilities",), []),
        (("skills",), "x"),
        (("securitySchemes",), []),
        (("securitySchemes", "service"), "x"),
        (("securitySchemes", "service", "flows"), []),
        (("securitySchemes", "service", "type"), 1),
        (("security",), {}),
        (("security", 0, "identity"), "openid"),
        (("supportsAuthenticatedExtendedCard",), "yes"),
        (("skills", 2, "security"), {}),
    ],
)
def test_a_known_member_of_another_type_is_an_error_of_v0_3(place: Place, value: Any) -> None:
    where = "/".join(["card", *map(str, place)])
    assert ("error", "card.member-type", where) in told(changed(georoute_0_3(), place, value))


@pytest.mark.parametrize("version", ["1.0", "1.0.0", "2.0"])
def test_the_shape_of_0_3_under_another_version_is_read_with_a_warning(version: str) -> None:
    assert told(changed(georoute_0_3(), ("protocolVersion",), version)) == {
        ("warning", "card.ambiguous", "card/protocolVersion")
    }


def test_the_way_in_of_0_1_is_warned_about() -> None:
    assert told(changed(georoute_0_3(), ("authentication",), {"schemes": ["Bearer"]})) == {
        ("warning", "card.ambiguous", "card/authentication")
    }


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("securityRequirements",), []),
        (("skills", 0, "securityRequirements"), []),
        (("capabilities", "extendedAgentCard"), True),
    ],
)
def test_members_that_1_0_brought_are_warned_about(place: Place, value: Any) -> None:
    where = "/".join(["card", *map(str, place)])
    assert told(changed(georoute_0_3(), place, value)) == {("warning", "card.ambiguous", where)}


def test_credentials_in_the_card_are_warned_about() -> None:
    found = told(georoute_0_3() | {"authentication": {"credentials": "x"}})
    assert ("warning", "card.secret", "card/authentication/credentials") in found


@pytest.mark.parametrize("place", [("skills",), ("skills", 0, "tags"), ("defaultInputModes",)])
def test_before_1_0_nothing_demands_that_an_array_holds_something(place: Place) -> None:
    where = "/".join(["card", *map(str, place)])
    assert told(changed(georoute_0_3(), place, [])) == {("note", "card.member-value", where)}


@pytest.mark.parametrize(
    ("place", "value", "where"),
    [
        (("securitySchemes", "service", "type"), "magic", "card/securitySchemes/service/type"),
        (("securitySchemes", "partnerKey", "in"), "pocket", "card/securitySchemes/partnerKey/in"),
        (("security", 0, "nobody"), [], "card/security/0/nobody"),
        (("skills", 2, "security", 0, "nobody"), [], "card/skills/2/security/0/nobody"),
    ],
)
def test_schemes_that_nobody_could_use_are_errors(place: Place, value: Any, where: str) -> None:
    assert told(changed(georoute_0_3(), place, value)) == {("error", "card.member-value", where)}


@pytest.mark.parametrize(
    "scheme",
    [
        {"type": "mutualTLS"},
        {"type": "http", "scheme": "Basic"},
        {
            "type": "oauth2",
            "flows": {
                "implicit": {"authorizationUrl": "https://a.example.com/a", "scopes": {}},
                "password": {"tokenUrl": "https://a.example.com/t", "scopes": {"x": "X"}},
            },
        },
    ],
)
def test_every_kind_of_scheme_is_read_and_several_flows_at_once(scheme: JsonObject) -> None:
    assert told(changed(georoute_0_3(), ("securitySchemes", "more"), scheme)) == set()


def test_skills_that_share_an_id_are_an_error_of_v0_3() -> None:
    assert told(changed(georoute_0_3(), ("skills", 1, "id"), "fleet-dispatch")) == {
        ("error", "card.ambiguous", "card/skills/2/id")
    }


def test_snake_case_is_read_with_a_warning() -> None:
    interfaces = georoute_0_3()["additionalInterfaces"]
    respelt = changed(georoute_0_3(), ("additionalInterfaces",), ABSENT) | {"additional_interfaces": interfaces}
    assert told(respelt) == {("warning", "card.member-value", "card/additional_interfaces")}
