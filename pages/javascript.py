"""``docs/javascript.md``: the number of vectors in its table."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
KINDS = frozenset(
    {
        *("verify", "accept", "present", "agent-challenge", "agent-proof", "challenge", "authorization", "nonce"),
        *("status-list", "trust-list", "log-proof"),
    }
)
"""Kinds of vectors that the JavaScript package has a part in."""
LACKS = frozenset({"card"})
"""Features that it lacks: the rules of card formats."""
_ROW = re.compile(r"(\|[^|\n]+\|[^|\n]+\|) ([0-9]+) \| \2 \|")
"""Rows with one number twice: vectors, and how many of them are equal. Rows of times have three numbers."""


def is_ours(vector: dict[str, Any]) -> bool:
    """Whether the package has a part in a vector."""
    kind, expected = vector["kind"], vector.get("expectations", {})
    if kind not in KINDS or not LACKS.isdisjoint(vector.get("needs", [])):
        return False
    if kind == "nonce":
        return expected["purpose"] in ("presentation", "called-agent")
    return (
        expected["scheme"] == "SD-Card" if kind == "authorization" else kind != "present" or "context" not in expected
    )


@cache
def our_vectors() -> dict[str, str]:
    """Return the vectors that the package has a part in: file → text."""
    manifest = json.loads((ROOT / "vectors" / "manifest.json").read_bytes())
    texts = {one["file"]: (ROOT / "vectors" / one["file"]).read_text(encoding="utf-8") for one in manifest["vectors"]}
    return {file: text for file, text in texts.items() if is_ours(json.loads(text))}


def javascript_page() -> str:
    """Write the page with the present number of vectors."""
    count = len(our_vectors())
    text = (ROOT / "docs" / "javascript.md").read_text(encoding="utf-8")
    return _ROW.sub(lambda row: f"{row[1]} {count} | {count} |", text)
