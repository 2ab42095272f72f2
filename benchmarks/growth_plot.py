"""The growth curves as a picture: ``uv run --with matplotlib python -m benchmarks.growth_plot``.

Writes docs/growth.svg and prints the figures behind it, measured twice; both runs are drawn. ``--out FILE`` writes
elsewhere, in the form that the name's ending says (.svg, .png).
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot

from benchmarks.growth import Curve, described, exponent, measure

RUNS = 2
DEFAULT_OUT = Path(__file__).parent.parent / "docs" / "growth.svg"
LOOKS = {"decoys": ("#0072b2", "o"), "Disclosures": ("#d55e00", "s"), "Disclosures in chains of ten": ("#009e73", "^")}
STYLE = {
    "svg.fonttype": "none",  # text stays text: it can be read, searched and tested
    "svg.hashsalt": "growth",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"],
    "figure.facecolor": "white",
}


def main() -> None:
    """Measure, print and draw."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=Path, default=DEFAULT_OUT)
    out = arguments.parse_args().out
    runs = [measure() for _ in range(RUNS)]
    for number, run in enumerate(runs, 1):
        sys.stdout.write(f"run {number}\n" + "".join(map(described, run)))
    draw(runs, out)


def draw(runs: Sequence[Sequence[Curve]], out: Path) -> None:
    """Time and peak memory side by side, on logarithmic axes, each beside what linear growth looks like."""
    mpl.use("Agg")
    with mpl.rc_context(STYLE):
        figure, (times, memory) = pyplot.subplots(1, 2, figsize=(11, 6), layout="constrained")
        _panel(times, "Time to verify", "milliseconds", runs, lambda curve: [one * 1000 for one in curve.seconds])
        _panel(
            memory,
            "Peak memory while verifying",
            "megabytes",
            runs,
            lambda curve: [one / 1e6 for one in curve.peak_bytes],
        )
        figure.savefig(out, metadata={"Date": None, "Creator": None} if out.suffix == ".svg" else None)


def _panel(
    axes: Any,  # matplotlib is no dependency, so its types are not there to be checked
    title: str,
    unit: str,
    runs: Sequence[Sequence[Curve]],
    values: Callable[[Curve], Sequence[float]],
) -> None:
    axes.set(title=title, xlabel="digests or Disclosures in the SD-JWT", ylabel=unit, xscale="log", yscale="log")
    for curves in zip(*runs, strict=True):
        colour, marker = LOOKS[curves[0].name]
        exponents = " and ".join(f"{exponent(curve.sizes, values(curve)):.2f}" for curve in curves)
        for curve in curves:
            label = f"{curve.name}: exponent {exponents}" if curve is curves[0] else None
            axes.plot(curve.sizes, values(curve), color=colour, marker=marker, markersize=4, linewidth=1, label=label)
    first = runs[0][0]
    start = next(place for place, size in enumerate(first.sizes) if size * 10 >= first.sizes[-1])
    line = [values(first)[start] * size / first.sizes[start] for size in first.sizes]
    axes.plot(first.sizes, line, color="#777777", linestyle="--", linewidth=1, label="linear growth: exponent 1")
    axes.minorticks_off()
    axes.grid(visible=True, which="major", color="#dddddd")
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.12))


if __name__ == "__main__":
    main()
