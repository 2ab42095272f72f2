"""A2A 0.2: start from a good card, change one thing, expect one finding at one place."""

from typing import Any

import pytest

from sdcard.encoding import JsonObject
from sdcard.paths import Place
from tests.sdcard.cards.documents import ABSENT, changed, georoute_0_2, told


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
def test_what_a_reader_cannot_do_without_is_an_error(place: Place) -> None:
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
def test_what_readers_live_without_is_a_warning(place: Place) -> None:
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
def test_a_known_member_of_another_type_is_an_error(place: Place, value: Any) -> None:
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


def test_skills_that_share_an_id_are_an_error() -> None:
    assert told(changed(georoute_0_2(), ("skills", 1, "id"), "fleet-dispatch")) == {
        ("error", "card.ambiguous", "card/skills/2/id")
    }
