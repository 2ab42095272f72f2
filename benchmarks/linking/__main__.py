"""Linking and guessing by a stranger: ``python -m benchmarks.linking``.

Prints the figures, stores them in ``benchmarks/results/linking.json`` and writes the tables of docs/linkability.md.
``--only`` runs some parts, and keeps the stored figures of the others.
"""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from benchmarks import results
from benchmarks.linking import page
from benchmarks.linking.hidden import guess_all
from benchmarks.linking.lists import agents_from_revocations, contexts_told, partners_from_cards
from benchmarks.linking.matching import learn, match
from benchmarks.linking.predicted import predict
from benchmarks.linking.seeing import see
from benchmarks.linking.settings import SETTINGS, Setting, make_pairs
from benchmarks.linking.sizes import measure_sizes
from benchmarks.linking.twins import count_twins

SEED, OTHER_SEED = "figures", "what the attacker learned from"
A_MINUTE = (1, 2, 5, 20)
LIFETIMES = (7, 30)


def link(setting: Setting, count: int, known: int) -> dict[str, Any]:
    """Count pairs that the attacker links in a setting, and predicted pairs.

    The report predicts the latter.
    """
    first, second = make_pairs(setting, SEED, count)
    ones, others = make_pairs(setting, OTHER_SEED, known)
    weights = learn(list(map(see, ones)), list(map(see, others)), OTHER_SEED)
    linked = match(list(map(see, first)), list(map(see, second)), weights, f"{SEED} {setting.name}")
    row = {
        "setting": setting.name,
        "linked": round(linked, 1),
        "predicted": round(predict(first, second), 1),
        "of": count,
    }
    _say(f"{setting.name}: {linked:.1f} of {count}, {row['predicted']} predicted")
    return row


def main() -> None:
    """Run the attacks, store and print."""
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.linking", description=__doc__)
    arguments.add_argument("--agents", type=int, default=1_000, help="agents to link (default 1000)")
    arguments.add_argument("--known", type=int, default=200, help="agents that the attacker learns from (default 200)")
    arguments.add_argument("--cards", type=int, default=500, help="cards to guess about, half held out (default 500)")
    arguments.add_argument("--twins", type=int, default=5_000, help="pairs of twins of each format (default 5000)")
    arguments.add_argument("--only", choices=["links", "hidden", "lists", "twins", "sizes"], action="append")
    chosen = arguments.parse_args()
    parts: dict[str, Callable[[], Any]] = {
        "links": lambda: [link(setting, chosen.agents, chosen.known) for setting in SETTINGS],
        "hidden": lambda: [asdict(one) for one in guess_all(SEED, chosen.cards)],
        "lists": _lists,
        "twins": lambda: count_twins(SEED, chosen.twins),
        "sizes": measure_sizes,
    }
    found: dict[str, Any] = {"surroundings": page.surroundings()}
    for name, run in parts.items():
        if not chosen.only or name in chosen.only:
            began = time.monotonic()
            found[name] = run()
            _say(f"{name}: {time.monotonic() - began:.0f} s\n{page.TABLES[name](found)}\n")
    figures = {**(results.load(page.STORED) if page.STORED.exists() else {}), **found}
    results.store(figures, page.STORED)
    page.write(figures)


def _lists() -> dict[str, Any]:
    """The attacks on status lists and on the ends of SD-Cards."""
    return {
        "contexts": {name: asdict(told) for name, told in contexts_told(SEED).items()},
        "partners": {str(days): asdict(partners_from_cards(SEED, days)) for days in LIFETIMES},
        "partners, lists of their own": asdict(partners_from_cards(SEED, LIFETIMES[0], broad=True)),
        "revocations": {str(rate): agents_from_revocations(SEED, rate) for rate in A_MINUTE},
    }


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
