"""Write the pages and pictures that are made from the code: ``python -m pages``.

``--check`` lists the stale ones.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from pages.command_line import command_line_page
from pages.conformance import conformance_page
from pages.http import http_page
from pages.pictures import contexts_picture
from pages.signatures import signatures_page
from pages.threats import threats_picture

ROOT = Path(__file__).resolve().parent.parent
MADE: dict[str, Callable[[], str]] = {
    "docs/cli.md": command_line_page,
    "docs/conformance.md": conformance_page,
    "docs/contexts.svg": contexts_picture,
    "docs/http.md": http_page,
    "docs/public-api.txt": signatures_page,
    "docs/threats.svg": threats_picture,
}


def main() -> int:
    """Write the stale pages; with ``--check``, exit with 1 if any is stale."""
    stale = [name for name, made in MADE.items() if not _is(name, made())]
    if "--check" in sys.argv[1:]:
        print(*stale or ["nothing would change"], sep="\n")
        return 1 if stale else 0
    for name in stale:
        (ROOT / name).write_text(MADE[name](), encoding="utf-8")
    print(f"wrote {len(stale)} of {len(MADE)} files")
    return 0


def _is(name: str, text: str) -> bool:
    file = ROOT / name
    return file.exists() and file.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main())
