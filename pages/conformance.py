"""``docs/conformance.md``: our answer to each row of each standard.

With places in the code, and tests.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from pages.answers import ANSWERS, STANDARDS
from pages.sentences import SOURCES
from vectors.rows import in_order

_HEAD = """# Conformance

<!-- Written by `python -m pages`; the tests prove it current. -->

How SD-Card answers what the standards ask for, row by row. Where a list of rows is ours, its numbers are those that
docstrings and [vectors](vectors.md) cite. What we leave out, and why, is also in [not-supported](not-supported.md).
After the rows, each sentence of the source documents that demands something has a line in our own words, with the rows
that answer it.

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


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a source, in our words.

    ``rows``: the rows that answer it; without any, ``own`` does.
    """

    name: str
    demand: str
    rows: tuple[str, ...]
    own: Answer | None

    def answered(self) -> tuple[Answer, ...]:
        """Return the answers to it."""
        return (self.own,) if self.own else tuple(_rows()[row] for row in self.rows)


def sentences(lines: str) -> Iterator[Sentence]:
    """The sentences of one source of ``pages.sentences``."""
    for line in lines.strip().splitlines():
        name, demand, rest = (part.strip() for part in line.split("|", 2))
        own = next(answers(f"{name} | {rest}")) if "|" in rest else None
        yield Sentence(name, demand, () if own else tuple(rest.split()), own)


@cache
def _rows() -> dict[str, Answer]:
    return {answer.row: answer for rows in STANDARDS.values() for answer in answers(rows)}


def conformance_page() -> str:
    """The page."""
    text = _HEAD.format(rows=len(in_order())) + _overview()
    for title, rows in STANDARDS.items():
        text += f"\n## {title}\n\n| row | answer | seen to by | shown by | note |\n|---|---|---|---|---|\n"
        text += "".join(_line(answer) for answer in answers(rows))
    for title, lines in SOURCES.items():
        text += f"\n## {title}\n\n| sentence | demand | answer | seen to by | shown by |\n|---|---|---|---|---|\n"
        text += "".join(map(_sentence, sentences(lines)))
    return text


def _sentence(sentence: Sentence) -> str:
    """Write a sentence with the places and tests of its answers."""
    found = sentence.answered()
    said = ", ".join(dict.fromkeys(one.answer for one in found))
    places = tuple(dict.fromkeys(name for one in found for name in one.places))
    tests = tuple(dict.fromkeys(name for one in found for name in one.tests))
    note = f" ({', '.join(sentence.rows)})" if sentence.rows else f": {found[0].note}" if found[0].note else ""
    return f"| {sentence.name} | {sentence.demand} | {said}{note} | {_code(places)} | {_code(tests)} |\n"


def _overview() -> str:
    text = "| answer | it means |\n|---|---|\n"
    text += "".join(f"| {answer} | {meaning} |\n" for answer, meaning in ANSWERS.items())
    text += f"\n| standard | rows | {' | '.join(ANSWERS)} |\n|---|---|{'---|' * len(ANSWERS)}\n"
    for title, rows in STANDARDS.items():
        counts = Counter(answer.answer for answer in answers(rows))
        text += f"| {title} | {counts.total()} | {' | '.join(str(counts[answer] or '') for answer in ANSWERS)} |\n"
    text += f"\n| source | sentences | {' | '.join(ANSWERS)} |\n|---|---|{'---|' * len(ANSWERS)}\n"
    for title, lines in SOURCES.items():
        counts = Counter(_weakest(sentence) for sentence in sentences(lines))
        text += f"| {title} | {counts.total()} | {' | '.join(str(counts[answer] or '') for answer in ANSWERS)} |\n"
    return text


def _weakest(sentence: Sentence) -> str:
    """Return the answer of a sentence's rows that is furthest from what it demands."""
    return max((one.answer for one in sentence.answered()), key=[*ANSWERS].index)


def _line(answer: Answer) -> str:
    places, tests = (_code(names) for names in (answer.places, answer.tests))
    return f"| {answer.row} | {answer.answer} | {places} | {tests} | {answer.note} |\n"


def _code(names: tuple[str, ...]) -> str:
    return "<br>".join(f"`{name}`" for name in names)
