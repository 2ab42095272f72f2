"""``Kinds``: what a grant means for the places of cards of one format, looked at once for all places of a kind.

Places that differ by an index alone are of one kind, unless an entry has indices. Nothing here depends on a card, so
what was found for one card holds for all.
"""

from dataclasses import dataclass, field

from sdcard.cards.format import CardFormat
from sdcard.disclosable import Treatment
from sdcard.disclosure.grant import Grant
from sdcard.paths import ClaimPath, Segment

Key = tuple[Segment, ...]
"""Stands for all places of one kind."""

_MOST_CHARACTERS = 1 << 14
_MOST_KINDS = 1 << 10
"""What is remembered beyond one card. Cards have members of any name, so who sends many must not fill the memory."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What is true of places of one kind.

    Attributes:
        along: goes with its parent.
        permitted, forbidden: by the grant, whatever its parent is; ``permitted`` also where it goes along.
        only_along: is shown because its parent is, and for no other reason.
        on_the_way: something beneath it may be shown.
        plain: the grant shows it in the clear.
        own: it has a Disclosure of its own, wherever it is.
        divided: a unit or an exception of the grant lies beneath it.
    """

    along: bool
    permitted: bool
    forbidden: bool
    only_along: bool
    on_the_way: bool
    plain: bool
    own: bool
    divided: bool


@dataclass(frozen=True, slots=True)
class Kinds:
    """One grant, for cards of one format."""

    card_format: CardFormat
    grant: Grant
    plain: tuple[ClaimPath, ...] = field(init=False)
    _own: tuple[ClaimPath, ...] = field(init=False)
    _edges: tuple[ClaimPath, ...] = field(init=False)
    _known: dict[Key, Kind] = field(init=False, repr=False, compare=False, default_factory=dict)
    _separated: dict[tuple[Key, bool], bool] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        named = (p for p in self.grant.selective() if not self.card_format.goes_with_parent(p.segments))
        edges = dict.fromkeys((*self.card_format.units, *self.grant.edges()))
        object.__setattr__(self, "plain", tuple(self.grant.plain()))
        object.__setattr__(self, "_own", tuple(dict.fromkeys((*self.card_format.units, *named))))
        object.__setattr__(self, "_edges", tuple(p for p in edges if p.segments[1:]))

    def of(self, key: Key) -> Kind:
        """What is true of places of this kind; see ``Grant.kind``."""
        kind = self._known.get(key)
        if kind is None:
            kind = self._known[key] = self._look_at(key)
        return kind

    def separates(self, key: Key, covered: bool) -> bool:
        """Whether this context could show a part of such a place by a Disclosure of its own, present or not.

        Args:
            key: the kind of place.
            covered: whether it lies within one that has a Disclosure of its own.
        """
        separates = self._separated.get((key, covered))
        if separates is None:
            separates = self._separated[key, covered] = self._could_separate(key, covered)
        return separates

    def is_small(self) -> bool:
        """Whether it may be kept for other cards. ``separates`` is asked only about places that ``of`` knows."""
        known = list(self.grant.decided())  # others may add to it meanwhile
        return len(known) <= _MOST_KINDS and sum(len(str(one)) for key in known for one in key) <= _MOST_CHARACTERS

    def _look_at(self, key: Key) -> Kind:
        along, treatment = self.card_format.goes_with_parent(key), self.grant.treatment(key)
        permitted, forbidden = treatment is not Treatment.WITHHELD, self.grant.forbids(key)
        return Kind(
            along=along,
            permitted=permitted or (along and not forbidden),
            forbidden=forbidden,
            only_along=along and not permitted,
            on_the_way=self.grant.leads_to(key),
            plain=treatment is Treatment.PLAIN,
            own=len(key) == 1 or any(one.matches(key) for one in self._own),
            divided=any(p.leads_to(key) for p in self._edges),
        )

    def _could_separate(self, key: Key, covered: bool) -> bool:
        if not key or (not covered and self.grant.leads_to_selective(key)):
            return True
        return any(
            len(own.segments) == len(key) + 1 and own.leads_to(key) and self._could_show(key, own) for own in self._own
        )

    def _could_show(self, key: Key, own: ClaimPath) -> bool:
        last = own.segments[-1]
        if last is not None:
            return self.grant.treatment((*key, last)) is Treatment.SELECTIVE
        if self.grant.treatment(key) is Treatment.SELECTIVE:
            return True
        asked = (p.segments[len(key)] for p in self.grant.shown if p.leads_to(key))
        return any(segment is None or self.card_format.is_unit((*key, segment)) for segment in asked)
