"""The columns of the context explorer are the core's for cards and policies that nobody wrote.

Cards that the core accepts are changed at random; paths of policies are taken from the cards that they are for.
"""

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

from sdcard import Refused
from sdcard.cards.detect import examine_document
from sdcard.encoding import JsonObject, JsonValue, encode_json
from sdcard.paths import ClaimPath, Place
from sdcard.policy.context import Partner
from sdcard.policy.document import read_policy
from sdcard.profile import PROFILES
from tests.browser.pages import Watched
from tests.browser.test_contexts import NOW, cards, explained

MANY = 100
VALUES: tuple[Any, ...] = (
    *("", "x", 0, 0.0, -0.0, 1, 1e21, False, True, None, [], {}, [[]], [{}], {"a": {}}, [0, "", None]),
    *({"id": "", "name": ""}, [{"id": "a", "name": "b", "x": {"y": [1, {"z": 2}]}}], {"0": 1, "*": 2, "a.b": 3}),
    {"id": "s", "name": "n", "description": "", "tags": [], "examples": ["e"], "security": [{"oauth": []}]},
)
NAMES = ("x", "*", "0", "a.b", 'q"q', "", "é", "__proto__", "constructor", "skills", "name", "id", "tags", "goals")
GROUPS = ("skills", "endpoints", "operational_info", "provider", "security_context", "description", "mine")
TREATMENTS = ("plain", "selective", "withheld")


def containers(value: JsonValue) -> Iterator[Any]:
    """Every object and array that is not empty, the outermost first."""
    if isinstance(value, dict | list) and value:
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from containers(inner)


def places(value: JsonValue, place: Place = ()) -> Iterator[Place]:
    """Every place within."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, one in inner:
        yield (*place, step)
        yield from places(one, (*place, step))


def changed(document: JsonObject, dice: random.Random) -> JsonObject:
    """Some changes, most of them within what formats leave open."""
    made = copy.deepcopy(document)
    for _ in range(dice.randint(1, 6)):
        inside = dice.choice(list(containers(made)))
        value = copy.deepcopy(dice.choice(VALUES))
        if isinstance(inside, list):
            deed = dice.randrange(3)
            if deed == 0:
                inside.insert(dice.randint(0, len(inside)), copy.deepcopy(dice.choice(inside)))
            elif deed == 1:
                inside.append(value)
            else:
                inside.pop(dice.randrange(len(inside)))
        elif dice.random() < 0.6:
            inside[dice.choice(NAMES)] = value
        else:
            name = dice.choice(list(inside))
            if dice.random() < 0.5:
                del inside[name]
            else:
                inside[name] = value
    return made


def entry(document: JsonObject, dice: random.Random) -> str:
    """A group, or a place of the card with some steps left open."""
    if dice.random() < 0.35:
        return dice.choice((*GROUPS, "*"))
    place = dice.choice(list(places(document)))
    steps = place[: dice.randint(1, len(place))]
    opened = tuple(None if index and dice.random() < 0.4 else step for index, step in enumerate(steps))
    return str(ClaimPath(opened))


def policy_for(document: JsonObject, dice: random.Random) -> JsonObject:
    """Mostly without a fault."""

    def entries(least: int, most: int) -> list[JsonValue]:
        return [entry(document, dice) for _ in range(dice.randint(least, most))]

    contexts: dict[str, Any] = {}
    for name in dice.sample(("public", "internal", "federation", "a", "b"), dice.randint(1, 4)):
        contexts[name] = {"claims": {str(one): dice.choice(TREATMENTS) for one in entries(0, 6)}}
        if dice.random() < 0.2:
            contexts[name]["narrowed"] = {dice.choice(GROUPS): {"*": entries(1, 3)}}
    made: JsonObject = {"contexts": contexts}
    if dice.random() < 0.4:
        made["groups"] = {"mine": {"*": entries(1, 3)}}
    if "federation" in contexts and dice.random() < 0.7:
        made["agreements"] = [{"partner": "p", "discloses": entries(1, 4), "expires": NOW + dice.choice((0, 9))}]
    return made


def triples() -> Iterator[tuple[JsonObject, JsonObject, str, Partner | None]]:
    """Cards and policies that the core takes, with a profile and a partner."""
    whole = list(cards().values())
    dice = random.Random(8)
    while True:
        document = changed(dice.choice(whole), dice)
        if examine_document(document).card is None:
            continue
        for _ in range(20):
            policy = policy_for(document, dice)
            try:
                read_policy(policy)
            except Refused:
                continue
            yield document, policy, dice.choice(list(PROFILES)), Partner("p", NOW) if dice.random() < 0.5 else None
            break


def test_random_cards_have_the_columns_of_the_core_under_random_policies(watched: Watched) -> None:
    source = triples()
    given = [next(source) for _ in range(MANY)]
    rows = [
        [encode_json(document).decode(), encode_json(policy).decode(), profile, partner and {"name": "p", "now": NOW}]
        for document, policy, profile, partner in given
    ]

    found = watched.run_all("explain", rows)

    wanted = [explained(document, read_policy(policy), profile, who) for document, policy, profile, who in given]
    for (document, policy, profile, _), shown, one in zip(given, found, wanted, strict=True):
        assert shown == one, json.dumps([profile, policy, document])
    drawn = [one for one in found if isinstance(one, dict)]
    told = {treatment for one in drawn for part in one["parts"] for treatment in part[1:]}
    assert told == set(TREATMENTS)
    assert len({one["format"] for one in drawn}) >= 6, "every family of formats"
    assert len(drawn) > MANY * 0.6, "most are columns, and the others are refusals"
