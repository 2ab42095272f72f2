"""House laws on the text of the code. Each is one test, which reports every violation; none has an exemption."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import sdcard
from tests.shared import ROOT
from tests.sources import FOLDERS, PRODUCT, circles, files, import_graph, imported, module_of, name_of, pure, tree


def words(text: str) -> list[str]:
    return text.split()


SOURCES = files(*PRODUCT)
CORE = files("sdcard")

PACKAGES = (*FOLDERS[:-3], "helpers of tests", "benchmarks", "tests", ".ci")
"""Each imports from those before it. Helpers of tests are for benchmarks too; tests are for nobody."""

ROOMS = words("""
    acceleration rules errors limits verification_cache instants profile pairwise encoding paths claim_request
    issuer_checks spiffe salts lenient disclosable urls jose trust audit_chain transparency oauth sdjwt key_binding
    nonces possession status_list dpop bound_tokens delegation_chain cards domain_control policy linkability acceptance
    requesting issuer holder verifier
    parallel_verifier advice given_text http_auth agent_proof admission publishing vectors conformance io web starlette
    fastapi testing cli __main__
    """)
"""Folders and modules of the core. Each imports from those before it."""
LAYERS = ("records", "repository", "", "endpoints")
"""Layers of a feature of the registry, by how the name of a module ends; most names are of its service."""
FEATURES = {"agents", "audit", "delegation", "discovery", "keys", "reviews", "status", "transparency"}
PURE = pure()

SHARED = set(ROOMS[: ROOMS.index("jose")])
"""What both columns may know."""
COLUMNS = {
    "jose": set[str](),
    "sdjwt": {"jose"},
    "key_binding": {"jose", "sdjwt"},
    "nonces": {"key_binding"},
    "possession": {"jose"},
    "status_list": {"jose"},
    "oauth": {"jose"},
    "dpop": {"jose", "key_binding"},
    "bound_tokens": {"jose", "oauth", "dpop", "key_binding"},
    "delegation_chain": {"jose", "oauth", "dpop", "key_binding"},
    "cards": {"card signatures"},
    "card signatures": {"cards", "jose"},
    "policy": {"cards"},
    "domain_control": {"cards"},
}
"""What each folder of the two columns, tokens and cards, may know of them."""
CARDS = {"cards", "card signatures", "policy"}
BRIDGES = {"issuer", "holder", "verifier", "acceptance", "card signatures", "publishing", "vectors", "conformance"}
"""Where the columns meet."""

WORLDLY = words("""
    os sys time random secrets socket ssl select pathlib io tempfile shutil glob subprocess multiprocessing threading
    asyncio concurrent signal sqlite3 logging http httpx httpx2 requests urllib.request ftplib smtplib uuid
    importlib.metadata fastapi starlette uvicorn sqlalchemy alembic typer rich pydantic pytest
    """)
IMPURE_CALLS = {"open", "print", "input", "eval", "exec", "__import__"}
IMPURE_METHODS = (".now", ".utcnow", ".today", ".fromtimestamp", ".read_text", ".read_bytes", ".write_text")
EVERY_ERROR = re.compile(r"\b(Base)?Exception\b")
CHECKING = re.compile(r"_?(verify|check|validate|parse|decode|issue|present|sign|accept|prepare|select|disclose|bind)")
LONGEST_FILE, LONGEST_FUNCTION = 400, 60


def package_of(module: str) -> str:
    """The folder that a module is in; helpers of tests and tests count as two."""
    first, last = module.split(".")[0] or ".ci", module.rpartition(".")[2]
    if first != "tests":
        return first
    return "tests" if last.startswith("test_") or last == "conftest" else "helpers of tests"


def room_of(module: str) -> str:
    """The folder, or module at the top, of the core; of ``sdcard`` itself nothing."""
    if module.startswith("sdcard.cards.a2a.sign"):
        return "card signatures"
    return module.split(".")[1] if module.startswith("sdcard.") else ""


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def calls(node: ast.AST) -> Iterator[str]:
    return (ast.unparse(one.func) for one in ast.walk(node) if isinstance(one, ast.Call))


# -- imports ----------------------------------------------------------------------------------------------------------


def test_what_is_looked_at_is_there_and_a_circle_is_found() -> None:
    assert len(PURE) > 35
    assert len(import_graph()) > 500
    assert "sdcard.jose.jws" in import_graph()["sdcard.issuer"]
    assert "issuer_service.settings" in import_graph()["issuer_service.cli.serve"], "inside a function"
    assert "sdcard.cards.model" in import_graph()["sdcard"], "for type checkers alone"
    assert circles({"a": frozenset("b"), "b": frozenset("c"), "c": frozenset("a"), "d": frozenset("a")}) == [
        ["a", "b", "c"]
    ]


def test_no_modules_import_one_another_in_a_circle() -> None:
    assert circles(import_graph()) == []


def test_packages_import_one_way() -> None:
    upward = {
        module: sorted(one for one in found if PACKAGES.index(package_of(one)) > PACKAGES.index(package_of(module)))
        for module, found in import_graph().items()
    }
    assert {module: found for module, found in upward.items() if found} == {}


def test_the_core_names_no_module_of_the_registry() -> None:
    """Not even in a string, which could be imported: entry points are in pyproject.toml."""
    naming = [
        f"{name_of(path)}: line {node.lineno}"
        for path in CORE
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "issuer_service." in node.value
    ]
    assert naming == []


def test_rooms_of_the_core_import_one_way() -> None:
    inner = {one: one.split(".")[1] for one in import_graph() if one.startswith("sdcard.")}
    edges = [(one, other) for one in inner for other in import_graph()[one] if other in inner]

    assert set(inner.values()) == set(ROOMS)
    assert [edge for edge in edges if ROOMS.index(inner[edge[1]]) > ROOMS.index(inner[edge[0]])] == []


def test_layers_of_a_feature_import_one_way() -> None:
    def layer(module: str) -> int | None:
        folder, _, name = module.removeprefix("issuer_service.").rpartition(".")
        found = next(number for number in (0, 1, 3, 2) if name.endswith(LAYERS[number]))
        return found if folder in FEATURES else None

    upward = []
    for module, found in import_graph().items():
        for one in found:
            here, there = layer(module), layer(one)
            if here is not None and there is not None and there > here:
                upward.append((module, one))
    assert upward == []


SQL = {"select", "insert", "update", "delete", "text"}


def test_sql_is_in_repositories() -> None:
    def is_repository(module: str) -> bool:
        return module.endswith("repository") or module.startswith(("issuer_service.db.", "issuer_service.tokens"))

    writing = [
        module_of(path)
        for path in files("issuer_service")
        if path.suffix == ".py"
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ImportFrom) and node.module == "sqlalchemy" and SQL & {one.name for one in node.names}
    ]
    assert len(writing) > 10
    assert [module for module in writing if not is_repository(module)] == []


FORWARDING = {
    "issuer_service/app.py: __call__": "leaves out what FastAPI adds to Starlette",
    "issuer_service/monitoring.py: watch_connections": "hides Prometheus",
    "issuer_service/routes.py: _container": "a dependency of FastAPI has to be async",
    "issuer_service/db/values.py: __init__": "of an exception",
    "issuer_service/db/state_check.py: name_of": "fixes the key of a name",
}


def test_no_function_of_the_registry_only_forwards_its_arguments() -> None:
    """Decision 0040: a facade of such functions stood between the services and their SQL."""
    forwarding = set()
    for path in files("issuer_service"):
        for node in functions(path):
            body = [one for one in node.body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]
            value = body[0].value if len(body) == 1 and isinstance(body[0], ast.Return | ast.Expr) else None
            called = value.value if isinstance(value, ast.Await) else value
            given = [one.arg for one in node.args.args if one.arg != "self"]
            if given and isinstance(called, ast.Call) and not called.keywords:
                last = [one.id if isinstance(one, ast.Name) else "" for one in called.args][-len(given) :]
                if last == given and len(called.args) <= len(given) + 1:
                    forwarding.add(f"{name_of(path)}: {node.name}")
    assert forwarding <= FORWARDING.keys()


def test_a_column_knows_what_stands_in_its_table() -> None:
    wrong = []
    for module, found in import_graph().items():
        room = room_of(module)
        known = COLUMNS[room] | {room} | SHARED if room in COLUMNS else SHARED
        if room in COLUMNS or room in SHARED:
            wrong += [(module, one) for one in found if room_of(one) not in known]
    assert wrong == []


def test_the_columns_meet_in_the_bridges_alone() -> None:
    meeting = set()
    for path in PURE:
        module = module_of(path)
        rooms = {room_of(one) for one in import_graph()[module]} & COLUMNS.keys()
        if module != "sdcard" and rooms & CARDS and rooms - CARDS:
            meeting.add(room_of(module))
    assert meeting <= BRIDGES
    assert meeting >= {"issuer", "holder"}


def test_the_application_alone_imports_endpoints() -> None:
    importing = [
        (module, one)
        for module, found in import_graph().items()
        for one in found
        if one.endswith(".endpoints") and package_of(module) in PRODUCT and module != "issuer_service.app"
    ]
    assert importing == []


def test_nothing_is_imported_relatively() -> None:
    assert [name_of(path) for path in files(*FOLDERS) if any(one.startswith(".") for one in imported(path))] == []


RUN = "import sdcard.cli.app, sys; sys.argv = ['sdcard', '--help']; sdcard.cli.app.run()"
LIGHT = {
    "import sdcard": {"cryptography", "jsonschema", "yaml", "ulid", "rfc8785", "jwcrypto"},
    "import sdcard, sdcard.cli": {"issuer_service", "fastapi", "sqlalchemy", "pydantic", "uvicorn", "rich", "typer"},
    RUN: {"issuer_service", "rich", "cryptography"},
    "from sdcard import *": {"jsonschema", "ulid", "jwcrypto"},
}
"""Code → packages that it does not load; docs/performance.md says what that saves."""


def test_what_is_not_used_is_not_imported() -> None:
    heavy = {}
    for code, unused in LIGHT.items():
        script = f"import json, sys\n{code}\nprint(json.dumps([*sys.modules]), file=sys.stderr)"
        done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, cwd=ROOT)
        heavy[code] = {name.partition(".")[0] for name in json.loads(done.stderr)} & unused
    assert {code: found for code, found in heavy.items() if found} == {}


# -- the pure part ----------------------------------------------------------------------------------------------------


def test_the_pure_part_touches_nothing() -> None:
    wrong = []
    for path in PURE:
        found = imported(path)
        wrong += [(name_of(path), one) for one in found if any(f"{one}.".startswith(f"{name}.") for name in WORLDLY)]
        called = set(calls(tree(path)))
        wrong += [(name_of(path), one) for one in called if one in IMPURE_CALLS or one.endswith(IMPURE_METHODS)]
    assert wrong == []


def test_values_are_frozen() -> None:
    wrong = [
        f"{name_of(path)}: {node.name}"
        for path in PURE
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef)
        for decorator in map(ast.unparse, node.decorator_list)
        if decorator.startswith("dataclass") and "frozen=True" not in decorator
    ]
    assert wrong == []


def test_only_foreign_code_catches_every_error() -> None:
    """It raises a refusal for whatever a library raises. Anything else would hide a fault of ours."""
    catching = {"foreign_code": set[str](), "others": set[str]()}
    for path in PURE:
        within = {node for one in functions(path) if one.name == "foreign_code" for node in ast.walk(one)}
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ExceptHandler) and EVERY_ERROR.search(
                ast.unparse(node.type or ast.Name("Exception"))
            ):
                catching["foreign_code" if node in within else "others"].add(f"{name_of(path)}: line {node.lineno}")
    assert catching["foreign_code"]
    assert catching["others"] == set()


# -- both packages ----------------------------------------------------------------------------------------------------


def test_every_module_says_what_it_is() -> None:
    assert [name_of(path) for path in SOURCES if not ast.get_docstring(tree(path))] == []


def test_no_check_has_a_switch() -> None:
    """A bool would turn a check off where it is forgotten; a type with a name says what was decided."""
    wrong = [
        f"{name_of(path)}: {function.name}({argument.arg}: {ast.unparse(argument.annotation)})"
        for path in SOURCES
        for function in functions(path)
        if CHECKING.match(function.name)
        for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
        if argument.annotation and re.search(r"\bbool\b", ast.unparse(argument.annotation))
    ]
    assert wrong == []


def test_nothing_signs_on_the_event_loop() -> None:
    """A key may be in a token, which takes its time."""
    wrong = [
        f"{name_of(path)}: {function.name} calls {name}"
        for path in SOURCES
        for function in functions(path)
        if isinstance(function, ast.AsyncFunctionDef)
        for name in calls(function)
        if name.endswith((".sign", "check_signs", ".generate"))
    ]
    assert wrong == []


def test_files_and_functions_are_short() -> None:
    wrong = [name_of(path) for path in SOURCES if path.read_bytes().count(b"\n") > LONGEST_FILE]
    for path in SOURCES:
        for function in functions(path):
            if (function.end_lineno or 0) - function.lineno >= LONGEST_FUNCTION:
                wrong.append(f"{name_of(path)}: {function.name}")
    assert wrong == []


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
