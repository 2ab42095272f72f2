"""Peak memory of each step on the benchmark card, beside the text that it is given or makes."""

from dataclasses import replace
from typing import Any

from benchmarks import ours
from benchmarks.rounds import peak_memory
from benchmarks.work import Work


def measure(work: Work) -> dict[str, Any]:
    """Bytes of text, and the peak that a step adds in Python's own allocations."""
    issued = ours.issue(work)
    held = ours.accept(work, issued)
    presented = ours.present(work, held)
    steps = {
        "issue": (issued, lambda: ours.issue_first(work)),
        "accept": (issued, lambda: ours.accept(work, issued)),
        "present": (presented, lambda: ours.present(work, replace(held))),
        "verify": (presented, lambda: ours.verify(work, presented)),
    }
    found = {}
    for name, (text, step) in steps.items():
        peak = peak_memory(step)
        found[name] = {"bytes of text": len(text), "peak bytes": peak, "ratio": round(peak / len(text), 2)}
    return found
