"""All measurements in one run, stored and written to the pages of figures.

They are also printed.

Absolute times drift between machines and minutes; only ratios within one run mean anything. ``--only speed`` measures
and prints the table of ratios alone, and stores nothing.
"""

import argparse
import sys
from typing import Any

from benchmarks import growth, hostile, memory, npm_peers, page, proportion, results, speed, startup
from benchmarks.work import make_work


def main() -> None:
    """Measure, print, store."""
    arguments = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    arguments.add_argument("--rounds", type=int, default=40, help="rounds (default 40)")
    arguments.add_argument("--repeats", type=int, default=20, help="runs of each step in a round (default 20)")
    arguments.add_argument("--only", choices=["speed"], help="no growth, memory and start-up; nothing is stored")
    chosen = arguments.parse_args()
    work = make_work()
    figures: dict[str, Any] = results.surroundings(chosen.rounds, chosen.repeats)
    figures["versions"] |= npm_peers.versions()
    figures["speed"] = speed.measure(work, chosen.rounds, chosen.repeats)
    _say(page.speed_table(figures))
    if chosen.only:
        return
    for name, measure in (
        ("start-up", startup.measure),
        ("memory", lambda: memory.measure(work)),
        ("hostile", hostile.measure),
        ("proportion", proportion.measure),
        ("growth", lambda: growth.measure(work)),
        ("threads", lambda: growth.threads(work)),
    ):
        figures[name] = measure()
        _say(page.TABLES[name](figures))
    results.store(figures)
    page.write(figures)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
