"""The attacker's match: learned weights, then the best assignment.

There is a weight for each kind of value, learned on other agents.

For a kind of value the model is simple. With the probability λ the second text of an agent copies what the first one
has; else its value is drawn like everybody's. λ comes from pairs of other agents that the attacker knows, λ beneath
the noise counts as 0. A value that p of all texts have then speaks for a pair by log(λ/p + 1 − λ), and its absence
against it by log(1 − λ). For numbers the attacker learns how near, and on which side, the second number is.
"""

import math
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.linking.seeing import Seen, frequencies

_SURE = 0.999
_NOISE = 4.0
"""Standard deviations above chance that an agreement needs to count: there are hundreds of kinds."""
_CANDIDATES = 40
_SWAPS = 200
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights that the attacker learned.

    Attributes:
        copied: kind of value → λ.
        nearness: kind of number → step of the distance → log-likelihood ratio.
    """

    copied: Mapping[str, float]
    nearness: Mapping[str, Mapping[int, float]]


def learn(first: Sequence[Seen], second: Sequence[Seen], seed: str) -> Weights:
    """Learn weights from pairs of texts that belong together.

    Texts of the same number do, and the attacker knows it.
    """
    return Weights(_learn_copied(first, second), _learn_nearness(first, second, random.Random(f"learn {seed}")))


def match(first: Sequence[Seen], second: Sequence[Seen], weights: Weights, seed: str) -> float:
    """Count the texts that the attacker assigns correctly, on average.

    The text of the same number is the correct one. The average is over its attempts.

    Nothing in an attempt depends on these numbers: what is alike is chosen at random.
    """
    scores, right = _scores(first, second, weights), 0
    for attempt in range(_ATTEMPTS):
        chosen = _assign(scores, random.Random(f"match {seed} {attempt}"))
        right += sum(other == number for number, other in enumerate(chosen))
    return right / _ATTEMPTS


def _learn_copied(first: Sequence[Seen], second: Sequence[Seen]) -> dict[str, float]:
    common = frequencies(list(second))
    copied = {}
    for kind, counts in common.items():
        found = expected = variance = total = 0.0
        for one, other in zip(first, second, strict=True):
            theirs = other.values.get(kind)
            if theirs is None:
                continue
            for value in one.values.get(kind, ()):
                chance = counts[value] / len(second)
                found += value in theirs
                expected += chance
                variance += chance * (1 - chance)
                total += 1
        if total and total > expected and found - expected > _NOISE * math.sqrt(variance + 1):
            copied[kind] = min((found - expected) / (total - expected), _SURE)
    return copied


def _step(distance: float) -> int:
    """The order of magnitude of a distance, with its sign."""
    size = math.floor(2 * math.log2(1 + abs(distance)))
    return size if distance >= 0 else -size


def _learn_nearness(first: Sequence[Seen], second: Sequence[Seen], dice: random.Random) -> dict[str, dict[int, float]]:
    learned = {}
    for kind in sorted(set().union(*(seen.numbers for seen in first))):
        pairs = [
            (one.numbers[kind], other.numbers[kind])
            for one, other in zip(first, second, strict=True)
            if kind in one.numbers and kind in other.numbers
        ]
        if len({value for pair in pairs for value in pair}) < 3:
            continue
        near: dict[int, float] = defaultdict(lambda: 0.5)
        apart: dict[int, float] = defaultdict(lambda: 0.5)
        for one, other in pairs:
            near[_step(other - one)] += 1
            for _, another in dice.sample(pairs, min(20, len(pairs))):
                apart[_step(another - one)] += 1 / 20
        steps = near.keys() | apart.keys()
        ratios = {step: math.log(near[step] / apart[step]) for step in steps}
        gain = sum((near[step] - 0.5) * ratios[step] for step in steps)
        if gain > _NOISE * (math.sqrt(len(pairs)) / 4 + len(steps) / 2):
            learned[kind] = ratios
    return learned


def _scores(first: Sequence[Seen], second: Sequence[Seen], weights: Weights) -> list[list[float]]:
    """Score each pair; only differences within a row or a column mean something."""
    size = len(second)
    scores = [[0.0] * size for _ in first]
    for kind, share in weights.copied.items():
        holders: dict[Any, list[int]] = defaultdict(list)
        for number, seen in enumerate(second):
            for value in seen.values.get(kind, ()):
                holders[value].append(number)
        for row, seen in zip(scores, first, strict=True):
            for value in seen.values.get(kind, ()):
                having = holders.get(value, ())
                if 0 < len(having) < size:
                    weight = math.log(share * size / len(having) + 1 - share) - math.log(1 - share)
                    for number in having:
                        row[number] += weight
    for kind, ratios in weights.nearness.items():
        theirs = [(number, seen.numbers[kind]) for number, seen in enumerate(second) if kind in seen.numbers]
        least = min(ratios.values())
        for row, seen in zip(scores, first, strict=True):
            if kind in seen.numbers:
                own = seen.numbers[kind]
                for number, value in theirs:
                    row[number] += ratios.get(_step(value - own), least)
    return scores


def _assign(scores: Sequence[Sequence[float]], dice: random.Random) -> list[int]:
    """Assign one column to each row, greedily, then improve by swaps.

    The best scores come first. The swaps end when few help.
    """
    size = len(scores)
    candidates = []
    for number, row in enumerate(scores):
        best = sorted(range(size), key=lambda other: (-row[other], dice.random()))[:_CANDIDATES]
        mean = sum(row) / size
        candidates += [(row[other] - mean, dice.random(), number, other) for other in best]
    chosen, taken = [-1] * size, set[int]()
    for _, _, number, other in sorted(candidates, reverse=True):
        if chosen[number] < 0 and other not in taken:
            chosen[number] = other
            taken.add(other)
    free = [other for other in range(size) if other not in taken]
    dice.shuffle(free)
    for number in range(size):
        if chosen[number] < 0:
            chosen[number] = free.pop()
    for _ in range(_SWAPS * size):
        one, other = dice.randrange(size), dice.randrange(size)
        mine, theirs = chosen[one], chosen[other]
        if scores[one][theirs] + scores[other][mine] > scores[one][mine] + scores[other][theirs] + 1e-9:
            chosen[one], chosen[other] = theirs, mine
    return chosen
