"""Whether one context shows whatever another one shows, in a card of any known format."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from sdcard.cards.format import CardFormat
from sdcard.cards.reading import KNOWN_FORMATS
from sdcard.disclosure.grant import Grant
from sdcard.paths import ClaimPath, Segment

FORMATS = tuple(KNOWN_FORMATS.values())
Grants: TypeAlias = Callable[[str, int], Grant]
"""What a context shows in cards of a format, by its number in ``FORMATS``."""


def missing_from(grants: Grants, outer: str, inner: str) -> ClaimPath | None:
    """A place that the inner context may show, in a card of any format, where the outer one shows nothing."""
    looked_at = set[tuple[object, ...]]()
    for number, card_format in enumerate(FORMATS):
        less, more = (grants(name, number) for name in (inner, outer))
        same = (less.rows, more.rows, *_told_apart(less, card_format))
        if less.rows == more.rows or same in looked_at:
            continue
        found = _first_missing(less, more, card_format)
        if found:
            return found
        looked_at.add(same)
    return None


def _told_apart(grant: Grant, card_format: CardFormat) -> tuple[object, ...]:
    """What of a format matters for the paths of a context: nothing of members that none of them can begin with."""
    firsts = {segment for row in grant.rows for segment in row.path.segments[:1]}
    if None in firsts or not all(row.path.segments for row in grant.rows):
        return card_format.always_disclosed, card_format.together
    always = tuple(name for name in card_format.always_disclosed if name in firsts)
    return always, tuple(path for path in card_format.together if path.segments[0] in firsts)


def _first_missing(less: Grant, more: Grant, card_format: CardFormat) -> ClaimPath | None:
    """A place that the one may show where the other shows nothing.

    If there is one, there is one at which the paths that decide about it meet: a path that the one shows, a path of the
    other, and perhaps a path that belongs to another group. About a place on the way to what is shown, only paths that
    are no longer decide.
    """
    holes = tuple(dict.fromkeys(p for row in (*less.rows, *more.rows) for p in row.scope.apart))
    edges = tuple(dict.fromkeys((*more.edges(), *holes)))
    clear = [(name,) for name in card_format.always_disclosed]
    shown = dict.fromkeys(_shown_places(less, card_format))
    ways = dict.fromkeys(_ways(less))
    met = dict.fromkeys((*ways, *shown, *(p for one in shown for edge in edges if (p := one.overlap(edge)))))
    for way in ways:
        met |= dict.fromkeys(p for edge in edges if len(edge.segments) <= len(way.segments) if (p := way.overlap(edge)))
    apart = dict.fromkeys(p for one in met for hole in holes if (p := one.overlap(hole)))
    places = (place for place in {**met, **apart} if place.segments[:1] not in clear)
    return next((place for place in places if not _is_contained(less, more, place.segments, card_format)), None)


def _ways(grant: Grant) -> Iterator[ClaimPath]:
    """What lies on the way to what the context shows."""
    for shown in grant.shown:
        yield from (ClaimPath(shown.segments[:length]) for length in range(1, len(shown.segments)))


def _shown_places(grant: Grant, card_format: CardFormat) -> Iterator[ClaimPath]:
    """What the context shows, and what goes along with it."""
    for shown in grant.shown:
        yield shown
        for along in card_format.together:
            above = ClaimPath(along.segments[:-1]).overlap(ClaimPath(shown.segments[: len(along.segments) - 1]))
            if above:
                yield ClaimPath((*above.segments, along.segments[-1]))


def _is_contained(less: Grant, more: Grant, place: tuple[Segment, ...], card_format: CardFormat) -> bool:
    """Whether the one context shows the place whenever the other does: an empty container on the way, too."""
    if less.permits(place):
        return more.permits(place)
    if less.forbids(place):
        return True
    above = place[:-1]
    along = card_format.goes_with_parent(place) and (less.permits(above) or less.leads_to(above))
    return not more.forbids(place) if along or less.leads_to(place) else True
