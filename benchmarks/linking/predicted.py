"""Number of pairs that the linkability report predicts.

``report_linkability`` compares the two texts of each agent. A pair with an *avoidable* link counts as 1: the report
says that this value alone links the two. Any other pair counts as one in *n*: *n* of the second texts have everything
in common with the first one that the report names for the pair, so that a guess among them is right once in *n*.
"""

from collections import defaultdict
from collections.abc import Sequence

from sdcard.limits import DEFAULT_LIMITS
from sdcard.linkability.comparison import CLOSE_BINDING, Observed, Trace, report_linkability
from sdcard.linkability.report import Kind, Link, Relation
from sdcard.sdjwt.verification import read_unverified


def predict(first: Sequence[str], second: Sequence[str]) -> float:
    """Count pairs that the report predicts to be linked.

    Texts of the same number belong together.
    """
    ones, others = (_observe(texts) for texts in (first, second))
    holders: dict[Trace, set[int]] = defaultdict(set)
    for number, seen in enumerate(others):
        for trace in seen.traces:
            holders[trace].add(number)
    total = 0.0
    for number, pair in enumerate(zip(first, second, strict=True)):
        (found,) = report_linkability(pair).pairs
        total += 1.0 if found.avoidable else 1 / len(_alike(ones[number], others, number, holders, found.links))
    return total


def _observe(texts: Sequence[str]) -> list[Observed]:
    return [Observed.of(read_unverified(text, DEFAULT_LIMITS)) for text in texts]


def _alike(
    one: Observed, others: Sequence[Observed], number: int, holders: dict[Trace, set[int]], links: Sequence[Link]
) -> set[int]:
    """The second texts that have all of this in common with the first one."""
    named = {link.what for link in links if link.how is Relation.SAME}
    shared = [holders[trace] for trace in one.traces.keys() & others[number].traces.keys() if trace.what in named]
    alike = set(range(len(others))).intersection(*sorted(shared, key=len))
    for link in links:
        if link.how is Relation.CLOSE:
            alike = {other for other in alike if _is_close(one, others[other], link.what)}
    return alike


def _is_close(one: Observed, other: Observed, what: Kind) -> bool:
    times = one.times.get(what), other.times.get(what)
    return times[0] is not None and times[1] is not None and abs(times[0] - times[1]) <= CLOSE_BINDING
