"""``docs/rules.md``: rules and rows of standards, with functions and vectors.

What the code says is read from the code: which function names a rule, and which docstring cites a row.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sdcard.advice import ADVICE
from sdcard.rules import Rule
from sdcard.vectors import Vector
from vectors.rows import ELSEWHERE, cited, in_order

ROOT = Path(__file__).resolve().parent.parent

_RULES = """# Rules

<!-- Written by `python -m pages`; the tests prove it current. -->

Every reason to refuse: its id, its meaning, the remedy, the section of the standard, the functions that raise it, and
the [vectors](vectors.md) that show it. Ids are never renamed and never reused. The command line, MCP and the inspector
show the text of the column *what to do*. The member `advice` of problem documents (HTTP) has the same remedy without
commands and options.

| rule | it says | what to do | standard | raised by | vectors |
|---|---|---|---|---|---|
"""
_ROWS = """
## The standards, row by row

R is RFC 9901, VC is SD-JWT VC, and HAIP is OpenID's profile of it. Docstrings and vectors cite these rows by number.
The functions that cite a row implement it, the rules are those that these functions raise, and the vectors that cite it
test it.

| row | section | implemented by | rules | vectors |
|---|---|---|---|---|
"""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of our code: the rows that its docstring cites, and its rules."""

    name: str
    rows: frozenset[str]
    rules: frozenset[Rule]


def rules_page(vectors: Mapping[str, Vector], not_triggered: Mapping[Rule, str]) -> str:
    """The page, from the vectors by file, and the rules that none of them can show."""
    raising, seeing, showing = defaultdict(list), defaultdict(list), defaultdict(list)
    for part in parts():
        for rule in part.rules:
            raising[rule].append(part.name)
        for row in part.rows:
            seeing[row].append(part.name)
    rows_of = {name: set(cited(vector.standard)) for name, vector in vectors.items()}
    for name, vector in vectors.items():
        for one in (*vector.rules, *rows_of[name]):
            showing[one].append(name)
    text = _RULES
    for rule in Rule:
        shown = _links(showing[rule]) or f"none: {not_triggered[rule]}"
        text += (
            f"| `{rule}` | {rule.sentence} | {ADVICE[rule]} | {rule.standard} | {_code(raising[rule])} | {shown} |\n"
        )
    text += _ROWS
    for row, section in in_order():
        rules = sorted({rule for name in showing[row] for rule in vectors[name].rules})
        by = "<br>".join(filter(None, (_code(seeing[row]), ELSEWHERE.get(row))))
        text += f"| {row} | {section} | {by} | {_code(rules)} | {_links(showing[row])} |\n"
    return text


@cache
def parts() -> Sequence[Part]:
    """Everything in our packages that has a docstring or names a rule."""
    explaining = ROOT / "sdcard" / "cli" / "explain.py"  # it repeats the checks of others
    files = [file for package in ("sdcard", "issuer_service") for file in sorted((ROOT / package).rglob("*.py"))]
    files.remove(explaining)
    return tuple(
        part
        for file in files
        for part in _parts(file.relative_to(ROOT).as_posix(), ast.parse(file.read_text(encoding="utf-8")))
    )


def _parts(name: str, node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Part]:
    inner = [one for one in node.body if isinstance(one, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)]
    table = isinstance(node, ast.Module)  # a module's own statements name rules, and raise none
    rules = frozenset(() if table else _named(node, skip=inner))
    yield Part(name, frozenset(cited(ast.get_docstring(node) or "")), rules)
    separator = ":" if table else "."
    for before, after in zip(node.body, node.body[1:], strict=False):
        if isinstance(before, ast.Assign | ast.AnnAssign) and isinstance(after, ast.Expr):
            target = before.targets[0] if isinstance(before, ast.Assign) else before.target
            yield Part(name + separator + ast.unparse(target), frozenset(cited(ast.unparse(after))), frozenset())
    for one in inner:
        yield from _parts(name + separator + one.name, one)


def _named(node: ast.AST, skip: Sequence[ast.AST]) -> Iterator[Rule]:
    """Rules that are named otherwise than to compare something with them."""
    if isinstance(node, ast.Compare):
        return
    if isinstance(node, ast.Attribute) and node.attr in Rule.__members__ and ast.unparse(node.value) == "Rule":
        yield Rule[node.attr]
    for child in ast.iter_child_nodes(node):
        if child not in skip:
            yield from _named(child, skip)


def _code(names: list[str] | list[Rule]) -> str:
    return "<br>".join(f"`{name}`" for name in names)


def _links(names: list[str]) -> str:
    links = [f"[{Path(name).parent.name}/{Path(name).stem}](../{name})" for name in names[:2]]
    return "<br>".join(links + [f"and {len(names) - 2} more"] * (len(names) > 2))
