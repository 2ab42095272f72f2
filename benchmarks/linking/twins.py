"""Twins in numbers: pairs of cards that differ in hidden members alone, by card format."""

import itertools
import random
from collections import Counter

from sdcard.cards.reading import KNOWN_FORMATS
from sdcard.encoding import JsonObject
from tests.sdcard.twins import BASES, cards, family_bases, issued

CONTEXTS = ("public", "internal", "diagnostic")
_ROUND = 200


def count_twins(seed: str, least: int) -> dict[str, int]:
    """Card format → pairs that were compared byte by byte, until there are so many of each.

    A pair is a card and the first card that shows the same. All are of one base, and most members of each are drawn.

    Raises:
        AssertionError: for a pair that differs.
    """
    expected = {name for name in KNOWN_FORMATS if name.partition("/")[0] in BASES}
    pairs: Counter[str] = Counter()
    number = 0
    while any(pairs[name] < least for name in expected):
        for family in BASES:
            wanted = [name for name in expected if name.partition("/")[0] == family]
            if any(pairs[name] < least for name in wanted):
                for base in family_bases(family):
                    for context in CONTEXTS:
                        number += 1
                        pairs += _compare(family, base, context, f"{seed} {number}")
    return {name: pairs[name] for name in sorted(expected)}


def _compare(family: str, base: JsonObject, context: str, seed: str) -> Counter[str]:
    found: dict[str, str] = {}
    pairs: Counter[str] = Counter()
    for card in itertools.islice(cards(family, base, random.Random(seed)), _ROUND):
        told, text = issued(card, context)
        if told in found:
            assert found[told] == text, (context, card.format.name)
            pairs[card.format.name] += 1
        found.setdefault(told, text)
    return pairs
