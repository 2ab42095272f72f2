"""``docs/javascript.md``: the number of vectors in its table."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KINDS = frozenset({"verify", "accept", "agent-challenge", "agent-proof"})
"""Kinds of vectors that the JavaScript package has a part in."""
_ROW = re.compile(r"(\|[^|\n]+\|[^|\n]+\|) [0-9]+ \| [0-9]+ \|")


def javascript_page() -> str:
    """Write the page with the present number of vectors."""
    manifest = json.loads((ROOT / "vectors" / "manifest.json").read_bytes())
    count = sum(one["kind"] in KINDS for one in manifest["vectors"])
    text = (ROOT / "docs" / "javascript.md").read_text(encoding="utf-8")
    return _ROW.sub(lambda row: f"{row[1]} {count} | {count} |", text)
