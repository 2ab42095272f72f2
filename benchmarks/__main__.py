"""Issue, present and verify, beside PyPI ``sd-jwt`` doing the same work on the same card, in one run.

Absolute times drift between machines and minutes; only ratios within one run mean anything. The floor is what
``cryptography`` alone needs: one ES256 signature to issue or present, two verifications to verify. Every round runs
each step in turn, so that a slow moment hits them all; the table shows the least disturbed round of each step.

What is new to us is new each time: what the library keeps of keys and signatures is dropped before every run of a step,
but for the rows that say otherwise.
"""

import argparse
import importlib.util
import json
import platform
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks import ours, peer
from benchmarks.work import CARD, Work, make_work
from sdcard.jose import keys
from sdcard.sdjwt import seen

Step = Callable[[], Any]


def main() -> None:
    """Measure, print, and store when asked."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=60, help="rounds (default 60)")
    arguments.add_argument("--repeats", type=int, default=20, help="runs of each step in a round (default 20)")
    arguments.add_argument("--out", help="also write the figures to this JSON file")
    chosen = arguments.parse_args()
    work = make_work()
    steps = _steps(work)
    times = _measure(steps, chosen.rounds, chosen.repeats)
    _print(times)
    if chosen.out:
        with open(chosen.out, "w", encoding="utf-8") as file:
            json.dump({"python": platform.python_version(), "microseconds": times}, file, indent=2)


def _steps(work: Work) -> dict[str, Step]:
    issued = ours.issue(work)
    held = ours.accept(work, issued)
    presented = ours.present(work, held)
    batch = [ours.present(work, ours.accept(work, ours.issue(work))) for _ in range(16)]
    pool = ThreadPoolExecutor(1)
    theirs = peer.issue(work)
    shown = peer.present(work, theirs)
    return {
        "floor: one signature": work.sign,
        "floor: two verifications": work.verify_twice,
        "issue": lambda: ours.issue(work),
        "present, parsed holder": lambda: ours.present(work, held),
        "present, from text": _afresh(lambda: ours.present(work, ours.accept(work, issued))),
        "present, from text, seen": lambda: ours.present(work, ours.accept(work, issued)),
        "verify": _afresh(lambda: ours.verify(work, presented)),
        "verify, seen": lambda: ours.verify(work, presented),
        "verify 4": _afresh(lambda: ours.verify_batch(work, batch[:4], pool)),
        "verify 4, seen": lambda: ours.verify_batch(work, batch[:4], pool),
        "verify 16": _afresh(lambda: ours.verify_batch(work, batch, pool)),
        "verify 16, seen": lambda: ours.verify_batch(work, batch, pool),
        "sd-jwt issue": lambda: peer.issue(work),
        "sd-jwt present": lambda: peer.present(work, theirs),
        "sd-jwt verify": lambda: peer.verify(work, shown),
    }


def _afresh(step: Step) -> Step:
    """The step, by a process that has seen neither the Issuer's JWT nor the Holder's key."""

    def forgetful() -> None:
        keys.forget()
        seen.forget()
        step()

    return forgetful


def _measure(steps: dict[str, Step], rounds: int, repeats: int) -> dict[str, float]:
    """Microseconds of each step in its least disturbed round."""
    samples: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        step()
    for _ in range(rounds):
        for name, step in steps.items():
            start = time.perf_counter_ns()
            for _ in range(repeats):
                step()
            samples[name].append((time.perf_counter_ns() - start) / repeats / 1000)
    return {name: min(values) for name, values in samples.items()}


def _print(times: dict[str, float]) -> None:
    sign, verify = times["floor: one signature"], times["floor: two verifications"]
    rows = [
        ("issue ÷ one signature", times["issue"] / sign, times["sd-jwt issue"] / sign),
        ("present ÷ one signature, parsed holder", times["present, parsed holder"] / sign, None),
        ("present from text ÷ one signature *", times["present, from text"] / sign, times["sd-jwt present"] / sign),
        ("the same, issuer JWT seen before", times["present, from text, seen"] / sign, None),
        ("verify ÷ two verifications", times["verify"] / verify, times["sd-jwt verify"] / verify),
        ("the same, issuer JWT seen before", times["verify, seen"] / verify, None),
        *(
            (
                f"verify {count}, two threads, each{seen} ÷ the same",
                times[f"verify {count}{seen}"] / count / verify,
                None,
            )
            for count in (4, 16)
            for seen in ("", ", seen")
        ),
    ]
    extra = "with" if all(map(importlib.util.find_spec, ("orjson", "pybase64"))) else "without"
    out = sys.stdout.write
    out(f"Python {platform.python_version()}, card of {len(CARD)} bytes, 7 selective claims, 3 shown, ES256, ")
    out(f"{extra} the extra fast\n")
    out(f"floor: one signature {sign:.1f} µs, two verifications {verify:.1f} µs\n\n")
    out(f"{'':<42}{'SD-Card':>9}{'sd-jwt 0.10.4':>15}\n")
    for name, mine, theirs in rows:
        out(f"{name:<44}{mine:>9.2f}{'–' if theirs is None else format(theirs, '.2f'):>15}\n")
    out("\n* We first check the text as RFC 9901 7.2 asks of a Holder, Issuer's signature included; sd-jwt does not.\n")
    out(f"  One signature and one verification alone are {1 + verify / 2 / sign:.2f}.\n")


if __name__ == "__main__":
    main()
