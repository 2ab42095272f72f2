"""Write everything that is made from the code: ``python -m pages``.

That is the vectors, pages, pictures, tables and documents. ``--check`` lists the stale files.
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from inspector.package import DATA, RULES, data_script, rules_script
from issuer_service.app import openapi_document
from pages.command_line import command_line_page
from pages.conformance import conformance_page
from pages.http import http_page
from pages.javascript import javascript_page
from pages.operations import operations_page
from pages.pictures import contexts_picture
from pages.session import session_picture, without_sizes
from pages.signatures import signatures_page
from pages.threats import threats_picture
from sdcard.cards.json_schema import SHAPES, card_schema
from sdcard.policy.document import SCHEMA
from vectors import generate

ROOT = Path(__file__).resolve().parent.parent
SESSION = "docs/session.svg"
MADE: dict[str, Callable[[], str]] = {
    "docs/card.schemas.json": lambda: f"{json.dumps({name: card_schema(name) for name in SHAPES}, indent=1)}\n",
    "docs/cli.md": command_line_page,
    "docs/conformance.md": conformance_page,
    "docs/contexts.svg": contexts_picture,
    "docs/http.md": http_page,
    "docs/javascript.md": javascript_page,
    "docs/openapi.json": lambda: f"{json.dumps(openapi_document(), indent=1, sort_keys=True)}\n",
    "docs/operations.md": operations_page,
    "docs/policy.schema.json": lambda: f"{json.dumps(SCHEMA, indent=2)}\n",
    "docs/public-api.txt": signatures_page,
    "docs/threats.svg": threats_picture,
    DATA: data_script,
    RULES: rules_script,
    SESSION: session_picture,
}
"""File → what makes it. The vectors and ``docs/rules.md`` are made by ``vectors.generate``."""


def stale_files() -> Iterator[tuple[str, str]]:
    """List the files that are not as they are made, with their new text."""
    for name, made in MADE.items():
        text, file = made(), ROOT / name
        before = file.read_text(encoding="utf-8") if file.exists() else ""
        if text != before and not (name == SESSION and without_sizes(text) == without_sizes(before)):
            yield name, text


def main() -> int:
    """Write what is stale; with ``--check``, exit with 1 if anything is."""
    vectors = generate.main()
    stale = list(stale_files())
    if "--check" in sys.argv[1:]:
        print(*(name for name, _ in stale), sep="\n")
        return 1 if stale or vectors else 0
    for name, text in stale:
        (ROOT / name).write_text(text, encoding="utf-8")
    print(f"wrote {len(stale)} of {len(MADE)} pages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
