"""``docs/rules.md``: its rows are those of the list beside this repository, each is seen to, each rule has a place."""

import ast
import re
from collections import Counter

from sdcard.rules import Rule
from tests.shared import ROOT, shared_dir
from vectors.pages import parts
from vectors.rows import ELSEWHERE, NOT_SUPPORTED, cited, in_order

PARTS = list(parts())
ROWS = [row for row, _ in in_order()]
CITED = {row for part in PARTS for row in part.rows}
STANDARD = [part for part in PARTS if part.name.startswith(("sdcard/sdjwt/", "sdcard/keybinding/"))]
BOTH_BOUNDS = {
    "sdcard/keybinding/verification.py:check_freshness",
    "sdcard/keybinding/possession.py:check_proof_freshness",
}


def test_the_rows_are_those_of_the_list_with_their_sections() -> None:
    text = (shared_dir() / "spec" / "rfc9901-rules.md").read_text(encoding="utf-8")
    listed = re.findall(r"^- \*\*((?:R|VC|HAIP)-\d+)\*\*[^\[\n]*(?:\[([^\]]*)\])?", text, re.MULTILINE)
    sections = dict(in_order())

    assert [row for row, _ in listed] == ROWS
    assert (len(ROWS), len(set(ROWS) & CITED)) == (134, 118)
    for row, section in listed:
        if row.startswith("R-") and section:
            assert sections[row] == f"RFC 9901 {section}"


def test_every_row_is_seen_to_by_a_function_or_it_is_said_by_whom() -> None:
    assert [row for row, count in Counter(ROWS).items() if count > 1] == []
    assert sorted(set(ROWS) - CITED) == sorted(ELSEWHERE)


def test_no_docstring_cites_a_row_that_is_not_there() -> None:
    assert sorted(CITED - set(ROWS)) == []


def test_what_is_named_instead_of_a_function_exists() -> None:
    named = [name for note in ELSEWHERE.values() for name in re.findall(r"`([a-z_/]+\.py)`", note)]

    assert named
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_what_is_not_supported_is_on_the_page_about_that() -> None:
    page = set(cited((ROOT / "docs" / "not-supported.md").read_text(encoding="utf-8")))

    assert page == {row for row, note in ELSEWHERE.items() if note.startswith(NOT_SUPPORTED)}


def test_a_function_of_the_standard_refuses_for_one_rule() -> None:
    """A window, as that of a KB-JWT in RFC 9901, is one rule with two ids: an old answer, and one from the future."""
    assert STANDARD
    assert {part.name for part in STANDARD if len(part.rules) > (2 if part.name in BOTH_BOUNDS else 1)} == set()


def test_the_steps_stand_in_the_order_of_the_standard() -> None:
    tree = ast.parse((ROOT / "sdcard/sdjwt/steps.py").read_text(encoding="utf-8"))
    docstrings = [ast.get_docstring(node) or "" for node in tree.body if isinstance(node, ast.FunctionDef)]
    steps = [match.group(1) for text in docstrings if (match := re.match(r"Step ([\d.a-z]+):", text))]

    assert steps == sorted(steps)
    assert len(steps) >= len(docstrings) - 1


ROWS_OF_THEIR_OWN = (
    "sdcard/status/",
    "sdcard/oauth/",
    "sdcard/dpop/",
    "sdcard/delegation/",
    "sdcard/trust_list.py",
    "sdcard/publishing/",
)
"""Standards beside the three whose rows the page lists."""


def test_every_rule_of_the_standard_is_raised_by_a_function_that_says_which_row() -> None:
    families = {"sd", "disclosure", "digest", "kb", "time", "audience", "cnf"}
    silent = {
        part.name
        for part in PARTS
        if not part.rows
        and any(rule.split(".")[0] in families for rule in part.rules)
        and part.name.startswith("sdcard/")
        and not part.name.startswith(ROWS_OF_THEIR_OWN)
    }

    assert silent == {
        "sdcard/edge/records.py:_UsedNonces.add",
        "sdcard/edge/sql_records.py:_available",
        "sdcard/edge/used_nonces.py:_outcome",
        "sdcard/keybinding/verification.py:check_interaction",
    }, "a record's own limits, and SD-Card 5.2.2; status lists have rules of their own"


def test_a_rule_is_found_where_it_is_raised() -> None:
    raised = {rule: {part.name for part in PARTS if rule in part.rules} for rule in Rule}

    assert raised[Rule.DISCLOSURE_COLLISION] == {"sdcard/sdjwt/steps.py:check_claim_is_new"}
    assert raised[Rule.ISSUER_UNKNOWN] == {
        "sdcard/admission.py:check_admission",
        "sdcard/trust.py:TrustedIssuers.key_for",
        "sdcard/oauth/access_token.py:verify_access_token",
    }
    assert [rule for rule in Rule if not raised[rule]] == []
