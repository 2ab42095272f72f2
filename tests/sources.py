"""The sources of the project: their syntax trees, and the graph of what imports what."""

import ast
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.shared import ROOT

PRODUCT = ("sdcard", "issuer_service")
FOLDERS = (*PRODUCT, "examples", "vectors", "conformance", "fuzz", "inspector", "pages", "benchmarks", "tests", ".ci")

OUTSIDE = {"io", "web", "starlette", "fastapi", "testing", "cli"}
"""Rooms of ``sdcard`` that use the machine, the network or a framework. All others are the core, which is pure."""

Graph = Mapping[str, frozenset[str]]


def files(*folders: str) -> list[Path]:
    """The Python files of some folders."""
    return [
        path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")) if "node_modules" not in path.parts
    ]


def pure() -> list[Path]:
    """The files of the core."""
    core = ROOT / "sdcard"
    return [path for path in files("sdcard") if path.relative_to(core).parts[0].removesuffix(".py") not in OUTSIDE]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


_IMPORT = re.compile(r"^[ \t]*(?:from[ ]([.\w]+)[ ]import[ ](?:\(([^)]*)\)|(.+))|import[ ](.+))$", re.MULTILINE)
_NAME = re.compile(r"(\w[.\w]*)(?: as \w+)?")


@cache
def imported(path: Path) -> frozenset[str]:
    """Every name that a file imports, with its module: at its top, in a function or for type checkers alone.

    Lines are read, not syntax trees: that takes a twentieth of the time. An import within a string counts too.
    """
    found = set[str]()
    for match in _IMPORT.finditer(path.read_text(encoding="utf-8")):
        module, several, few, plain = match.groups()
        names = re.sub(r"#.*", "", several or few or plain)
        found |= {f"{module}.{name}" if module else name for name in _NAME.findall(names)}
    return frozenset(found)


@cache
def import_graph() -> Graph:
    """Module → the modules of the project that it imports, in the whole tree."""
    modules = {module_of(path): path for path in files(*FOLDERS)}

    def target(name: str) -> str | None:
        return name if name in modules else name.rpartition(".")[0] if name.rpartition(".")[0] in modules else None

    graph = {}
    for module, path in modules.items():
        targets = {target(name) for name in imported(path)}
        graph[module] = frozenset(one for one in targets if one is not None and one != module)
    return graph


def circles(graph: Graph) -> list[list[str]]:
    """The modules that import one another, directly or not: Tarjan's strongly connected components of two or more."""
    number, low = dict[str, int](), dict[str, int]()
    waiting, found = list[str](), list[list[str]]()

    def visit(node: str) -> None:
        number[node] = low[node] = len(number)
        waiting.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in number:
                visit(other)
            if other in waiting:
                low[node] = min(low[node], low[other])
        if low[node] == number[node]:
            start = waiting.index(node)
            if len(waiting) - start > 1:
                found.append(sorted(waiting[start:]))
            del waiting[start:]

    for node in sorted(graph):
        if node not in number:
            visit(node)
    return found
