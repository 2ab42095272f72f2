"""The page ``docs/libraries.md``, from measured results."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance.cases import CHECKS, CONTESTED, SETTINGS, Case
from conformance.exchange import COLUMNS, SHAPES
from conformance.libraries import LIBRARIES, Library
from conformance.scores import Result, Verdict, count

BY_HAND = Path(__file__).resolve().parent / "by-hand.md"
WRONG = {Verdict.WRONGLY_ACCEPTED: "A", Verdict.OTHER_CLAIMS: "C", Verdict.WRONGLY_REFUSED: "R", Verdict.CRASHED: "X"}
"""Verdict → its letter in a cell."""


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured with one library."""

    library: Library
    results: Sequence[Result]
    stricter: Sequence[Result]
    exchanged: Mapping[str, str]


def page(rows: Sequence[Row], cases: Sequence[Case], on: datetime.date) -> str:
    """Write the page."""
    counted = [case for case in cases if not case.is_stricter]
    return "\n".join(
        (
            *_head(counted, len(cases) - len(counted), on),
            *_table(rows, counted),
            *_called(rows),
            *_exchanged(rows),
            *_wrong(rows),
            BY_HAND.read_text(encoding="utf-8"),
        )
    )


def _head(counted: Sequence[Case], stricter: int, on: datetime.date) -> list[str]:
    refused = sum(case.claims is None for case in counted)
    return f"""# Other libraries on our vectors

<!-- Written by `python -m conformance`. -->

Measured on {on}. `uv run python -m conformance` installs each library from its registry, unchanged and in the version below, runs it,
and writes this page. `uv run python -m conformance NAME…` prints the answers of some libraries.

{len(counted)} [vectors](vectors.md) count: {refused} that RFC 9901, or an RFC that it builds on, has refused, and {len(counted) - refused} that must be
accepted with exactly these claims. {stricter} more are SD-Card's own profile, or an RFC leaves the result open: a library
that answers them as we do is stricter, and one that does not is not wrong. Vectors about status lists, limits and agent cards, and on
choosing the Issuer's key, are left out. [The contract](vectors.md) has the words for results.

Each library is called as strictly as it allows. A check that it leaves to its caller, and a feature that it does not document, is *not supported*: its
vectors are not asked. A crash is an error that the language raises for a fault of the program (a `TypeError`, a null pointer, a
panic), or no answer within 10 seconds. The vectors were made to find faults, so these figures do not rank the libraries.

""".splitlines()


def _table(rows: Sequence[Row], counted: Sequence[Case]) -> list[str]:
    families = list(dict.fromkeys(case.family for case in counted))
    lines = [
        "## Results",
        "",
        "A cell counts the right answers of those asked. A: wrongly accepted. C: accepted with another result. R: wrongly refused.",
        "X: crashed. –: not supported.",
        "",
        _row("library", "language", *families, *(verdict.value for verdict in Verdict), "as strict as our profile"),
        "|---" * (len(families) + len(Verdict) + 3) + "|",
    ]
    for row in rows:
        cells = [_cell([one for one in row.results if one.case.family == family]) for family in families]
        totals = [count(list(row.results))[verdict] for verdict in Verdict]
        strict = count([one for one in row.stricter if one.verdict is not Verdict.UNSUPPORTED])
        extra = f"{strict[Verdict.RIGHT]} of {strict.total()}"
        lines.append(_row(_name(row.library), row.library.language, *cells, *totals, extra))
    return [*lines, ""]


def _cell(results: Sequence[Result]) -> str:
    found = count(list(results))
    asked = found.total() - found[Verdict.UNSUPPORTED]
    if not asked:
        return "–"
    marks = " ".join(f"{letter}{found[verdict]}" for verdict, letter in WRONG.items() if found[verdict])
    return f"{found[Verdict.RIGHT]}/{asked} {marks}".strip()


def _called(rows: Sequence[Row]) -> list[str]:
    known = sorted({feature for library in LIBRARIES for feature in library.features})
    lines = ["## How each library is called", "", _row("library", "called", "not supported"), "|---|---|---|"]
    for row in rows:
        lacking = ", ".join(feature for feature in known if feature not in row.library.features)
        lines.append(_row(_name(row.library), row.library.called, lacking or "–"))
    checks = "; ".join(
        f"`{name}`: {', '.join(f'`{one}`' for one in about)}" for name, about in {**CHECKS, **SETTINGS}.items()
    )
    return [
        *lines,
        "",
        f"Beside the [needs of the vectors](vectors.md#needs), these are checks, with the places where vectors about them are refused, and "
        f"settings, with the vectors about them: {checks}; `jws`: signatures, `alg` and `crit`; `exact-times`: no leeway of its own; `clock-skew`: a leeway of the caller's; "
        "`kb-alg`: a KB-JWT with another algorithm than ES256. An SD-JWT with `aud` needs `audience` too.",
        "",
        "Not counted, though the manifest calls these vectors generic:",
        "",
        *(f"- `{name}`: {reason}" for name, reason in CONTESTED.items()),
        "",
    ]


def _exchanged(rows: Sequence[Row]) -> list[str]:
    shapes = " ".join(
        f"*{name}*: hidden {_places(hide)}, shown {_places(show)}." for name, (_, hide, show) in SHAPES.items()
    )
    lines = [
        "## Interoperability",
        "",
        "The library issues an SD-Card or presents one, and our `accept_sd_card` and `verify_presentation` read it; and the other way",
        f"round. Claims must be equal, and what was not selected must not be there. –: the library does not do this, or not with "
        f"these claims. Our "
        f"profile demands `typ` `dc+sd-jwt`. {shapes}",
        "",
        _row("library", *COLUMNS),
        "|---" * (len(COLUMNS) + 1) + "|",
    ]
    for row in rows:
        lines.append(_row(_name(row.library), *(row.exchanged[column] for column in COLUMNS)))
    return [*lines, ""]


def _places(paths: Sequence[Sequence[object]]) -> str:
    return ", ".join(f"`{'.'.join(map(str, path))}`" for path in paths)


def _wrong(rows: Sequence[Row]) -> list[str]:
    lines = ["## Wrong answers by library", "", "Names of vectors: `vectors/NAME.json`.", ""]
    for row in rows:
        lines += [f"### {row.library.name} {row.library.version}", ""]
        found = [one for one in row.results if one.verdict in WRONG]
        lines += ["None."] if not found else []
        for verdict in WRONG:
            names = [one.case.name for one in found if one.verdict is verdict]
            lines += [f"- **{verdict.value}** ({len(names)}): {', '.join(names)}"] if names else []
        lines.append("")
    return lines


def _name(library: Library) -> str:
    return f"`{library.name}` {library.version}"


def _row(*cells: object) -> str:
    return f"| {' | '.join(str(cell).replace('|', '/') for cell in cells)} |"
