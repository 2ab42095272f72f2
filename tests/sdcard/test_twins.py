"""Twins: two cards that differ in hidden members alone give the same SD-Card, byte for byte."""

import json
import os
import random
from collections import Counter

import pytest

from sdcard.cards.reading import KNOWN_FORMATS
from tests.sdcard.twins import BASES, cards, family_bases, issued

PAIRS = int(os.environ.get("SDCARD_TWINS", "30"))
"""Pairs for each format and context that hides something."""


@pytest.mark.parametrize("context", ["public", "internal", "diagnostic"])
@pytest.mark.parametrize("family", BASES)
def test_cards_that_differ_in_hidden_members_alone_are_equal_byte_by_byte(family: str, context: str) -> None:
    bases = family_bases(family)
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
