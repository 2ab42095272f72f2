"""Guesses about hidden members, from everything that a stranger sees in one text.

The attacker learns on one half of the cards and guesses about the other half. Three kinds of guess compete: a single
threshold or value, naive Bayes over the values that tell most, and the nearest neighbours in all numbers. The attacker
takes the kind that does best when the first half is split again; none of them does better than chance there, it
guesses what is most common.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.linking.population import agents, endpoints, has_security
from benchmarks.linking.registry import START, SeededSalts, accepted, new_key, presented, registry, selection
from benchmarks.linking.seeing import Seen, see

CONTEXTS = ("public", "internal", "diagnostic", "full", "federation")
SHOWS = ("nothing", "skill", "all")
Guess = Callable[[Seen], bool]
Learner = Callable[[Sequence[Seen], Sequence[bool]], Guess]

PROPERTIES: Mapping[str, Callable[[dict[str, Any]], bool]] = {
    "security": has_security,
    "provider": lambda card: "provider" in card,
    "more than 5 skills": lambda card: len(card["skills"]) > 5,
    "more than 16 skills": lambda card: len(card["skills"]) > 16,
    "examples of the skill": lambda card: "examples" in card["skills"][0],
    "streaming": lambda card: bool(card["capabilities"]["streaming"]),
    "more than 1 endpoint": lambda card: endpoints(card) > 1,
    "A2A 1.0": lambda card: "supportedInterfaces" in card,
    "members of its own": lambda card: any(name.startswith("x-") for name in card),
}
_FOLDS = 5
_NEIGHBOURS = 15
_KEPT = 40
_THRESHOLDS = 24
_LEAST = 5


@dataclass(frozen=True, slots=True)
class Guessed:
    """Accuracy of the guesses of one property.

    Attributes:
        context: the SD-Card's.
        shows: what its Holder showed.
        property: what was guessed.
        accuracy: share of right guesses in the half that was held out.
        base: share that a guess of the most common answer has there.
    """

    context: str
    shows: str
    property: str
    accuracy: float
    base: float


def guess_all(seed: str, count: int) -> list[Guessed]:
    """Guess each property, in each context, with each choice of what is shown."""
    texts, truths = _texts(seed, count)
    found = []
    for (context, shows), these in texts.items():
        seen = [see(text) for text in these]
        for name in PROPERTIES:
            accuracy, base = guess(seen, [truth[name] for truth in truths], f"{seed} {context} {shows} {name}")
            found.append(Guessed(context, shows, name, accuracy, base))
    return found


def guess(seen: Sequence[Seen], truth: Sequence[bool], seed: str) -> tuple[float, float]:
    """Accuracy and base rate in the half that is held out."""
    order = random.Random(f"halves {seed}").sample(range(len(seen)), len(seen))
    known, held_out = order[: len(order) // 2], order[len(order) // 2 :]
    learner = _choose([seen[n] for n in known], [truth[n] for n in known])
    decide = learner([seen[n] for n in known], [truth[n] for n in known])
    right = sum(decide(seen[n]) == truth[n] for n in held_out)
    share = sum(truth[n] for n in held_out) / len(held_out)
    return right / len(held_out), max(share, 1 - share)


def _texts(seed: str, count: int) -> tuple[dict[tuple[str, str], list[str]], list[dict[str, bool]]]:
    """Presentations of each context and choice, and what is true of each agent."""
    dice, salts = random.Random(f"hidden {seed}"), SeededSalts(f"hidden {seed}")
    texts: dict[tuple[str, str], list[str]] = {(context, shows): [] for context in CONTEXTS for shows in SHOWS}
    drawn = agents(f"hidden {seed}", count)
    with registry(seed) as open_registry:
        acceptance = open_registry.acceptance()
        for agent in drawn:
            keys = [new_key(dice)]
            cards = open_registry.register(agent, [{"context": name} for name in CONTEXTS], keys, START)
            for context, card in zip(CONTEXTS, cards, strict=True):
                held = accepted(card, acceptance, START)
                for shows in SHOWS:
                    chosen = selection(held, shows)
                    text = presented(held, card.signer, chosen, "https://verifier.example", START, salts)
                    texts[context, shows].append(text)
    return texts, [{name: of(agent.card) for name, of in PROPERTIES.items()} for agent in drawn]


# -- learning ---------------------------------------------------------------------------------------------------------


def _choose(seen: Sequence[Seen], truth: Sequence[bool]) -> Learner:
    """Choose the learner that does best on parts of the known data.

    If it does no better than chance, guess the most common answer.
    """
    right: Counter[Learner] = Counter()
    for fold in range(_FOLDS):
        inside = [number for number in range(len(seen)) if number % _FOLDS != fold]
        for learner in LEARNERS:
            decide = learner([seen[n] for n in inside], [truth[n] for n in inside])
            right[learner] += sum(decide(seen[n]) == truth[n] for n in range(fold, len(seen), _FOLDS))
    best, score = right.most_common(1)[0]
    chance = max(sum(truth), len(truth) - sum(truth))
    return best if score > chance + math.sqrt(len(truth)) / 2 else _commonest


def _commonest(seen: Sequence[Seen], truth: Sequence[bool]) -> Guess:
    answer = 2 * sum(truth) > len(truth)
    return lambda one: answer


def _stump(seen: Sequence[Seen], truth: Sequence[bool]) -> Guess:
    """The one value or threshold that splits best."""
    tests: list[tuple[int, Guess]] = []
    for kind in _number_kinds(seen):
        levels = sorted({one.numbers[kind] for one in seen if kind in one.numbers})
        step = max(1, len(levels) // _THRESHOLDS)
        tests += [_scored(_at_least(kind, level), seen, truth) for level in levels[::step]]
    tests += [_scored(_has(kind, value), seen, truth) for kind, value in _telling(seen, truth)[:_KEPT]]
    return max(tests, key=lambda test: test[0])[1] if tests else _commonest(seen, truth)


def _at_least(kind: str, level: float) -> Guess:
    return lambda one: one.numbers.get(kind, -1.0) >= level


def _has(kind: str, value: Any) -> Guess:
    return lambda one: value in one.values.get(kind, ())


def _scored(test: Guess, seen: Sequence[Seen], truth: Sequence[bool]) -> tuple[int, Guess]:
    right = sum(test(one) == true for one, true in zip(seen, truth, strict=True))
    return (right, test) if 2 * right >= len(truth) else (len(truth) - right, lambda one: not test(one))


def _bayes(seen: Sequence[Seen], truth: Sequence[bool]) -> Guess:
    """Naive Bayes over the values that tell most."""
    values = _telling(seen, truth)[:_KEPT]
    sizes = {True: sum(truth) + 1, False: len(truth) - sum(truth) + 1}
    weights = []
    for kind, value in values:
        having = Counter(true for one, true in zip(seen, truth, strict=True) if value in one.values.get(kind, ()))
        share = {answer: (having[answer] + 0.5) / (size + 1) for answer, size in sizes.items()}
        weights.append((math.log(share[True] / share[False]), math.log((1 - share[True]) / (1 - share[False]))))
    start = math.log(sizes[True] / sizes[False])

    def decide(one: Seen) -> bool:
        pairs = zip(values, weights, strict=True)
        return start + sum(w[0] if value in one.values.get(kind, ()) else w[1] for (kind, value), w in pairs) > 0

    return decide


def _neighbours(seen: Sequence[Seen], truth: Sequence[bool]) -> Guess:
    """Guess by a majority of the nearest neighbours.

    The distance is over all numbers, each divided by its spread.
    """
    scales = {}
    for kind in _number_kinds(seen):
        numbers = [one.numbers[kind] for one in seen if kind in one.numbers]
        mean = sum(numbers) / len(numbers)
        spread = math.sqrt(sum((number - mean) ** 2 for number in numbers) / len(numbers))
        if spread > 0:
            scales[kind] = (mean, spread)

    def place(one: Seen) -> list[float]:
        return [(one.numbers.get(kind, mean) - mean) / spread for kind, (mean, spread) in scales.items()]

    known = [(place(one), true) for one, true in zip(seen, truth, strict=True)]

    def decide(one: Seen) -> bool:
        here = place(one)
        nearest = sorted(known, key=lambda other: math.dist(here, other[0]))[:_NEIGHBOURS]
        return 2 * sum(true for _, true in nearest) > len(nearest)

    return decide


LEARNERS: tuple[Learner, ...] = (_stump, _bayes, _neighbours)


def _number_kinds(seen: Sequence[Seen]) -> list[str]:
    return sorted(set().union(*(one.numbers.keys() for one in seen)))


def _telling(seen: Sequence[Seen], truth: Sequence[bool]) -> list[tuple[str, Any]]:
    """The values that tell most, the best first."""
    counts: dict[bool, Counter[tuple[str, Any]]] = {True: Counter(), False: Counter()}
    for one, true in zip(seen, truth, strict=True):
        counts[true].update((kind, value) for kind, values in one.values.items() for value in values)
    sizes = {answer: max(1, sum(true == answer for true in truth)) for answer in (True, False)}
    gains = [
        (abs(counts[True][both] / sizes[True] - counts[False][both] / sizes[False]), str(both), both)
        for both in counts[True].keys() | counts[False].keys()
        if _LEAST <= counts[True][both] + counts[False][both] <= len(seen) - _LEAST
    ]
    return [both for _, _, both in sorted(gains, reverse=True)]
