"""What a grant means for each kind of place that cards of one format have: worked out once, whatever the card."""

from dataclasses import dataclass

from sdcard.cards.format import CardFormat
from sdcard.disclosable import Treatment
from sdcard.disclosure.grant import Grant, PlaceMemory
from sdcard.paths import ClaimPath, Segment

_FEW = 4
_MEMBERS_OF_CARDS = 16
_MEMBERS_OF_ELEMENTS = 8
"""Ordinary cards and their skills have no more members with a Disclosure than this, so their numbers look alike."""

_UNNAMED = ("",)
"""A member that no card format names."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What is true of a place, and of all places that differ from it by an index alone, unless an entry has indices.

    Attributes:
        along: goes with its parent.
        permitted, forbidden: by the grant, whatever its parent is; ``permitted`` also where it goes along.
        only_along: is shown because its parent is, and for no other reason.
        on_the_way: something beneath it may be shown.
        plain: the grant shows it in the clear.
        own: it has a Disclosure of its own, wherever it is.
        divided: a unit or an exception of the grant lies beneath it.
        family: its path, with ``*`` for array elements.
    """

    along: bool
    permitted: bool
    forbidden: bool
    only_along: bool
    on_the_way: bool
    plain: bool
    own: bool
    divided: bool
    family: str


class Kinds:
    """The kinds of places, by one grant and for one card format. What is asked again is remembered."""

    def __init__(self, card_format: CardFormat, grant: Grant) -> None:
        self.card_format, self.grant = card_format, grant
        named = (p for p in grant.selective() if not card_format.goes_with_parent(p.segments))
        self._own = tuple(dict.fromkeys((*card_format.units, *named)))
        self.plain = tuple(grant.plain())
        edges = dict.fromkeys((*card_format.units, *grant.edges()))
        self._edges = tuple(p for p in edges if p.segments[1:])
        self._known = PlaceMemory[Kind]()
        self._rooms = {covered: PlaceMemory[int]() for covered in (False, True)}

    def of(self, place: tuple[Segment, ...]) -> Kind:
        """What is true of this place."""
        return self.like(self.grant.kind(place))

    def like(self, place: tuple[Segment, ...]) -> Kind:
        """The same for a place as ``Grant.kind`` gives it."""
        kind = self._known.get(place)
        return self._known.keep(place, self._look_at(place)) if kind is None else kind

    def room(self, place: tuple[Segment, ...], covered: bool) -> int:
        """How many parts of this place the context could show by a Disclosure of their own, whatever the card has.

        0 where none. ``covered``: the place lies within one that has a Disclosure of its own.
        """
        place = self.grant.kind(place)
        memory = self._rooms[covered]
        room = memory.get(place)
        return memory.keep(place, self._count_room(place, covered)) if room is None else room

    def _look_at(self, place: tuple[Segment, ...]) -> Kind:
        along, treatment = self.card_format.goes_with_parent(place), self.grant.treatment(place)
        permitted, forbidden = treatment is not Treatment.WITHHELD, self.grant.forbids(place)
        return Kind(
            along=along,
            permitted=permitted or (along and not forbidden),
            forbidden=forbidden,
            only_along=along and not permitted,
            on_the_way=self.grant.leads_to(place),
            plain=treatment is Treatment.PLAIN,
            own=len(place) == 1 or any(one.matches(place) for one in self._own),
            divided=any(p.leads_to(place) for p in self._edges),
            family=str(ClaimPath(tuple([None if isinstance(one, int) else one for one in place]))),
        )

    def _count_room(self, place: tuple[Segment, ...], covered: bool) -> int:
        if not place:
            return self._count_at_top()
        named = {
            own.segments[-1]
            for own in self._own
            if len(own.segments) == len(place) + 1 and own.leads_to(place) and self._could_show(place, own)
        }
        if None in named:  # any member of an element, such as of a skill
            return _MEMBERS_OF_ELEMENTS
        return len(named) or int(not covered and self.grant.leads_to_selective(place))

    def _count_at_top(self) -> int:
        """Few members are counted. Many, or any that a card may have, are as many as a card could have."""
        members = self.card_format.members_of_family or self.card_format.members
        hidden = members.difference(self.card_format.always_disclosed)
        shown = sum(1 for name in hidden if self._may_show((name,)))
        few = shown <= _FEW and not self._may_show(_UNNAMED)
        return max(shown, 1 if few else _MEMBERS_OF_CARDS)

    def _may_show(self, place: tuple[Segment, ...]) -> bool:
        return self.grant.treatment(place) is Treatment.SELECTIVE or self.grant.leads_to(place)

    def _could_show(self, place: tuple[Segment, ...], own: ClaimPath) -> bool:
        last = own.segments[-1]
        if last is not None:
            return self.grant.treatment((*place, last)) is Treatment.SELECTIVE
        if self.grant.treatment(place) is Treatment.SELECTIVE:
            return True
        asked = (p.segments[len(place)] for p in self.grant.shown if p.leads_to(place))
        return any(segment is None or self.card_format.is_unit((*place, segment)) for segment in asked)
