"""Comparison of texts: shared traces, near times, neighbouring status entries."""

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction

from sdcard.errors import Part, Where
from sdcard.instants import Instant, check_instant
from sdcard.limits import DEFAULT_LIMITS, Limits
from sdcard.linkability.report import VERDICTS, How, Link, LinkabilityReport, Pair, Pattern, Verdict, What
from sdcard.linkability.traces import Observed
from sdcard.sdjwt.unverified import read_unverified
from sdcard.status.reference import StatusReference

HOUR = 3_600
"""An SD-Card's time on a whole hour is rounded, as OpenID's conformance suite has it; so is one on a whole day."""

MINUTE = 60
"""The same of a KB-JWT, whose ``iat`` a Holder may round down within the freshness window."""

CLOSE = 10
"""Unrounded times that are at most so many seconds apart come from one moment of issuing, not from a random choice."""

CLOSE_BINDING = 300
"""The same of KB-JWTs: an agent that answers two Verifiers in one task does so within the freshness window."""

NEAR = 300
"""An ``iat`` or ``nbf`` further from the moment of receipt does not tell that moment: it stands for something older."""


def report_linkability(
    texts: Sequence[str], limits: Limits = DEFAULT_LIMITS, received: Instant | None = None
) -> LinkabilityReport:
    """Compare SD-JWTs and SD-JWT+KBs, each with each (RFC 9901 10.1, R-36, R-37).

    Reads them; verifies nothing.

    The work is linear in each pair of texts. One text alone is linked to nothing.

    Args:
        texts: compact form.
        limits: bounds the size of each.
        received: when they came from their Issuer, if they came together: an ``iat`` or ``nbf`` far from it is not the
            moment of issuing, but a fixed one that many cards share. None when nobody knows: then every unrounded time
            counts.

    Raises:
        Refused: for a text that is no SD-JWT; see ``read_unverified``.
        Misuse: when ``received`` is no instant.
    """
    moment = None if received is None else Fraction(check_instant(received))
    seen = [Observed.of(read_unverified(text, limits)) for text in texts]
    pairs = tuple(
        Pair(one, other, _links(seen[one], seen[other], moment))
        for one, other in itertools.combinations(range(len(seen)), 2)
    )
    return LinkabilityReport(pairs, tuple(_patterns([one.status for one in seen])))


def _links(one: Observed, other: Observed, received: Fraction | None) -> tuple[Link, ...]:
    shared = one.traces.keys() & other.traces.keys()
    wholes = {(trace.part, trace.path) for trace in shared if len(trace.path) == 1}
    places: dict[tuple[What, How, Verdict], list[tuple[Where, Where]]] = defaultdict(list)
    for trace in shared:
        if len(trace.path) < 2 or (trace.part, trace.path[:1]) not in wholes:
            verdict = VERDICTS.get(trace.what, Verdict.AVOIDABLE)
            if trace.what in one.times and not _tells(trace.what, one.times[trace.what], received):
                verdict = Verdict.UNAVOIDABLE
            places[trace.what, How.SAME, verdict].append((one.traces[trace], other.traces[trace]))
    for what, where, verdict in _close(one, other, received):
        places[what, How.CLOSE, verdict].append((where, where))
    verdicts, whats = list(Verdict), list(What)
    return tuple(
        Link(what, how, verdict, tuple(sorted(where, key=_in_order)))
        for (what, how, verdict), where in sorted(
            places.items(), key=lambda item: (verdicts.index(item[0][2]), whats.index(item[0][0]))
        )
    )


def _in_order(places: tuple[Where, Where]) -> list[tuple[str, list[tuple[int, str]]]]:
    """Return a sort key: by part, then by path, with numbers in numeric order."""
    return [
        (where.part, [(step, "") if isinstance(step, int) else (-1, step) for step in where.path]) for where in places
    ]


def _close(one: Observed, other: Observed, received: Fraction | None) -> Iterator[tuple[What, Where, Verdict]]:
    """Times that are near each other.

    Rounded ones of KB-JWTs count too: a minute may end between two presentations.
    """
    for what in one.times.keys() & other.times.keys():
        first, second = one.times[what], other.times[what]
        binding = what is What.KB_IAT
        tells = any(_tells(what, time, received) for time in (first, second))
        if 0 < abs(first - second) <= (CLOSE_BINDING if binding else CLOSE) and (tells or binding):
            where = Where(Part.KB_JWT, ("iat",)) if binding else Where(Part.ISSUER_JWT, (what.value,))
            yield what, where, Verdict.AVOIDABLE if tells else Verdict.UNAVOIDABLE


def _tells(what: What, time: Fraction, received: Fraction | None) -> bool:
    """Whether a time reveals the moment of issuing.

    It does when it is not rounded, and not far from that moment where it is known.

    An ``exp`` is that moment and a lifetime that nobody is told, so nothing can be said to be far from it.
    """
    near = received is None or what in (What.EXP, What.KB_IAT) or abs(time - received) <= NEAR
    return near and not _is_rounded(what, time)


def _is_rounded(what: What, time: Fraction) -> bool:
    """Whether a time is rounded: to an hour, or to a minute for a KB-JWT.

    The second before an hour counts for an ``exp`` that includes its last second.
    """
    if what is What.KB_IAT:
        return time % MINUTE == 0
    return time % HOUR == 0 or (what is What.EXP and (time + 1) % HOUR == 0)


def _patterns(statuses: Sequence[StatusReference | None]) -> Iterator[Pattern]:
    """Detect indices that are hardly random: three neighbours, or equal distances.

    Two are too few to tell.

    A list that only one card names tells who is asked about.
    """
    lists: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for number, status in enumerate(statuses):
        if status is not None:
            lists[status.uri].append((status.index, number))
    for entries in lists.values():
        entries.sort()
        steps = [after - before for (before, _), (after, _) in itertools.pairwise(entries)]
        start = 0
        for step, equal in itertools.groupby(steps):
            end = start + len(list(equal))
            if end - start >= 2 and (step == 1 or (step and end - start == len(steps))):
                yield Pattern(What.STATUS_STEP, tuple(sorted(number for _, number in entries[start : end + 1])))
            start = end
    if len(lists) >= 3 and all(len(entries) == 1 for entries in lists.values()):
        yield Pattern(What.STATUS_LISTS_OF_ONE, tuple(sorted(entries[0][1] for entries in lists.values())))
