"""House laws on the words that people read: docstrings, comments, errors, help, pages. Each is one test."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.shared import ROOT
from tests.sources import files, name_of, tree

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
    "beside requests",
    "(backup|it) forgot",
    "counts? for (the|this)",
)
"""Phrases of a private dialect, as patterns. A space is any white space, also across lines of a comment."""
PHRASE = re.compile(
    "|".join(rf"\b{phrase}(?:\b|(?<=\W))".replace(" ", r"(?:\s|#|//|\*)+") for phrase in BANNED), re.IGNORECASE
)
CLAUSE = re.compile(
    r"(What|Who|Whom|Whose|Whoever|Where|When|Why|Which|How|Of|So|Those|One|Such|That|As|By|For|In|From|Nobody|Nothing"
    r"|Somebody)\b"
)
"""Words that begin a clause, where a docstring begins with an imperative verb or a noun phrase (PEP 257)."""

CODE = ("sdcard", "issuer_service", "inspector", "pages", "benchmarks", "examples", "vectors", "fuzz")
NOT_YET = ()
"""Packages that are still to be mended; empty is the aim."""
GENERATED = {"docs/cli.md", "docs/conformance.md", "docs/http.md", "docs/rules.md", "tests/house/test_words.py"}
"""Their sources are checked; and the list of phrases itself."""


def texts() -> Iterator[Path]:
    for folder in (*CODE, "tests"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in {".py", ".js", ".html", ".toml"} and "node_modules" not in path.parts:
                yield path
    yield from sorted((ROOT / "docs").rglob("*.md"))
    yield from sorted(ROOT.glob("*.md"))


def is_checked(name: str) -> bool:
    return name not in GENERATED and not name.startswith(NOT_YET)


def violations(name: str, text: str) -> Iterator[str]:
    for match in PHRASE.finditer(text):
        yield f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]!r}"


def test_no_text_has_a_banned_phrase() -> None:
    checked = [path for path in texts() if is_checked(name_of(path))]

    assert len(checked) > 300
    assert not [line for path in checked for line in violations(name_of(path), path.read_text(encoding="utf-8"))]


def test_no_function_of_a_test_has_a_banned_phrase_in_its_name() -> None:
    names = [
        f"{name_of(path)}: {name}"
        for path in files("tests")
        for name in re.findall(r"^ *(?:async )?def (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert len(names) > 3_000
    assert [name for name in names if re.search("somebod|whoever|whom_to|nought|by_which|any_more", name)] == []


def test_a_banned_phrase_is_found_across_lines_of_a_comment() -> None:
    assert list(violations("a.py", "# Kept in\n# place of it. Carried as it is.")) == [
        "a.py:1: 'in\\n# place of'",
        "a.py:2: 'Carried as it is'",
    ]


def docstrings(*folders: str) -> Iterator[tuple[str, str, bool]]:
    """List docstrings: their place, their first line, and whether they are of a function that answers yes or no."""
    for path in files(*folders):
        if not is_checked(name_of(path)):
            continue
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                returns = None if isinstance(node, ast.Module | ast.ClassDef) else node.returns
                answers = returns is not None and "bool" in ast.unparse(returns).lower()
                text = ast.get_docstring(node) or ""
                yield (
                    f"{name_of(path)}:{node.body[0].lineno if node.body else 1}: {text[:60]}",
                    text.partition("\n")[0],
                    answers,
                )


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    """The word "Whether" is for functions that answer yes or no."""
    assert not [
        place
        for place, first, answers in docstrings(*CODE, "tests")
        if CLAUSE.match(first) or (first.startswith("Whether ") and not answers)
    ]


def test_docstrings_begin_with_a_short_line() -> None:
    assert not [place for place, first, _ in docstrings(*CODE) if len(first) > 80]
