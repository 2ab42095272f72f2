"""The OpenID conformance suite's checks of a batch: its 22 cases, as SD-JWTs that share nothing but what a case says.

``../shared/vectors/openid-conformance``. The suite looks at one kind of claim at a time; so does the adapter: a case is
rejected when our report finds something avoidable among the claims that the case is about.
"""

import json
from collections import Counter
from typing import Any

import pytest

from sdcard.linkability.comparison import report_linkability
from sdcard.linkability.report import Kind
from tests.shared import shared_dir
from tests.world import World, key

Case = dict[str, Any]

ABOUT: dict[str, frozenset[Kind]] = {
    "time": frozenset({Kind.IAT, Kind.NBF, Kind.EXP}),
    "distinct": frozenset({Kind.STATUS}),
    "unpredictable": frozenset({Kind.STATUS, Kind.STATUS_STEP}),
    "herd-privacy(warning)": frozenset({Kind.STATUS_LISTS_OF_ONE}),
}


def load(name: str) -> list[Case]:
    cases: list[Case] = json.loads((shared_dir() / "vectors" / "openid-conformance" / name).read_text(encoding="utf-8"))
    return cases


def cases() -> list[Case]:
    times = [{**case, "check": "time"} for case in load("batch_time_claims.json")]
    statuses = [
        {**case, "credentials": [{"status": status} for status in case["status"]]}
        for case in load("batch_status_references.json")
    ]
    return times + statuses


def judge(world: World, case: Case) -> str:
    """Our answer in the suite's words."""
    texts = [
        str(world.issuer.sd_jwt({**claims, "cnf": {"jwk": dict(key(number).public_key.to_jwk())}}))
        for number, claims in enumerate(case["credentials"], 10)
    ]
    report = report_linkability(texts, received=case.get("response_time"))
    return "reject" if ABOUT[case["check"]].intersection(report.avoidable) else "accept"


def test_every_case_gives_the_expected_answer(world: World) -> None:
    answers = {case["id"]: (case["expected"], judge(world, case)) for case in cases()}

    assert {name: both for name, both in answers.items() if both[0] != both[1]} == {}
    assert Counter(answers.values()) == {("reject", "reject"): 8, ("accept", "accept"): 14}


def test_without_the_moment_of_receipt_every_unrounded_time_counts(world: World) -> None:
    (old,) = (case for case in cases() if case["id"] == "oidf-time-identicalButNotNearNow")
    assert (judge(world, old), judge(world, {**old, "response_time": None})) == ("accept", "reject")


@pytest.mark.parametrize("check", sorted(ABOUT))
def test_each_check_of_the_suite_has_a_case_of_either_kind(check: str) -> None:
    assert {case["expected"] for case in cases() if case["check"] == check} == {"accept", "reject"}


def test_nothing_of_a_case_is_found_elsewhere(world: World) -> None:
    """The claims that no case is about never make a link: the adapter adds none."""
    for case in cases():
        texts = [str(world.issuer.sd_jwt(claims)) for claims in case["credentials"]]
        assert set(report_linkability(texts).avoidable) <= frozenset().union(*ABOUT.values())
