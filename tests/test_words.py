"""House laws on the words that people read: docstrings, comments, errors, help, pages. Each is one test."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.shared import ROOT
from tests.sources import name_of

BANNED = (
    "whoever",
    "whomever",
    "somebody",
    "in place of",
    "any more",
    "of late",
    "nought",
    "whom to",
    "what was found",
    "by which",
    "that alone",
    "carried as it is",
    "as it is[.,;:)]",
)
"""Phrases of a private dialect, as patterns. A space is any white space, also across lines of a comment."""
PHRASE = re.compile(
    "|".join(rf"\b{phrase}(?:\b|(?<=\W))".replace(" ", r"(?:\s|#|//|\*)+") for phrase in BANNED), re.IGNORECASE
)
EXCEPTIONS: dict[str, frozenset[str]] = {}
"""File → phrases that it must contain, such as quotes of a standard."""

CODE = ("sdcard", "issuer_service", "inspector", "pages", "benchmarks", "examples", "vectors", "fuzz")
NOT_YET = ("benchmarks/linking", "sdcard/disclosure")
"""Packages that are still to be mended; empty is the aim."""
GENERATED = {"docs/cli.md", "docs/conformance.md", "docs/http.md", "docs/rules.md"}
"""Their sources are checked."""


def texts() -> Iterator[Path]:
    for folder in CODE:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in {".py", ".js", ".html", ".toml"} and "node_modules" not in path.parts:
                yield path
    yield from sorted((ROOT / "docs").rglob("*.md"))
    yield from sorted(ROOT.glob("*.md"))


def is_checked(name: str) -> bool:
    return name not in GENERATED and not name.startswith(NOT_YET) and name != "issuer_service/pages/inspector.html"


def violations(name: str, text: str) -> Iterator[str]:
    for match in PHRASE.finditer(text):
        if match[0].lower() not in EXCEPTIONS.get(name, frozenset()):
            yield f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]!r}"


def test_no_text_has_a_banned_phrase() -> None:
    checked = [path for path in texts() if is_checked(name_of(path))]

    assert len(checked) > 300
    assert not [line for path in checked for line in violations(name_of(path), path.read_text(encoding="utf-8"))]


def test_a_banned_phrase_is_found_across_lines_of_a_comment() -> None:
    assert list(violations("a.py", "# Kept in\n# place of it. Carried as it is.")) == [
        "a.py:1: 'in\\n# place of'",
        "a.py:2: 'Carried as it is'",
    ]
