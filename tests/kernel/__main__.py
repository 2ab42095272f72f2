"""Compare the native kernel with Python: ``python -m tests.kernel 200000 [SEED]``.

First come forks, large inputs and the interpreter's end, then cards, then as many generated inputs as the argument
says. The run ends at the first difference, with status 1 and the input; also if the kernel declines more than one in a
hundred of what is ordinary.
"""

import hashlib
import random
import sys
from collections import Counter
from collections.abc import Callable

from sdcard import acceleration
from tests.kernel.cards import compare_cards
from tests.kernel.holding import compare_holding
from tests.kernel.issuing import compare_issuing
from tests.kernel.keys import compare_key, compare_signature
from tests.kernel.process import check_process
from tests.kernel.reading import compare_sd_jwt
from tests.kernel.verifying import compare_batch, compare_verification

MOST_DECLINED = 0.01
KINDS: tuple[tuple[Callable[[random.Random], str], int], ...] = (
    (compare_sd_jwt, 72),
    (compare_issuing, 10),
    (compare_holding, 5),
    (compare_key, 3),
    (compare_signature, 3),
    (compare_verification, 6),
    (compare_batch, 1),
)
"""What is compared, and how many of a hundred inputs are for it."""


def run(count: int, seed: int) -> Counter[str]:
    """Compare inputs by number, and count the outcomes of each kind.

    Raises:
        SystemExit: with the number of the first input with a difference.
    """
    outcomes: Counter[str] = Counter()
    kinds = [compare for compare, share in KINDS for _ in range(share)]
    for number in range(count):
        drawn = random.Random(hashlib.sha256(f"{seed} {number}".encode()).digest())
        compare = drawn.choice(kinds)
        try:
            outcomes[f"{compare.__name__.removeprefix('compare_')}: {compare(drawn)}"] += 1
        except Exception as difference:  # of any kind: the input that makes it is named
            raise SystemExit(f"input {number} of seed {seed}, {compare.__name__}: {difference!r}") from difference
    return outcomes


def check_declined(outcomes: Counter[str]) -> None:
    """Exit with 1 if the kernel declines too much of what is ordinary."""
    for outcome, number in sorted(outcomes.items()):
        sys.stdout.write(f"{outcome:<50}{number:>12,}\n")
    ordinary = sum(number for outcome, number in outcomes.items() if "ordinary" in outcome)
    declined = sum(number for outcome, number in outcomes.items() if "ordinary, declined" in outcome)
    if declined > ordinary * MOST_DECLINED:
        raise SystemExit(f"the kernel declines {declined:,} of {ordinary:,} ordinary inputs")


def main() -> None:
    """Compare."""
    if acceleration.KERNEL is None:
        raise SystemExit("the package sdcard-native is not installed, or SDCARD_NATIVE is off")
    check_process()
    check_declined(compare_cards())
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    check_declined(run(count, seed))
    sys.stdout.write(f"{count:,} inputs without a difference\n")


if __name__ == "__main__":
    main()
