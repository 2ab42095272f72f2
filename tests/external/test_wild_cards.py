"""Every wild card that is valid: issue in every context, present, verify, and compare with the source."""

import csv
from collections import Counter
from collections.abc import Iterator

import pytest

from sdcard import DEFAULT_POLICY, Card
from sdcard.cards.detect import examine_card
from sdcard.encoding import JsonObject, JsonValue, parse_json_object, same_json
from sdcard.errors import Part, Where
from tests.shared import shared_dir
from tests.world import World

THROUGH = {"a2a/0.1": 5, "a2a/0.2": 12, "a2a/0.3": 11, "a2a/1.0": 5}
"""Format → how many of the 55 come through every context."""


def wild() -> Iterator[tuple[str, JsonObject, Card]]:
    """Name, document without its signatures, and Card of each file that is a valid one."""
    folder = shared_dir() / "cards" / "wild"
    with (folder / "index.csv").open(encoding="utf-8", newline="") as index:
        names = [row["file"] for row in csv.DictReader(index)]
    for name in names:
        data = (folder / name).read_bytes()
        card = examine_card(data).card
        if card is not None:
            document = parse_json_object(data, Where(Part.CARD), 64)
            yield name, {member: value for member, value in document.items() if member != "signatures"}, card


def is_part(shown: JsonValue, whole: JsonValue) -> bool:
    """Whether nothing is shown that the whole does not say, at the same place, as the same type."""
    if isinstance(shown, dict) and isinstance(whole, dict):
        return all(name in whole and is_part(value, whole[name]) for name, value in shown.items())
    if isinstance(shown, list) and isinstance(whole, list):
        return len(shown) == len(whole) and all(map(is_part, shown, whole))
    return same_json(shown, whole)


def verified(world: World, context: str, document: JsonObject) -> tuple[str | None, JsonObject]:
    """The format and the members that a Verifier sees."""
    issued = world.issuer.issue(context, document)
    challenge = world.verifier.challenge()
    presentation = world.holder.present(challenge, issued)
    seen = world.verifier.verify(presentation, world.verifier.answering(challenge))
    return seen.card_format, seen.members


@pytest.mark.parametrize("context", DEFAULT_POLICY.contexts)
def test_every_valid_card_comes_through(world: World, context: str) -> None:
    through: Counter[str] = Counter()
    for name, source, card in wild():
        card_format, members = verified(world, context, source)
        if context in ("full", "diagnostic"):
            assert card_format == card.format.name, name
        assert str(card_format).partition("/")[0] == card.format.family, name
        assert is_part(members, source), name
        assert {"name", "version"} <= members.keys(), name
        through[card.format.name] += 1
        if context in ("full", "diagnostic"):
            assert same_json(members, source), name
    assert through == THROUGH


@pytest.mark.parametrize("context", ["public", "federation"])
def test_a_public_card_names_skills_and_no_more(world: World, context: str) -> None:
    for name, source, card in wild():
        _, members = verified(world, context, source)
        assert set(members) <= {*card.format.always_disclosed, "skills"}, name
        skills = members.get("skills", [])
        assert isinstance(skills, list)
        assert {inner for skill in skills if isinstance(skill, dict) for inner in skill} <= {"id", "name"}, name


def test_an_internal_card_shows_how_to_reach_the_agent_and_nothing_about_security(world: World) -> None:
    security = {"securitySchemes", "security_schemes", "security", "securityRequirements", "authentication"}
    for name, source, _ in wild():
        _, members = verified(world, "internal", source)
        assert members.keys() & {"url", "supportedInterfaces"}, name
        assert not members.keys() & security, name
