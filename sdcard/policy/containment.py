"""Containment: whether one context shows everything that another shows."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from sdcard.cards.detect import KNOWN_FORMATS
from sdcard.cards.model import CardFormat
from sdcard.disclosable import Treatment
from sdcard.paths import ClaimPath, Segment
from sdcard.policy.rules import ContextRules, Position

FORMATS = tuple(KNOWN_FORMATS.values())
CompiledRules: TypeAlias = Callable[[str, CardFormat], ContextRules]
"""Name of a context and card format → rules."""


def missing_from(compiled: CompiledRules, outer: str, inner: str) -> ClaimPath | None:
    """Find a place that the inner context may show and the outer one does not."""
    looked_at = set[tuple[object, ...]]()
    for card_format in FORMATS:
        less, more = (compiled(name, card_format) for name in (inner, outer))
        same = (less.paths, more.paths, *_told_apart(less, card_format))
        if less.paths == more.paths or same in looked_at:
            continue
        found = _first_missing(less, more, card_format)
        if found:
            return found
        looked_at.add(same)
    return None


def _told_apart(rules: ContextRules, card_format: CardFormat) -> tuple[object, ...]:
    """Return the parts of a format that matter for the paths of a context, as a key."""
    firsts = {segment for p, _ in rules.paths for segment in p.segments[:1]}
    if None in firsts or not all(p.segments for p, _ in rules.paths):
        return card_format.always_disclosed, card_format.together
    always = tuple(name for name in card_format.always_disclosed if name in firsts)
    return always, tuple(path for path in card_format.together if path.segments[0] in firsts)


def _first_missing(less: ContextRules, more: ContextRules, card_format: CardFormat) -> ClaimPath | None:
    """Find a place that one context may show and the other does not.

    If there is one, there is one where the deciding paths meet: a path that the first context shows, a path of the
    other, and perhaps a path that belongs to another group. Only paths that are no longer decide about a place on the
    way to it.
    """
    holes = tuple(dict.fromkeys(p for _, entry in (*less.paths, *more.paths) for p in entry.excluded))
    edges = tuple(dict.fromkeys((*more.edges(), *holes)))
    clear = [(name,) for name in card_format.always_disclosed]
    shown = dict.fromkeys(_shown_places(less, card_format))
    ways = dict.fromkeys(_ways(less))
    met = dict.fromkeys((*ways, *shown, *(p for one in shown for edge in edges if (p := one.overlap(edge)))))
    for way in ways:
        met |= dict.fromkeys(p for edge in edges if len(edge.segments) <= len(way.segments) if (p := way.overlap(edge)))
    apart = dict.fromkeys(p for one in met for hole in holes if (p := one.overlap(hole)))
    places = (place for place in {**met, **apart} if place.segments[:1] not in clear)
    start, start_of_more = less.start(), more.start()
    return next((p for p in places if not _is_contained(start, start_of_more, p.segments)), None)


def _ways(rules: ContextRules) -> Iterator[ClaimPath]:
    """Return the containers of the parts that the context shows."""
    for shown in rules.shown:
        yield from (ClaimPath(shown.segments[:length]) for length in range(1, len(shown.segments)))


def _shown_places(rules: ContextRules, card_format: CardFormat) -> Iterator[ClaimPath]:
    """Return the parts that the context shows, and those shown with them."""
    for shown in rules.shown:
        yield shown
        for along in card_format.together:
            above = ClaimPath(along.segments[:-1]).overlap(ClaimPath(shown.segments[: len(along.segments) - 1]))
            if above:
                yield ClaimPath((*above.segments, along.segments[-1]))


def _is_contained(less: Position, more: Position, place: tuple[Segment, ...]) -> bool:
    """Whether one context shows the place, even empty, if the other does."""
    shown, other = less.at(place), more.at(place)
    if shown.treatment is not Treatment.WITHHELD:
        return other.treatment is not Treatment.WITHHELD
    if shown.forbidden:
        return True
    above = less.at(place[:-1])
    along = shown.along and (above.treatment is not Treatment.WITHHELD or above.leads)
    return not other.forbidden if along or shown.leads else True
