"""Guard against lost speed: ``python -m benchmarks.guard``.

It fails when a step lost more than a third of its speed against the committed figures.

Ratios to the floor are compared, never times, and by processor time, so that other work on the machine counts for
little. Where a yardstick of plain Python lost as well against the floor, since the machine is busy or another one, that
much is allowed to every row. A row has to be worse in each of three runs: noise does not repeat itself, a loss does.
"""

import sys

from benchmarks import proportion, results, speed
from benchmarks.work import make_work

MOST = 4 / 3
RUNS = 3
ROUNDS, REPEATS = 20, 20


def main() -> None:
    """Measure up to three times, and exit with 1 for a loss.

    A row of ``proportion`` beyond its bound is a loss too.

    Raises:
        SystemExit: with the rows that were worse each time.
    """
    hold_bounds()
    figures = results.load()
    if figures["extra fast"] != results.fast():
        raise SystemExit("the committed figures are of another installation: with the extra fast, or without")
    committed = {row["row"]: row["SD-Card"] for row in figures["speed"]["rows"]}
    worse = set(committed)
    for number in range(1, RUNS + 1):
        ratios, yardstick = speed.our_ratios(make_work(), ROUNDS, REPEATS)
        allowed = max(1, yardstick / figures["speed"]["yardstick"])
        losses = {name: ratio / committed[name] / allowed for name, ratio in ratios.items()}
        worse &= {name for name, loss in losses.items() if loss > MOST}
        sys.stdout.write(f"run {number}: plain Python takes {allowed:.2f} times what it did; beyond that\n")
        for name, loss in losses.items():
            change = f"{(loss - 1) * 100:+.0f} %"
            sys.stdout.write(f"  {name:<28}{ratios[name]:>7.2f}{committed[name]:>9.2f}{change:>9}\n")
        if not worse:
            sys.stdout.write("no row lost more than a third\n")
            return
    raise SystemExit(f"lost more than a third in {RUNS} of {RUNS} runs: {', '.join(sorted(worse))}")


def hold_bounds() -> None:
    """Measure up to three times what has a bound of its own.

    Raises:
        SystemExit: with the rows that were beyond it each time.
    """
    beyond = {row.name for row in proportion.rows()}
    for _ in range(RUNS):
        beyond &= proportion.broken(proportion.measure())
        if not beyond:
            sys.stdout.write("no row is beyond its bound\n")
            return
    raise SystemExit(f"beyond their bounds in {RUNS} of {RUNS} runs: {', '.join(sorted(beyond))}")


if __name__ == "__main__":
    main()
