"""Run every library on the vectors and write ``docs/libraries.md``.

Names of libraries print their answers instead. ``tests/external/test_conformance.py`` compares the page with answers.
"""

import argparse
import datetime
import sys

from conformance.cases import ROOT, Case, cases
from conformance.environments import NotInstalled
from conformance.exchange import exchange
from conformance.libraries import LIBRARIES, Library
from conformance.page import Row, page
from conformance.peers import running
from conformance.scores import Verdict, count, run

PAGE = ROOT / "docs" / "libraries.md"


def measure(library: Library, asked: list[Case]) -> Row:
    """Build the adapter of a library, ask it everything, and end it."""
    with running(library) as peer:
        results = run(library, peer, [case for case in asked if not case.is_stricter])
        stricter = run(library, peer, [case for case in asked if case.is_stricter])
        return Row(library, results, stricter, exchange(library, peer))


def main() -> int:
    """Measure, and write or print."""
    parser = argparse.ArgumentParser(prog="python -m conformance", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="libraries whose answers are printed")
    options = parser.parse_args()
    chosen = [one for one in LIBRARIES if not options.names or one.name in options.names]
    if unknown := set(options.names) - {one.name for one in chosen}:
        parser.error(f"no library {', '.join(sorted(unknown))}; there are {', '.join(one.name for one in LIBRARIES)}")
    asked = list(cases())
    try:
        rows = [measure(library, asked) for library in chosen]
    except NotInstalled as reason:
        print(f"a library cannot be run: {reason}", file=sys.stderr)
        return 2
    if options.names:
        for row in rows:
            print_row(row)
        return 0
    PAGE.write_text(page(rows, asked, datetime.datetime.now(datetime.UTC).date()), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}: {len(rows)} libraries, {len(asked)} vectors")
    return 0


def print_row(row: Row) -> None:
    """Print every answer of a library that is not right, and the exchange with it."""
    print(f"{row.library.name} {row.library.version}: {dict(count(list(row.results)))}")
    for result in row.results:
        if result.verdict not in (Verdict.RIGHT, Verdict.UNSUPPORTED):
            print(f"  {result.verdict.value}: {result.case.name} ({result.case.rule}) {result.error[:200]}")
    for column, outcome in row.exchanged.items():
        print(f"  {column}: {outcome}")


if __name__ == "__main__":
    sys.exit(main())
