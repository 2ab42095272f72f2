"""Every digest of an SD-Card is accounted for, and their number tells nothing of what is withheld."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from sdcard import DEFAULT_POLICY, Card, DisclosurePlan, Refused, SdCard, parse_card, plan_disclosure
from sdcard.encoding import JsonObject, JsonValue
from sdcard.paths import Place
from tests.shared import shared_dir
from tests.world import World, decode_part, digest, example, payload_of, without

CONTEXTS = tuple(DEFAULT_POLICY.contexts)
EXAMPLES = ("georoute.json", "georoute-0.3.json")


def digests(value: Any) -> Iterator[str]:
    """Every digest in a payload or a Disclosure's value, found by its place and not by our own walk."""
    if isinstance(value, dict):
        yield from value.get("_sd", [])
        if "..." in value:
            yield value["..."]
        for inner in value.values():
            yield from digests(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from digests(inner)


def documents_of(card: SdCard) -> list[Any]:
    """The payload, and the value of each Disclosure."""
    return [payload_of(card.sd_jwt), *(decode_part(one)[-1] for one in card.sd_jwt.disclosures)]


def check_accounts(world: World, card: SdCard) -> None:
    met = [one for document in documents_of(card) for one in digests(document)]
    delivered = {digest(one) for one in card.sd_jwt.disclosures}
    assert len(met) == len(set(met)), "no digest occurs twice"
    assert delivered <= set(met), "every Disclosure has its digest"
    assert set(met) - delivered <= world.salts.decoys(), "every other digest is a decoy of a salt that was drawn"


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_digest_is_a_disclosures_or_a_decoys(world: World, context: str, name: str) -> None:
    check_accounts(world, world.issuer.issue(context, example(name)))


@pytest.mark.parametrize("context", CONTEXTS)
def test_every_digest_of_the_cards_in_the_wild_too(world: World, context: str) -> None:
    counted = 0
    for file in sorted((shared_dir() / "cards" / "wild").glob("*.json")):
        try:
            card = parse_card(file.read_bytes())
        except Refused:
            continue
        check_accounts(world, world.issuer.issue(plan_disclosure(card, DEFAULT_POLICY, context)))
        counted += 1
    assert counted > 10


# -- canaries ---------------------------------------------------------------------------------------------------------


def with_canaries(value: JsonValue, place: Place, planted: dict[str, Place]) -> JsonValue:
    """The same document with a text of its own at every leaf, whatever it was."""
    if isinstance(value, dict) and value:
        return {name: with_canaries(inner, (*place, name), planted) for name, inner in value.items()}
    if isinstance(value, list) and value:
        return [with_canaries(inner, (*place, index), planted) for index, inner in enumerate(value)]
    canary = f"canary-{len(planted)}-"
    planted[canary] = place
    return canary


def is_shown(plan: DisclosurePlan, place: Place) -> bool:
    """Whether the plan shows a leaf: the leaf itself, or the whole that it is part of and that nothing divides."""
    parts = {place[:length] for length in range(1, len(place) + 1)}
    deepest = max((part for part in parts if part in plan.places), key=len, default=())
    divided = any(other[: len(deepest)] == deepest and len(other) > len(deepest) for other in plan.places)
    return bool(deepest) and (deepest == place or not divided)


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_canaries_sing_where_the_plan_shows_them_and_nowhere_else(world: World, context: str, name: str) -> None:
    planted: dict[str, Place] = {}
    card = parse_card(json.dumps(example(name)).encode())
    document = with_canaries(card.document, (), planted)
    assert isinstance(document, dict)
    plan = plan_disclosure(Card(card.format, document), DEFAULT_POLICY, context)
    issued = world.issuer.issue(plan)
    text = json.dumps([payload_of(issued.sd_jwt), *map(decode_part, issued.sd_jwt.disclosures)])
    heard = Counter(canary in text for canary in planted)
    for canary, place in planted.items():
        assert (canary in text) is is_shown(plan, place), place
    assert heard[True] > 5
    assert (heard[False] > 10) is (context not in ("diagnostic", "full"))


@pytest.mark.parametrize("context", ["public", "federation"])
def test_no_name_of_a_withheld_member_is_anywhere(world: World, context: str) -> None:
    issued = world.issuer.issue(context)
    text = json.dumps([payload_of(issued.sd_jwt), *map(decode_part, issued.sd_jwt.disclosures)])
    hidden = {*example(), "tags", "examples", "tenant"} - {"name", "description", "version", "skills"}
    assert [name for name in sorted(hidden) if f'"{name}"' in text] == []


# -- counts -----------------------------------------------------------------------------------------------------------


def counts(world: World, context: str, document: JsonObject) -> Counter[tuple[Place, int]]:
    """Count the digests in each part of an SD-Card, by the part's place."""
    card = world.issuer.issue(context, document)
    held = world.holder.accept(card).issued.verified.processed
    found: Counter[tuple[Place, int]] = Counter()
    sources: list[tuple[Place, Any]] = [((), payload_of(card.sd_jwt))]
    sources += [(one.place, decode_part(one.disclosure.encoded)[-1]) for one in held.revealed]
    for place, value in sources:
        for inner, number in _lists(value, place):
            found[(inner, number)] += 1
    return found


def _lists(value: Any, place: Place) -> Iterator[tuple[Place, int]]:
    if isinstance(value, dict):
        if "_sd" in value:
            yield place, len(value["_sd"])
        for name, inner in value.items():
            yield from _lists(inner, (*place, name))
    elif isinstance(value, list):
        hidden = sum(isinstance(one, dict) and "..." in one for one in value)
        if hidden:
            yield (*place, "[]"), hidden
        for inner in value:
            yield from _lists(inner, place)


HIDDEN_MEMBERS: list[tuple[str, Place]] = [
    *(
        (context, (name,))
        for context in ("public", "federation")
        for name in ("provider", "iconUrl", "documentationUrl", "defaultInputModes", "securityRequirements")
    ),
    ("internal", ("securityRequirements",)),
    *((context, ("skills", 2, "securityRequirements")) for context in ("public", "federation", "internal")),
    *((context, ("skills", 0, "examples")) for context in ("public", "federation")),
    *((context, ("supportedInterfaces", 1, "tenant")) for context in ("public", "federation", "internal")),
    *((context, ("capabilities", "extensions")) for context in ("public", "federation")),
]


@pytest.mark.parametrize(("context", "place"), HIDDEN_MEMBERS)
def test_a_member_that_a_context_hides_changes_no_count(world: World, context: str, place: Place) -> None:
    document = example()
    if place == ("securityRequirements",):
        document = without(document, "skills", 2, "securityRequirements")
    assert counts(world, context, document) == counts(world, context, without(document, *place))


@pytest.mark.parametrize("context", ["public", "federation", "internal"])
def test_members_within_one_step_of_the_ladder_change_no_count_at_the_top(world: World, context: str) -> None:
    sizes = set()
    for absent in ((), ("iconUrl",), ("iconUrl", "documentationUrl")):
        document = {name: value for name, value in example().items() if name not in absent}
        top = payload_of(world.issuer.issue(context, document).sd_jwt)["_sd"]
        assert isinstance(top, list)
        sizes.add(len(top))
    assert len(sizes) == 1


@pytest.mark.parametrize("present", range(4))
def test_a_skill_tells_not_how_many_of_its_members_may_be_shown(world: World, present: int) -> None:
    """Recursive disclosure: each skill pads its own digests."""
    document = example()
    optional = ("examples", "inputModes", "outputModes")
    for name in optional[present:]:
        document = without(document, "skills", 0, name)
    skills = [
        one for one in world.holder.accept(world.issuer.issue("internal", document)).issued.verified.processed.revealed
    ]
    first = next(decode_part(one.disclosure.encoded)[-1] for one in skills if one.place == ("skills", 0))
    assert len(first["_sd"]) == 8


def test_the_number_of_skills_is_hidden_up_to_a_step(world: World) -> None:
    lengths = set()
    for skills in range(1, 17):
        document = example()
        kept = document["skills"]
        assert isinstance(kept, list)
        assert isinstance(kept[0], dict)
        document["skills"] = [{**kept[0], "id": f"skill-{number}"} for number in range(skills)]
        card = world.issuer.issue("public", document)
        (array,) = (decode_part(one)[2] for one in card.sd_jwt.disclosures if decode_part(one)[1] == "skills")
        lengths.add(len(array))
    assert lengths == {16}
