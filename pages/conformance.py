"""``docs/conformance.md``: our answer to each row of each standard.

With places in the code, and tests.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from pages.answers import ANSWERS, STANDARDS
from vectors.rows import in_order

_HEAD = """# Conformance

<!-- Written by `python -m pages`; the tests prove it current. -->

How SD-Card answers what the standards ask for, row by row. Where a list of rows is ours, its numbers are those that
docstrings and [vectors](vectors.md) cite. What we leave out, and why, is also in [not-supported](not-supported.md).

- **RFC 9901**, SD-JWT VC and HAIP: {rows} rows, R-1 to R-102, VC-1 to VC-23 and HAIP-1 to HAIP-9 among them, are in
  [rules.md](rules.md#the-standards-row-by-row), with the functions that see to each, its rules and its vectors.
- **A2A** 0.1, 0.2, 0.3 and 1.0: [which versions](cards.md), [conversions](conversions.md),
  [card signatures](card-signatures.md), and [55 public cards beside two a2a-sdks](wild-cards.md).
- **draft-nandakumar-agent-sd-card-00**, which replaces the draft below: no conformance is claimed. A version of the
  draft is one value, `Profile` (`sdcard/profile.py`).

"""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a row: its kind, places in the code, files of tests, a sentence."""

    row: str
    answer: str
    places: tuple[str, ...]
    tests: tuple[str, ...]
    note: str


def answers(rows: str) -> Iterator[Answer]:
    """The rows of one table of ``pages.answers``."""
    for line in rows.strip().splitlines():
        row, answer, places, tests, note = (part.strip() for part in line.split("|", 4))
        yield Answer(row, answer, tuple(places.split()), tuple(tests.split()), note)


def conformance_page() -> str:
    """The page."""
    text = _HEAD.format(rows=len(in_order())) + _overview()
    for title, rows in STANDARDS.items():
        text += f"\n## {title}\n\n| row | answer | seen to by | shown by | |\n|---|---|---|---|---|\n"
        text += "".join(_line(answer) for answer in answers(rows))
    return text


def _overview() -> str:
    text = "| answer | it means |\n|---|---|\n"
    text += "".join(f"| {answer} | {meaning} |\n" for answer, meaning in ANSWERS.items())
    text += f"\n| standard | rows | {' | '.join(ANSWERS)} |\n|---|---|{'---|' * len(ANSWERS)}\n"
    for title, rows in STANDARDS.items():
        counts = Counter(answer.answer for answer in answers(rows))
        text += f"| {title} | {counts.total()} | {' | '.join(str(counts[answer] or '') for answer in ANSWERS)} |\n"
    return text


def _line(answer: Answer) -> str:
    places, tests = (_code(names) for names in (answer.places, answer.tests))
    return f"| {answer.row} | {answer.answer} | {places} | {tests} | {answer.note} |\n"


def _code(names: tuple[str, ...]) -> str:
    return "<br>".join(f"`{name}`" for name in names)
