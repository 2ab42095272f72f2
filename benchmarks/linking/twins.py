"""Count of twins: pairs of cards that differ in hidden members only.

The count is by card format.
"""

import itertools
import random
from collections import Counter

from sdcard.cards.detect import KNOWN_FORMATS
from sdcard.encoding import JsonObject
from tests.sdcard.twins import BASES, cards, issued

CONTEXTS = ("public", "internal", "diagnostic")
_ROUND = 400


def count_twins(seed: str, least: int) -> dict[str, int]:
    """Map each card format to the number of pairs compared byte by byte.

    The comparison goes on until there are so many of each format.

    A pair is a card and the first card that shows the same. All are of one base, and most members of each are drawn.

    Raises:
        AssertionError: for a pair that differs.
    """
    expected = {name for name in KNOWN_FORMATS if name.partition("/")[0] in BASES}
    bases = [(family, base) for family, these in BASES.items() for base in these]
    gives = dict.fromkeys(range(len(bases)), expected)
    pairs: Counter[str] = Counter()
    turn = 0
    while missing := {name for name in expected if pairs[name] < least}:
        turn += 1
        for number, (family, base) in enumerate(bases):
            if missing & gives[number]:
                found = Counter[str]()
                for context in CONTEXTS:
                    found += _compare(family, base, context, f"{seed} {turn} {number} {context}")
                gives[number] = {name for name, count in found.items() if count > _ROUND // 10}
                pairs += found
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
