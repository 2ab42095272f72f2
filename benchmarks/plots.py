"""Plots of the stored figures.

Run ``uv run --with matplotlib==3.11.2 python -m benchmarks.plots``.

Writes ``docs/cost-….svg`` and ``.png``; the same figures make the same bytes.
"""

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot

from benchmarks import page, results

DOCS = results.ROOT / "docs"
LOOKS = {"issue": ("#0072b2", "o"), "accept": ("#e69f00", "s"), "present": ("#009e73", "^"), "verify": ("#d55e00", "D")}
STYLE: Any = {
    "svg.fonttype": "none",  # text stays text: it can be read, searched and tested
    "svg.hashsalt": "sdcard",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"],
    "figure.facecolor": "white",
    "axes.facecolor": "white",
}


def main() -> None:
    """Draw all of them."""
    figures = results.load()
    with mpl.rc_context(STYLE):
        for name, (what, axis) in page.GROWTH_PICTURES.items():
            curves = [one for one in figures["growth"] if one["of"] == what]
            _save(_growth(curves, axis), name)
        _save(_threads(figures["threads"]), "cost-by-threads")
        _save(_peers(figures["speed"]["rows"]), "cost-beside-peers")


def _save(figure: Any, name: str) -> None:  # matplotlib is no dependency, so its types are not there to be checked
    for ending, metadata in ((".svg", {"Date": None, "Creator": None}), (".png", {"Software": None})):
        path = (DOCS / name).with_suffix(ending)
        figure.savefig(path, metadata=metadata, dpi=110)
        if ending == ".svg":
            _without_trailing_spaces(path)
    pyplot.close(figure)


def _without_trailing_spaces(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("".join(line.rstrip() + "\n" for line in lines), encoding="utf-8")


def _growth(curves: list[dict[str, Any]], axis: str) -> Any:
    """Time and peak memory side by side, each beside what linear growth looks like."""
    figure, (times, memory) = pyplot.subplots(1, 2, figsize=(11, 5), layout="constrained")
    _panel(times, "Time", "milliseconds", curves, "microseconds", 1_000, "time exponent")
    _panel(memory, "Peak memory", "megabytes", curves, "peak bytes", 1_000_000, "memory exponent")
    for axes in (times, memory):
        axes.set_xlabel(axis)
    return figure


def _panel(axes: Any, title: str, unit: str, curves: list[dict[str, Any]], key: str, scale: int, exponent: str) -> None:
    axes.set(title=title, ylabel=unit, xscale="log", yscale="log")
    for curve in curves:
        colour, marker = LOOKS[curve["step"]]
        label = f"{curve['step']}: exponent {curve[exponent]:.2f}"
        values = [one / scale for one in curve[key]]
        axes.plot(curve["sizes"], values, color=colour, marker=marker, markersize=4, linewidth=1.4, label=label)
    sizes = curves[-1]["sizes"]
    last = curves[-1][key][-1] / scale
    line = [last * size / sizes[-1] for size in sizes]
    axes.plot(sizes, line, color="#777777", linestyle="--", linewidth=1, label="linear growth: exponent 1")
    axes.grid(visible=True, which="major", color="#dddddd")
    axes.legend(frameon=False, fontsize=9)


def _threads(found: dict[str, Any]) -> Any:
    figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    for (colour, marker), count, ratios in zip(LOOKS.values(), found["threads"], found["ratios"], strict=True):
        label = "1 thread" if count == 1 else f"{count} threads"
        axes.plot(found["sizes"], ratios, color=colour, marker=marker, linewidth=1.4, label=label)
    axes.axhline(1, color="#777777", linestyle="--", linewidth=1, label="two verifications alone, one thread")
    axes.set(title="One verification of a batch", xlabel="presentations at once", xscale="log", ylim=(0, None))
    axes.set(ylabel="÷ two verifications alone")
    axes.set_xticks(found["sizes"], [str(size) for size in found["sizes"]])
    axes.minorticks_off()
    axes.grid(visible=True, which="major", color="#dddddd")
    axes.legend(frameon=False)
    return figure


def _peers(rows: list[dict[str, Any]]) -> Any:
    """Bars, one group a row: ours first."""
    rows = [row for row in rows if " at once" not in row["row"]]
    names = ["SD-Card", *rows[0]["peers"]]
    colours = ["#d55e00", "#0072b2", "#56b4e9", "#009e73", "#e69f00", "#cc79a7"]
    figure, axes = pyplot.subplots(figsize=(11, 5), layout="constrained")
    width = 0.8 / len(names)
    for number, (name, colour) in enumerate(zip(names, colours, strict=True)):
        values = [row["SD-Card"] if name == "SD-Card" else row["peers"][name] or 0 for row in rows]
        places = [place + (number - (len(names) - 1) / 2) * width for place in range(len(rows))]
        bars = axes.bar(places, values, width, color=colour, label=name)
        axes.bar_label(bars, [f"{value:.1f}" if value else "" for value in values], fontsize=7, padding=1)
    axes.axhline(1, color="#777777", linestyle="--", linewidth=1)
    axes.set(
        title="Beside the peers: 1 is the signatures alone", ylabel="÷ the floor of the row (logarithmic)", yscale="log"
    )
    axes.set_xticks(range(len(rows)), [f"{row['row']}\n÷ {row['floor']}" for row in rows], fontsize=8)
    figure.legend(loc="outside lower center", frameon=False, ncols=6, fontsize=9)
    return figure


if __name__ == "__main__":
    main()
