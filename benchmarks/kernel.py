"""The native kernel beside Python alone: ``python -m benchmarks.kernel``.

``uv run --with build/native/*.whl`` makes the kernel available.
Two processes in turn, one of which has ``SDCARD_NATIVE=off``, do the steps of ``benchmarks.speed``, and two more with
inputs of which none comes twice in a row. Of each step the least disturbed round counts. The figures are stored, and
written to docs/performance.md. On a busy machine, ``--busy`` takes the processor time of one thread, and leaves out the
steps of several threads.
"""

import json
import os
import subprocess
import sys
import time
from itertools import cycle

from benchmarks import ours, page, results, speed
from benchmarks.rounds import Step, least
from benchmarks.speed import SIGN, THREADS, VERIFY
from benchmarks.work import Work, make_work
from sdcard.acceleration import KERNEL

ROUNDS, ROUNDS_OF_ONE, REPEATS, NEW = 12, 4, 20, 256
FLOORS = {row.name: row.floor for row in speed.ROWS} | dict.fromkeys(
    ("verify, all new", "verify 64 at once, all new"), VERIFY
)


def main() -> None:
    """Measure both, store and print.

    ``--one`` only prints the times of this process.
    """
    if "--one" in sys.argv:
        sys.stdout.write(json.dumps(times()))
        return
    if KERNEL is None:
        raise SystemExit("the package sdcard-native is not installed")
    load = round(os.getloadavg()[0], 2)
    without, with_kernel = compared()
    figures = results.load()
    figures["kernel"] = {
        "version": KERNEL,
        "date": results.surroundings(ROUNDS, REPEATS)["date"],
        "processor": results.processor(),
        "load before": load,
        "processor time": is_busy(),
        "rows": [
            {"row": name, "floor": floor, "without": without[name], "with": with_kernel[name]}
            for name, floor in FLOORS.items()
            if name in without
        ],
    }
    results.store(figures)
    page.write(figures)
    sys.stdout.write(page.kernel_table(figures) + "\n")


def compared() -> tuple[dict[str, float], dict[str, float]]:
    """Ratios to the floor, without the kernel and with it."""
    best: tuple[dict[str, float], dict[str, float]] = ({}, {})
    for _ in range(ROUNDS):
        for found, switch in zip(best, ("off", "on"), strict=True):
            run = [sys.executable, "-m", "benchmarks.kernel", "--one", *sys.argv[1:]]
            environment = {**os.environ, "SDCARD_NATIVE": switch}
            made = json.loads(subprocess.run(run, check=True, capture_output=True, env=environment).stdout)
            for name, microseconds in made.items():
                found[name] = min(found.get(name, microseconds), microseconds)
    without, with_kernel = best
    floors = {floor: min(without[floor], with_kernel[floor]) for floor in (SIGN, VERIFY)}
    ratios = [
        {name: round(found[name] / floors[floor], 2) for name, floor in FLOORS.items() if name in found}
        for found in best
    ]
    return ratios[0], ratios[1]


def times() -> dict[str, float]:
    """Microseconds of every step and of the floors, in this process."""
    work = make_work()
    steps: dict[str, Step] = {SIGN: work.sign, VERIFY: work.verify_twice, **speed.our_steps(work), **new_steps(work)}
    units = {**speed.UNITS, "verify 64 at once, all new": 64}
    if not is_busy():
        return least(steps, ROUNDS_OF_ONE, REPEATS, units)
    alone = {name: step for name, step in steps.items() if name not in units}
    return least(alone, ROUNDS_OF_ONE, REPEATS, clock=time.thread_time_ns)


def is_busy() -> bool:
    """Whether the machine has other work."""
    return "--busy" in sys.argv


def new_steps(work: Work) -> dict[str, Step]:
    """Steps whose inputs come in rotation, each of an SD-Card and a Holder of its own."""
    texts = ours.presentations(work, NEW)
    one = cycle(texts)
    batches = cycle([texts[start : start + 64] for start in range(0, NEW, 64)])
    return {
        "verify, all new": lambda: ours.verify(work, next(one)),
        "verify 64 at once, all new": lambda: ours.verify_batch(work, next(batches), THREADS),
    }


if __name__ == "__main__":
    main()
