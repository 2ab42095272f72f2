"""``sdcard card convert``: convert a card to another format.

It reports what was lost.
"""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from sdcard.cards.converting import TARGETS, convert_card
from sdcard.cards.reading import parse_card_file
from sdcard.cli import completion
from sdcard.cli.output import AsJson, describe_findings, print_json, printable, read_bytes
from sdcard.errors import Part

HELP = (
    "Convert an agent card to another format; what got lost is told on standard error. "
    "Example: sdcard card convert agent-card.json --to a2a/1.0 --out converted.json"
)


def command(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="The card; - is standard input.")],
    target: Annotated[
        str,
        typer.Option("--to", metavar="FORMAT", autocompletion=completion.targets, help=f"One of {', '.join(TARGETS)}."),
    ],
    out: Annotated[Path | None, typer.Option(help="Write the document here instead of printing it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Convert one card.

    Exit status 0: converted, whatever got lost; 1: not a card, or refused; 2: misuse.
    """
    conversion = convert_card(parse_card_file(read_bytes(file, Part.CARD)), target)
    text = json.dumps(conversion.document, ensure_ascii=True, indent=2) + "\n"
    if out is not None:
        out.write_text(text, encoding="ascii")
    if as_json:
        print_json({"document": conversion.document, "lost": describe_findings(conversion.lost)})
        return
    sys.stderr.write("".join(f"{finding.level}: {printable(str(finding))}\n" for finding in conversion.lost))
    if out is None:
        sys.stdout.write(text)
