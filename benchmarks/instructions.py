"""Processor instructions of each step, counted with callgrind.

Other work on the machine does not change them. ``python -m benchmarks.instructions`` counts them without the kernel
and, where it is installed, with it. It fails when a step takes a seventh more than the stored figures of the same
processor: libraries choose their code by the processor. ``--store`` stores the counts.
"""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product

from benchmarks import ours, results
from benchmarks.rounds import Step
from benchmarks.work import make_work
from sdcard.acceleration import KERNEL

STEPS = ("issue", "present", "verify")
FEW, MANY = 10, 60
MOST = 1.15
"""Counts of one build differ by up to a twentieth: signing draws random numbers."""


def main() -> None:
    """Count, and compare or store."""
    if sys.argv[1:2] == ["--one"]:
        step = steps()[sys.argv[2]]
        for _ in range(int(sys.argv[3])):
            step()
        return
    switches = ["off", "on"] if KERNEL else ["off"]
    pairs = list(product(STEPS, switches))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        counts = dict(zip(pairs, pool.map(lambda pair: counted(*pair), pairs), strict=True))
    figures = results.load()
    stored = figures.get("instructions", {})
    now = {f"{step}, kernel {switch}": count for (step, switch), count in counts.items()}
    for name, count in now.items():
        sys.stdout.write(f"{name:<22}{count:>12,}{stored.get(name, 0):>12,}\n")
    if "--store" in sys.argv:
        results.store({**figures, "instructions": {**stored, **now, "processor": results.processor()}})
    elif stored.get("processor") != results.processor():
        sys.stdout.write("The stored counts are of another processor: nothing is compared.\n")
    elif lost := [name for name, count in now.items() if count > stored[name] * MOST]:
        raise SystemExit(f"more instructions than stored: {', '.join(lost)}")


def steps() -> dict[str, Step]:
    """Steps by name, on the benchmark card."""
    work = make_work()
    held = ours.accept(work, ours.issue(work))
    presented = ours.present(work, held)
    return {
        "issue": lambda: ours.issue(work),
        "present": lambda: ours.present(work, held),
        "verify": lambda: ours.verify(work, presented),
    }


def counted(step: str, switch: str) -> int:
    """Instructions of one run of a step: the difference of many runs and few."""
    few, many = (_of_process(step, switch, runs) for runs in (FEW, MANY))
    return round((many - few) / (MANY - FEW))


def _of_process(step: str, switch: str, runs: int) -> int:
    program = [sys.executable, "-m", "benchmarks.instructions", "--one", step, str(runs)]
    valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *program]
    environment = {**os.environ, "SDCARD_NATIVE": switch, "PYTHONHASHSEED": "0"}
    said = subprocess.run(valgrind, check=True, capture_output=True, text=True, env=environment).stderr
    found = re.search(r"Collected : (\d+)", said)
    assert found, "callgrind says how many it collected"
    return int(found[1])


if __name__ == "__main__":
    main()
