"""``sdcard card check``: everything that is wrong with card documents, for their authors and their CI."""

import json
import sys
from typing import Annotated, Any

import typer

from sdcard.cards.reading import Examination, examine_card
from sdcard.cli.output import EXIT_REFUSED, print_lines, read_bytes

HELP = "Say what is wrong with agent cards. Example: sdcard card check agent-card.json"


def command(
    files: Annotated[list[str], typer.Argument(metavar="FILE|-...", help="Card documents; - is standard input.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a file, one a line.")] = False,
) -> None:
    """Check every file. Exit status 0: all valid; 1: some not; 2: misuse."""
    reports = [(file, examine_card(read_bytes(file))) for file in files]
    for file, examination in reports:
        if as_json:
            sys.stdout.write(json.dumps(_describe(file, examination)) + "\n")
        else:
            print_lines(f"{file}: {examination.kind or 'no agent card'}", *map(str, examination.findings))
    if any(examination.card is None for _, examination in reports):
        raise typer.Exit(EXIT_REFUSED)


def _describe(file: str, examination: Examination) -> dict[str, Any]:
    card_format, _, version = examination.kind.partition("/")
    return {
        "file": file,
        "format": card_format or None,
        "version": version or None,
        "valid": examination.card is not None,
        "findings": [
            {"rule": f.rule.value, "level": f.level.value, "where": str(f.where), "message": f.hint or f.rule.sentence}
            for f in examination.findings
        ],
    }
