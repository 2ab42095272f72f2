"""Rounds of steps in turn, so that a slow moment affects all steps.

Of each step, the least disturbed round counts.

A step runs some times in a row, as in a process that does this work: each of its first runs brings its own code and
data back into the processor's caches, and with three in a row every row of every library is dearer by up to 5 %.
"""

import gc
import time
import tracemalloc
from collections.abc import Callable, Mapping
from typing import Any

Step = Callable[[], Any]
WARMING = 3
"""Runs that are not timed, before those that are: what the step before made the library forget is there again."""


def least(
    steps: Mapping[str, Step],
    rounds: int,
    repeats: int,
    units: Mapping[str, int] = {},
    clock: Callable[[], int] = time.perf_counter_ns,
) -> dict[str, float]:
    """Microseconds of one unit of each step.

    Args:
        steps: what to measure; each runs once before, so that what is built once is there.
        rounds: of all of them.
        repeats: units of each in a round, timed together.
        units: how many a step does at once, where that is more than one.
        clock: nanoseconds; ``time.thread_time_ns`` leaves out what other processes take.
    """
    best = dict.fromkeys(steps, float("inf"))
    for step in steps.values():
        step()
    gc.collect()
    for _ in range(rounds):
        for name, step in steps.items():
            unit = units.get(name, 1)
            runs = max(1, repeats // unit)
            for _ in range(WARMING):
                step()
            start = clock()
            for _ in range(runs):
                step()
            best[name] = min(best[name], (clock() - start) / (runs * unit) / 1000)
    return best


def peak_memory(step: Step) -> int:
    """Measure the bytes that a step adds at its peak, after a first run.

    They are Python's own allocations.
    """
    step()
    gc.collect()
    tracemalloc.start()
    try:
        step()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
