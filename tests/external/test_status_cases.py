"""The public bug log's cases about status lists (BUG-055, 056, 058, 059, 063), through the verifier's own rules."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from sdcard import Refused
from sdcard.errors import Part, Where
from sdcard.io import status_lists
from sdcard.io.http import Fetched
from sdcard.io.status_lists import FetchedStatusLists
from sdcard.limits import Limits
from sdcard.rules import Rule
from sdcard.status_list import MEDIA_TYPE, parse_status
from sdcard.trust import TrustedIssuers, parse_key_set
from tests.shared import shared_dir

CASES = ("BUG-055", "BUG-056", "BUG-058", "BUG-059", "BUG-063")
ISSUER = "https://registry.qa.example"
RULES = {
    "status_index": ("status.malformed", "The list has no such entry."),
    "status_unavailable": ("status.unavailable",),
    "status_sub": ("status-list.other",),
    "status_typ": ("jws.typ",),
    "status_expired": ("time.expired",),
    "status_too_large": ("limit.bytes",),
}


def variants() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    for number in CASES:
        document = json.loads((shared_dir() / "cases" / f"{number}.json").read_text(encoding="utf-8"))
        given, expected = document["input"], document["expected"]
        for one in given.get("variants", [given]):
            name = one.get("name", "")
            yield f"{number} {name}", one, expected["variants"][name] if name else expected


def check(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> int:
    """The status; what is fetched is the case's token, or nothing."""

    def answer(*_: object, **__: object) -> Fetched:
        if case["status_list_token"] is None:
            raise Refused(Rule.FETCH_ABSENT, Where(Part.FETCHED))
        return Fetched(MEDIA_TYPE, str(case["status_list_token"]).encode())

    monkeypatch.setattr(status_lists, "fetch", answer)
    keys = parse_key_set(case["issuer_jwks"], Where(Part.TRUST))
    lists = FetchedStatusLists(
        TrustedIssuers({}, {ISSUER: keys}), limits=Limits(status_list_bytes=case["max_list_bytes"])
    )
    reference = parse_status({"status_list": case["status_claim"]})
    return lists.status(reference, ISSUER, case["now"])


def test_every_case_has_the_expected_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = 0
    for name, case, expected in variants():
        seen += 1
        if expected["result"] == "status":
            assert check(case, monkeypatch) == expected["value"], name
            continue
        with pytest.raises(Refused) as refusal:
            check(case, monkeypatch)
        said = f"{refusal.value.rule.value}: {refusal.value.findings[0].hint}"
        assert any(rule in said for rule in RULES[expected["check"]]), (name, said)
    assert seen == 23
