"""The list of losses, and the one spelling that conversions work on."""

from sdcard.cards.a2a.shared import CARD
from sdcard.cards.a2a.v0 import SHAPE_0_3 as SHAPE
from sdcard.cards.conversion import Losses, renamed, tidy, without
from sdcard.encoding import JsonObject
from sdcard.errors import Level


def told(losses: Losses) -> list[tuple[str, str]]:
    return [(finding.level.value, str(finding.where)) for finding in losses.all()]


def test_known_members_get_one_spelling_and_unknown_ones_keep_theirs() -> None:
    losses = Losses()
    source: JsonObject = {
        "icon_url": "https://a.example",
        "my_own": None,
        "provider": None,
        "skills": [{"id": "s", "input_modes": [], "my_own": {"a_b": None}}],
        "securitySchemes": {"a_b": {"type": "oauth2", "flows": {"auth": {}, "client_credentials": {"token_url": "x"}}}},
    }
    assert tidy(source, SHAPE, CARD, losses) == {
        "iconUrl": "https://a.example",
        "my_own": None,
        "skills": [{"id": "s", "inputModes": [], "my_own": {"a_b": None}}],
        "securitySchemes": {"a_b": {"type": "oauth2", "flows": {"auth": {}, "clientCredentials": {"tokenUrl": "x"}}}},
    }
    assert told(losses) == [
        ("note", "card/icon_url"),
        ("note", "card/provider"),
        ("note", "card/skills/0/input_modes"),
        ("note", "card/securitySchemes/a_b/flows/client_credentials"),
        ("note", "card/securitySchemes/a_b/flows/client_credentials/token_url"),
    ]


def test_a_later_finding_about_a_place_knows_more_and_names_it_as_it_is_spelt() -> None:
    losses = Losses()
    losses.respell(CARD.within("skills"), "my_skills")
    losses.respell(CARD.within("skills", 0, "inputModes"), "input_modes")
    losses.add(CARD.within("skills", 0, "inputModes"), "gone")
    assert told(losses) == [("note", "card/my_skills"), ("warning", "card/my_skills/0/input_modes")]


def test_members_are_left_out_in_either_spelling_and_a_null_one_is_a_note() -> None:
    losses = Losses()
    members: JsonObject = {"a": 1, "newName": None, "new_name": 2}
    assert without(members, ("newName",), CARD, losses) == {"a": 1}
    assert sorted(told(losses)) == [("note", "card/newName"), ("warning", "card/new_name")]


def test_a_new_name_is_free_of_what_had_it_and_the_order_stays() -> None:
    losses = Losses()
    members: JsonObject = {"newName": 1, "a": 2, "old": 3, "z": 4}
    assert list(renamed(members, "old", "newName", CARD, losses).items()) == [("a", 2), ("newName", 3), ("z", 4)]
    assert [(finding.level, str(finding.where)) for finding in losses.all()] == [(Level.WARNING, "card/newName")]
