"""Judge an answer by the vector's expected result."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from conformance.cases import ACCEPTED, Case
from conformance.libraries import Library
from conformance.peers import Peer


class Verdict(StrEnum):
    """What an answer is worth."""

    RIGHT = "right"
    WRONGLY_ACCEPTED = "wrongly accepted"
    OTHER_CLAIMS = "other result"
    WRONGLY_REFUSED = "wrongly refused"
    CRASHED = "crashed"
    UNSUPPORTED = "not supported"


@dataclass(frozen=True, slots=True)
class Result:
    """A library's answer to a case."""

    case: Case
    verdict: Verdict
    error: str = ""


def judge(library: Library, case: Case, answer: Mapping[str, Any]) -> Verdict:
    """Compare an answer with the expected result."""
    outcome = answer["outcome"]
    if outcome in ("crashed", "unsupported"):
        return Verdict.CRASHED if outcome == "crashed" else Verdict.UNSUPPORTED
    if case.rule != ACCEPTED:
        return Verdict.RIGHT if outcome == "refused" else Verdict.WRONGLY_ACCEPTED
    if outcome == "refused":
        return Verdict.WRONGLY_REFUSED
    is_equal = same(_without(answer["claims"], library), _without(case.claims or {}, library))
    return Verdict.RIGHT if is_equal else Verdict.OTHER_CLAIMS


def run(library: Library, peer: Peer, cases: list[Case]) -> list[Result]:
    """Ask a library about every case that it supports."""
    results = []
    for case in cases:
        if not case.needs <= library.features:
            results.append(Result(case, Verdict.UNSUPPORTED))
            continue
        answer = peer.ask(case.request)
        results.append(Result(case, judge(library, case, answer), answer.get("error", "")))
    return results


def count(results: list[Result]) -> Counter[Verdict]:
    """Count the verdicts."""
    return Counter(one.verdict for one in results)


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal. 1 and 1.0 are, as JSON has one kind of number; 1 and true are not."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(same(*pair) for pair in zip(one, other, strict=True))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _without(claims: Mapping[str, Any], library: Library) -> dict[str, Any]:
    return {name: value for name, value in claims.items() if name not in library.omits}
