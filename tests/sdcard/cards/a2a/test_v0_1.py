"""A2A 0.1: start from a good card, change one thing, expect one finding at one place."""

from typing import Any

import pytest

from sdcard.paths import Place
from tests.sdcard.cards.documents import ABSENT, changed, georoute_0_1, told


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
