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
STANDARD = [
    part
    for part in PARTS
    if part.name.startswith(("sdcard/sdjwt/", "sdcard/key_binding.py", "sdcard/nonces.py", "sdcard/possession.py"))
]
IN_TWO_PLACES = {
    Rule.DISCLOSURE_KIND: "3.c.ii.1 for a claim, 3.c.iii.1 for an element",
    Rule.SD_PLACEHOLDER: "`...` in an object, and in an element that is malformed",
    Rule.JSON_DEPTH: "an object, an array, and the text itself",
    Rule.CLAIM_MISSING: "in what an Issuer signs, and in a proof",
    Rule.CLAIM_TYPE: "each type of claim",
    Rule.CLAIM_VALUE: "each type of claim",
    Rule.LIMIT_BYTES: "each text",
    Rule.LIMIT_DISCLOSURES: "issuing and reading",
    Rule.SD_JWT_FORMAT: "each form, and each part of the JSON forms",
    Rule.JWS_HEADER: "a protected and an unprotected header",
    Rule.JWS_CRIT: "a protected and an unprotected header",
    Rule.JWS_FORMAT: "the parts, and the length of each kind of JWS",
    Rule.KB_NONCE: "the KB-JWT, and a record that recognizes its own nonces",
    Rule.KB_PURPOSE: "the Verifier without a challenge, the caller, and the agent that is called",
    Rule.PROOF_NONCE: "the proof, and the registry that gave the nonce",
    Rule.KB_REPLAYED: "a record's answer, and a record without room for more",
}
"""Rules of the standard that more than one function raises, and why."""


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


def test_a_rule_of_the_standard_is_raised_in_one_place() -> None:
    """A reader who looks for a rule finds one function."""
    places = {rule: {part.name for part in PARTS if rule in part.rules} for part in STANDARD for rule in part.rules}
    shared = {rule for rule, names in places.items() if len(names) > 1}
    assert shared - IN_TWO_PLACES.keys() == set()


ORDER = {
    "process_payload": ["SD_ALG", "DISCLOSURE_REPEATED", "DISCLOSURE_UNREFERENCED"],
    "object": ["JSON_DEPTH", "SD_PLACEHOLDER", "SD_DIGEST_LIST"],
    "_insert": ["DISCLOSURE_KIND", "DISCLOSURE_NAME", "DISCLOSURE_COLLISION"],
    "_array": ["JSON_DEPTH", "SD_PLACEHOLDER", "DISCLOSURE_KIND"],
    "_meet": ["DIGEST_REPEATED", "LIMIT_DIGESTS"],
    "verify_jws": ["JWS_ALG", "JWS_CRIT", "JWS_CRIT", "JWS_SIGNATURE"],
    "_check_rules": ["VCT"],
    "check_in_clear": ["CLAIM_NOT_IN_CLEAR", "CLAIM_MISSING"],
    "verify_key_binding": ["KB_STALE", "KB_FROM_FUTURE", "CLAIM_VALUE", "KB_NONCE", "KB_PURPOSE"]
    + ["KB_AUDIENCE", "KB_SD_HASH", "KB_INTERACTION"],
}
"""Function → the rules that it names, in the order of RFC 9901 7.1 and 7.3. The code is straight: it runs in order."""


def test_the_rules_stand_in_the_order_of_the_standard() -> None:
    files = ("sdjwt/verification.py", "jose/jws.py", "acceptance.py", "key_binding.py")
    trees = [ast.parse((ROOT / "sdcard" / file).read_text(encoding="utf-8")) for file in files]
    functions = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for name, rules in ORDER.items():
        [function] = [node for node in functions if node.name == name]
        named = [
            (node.lineno, node.col_offset, node.attr)
            for node in ast.walk(function)
            if isinstance(node, ast.Attribute) and node.attr in Rule.__members__
        ]
        assert [rule for _, _, rule in sorted(named)] == rules, name


ROWS_OF_THEIR_OWN = (
    "sdcard/status_list.py",
    "sdcard/oauth.py",
    "sdcard/dpop.py",
    "sdcard/delegation_chain.py",
    "sdcard/trust.py",
    "sdcard/publishing.py",
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
        "sdcard/io/replay_cache.py:_UsedNonces.add",
        "sdcard/io/sql_replay_cache.py:_available",
        "sdcard/io/used_nonces.py:_outcome",
    }, "a record's own limits; status lists have rules of their own"


def test_a_rule_is_found_where_it_is_raised() -> None:
    raised = {rule: {part.name for part in PARTS if rule in part.rules} for rule in Rule}

    assert raised[Rule.DISCLOSURE_COLLISION] == {"sdcard/sdjwt/verification.py:_Walk._insert"}
    assert raised[Rule.ISSUER_UNKNOWN] == {
        "sdcard/admission.py:check_admission",
        "sdcard/trust.py:TrustedIssuers.key_for",
        "sdcard/oauth.py:verify_access_token",
    }
    assert [rule for rule in Rule if not raised[rule]] == []
