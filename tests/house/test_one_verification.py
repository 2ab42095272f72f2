"""Laws of the core verifier: no memory of its own, no card format loaded, few functions in few files."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from benchmarks import ours
from benchmarks import work as work_card
from benchmarks.work import make_work
from sdcard import Answering, Challenge, Expectations, TrustedIssuers, Unchecked, verify_presentation
from sdcard.jose.keys import public_key
from tests.house.test_bounds import places
from tests.shared import ROOT
from tests.sources import name_of, pure, tree

PURE = pure()

TABLES_OF_CODE = {
    "sdcard/cards/schema.py:snake_case": "of the names in the tables of card formats",
    "sdcard/cards/schema.py:_spellings": "as `snake_case`",
    "sdcard/requesting.py:_known_group": "of the claim groups of the card formats",
    "sdcard/requesting.py:_known_about": "as `_known_scope`",
    "sdcard/requesting.py:_NOTHING": "an empty tree",
}
"""Module-level memory that is allowed: a function of names that stand in the code, so a table that is filled when used.

No document, key or instant can put anything into it.
"""


def test_the_core_has_no_memory_of_its_own() -> None:
    """DECISIONS 27: caches are arguments. The owner of a process creates one and passes it."""
    found = {f"{name_of(path)}:{place}" for path in PURE for place in places(tree(path), (), False) if "." not in place}
    assert found == set(TABLES_OF_CODE)
    changing = [f"{name_of(path)}: line {line}" for path in PURE for line in changes_of_module_names(tree(path))]
    assert changing == []


CHANGES = {"append", "add", "update", "pop", "popitem", "clear", "setdefault", "extend", "insert", "remove", "discard"}


def changes_of_module_names(module: ast.Module) -> Iterator[int]:
    """Lines of functions that change a value which a name of the module is bound to."""
    targets = [one for node in module.body if isinstance(node, ast.Assign) for one in node.targets]
    targets += [node.target for node in module.body if isinstance(node, ast.AnnAssign)]
    names = {one.id for one in targets if isinstance(one, ast.Name)}
    for function in ast.walk(module):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            own = {one.id for one in ast.walk(function) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
            own |= {one.arg for one in ast.walk(function) if isinstance(one, ast.arg)}
            for node in ast.walk(function):
                changed: ast.expr | None = None
                if isinstance(node, ast.Global):
                    yield node.lineno
                elif isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
                    changed = node.value
                elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
                    changed = node.func.value
                if isinstance(changed, ast.Name) and changed.id in names - own:
                    yield changed.lineno


def test_a_change_of_a_name_of_the_module_is_found() -> None:
    source = """
_known, _list = {}, [1]
_table: dict[str, int] = {"a": 1}
_kept = {"a": 1}
def f(_kept_too): _kept["b"] = 2
def g(): _table.update(b=2)
def h():
    global _kept
def i():
    _table = {}
    _table["a"] = 1
"""
    assert list(changes_of_module_names(ast.parse(source))) == [5, 6, 8]


VERIFYING = """
import json, pathlib, sys
from sdcard.key_binding import Answering, Challenge, ConsumedByCaller
from sdcard.status_list import Unchecked
from sdcard.trust import parse_trusted_issuers
from sdcard.verifier import Expectations, verify_presentation
vector = json.loads(pathlib.Path("vectors/key-binding/answer.json").read_text())
asked = vector["expectations"]["key_binding"]
challenge = Challenge(asked["nonce"], asked["audience"])
expectations = Expectations(
    issuers=parse_trusted_issuers(json.dumps(vector["trust"]).encode()),
    key_binding=Answering(challenge, ConsumedByCaller()),
    status=Unchecked("a test"),
    published_keys=frozenset(),
)
card = verify_presentation(vector["document"], expectations, vector["now"])
assert card.members and "sdcard.cards.detect" not in sys.modules
print(*sys.modules)
assert card.card_format == "a2a/1.0" and "sdcard.cards.detect" in sys.modules
"""


def test_verifying_loads_no_card_format() -> None:
    loaded = subprocess.run([sys.executable, "-c", VERIFYING], check=True, capture_output=True, text=True, cwd=ROOT)
    ours = {name for name in loaded.stdout.split() if name.startswith("sdcard.")}
    assert {name for name in ours if name.startswith(("sdcard.cards.", "sdcard.policy"))} == {"sdcard.cards.partial"}
    assert len(ours) < 40


# -- one verification -------------------------------------------------------------------------------------------------


class Once:
    """A record of used nonces that is no part of the library."""

    def consume(self, challenge: Challenge, now: float) -> bool:
        return True


def test_one_verification_runs_through_few_functions_in_few_files() -> None:
    """A new SD-Card with a KB-JWT, seven selective claims, three shown. Comprehensions are no functions.

    Two of the functions, and one of the files, are for the kernel.
    """
    work = make_work()
    presented = ours.present(work, ours.accept(work, ours.issue(work)))
    issuers = TrustedIssuers.of(work_card.ISSUER, public_key(work.issuer_key.public_key()))
    decision = Answering(Challenge(work_card.NONCE, work_card.AUDIENCE), Once())
    expectations = Expectations(issuers=issuers, key_binding=decision, status=Unchecked("a test"))
    called: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        name, path = frame.f_code.co_qualname, Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT / "sdcard") and not name.endswith(">"):
            called.add((name_of(path), name))

    sys.setprofile(note)
    try:
        verify_presentation(presented, expectations, ours.NOW)
    finally:
        sys.setprofile(None)
    assert len(called) <= 61, sorted(called)
    assert len({path for path, _ in called}) <= 12, sorted(called)
