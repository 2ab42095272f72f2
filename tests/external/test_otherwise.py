"""The table of what we answer otherwise: how long it is, and that each entry is about a case and a rule that exist."""

from collections import Counter

from sdcard import Rule
from tests.external.otherwise import OTHERWISE
from tests.external.vectors import folder, manifest

LISTED = {
    "sd-jwt-python": 2,
    "eudi-sdjwt-kt": 6,
    "sd-jwt-tests": 2,
    "ietf-sd-jwt-vc": 2,
    "wycheproof": 56,
    "jose-rfcs": 1,
    "json-test-suite": 2,
}


def test_the_table_is_as_long_as_the_documents_say() -> None:
    assert Counter(name.partition("/")[0] for name in OTHERWISE) == LISTED


def test_every_entry_names_a_case_and_a_rule() -> None:
    for name, answer in OTHERWISE.items():
        where, _, case = name.partition("/")
        known = {one["id"] for one in manifest(where)}
        inside = [file.read_text(encoding="utf-8") for file in folder(where).glob("*.json")]
        assert case in known or any(f'"{case}"' in text for text in inside) or where == "wycheproof", name
        assert answer.rule in ("", *Rule)
        assert bool(answer.rule) is bool(answer.at)
        assert answer.reason
