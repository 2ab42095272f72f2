"""``docs/threats.svg``: entry points of threats, their rules, and their tests.

Drawn from the tables of ``docs/threats.md``, each part of which has its threats, their rules and their tests.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from xml.sax.saxutils import escape

from pages.pictures import ROOT, STYLE
from sdcard.rules import Rule

PAGE = ROOT / "docs" / "threats.md"
NO_RULE = "no rule, by design"

_FAMILIES = {rule.value.partition(".")[0] for rule in Rule}
_LINE, _TOP, _WIDTH = 19, 56, 1020
_ENDS = ((292, 304), (506, 518), (776, 788))
"""Where the bars of each column begin and end."""
_HEADS = ("threats", "rules, by family", "tests, by folder")
_LOOK = """<style>
.link { fill: none; stroke-opacity: 0.55 } .bar { fill: #57606a } .small { font-size: 12px }
@media (prefers-color-scheme: dark) { .link { stroke-opacity: 0.7 } .bar { fill: #9198a1 } }
</style>
"""


@dataclass(frozen=True, slots=True)
class Threat:
    """A row: its part, the rules that refuse, and the files that show it."""

    part: str
    text: str
    rules: tuple[str, ...]
    tests: tuple[str, ...]

    @property
    def families(self) -> tuple[str, ...]:
        """The first halves of its rules' names."""
        return tuple(dict.fromkeys(rule.partition(".")[0] for rule in self.rules)) or (NO_RULE,)

    @property
    def folders(self) -> tuple[str, ...]:
        """Return where its tests are."""
        return tuple(dict.fromkeys(Path(test).parent.as_posix() for test in self.tests))


BOUNDS = "Resource limits"
"""A part with a table of another kind: ``tests/house/test_bounds.py`` reads it."""


def threats() -> Iterator[Threat]:
    """The rows of the page, in their order."""
    part = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            part = line.removeprefix("## ")
        elif line.startswith("| ") and not line.startswith("| threat |") and part != BOUNDS:
            text, rules, tests = (cell.strip() for cell in line.strip("| ").split(" | "))
            named = re.findall(r"`([a-z-]+\.[a-z0-9-]+)`", rules)
            known = tuple(rule for rule in named if rule.partition(".")[0] in _FAMILIES)
            yield Threat(part, text, known, tuple(re.findall(r"`(tests/[^`]*)`", tests)))


def threats_picture() -> str:
    """Draw three columns, with lines between the entries that belong together."""
    rows = list(threats())
    first = Counter(row.part for row in rows)
    before = Counter((row.part, family) for row in rows for family in row.families)
    after = Counter((family, folder) for row in rows for family in row.families for folder in row.folders)
    second = _beneath(list(first), before)
    columns = (
        first,
        {name: sum(name in row.families for row in rows) for name in second},
        {name: sum(name in row.folders for row in rows) for name in _beneath(second, after)},
    )
    lines = max(map(len, columns))
    places = [_places(column, lines) for column in columns]
    height = _TOP + lines * _LINE + 20
    picture = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" aria-labelledby="t d">\n'
        f'<title id="t">{len(rows)} threats, the rules that refuse them, and their tests</title>\n'
        f'<desc id="d">{escape(_described(rows))}</desc>\n{STYLE}{_LOOK}'
        f'<rect class="paper" width="{_WIDTH}" height="{height}" rx="8"/>\n'
    )
    hues = {part: 360 * number // len(first) for number, part in enumerate(first)}
    for step, links in enumerate((before, after)):
        for (left, right), weight in links.items():
            hue = hues[left] if step == 0 else None
            picture += _link(step, places[step][left], places[step + 1][right], weight, hue)
    for step, column in enumerate(columns):
        picture += _column(step, column, places[step])
    return picture + "</svg>\n"


def _beneath(left: Sequence[str], links: Mapping[tuple[str, str], int]) -> list[str]:
    """Order the targets so that few links cross; those without a rule last."""
    number: Counter[str] = Counter()
    height: Counter[str] = Counter()
    for (name, other), weight in links.items():
        number[other] += weight
        height[other] += weight * left.index(name)
    return sorted(number, key=lambda name: (name == NO_RULE, height[name] / number[name], name))


def _places(column: Mapping[str, int], lines: int) -> dict[str, float]:
    """The middle of each name of a column, all columns being as high."""
    room = lines * _LINE / len(column)
    return {name: round(_TOP + room * (number + 0.5), 1) for number, name in enumerate(column)}


def _column(step: int, column: Mapping[str, int], places: Mapping[str, float]) -> str:
    left, right = _ENDS[step]
    x, anchor = (left - 8, "end") if step == 0 else (right + 8, "start")
    drawn = f'<text class="head" x="{x}" y="34" text-anchor="{anchor}">{_HEADS[step]}</text>\n'
    for name, number in column.items():
        label = escape(name.removeprefix("tests/"))
        drawn += (
            f'<rect class="bar" x="{left}" y="{places[name] - 6}" width="{right - left}" height="12" rx="2"/>'
            f'<text class="small" x="{x}" y="{places[name] + 4}" text-anchor="{anchor}">{label} ({number})</text>\n'
        )
    return drawn


def _link(step: int, y: float, to: float, weight: int, hue: int | None) -> str:
    (_, start), (end, _) = tuple(pairwise(_ENDS))[step]
    if step == 1:
        start += 146  # beside the names of the families
    middle = (start + end) // 2
    colour = "#8c959f" if hue is None else f"hsl({hue} 55% 52%)"
    width = min(1 + weight * 0.6, 7)
    path = f"M{start} {y}C{middle} {y} {middle} {to} {end} {to}"
    return f'<path class="link" stroke="{colour}" stroke-width="{width:g}" d="{path}"/>\n'


def _described(rows: Sequence[Threat]) -> str:
    """The same in words."""
    said = []
    for part in dict.fromkeys(row.part for row in rows):
        these = [row for row in rows if row.part == part]
        families = dict.fromkeys(family for row in these for family in row.families if family != NO_RULE)
        folders = dict.fromkeys(folder for row in these for folder in row.folders)
        said.append(f"{part}: {len(these)} threats; rules: {', '.join(families)}; tests in {', '.join(folders)}.")
    return " ".join(said)
