"""House law: imports go one way, the pure part touches nothing, no check has an off switch."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import sdcard
from tests.shared import ROOT

SOURCES = [path for package in ("sdcard", "issuer_service") for path in sorted((ROOT / package).rglob("*.py"))]
BRIDGES = {"issuer.py", "holder.py", "verifier.py", "issued.py"}
TOKEN_COLUMN = {"jose", "sdjwt", "keybinding", "status", "dpop", "oauth", "delegation"}
CARD_COLUMN = {"cards", "disclosure"}
CARD_SIGNATURES = ROOT / "sdcard" / "cards" / "a2a" / "signatures"
"""A JWS over a whole card: of the token column it needs keys, and nothing else."""
OUTSIDE = {"edge", "cli"}
SHARED_BY_BOTH = {
    "errors",
    "rules",
    "encoding",
    "paths",
    "limits",
    "disclosable",
    "instants",
    "salts",
    "names",
    "profile",
    "hosts",
    "lenient",
    "recent",
    "frozen",
}
WORLDLY = {
    *(
        "os",
        "sys",
        "time",
        "random",
        "secrets",
        "socket",
        "ssl",
        "select",
        "pathlib",
        "io",
        "tempfile",
        "shutil",
        "glob",
    ),
    *("subprocess", "multiprocessing", "threading", "asyncio", "concurrent", "signal", "sqlite3", "logging"),
    *("http", "httpx", "httpx2", "requests", "urllib.request", "ftplib", "smtplib", "uuid", "datetime"),
    *("fastapi", "starlette", "uvicorn", "sqlalchemy", "alembic", "typer", "rich", "pydantic"),
}
CHECKING = re.compile(r"_?(verify|check|validate|parse|decode|issue|present|sign|accept|prepare|select|disclose|bind)")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, at its top or inside a function; names that come from it too."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)} imports relatively"
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room(path: Path) -> str:
    """The first part of a file's name within the core: a folder, or a module at the top."""
    return path.relative_to(ROOT / "sdcard").parts[0]


CORE = [path for path in SOURCES if path.is_relative_to(ROOT / "sdcard")]
PURE = [path for path in CORE if room(path) not in OUTSIDE]


def imported_rooms(path: Path) -> set[str]:
    """The rooms of the core that a file imports from."""
    return {name.split(".")[1] for name in imports(path) if name.startswith("sdcard.")}


def is_within(name: str, modules: set[str]) -> bool:
    return any(name == module or name.startswith(module + ".") for module in modules)


def test_there_is_something_to_look_at() -> None:
    assert len(PURE) > 35
    assert {path.name for path in PURE} >= BRIDGES
    assert {room(path) for path in CORE} >= {"jose", "sdjwt", "keybinding", "status", "cards", "disclosure", "edge"}
    assert any(is_within(name, {"sdcard.jose"}) for name in imports(ROOT / "sdcard" / "issuer.py"))


def test_the_core_imports_no_service() -> None:
    """Commands that act on a registry are in ``issuer_service/cli``, and join the tree by entry points."""
    for path in CORE:
        assert [name for name in imports(path) if is_within(name, {"issuer_service", "tests", "benchmarks"})] == [], (
            name_of(path)
        )
        assert "cli" not in imported_rooms(path) or room(path) == "cli", name_of(path)


def test_the_core_and_its_command_load_no_service() -> None:
    """Who installs the core alone can import both: heavy imports are inside commands."""
    script = "import sys, sdcard, sdcard.cli; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, cwd=ROOT).stdout
    heavy = {"issuer_service", "fastapi", "sqlalchemy", "pydantic", "uvicorn", "rich", "typer"}
    assert {name.partition(".")[0] for name in loaded.split()} & heavy == set()


def test_the_pure_part_touches_nothing() -> None:
    for path in PURE:
        assert [name for name in imports(path) if is_within(name, WORLDLY)] == [], name_of(path)
        assert imported_rooms(path) & OUTSIDE == set(), name_of(path)
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in {"open", "print", "input", "eval", "exec", "__import__"}, (
                    f"{name_of(path)}: line {node.lineno}"
                )
                assert not called.endswith((".now", ".utcnow", ".today", ".read_text", ".read_bytes", ".write_text")), (
                    name_of(path)
                )


def test_the_token_column_knows_no_card() -> None:
    for path in [path for path in PURE if room(path) in TOKEN_COLUMN]:
        assert imported_rooms(path) <= TOKEN_COLUMN | SHARED_BY_BOTH, name_of(path)


