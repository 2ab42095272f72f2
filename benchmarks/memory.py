"""Peak memory of each step on the benchmark card, beside its text's size.

The text is the one that the step is given or makes.

Holder and Verifier pass a cache that has the SD-Card, except where the row says "new".
"""

from typing import Any

from benchmarks import ours
from benchmarks.rounds import peak_memory
from benchmarks.work import Work
from sdcard.verification_cache import VerificationCache


def measure(work: Work) -> dict[str, Any]:
    """Bytes of text, and the peak that a step adds in Python's own allocations."""
    issued = ours.issue(work)
    held = ours.accept(work, issued)
    presented = ours.present(work, held)
    cache = VerificationCache()
    steps = {
        "issue": (issued, lambda: ours.issue_first(work)),
        "accept": (issued, lambda: ours.accept(work, issued, cache)),
        "present": (presented, lambda: ours.present(work, held)),
        "verify": (presented, lambda: ours.verify(work, presented, cache)),
        "verify, new": (presented, lambda: ours.verify(work, presented)),
    }
    found = {}
    for name, (text, step) in steps.items():
        peak = peak_memory(step)
        found[name] = {"bytes of text": len(text), "peak bytes": peak, "ratio": round(peak / len(text), 2)}
    return found
