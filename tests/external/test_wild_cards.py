"""Wild cards of the two generations: issue in every context, present, verify, and compare with the source."""

import csv

import pytest

from sdcard import DEFAULT_POLICY, Refused, parse_card
from sdcard.encoding import JsonObject, JsonValue, parse_json_object, same_json
from sdcard.errors import Level, Part, Where
from tests.shared import shared_dir
from tests.world import World

TWO_GENERATIONS = {"0.3", "0.3-snake", "0.x(pv=1.0)", "1.0", "1.0+0.3-mixed"}
REFUSED = {
    "wild-088.json": "card.member-missing",  # skills without an id
    "wild-092.json": "card.format",  # capabilities are an array, and no protocolVersion
    "wild-108.json": "card.member-missing",  # interfaces without a binding
}


def wild() -> dict[str, bytes]:
    folder = shared_dir() / "cards" / "wild"
    with (folder / "index.csv").open(encoding="utf-8", newline="") as index:
        names = [row["file"] for row in csv.DictReader(index) if row["shape"] in TWO_GENERATIONS]
    return {name: (folder / name).read_bytes() for name in names}


def is_part(shown: JsonValue, whole: JsonValue) -> bool:
    """Whether nothing is shown that the whole does not say, at the same place, as the same type."""
    if isinstance(shown, dict) and isinstance(whole, dict):
        return all(name in whole and is_part(value, whole[name]) for name, value in shown.items())
    if isinstance(shown, list) and isinstance(whole, list):
        return len(shown) == len(whole) and all(map(is_part, shown, whole))
    return same_json(shown, whole)


def source_of(data: bytes) -> JsonObject:
    document = parse_json_object(data, Where(Part.CARD), 64)
    return {name: value for name, value in document.items() if name != "signatures"}


def verified_members(world: World, context: str, document: JsonObject) -> JsonObject:
    card = world.issuer.issue(context, document)
    challenge = world.verifier.challenge()
    presentation = world.holder.present(challenge, card)
    return world.verifier.verify(presentation, world.verifier.answering(challenge)).members


def test_sixteen_of_nineteen_come_through_every_context_and_three_are_refused(world: World) -> None:
    through: list[str] = []
    refused: dict[str, Refused] = {}
    for name, data in wild().items():
        try:
            card = parse_card(data)
        except Refused as refusal:
            refused[name] = refusal
            continue
        source = source_of(data)
        for context in DEFAULT_POLICY.contexts:
            members = verified_members(world, context, dict(card.document))
            assert is_part(members, source), (name, context)
        assert same_json(verified_members(world, "full", dict(card.document)), source), name
        assert same_json(verified_members(world, "diagnostic", dict(card.document)), source), name
        through.append(name)

    assert {name: refusal.rule for name, refusal in refused.items()} == REFUSED
    assert all(f.hint for refusal in refused.values() for f in refusal.findings if f.level is Level.ERROR)
    assert len(through) == 16


@pytest.mark.parametrize("context", ["public", "federation"])
def test_a_public_card_of_a_wild_one_names_skills_and_no_more(world: World, context: str) -> None:
    for data in wild().values():
        try:
            card = parse_card(data)
        except Refused:
            continue
        members = verified_members(world, context, dict(card.document))
        assert set(members) <= {"name", "description", "version", "protocolVersion", "skills"}
        skills = members.get("skills", [])
        assert isinstance(skills, list)
        assert {name for skill in skills if isinstance(skill, dict) for name in skill} <= {"id", "name"}
