"""``docs/contexts.svg``: what each context shows of the example.

Drawn from the built-in policy.
"""

from pathlib import Path
from typing import TypeAlias
from xml.sax.saxutils import escape

from sdcard import DEFAULT_POLICY, parse_card
from sdcard.disclosable import Treatment
from sdcard.policy.plan import ExplainedPart, explain

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "georoute.json"

_Row: TypeAlias = tuple[str, tuple[str, ...]]
_LEFT, _COLUMN, _TOP, _LINE = 272, 92, 46, 21

STYLE = """<style>
text { font: 13px system-ui, sans-serif; fill: #1b1f24 }
.paper { fill: #ffffff } .rule { stroke: #d0d7de } .path { font-family: ui-monospace, monospace; font-size: 12px }
.head { font-weight: 600 } .clear, .own { fill: #0b57a4 } .own, .with { stroke: #0b57a4; stroke-width: 2 }
.own-half, .with { fill: none } .none { stroke: #8c959f; stroke-width: 2 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .paper { fill: #161b22 } .rule { stroke: #3d444d } .clear, .own { fill: #79b8ff }
.own, .with { stroke: #79b8ff }
}
</style>
"""
"""Each picture brings its own paper, so that it can be read on any page, light or dark."""

_KINDS = {
    "clear": "in the clear, always",
    "own": "by a Disclosure of its own, which the Holder may leave out",
    "with": "shown with the part that it is in",
    "none": "not in the SD-Card, not even as a digest",
}


def contexts_picture() -> str:
    """The picture: a row for each part, a column for each context."""
    explained = explain(parse_card(EXAMPLE.read_bytes()), DEFAULT_POLICY)
    rows = _rows(explained.parts)
    width = _LEFT + _COLUMN * len(explained.contexts) + 10
    height = _TOP + _LINE * len(rows) + 24 * len(_KINDS) + 24
    text = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-labelledby="t">\n'
        f'<title id="t">What each context shows of {EXAMPLE.name}</title>\n{STYLE}'
        f'<rect class="paper" width="{width}" height="{height}" rx="8"/>\n'
    )
    for number, context in enumerate(explained.contexts):
        text += f'<text class="head" x="{_middle(number)}" y="28" text-anchor="middle">{escape(context)}</text>\n'
    for number, (name, shown) in enumerate(rows):
        y = _TOP + _LINE * number
        text += f'<path class="rule" d="M12 {y - 6}H{width - 12}"/>'
        text += f'<text class="path" x="14" y="{y + 9}">{escape(name)}</text>'
        text += "".join(_mark(kind, _middle(column), y + 4) for column, kind in enumerate(shown)) + "\n"
    for number, (kind, meaning) in enumerate(_KINDS.items()):
        y = _TOP + _LINE * len(rows) + 20 + 24 * number
        text += _mark(kind, 24, y) + f'<text x="42" y="{y + 5}">{escape(meaning)}</text>\n'
    return text + "</svg>\n"


def _rows(parts: tuple[ExplainedPart, ...]) -> list[_Row]:
    """Each place once, elements of an array together; an array by its elements."""
    rows: dict[str, tuple[str, ...]] = {}

    def walk(part: ExplainedPart, around: tuple[str, ...]) -> None:
        name = ".".join("*" if isinstance(step, int) else step for step in part.place)
        shown = tuple(_kind(own, outer) for own, outer in zip(part.treatments, around, strict=True))
        if not any(isinstance(inner.place[-1], int) for inner in part.parts):
            rows.setdefault(name, shown)
        for inner in part.parts:
            walk(inner, shown)

    for part in parts:
        walk(part, ("",) * len(part.treatments))
    return list(rows.items())


def _kind(own: Treatment, around: str) -> str:
    if own is Treatment.WITHHELD:
        return "none"
    if own is Treatment.SELECTIVE:
        return "own"
    return "clear" if around in ("", "clear") else "with"


def _mark(kind: str, x: int, y: int) -> str:
    if kind == "none":
        return f'<path class="none" d="M{x - 5} {y}h10"/>'
    if kind == "own":
        return (
            f'<circle class="own-half with" cx="{x}" cy="{y}" r="5"/>'
            f'<path class="own" d="M{x} {y - 5}a5 5 0 0 0 0 10z"/>'
        )
    return f'<circle class="{kind}" cx="{x}" cy="{y}" r="5"/>'


def _middle(column: int) -> int:
    return _LEFT + _COLUMN * column + _COLUMN // 2
