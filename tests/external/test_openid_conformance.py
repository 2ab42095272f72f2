"""The OpenID conformance suite's checks of a batch: its 22 cases, as SD-JWTs that share nothing but what a case says.

``../shared/vectors/openid-conformance``. The suite looks at one kind of claim at a time; so does the adapter: a case is
rejected when our report finds something avoidable among the claims that the case is about.
"""

import json
from collections import Counter
from typing import Any

import pytest

from sdcard.linkability import What, report_linkability
from tests.shared import shared_dir
from tests.world import World, key

Case = dict[str, Any]

STRICTER = {
    "oidf-time-identicalButNotNearNow": "the same unrounded second links two cards however old it is (RFC 9901 10.1, "
    "R-37). The suite asks whether the *issuing* told its time, and needs a clock for that; we read none.",
    "oidf-status-unpredictable_onlyTwo": "two indices are too few for the suite to call a series. For us two cards are "
    "the question: neighbours in a list are as good as never drawn at random.",
}
"""Accepted by the suite and not by us, with the reason. There is no case of the other kind."""

ABOUT: dict[str, frozenset[What]] = {
    "time": frozenset({What.IAT, What.NBF, What.EXP}),
    "distinct": frozenset({What.STATUS}),
    "unpredictable": frozenset({What.STATUS, What.STATUS_STEP}),
    "herd-privacy(warning)": frozenset({What.STATUS_LISTS_OF_ONE}),
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
    return "reject" if ABOUT[case["check"]].intersection(report_linkability(texts).avoidable) else "accept"


def test_every_case_gives_the_expected_answer_but_two_that_we_judge_more_strictly(world: World) -> None:
    answers = {case["id"]: (case["expected"], judge(world, case)) for case in cases()}

    assert len(answers) == 22
    assert {name for name, (expected, ours) in answers.items() if expected != ours} == set(STRICTER)
    assert Counter(answers.values()) == {("reject", "reject"): 8, ("accept", "accept"): 12, ("accept", "reject"): 2}


@pytest.mark.parametrize("check", sorted(ABOUT))
def test_each_check_of_the_suite_has_a_case_of_either_kind(check: str) -> None:
    assert {case["expected"] for case in cases() if case["check"] == check} == {"accept", "reject"}


def test_nothing_of_a_case_is_found_elsewhere(world: World) -> None:
    """The claims that no case is about never make a link: the adapter adds none."""
    for case in cases():
        texts = [str(world.issuer.sd_jwt(claims)) for claims in case["credentials"]]
        assert set(report_linkability(texts).avoidable) <= frozenset().union(*ABOUT.values())
