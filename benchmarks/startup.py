"""Start-up time of fresh processes, as ratios to importing cryptography.

Processes run in turn, and the least disturbed of each counts. The import is of the parts that we need.

Processor time, of the process and of the system for it: what other work takes is not in it.
"""

import resource
import subprocess
import sys
from typing import Any

FLOOR = "import cryptography.hazmat.primitives.asymmetric.ec"
_RUN = "import sys; sys.argv = ['sdcard', {}]; from sdcard.cli import main; main()"
PROCESSES = {
    FLOOR: FLOOR,
    "python alone": "pass",
    "import sdcard": "import sdcard",
    "from sdcard import parse_card": "from sdcard import parse_card",
    "from sdcard import verify_presentation": "from sdcard import verify_presentation",
    "from sdcard import *": "from sdcard import *",
    "import typer (the list of commands without ours)": "import typer, typer.main, typer.core",
    "sdcard --help": _RUN.format("'--help'"),
    "sdcard verify --help": _RUN.format("'verify', '--help'"),
}


def measure(rounds: int = 25) -> dict[str, Any]:
    """Milliseconds of each process, and ratios to the floor.

    Interpreters' own start is in all of them.
    """
    best = dict.fromkeys(PROCESSES, float("inf"))
    for _ in range(rounds):
        for name, code in PROCESSES.items():
            before = _taken()
            subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=True)
            best[name] = min(best[name], _taken() - before)
    return {
        "milliseconds": {name: round(seconds * 1000, 1) for name, seconds in best.items()},
        "ratios": {name: round(seconds / best[FLOOR], 2) for name, seconds in best.items()},
    }


def _taken() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime
