"""Matching of a ``ClaimRequest`` with a card.

It resolves the entries of a request to places of a card format.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeAlias

from sdcard.cards.detect import KNOWN_FORMATS
from sdcard.cards.model import CardFormat, Fact
from sdcard.cards.partial import PartialCard
from sdcard.claim_request import CALLERS, ClaimRequest
from sdcard.encoding import JsonObject, JsonValue
from sdcard.paths import ClaimPath, PathNode, Place, Segment, value_at
from sdcard.policy.context import Entry, read_entry

_CONTAINERS = (dict, list)


def entry_of(entry: ClaimPath, card_format: CardFormat | None) -> Entry:
    """Return the places of an entry in cards of a format; the path itself without one."""
    if card_format is None or (len(entry.segments) > 1 and entry.segments[0] not in card_format.groups):
        return Entry("", (entry,))
    if KNOWN_FORMATS.get(card_format.name) is card_format and entry.segments[0] in card_format.groups:
        return _known_group(card_format.name, entry.segments) if len(entry.segments) == 1 else _read(entry, card_format)
    return _read(entry, card_format)


@cache
def _known_group(name: str, group: tuple[Segment, ...]) -> Entry:
    """Return the places of a claim group of a known format, cached."""
    return _read(ClaimPath(group), KNOWN_FORMATS[name])


def _read(entry: ClaimPath, card_format: CardFormat) -> Entry:
    return read_entry(str(entry), card_format, CALLERS)


def is_shown(card: PartialCard, entry: ClaimPath) -> bool:
    """Whether the card shows something at the entry's places.

    A group is shown if its main claim is: a URL of ``endpoints``, the name of ``provider``, an id of ``skills``. An
    emptied object or array shows nothing.
    """
    return _is_shown(card, entry, KNOWN_FORMATS.get(card.card_format or ""))


def _is_shown(card: PartialCard, entry: ClaimPath, card_format: CardFormat | None) -> bool:
    asked = entry_of(entry, card_format)
    paths = _known_about(card_format.name, entry.segments) if asked.is_group and card_format else asked.paths
    places = (found for path in paths for found in path.find(card.members))
    return any(_is_something(card, place) for place in places)


def undisclosed(card: PartialCard, request: ClaimRequest) -> tuple[ClaimPath, ...]:
    """List the entries that the card does not show: withheld or absent."""
    card_format = KNOWN_FORMATS.get(card.card_format or "") if request.entries else None
    return tuple(entry for entry in request.entries if not _is_shown(card, entry, card_format))


def leaves(value: JsonValue, place: Place = ()) -> Iterator[Place]:
    """List every place with a scalar, or with an empty object or array."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from leaves(inner, (*place, name))
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from leaves(inner, (*place, index))
    else:
        yield place


def _about(group: Entry, card_format: CardFormat) -> tuple[ClaimPath, ...]:
    """Return the places of the facts in a claim group, or of the whole group."""
    stated = (places for fact, places in card_format.facts.items() if fact is not Fact.PROVIDER_URL)
    facts = tuple(place for places in stated for place in places if any(p.includes(place) for p in group.paths))
    return facts or group.paths


@cache
def _known_about(name: str, group: tuple[Segment, ...]) -> tuple[ClaimPath, ...]:
    """Return the same for a group of a known format, cached."""
    return _about(_known_group(name, group), KNOWN_FORMATS[name])


def _is_something(card: PartialCard, place: Place) -> bool:
    value = value_at(card.members, place)
    if not isinstance(value, _CONTAINERS) or (value and not card.emptied):
        return place not in card.emptied
    return any(leaf not in card.emptied for leaf in leaves(value, place))


# -- Disclosures for the entries of a request -------------------------------------------------------------------------

Chain: TypeAlias = tuple[str, ...]
"""The Disclosures that are needed to show a part, the outermost first."""


class EntryMatches(NamedTuple):
    """Result of ``match_entries``.

    Attributes:
        asked: bit sets of entries, each with the Disclosures that show a part that these entries ask for.
        beyond: Disclosures that directly hold a part that no entry asks for and that does not go with its parent.
    """

    asked: Sequence[tuple[int, Chain]]
    beyond: set[str]


def match_entries(
    members: JsonObject, entries: Sequence[Entry], together: Iterable[ClaimPath], carriers: Iterable[tuple[Place, str]]
) -> EntryMatches:
    """Find the Disclosures that the entries of a request need.

    The card is walked once. A part without a path or Disclosure beneath it is one step, however large it is.

    Args:
        entries: the requested places; entry ``n`` is bit ``n``.
        together: places that are shown with their parent.
        carriers: places with the Disclosures that show them.
    """
    asked: dict[tuple[int, Chain], None] = {}
    beyond: set[str] = set()
    root = _trie(entries, together)
    waiting: list[tuple[Any, dict[Any, Any], Chain, list[PathNode], int, int]] = [
        (members, _tree(carriers), (), [root], 0, 0)
    ]
    for value, shown, chain, nodes, covers, excludes in waiting:  # which grows
        own = shown.get(_OWN)
        chain = chain if own is None else (*chain, own)
        for node in nodes:
            covers, excludes = covers | node.covers, excludes | node.excludes
        divided = len(shown) > (own is not None) or any([node.parts for node in nodes])
        if divided and value and isinstance(value, _CONTAINERS):
            for segment, part in value.items() if isinstance(value, dict) else enumerate(value):
                ahead = [node.parts[key] for node in nodes for key in (segment, None) if key in node.parts]
                waiting.append((part, shown.get(segment, _NOTHING), chain, ahead, covers, excludes))
        elif covers & ~excludes:
            asked[covers & ~excludes, chain] = None
        elif chain and not (
            any([node.flags & _ALONG for node in nodes]) and not (value and isinstance(value, _CONTAINERS))
        ):
            beyond.add(chain[-1])
    return EntryMatches([*asked], beyond)


_OWN = object()
"""Key of a place's own Disclosure in a tree of Disclosures."""
_NOTHING: dict[Any, Any] = {}


def _tree(carriers: Iterable[tuple[Place, str]]) -> dict[Any, Any]:
    tree: dict[Any, Any] = {}
    for place, disclosure in carriers:
        here = tree
        for segment in place:
            here = here.setdefault(segment, {})
        here[_OWN] = disclosure
    return tree


_ALONG = 1
"""Flag of a place that is shown with its parent."""


def _trie(entries: Sequence[Entry], together: Iterable[ClaimPath]) -> PathNode:
    root = PathNode()
    for number, entry in enumerate(entries):
        for path in entry.paths:
            root.add(path)[-1].covers |= 1 << number
        for path in entry.excluded:
            root.add(path)[-1].excludes |= 1 << number
    for path in together:
        root.add(path)[-1].flags |= _ALONG
    return root