def test_the_card_column_knows_no_token() -> None:
    for path in [path for path in PURE if room(path) in CARD_COLUMN]:
        keys = {"jose", "trust"} if path.is_relative_to(CARD_SIGNATURES) else set()
        assert imported_rooms(path) <= CARD_COLUMN | SHARED_BY_BOTH | keys, name_of(path)


def test_what_both_columns_share_knows_neither() -> None:
    for path in [path for path in PURE if path.stem in SHARED_BY_BOTH]:
        assert imported_rooms(path) <= SHARED_BY_BOTH, name_of(path)


def test_the_columns_meet_in_four_files_and_over_card_signatures_only() -> None:
    meeting = {
        path.name
        for path in PURE
        if imported_rooms(path) & TOKEN_COLUMN and imported_rooms(path) & CARD_COLUMN and path.name != "__init__.py"
        if not path.is_relative_to(CARD_SIGNATURES)
    }
    assert meeting <= BRIDGES
    assert {"issuer.py", "holder.py"} <= meeting


def test_the_lower_folders_of_the_token_column_do_not_know_the_higher_ones() -> None:
    for path in PURE:
        if room(path) == "jose":
            assert imported_rooms(path) & (TOKEN_COLUMN - {"jose"}) == set(), path
        if room(path) == "sdjwt":
            assert imported_rooms(path) & {"keybinding", "status"} == set(), path


def test_every_module_says_what_it_is() -> None:
    for path in SOURCES:
        assert ast.get_docstring(tree(path)), name_of(path)


def test_no_check_has_a_switch() -> None:
    """A bool would turn a check off where it is forgotten; a type with a name says what was decided."""
    for path in SOURCES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and CHECKING.match(node.name):
                for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                    annotation = ast.unparse(argument.annotation) if argument.annotation else ""
                    assert not re.search(r"\bbool\b", annotation), (
                        f"{name_of(path)}: {node.name}({argument.arg}: {annotation})"
                    )


def test_nothing_signs_on_the_event_loop() -> None:
    """A key may be in a token, which takes its time."""
    for path in SOURCES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.AsyncFunctionDef):
                called = [ast.unparse(one.func) for one in ast.walk(node) if isinstance(one, ast.Call)]
                assert [name for name in called if name.endswith((".sign", "check_signs", ".generate"))] == [], (
                    f"{name_of(path)}: {node.name}"
                )


def test_nothing_swallows_every_error() -> None:
    """``foreign_code`` is the one place: it raises a refusal instead of whatever a library raises."""
    for path in set(CORE) - {ROOT / "sdcard" / "errors.py"}:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ExceptHandler) and room(path) not in OUTSIDE:
                assert node.type is not None, f"{name_of(path)}: line {node.lineno}"
                assert ast.unparse(node.type) not in {"Exception", "BaseException"}, (
                    f"{name_of(path)}: line {node.lineno}"
                )


def test_values_are_frozen() -> None:
    for path in PURE:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef):
                for decorator in map(ast.unparse, node.decorator_list):
                    if decorator.startswith("dataclass"):
                        assert "frozen=True" in decorator, f"{name_of(path)}: {node.name}"


def test_the_public_names_are_the_same_for_type_checkers_and_at_run_time() -> None:
    body = tree(ROOT / "sdcard" / "__init__.py").body
    checked = next(node for node in body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    seen = {
        alias.name: str(node.module)
        for node in ast.walk(checked)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == {name: f"sdcard.{module}" for name, module in sdcard._HOME.items()}
    assert sorted(seen) == sorted(sdcard.__all__)
    assert all(getattr(sdcard, name) is not None for name in sdcard.__all__)


LIGHT = {
    "import sdcard": {"cryptography", "jsonschema", "yaml", "ulid", "rfc8785", "jwcrypto"},
    "import sdcard.cli.app, sys; sys.argv = ['sdcard', '--help']; sdcard.cli.app.run()": {"rich", "cryptography"},
    "from sdcard import *": {"jsonschema", "ulid", "jwcrypto"},
}


@pytest.mark.parametrize("code", LIGHT)
def test_what_is_not_used_is_not_imported(code: str) -> None:
    """Each has its place, and is imported by who goes there; docs/performance.md says what that saves."""
    script = f"import sys\n{code}\nprint('', *sys.modules, file=sys.stderr)"
    loaded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, cwd=ROOT).stderr
    assert {name.partition(".")[0] for name in loaded.split()} & LIGHT[code] == set()
