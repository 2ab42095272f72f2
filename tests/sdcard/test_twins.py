"""Twins: two cards that differ in hidden members alone give the same SD-Card, byte for byte."""

import dataclasses
import json
import os
import random
from collections import Counter

import pytest

from sdcard.cards.detect import KNOWN_FORMATS, read_card
from sdcard.cards.model import CardFormat
from sdcard.encoding import JsonObject
from tests.sdcard.twins import BASES, INTERFACE, OLD, cards, issued

PAIRS = int(os.environ.get("SDCARD_TWINS", "30"))
"""Pairs for each format and context that hides something."""


@pytest.mark.parametrize("context", ["public", "internal", "diagnostic"])
@pytest.mark.parametrize("family", BASES)
def test_cards_that_differ_in_hidden_members_alone_are_equal_byte_by_byte(family: str, context: str) -> None:
    bases = BASES[family]
    pairs: Counter[str] = Counter()
    apart = 0
    for number, base in enumerate(bases):
        dice = random.Random(f"{family} {number} {context}")
        found: dict[str, str] = {}
        formats: dict[str, set[str]] = {}
        for card in cards(family, base, dice):
            told, text = issued(card, context)
            assert found.setdefault(told, text) == text, (context, card.format.name, json.loads(told))
            formats.setdefault(told, set()).add(card.format.name)
            pairs[card.format.name] += 1
            if pairs.total() >= PAIRS * (number + 1):
                break
        apart += any(len(names) > 1 for names in formats.values())
    assert pairs.keys() == {name for name in KNOWN_FORMATS if name.startswith(f"{family}/")}
    if context == "public" and family != "kno":
        assert apart, "some twins are of different formats, and still alike"


MAY_DIFFER = {"name", "members", "facts"}
"""By ``members`` the author of a list is told of a misspelt name; by ``facts`` tokens are limited."""


@pytest.mark.parametrize("family", BASES)
def test_what_a_context_shows_and_how_many_digests_it_has_is_the_same_for_all_formats_of_a_family(family: str) -> None:
    formats = [one for one in KNOWN_FORMATS.values() if one.family == family]
    for field in dataclasses.fields(CardFormat):
        if field.name not in MAY_DIFFER:
            assert all(getattr(one, field.name) == getattr(formats[0], field.name) for one in formats), field.name
    if any(one.members != formats[0].members for one in formats):
        assert formats[0].members_of_family == frozenset().union(*(one.members for one in formats)) - {"signatures"}


LISTS = [["operational_info"], ["endpoints"], ["provider", "skills.*.tags"], ["capabilities.extensions"], ["skills.0"]]
HIDDEN: list[JsonObject] = [
    {"authentication": {"schemes": ["Bearer"]}},
    {"security": [{"k": []}], "securitySchemes": {"k": {"type": "apiKey", "in": "header", "name": "X"}}},
    {"securitySchemes": {"m": {"type": "mutualTLS"}}},
    {"supportedInterfaces": [INTERFACE]},
]


@pytest.mark.parametrize("disclose", [None, *LISTS], ids=str)
@pytest.mark.parametrize("claimed", [None, "0.1", "0.2.5", "0.3.0"], ids=str)
def test_hidden_members_that_decide_the_version_of_a_card_change_nothing(
    claimed: str | None, disclose: list[str] | None
) -> None:
    base: JsonObject = OLD if claimed is None else {**OLD, "protocolVersion": claimed}
    hidden = [more for more in HIDDEN if disclose != ["endpoints"] or "supportedInterfaces" not in more]
    made = [read_card({**base, **more}) for more in ({}, *hidden)]
    assert len({card.format.name for card in made}) > 1 or (claimed, disclose) == ("0.3.0", ["endpoints"])
    context = "public" if disclose is None else "internal"
    assert len({issued(card, context, disclose)[1] for card in made}) == 1
