"""``Grant``: a context's entries read for one card format; whether, and how, each place may be shown.

Of the entries that cover a place, the one with the narrowest path decides. A policy in which two entries disagree and
neither is narrower is refused when it is made (``checking.py``), so there is always one answer.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from sdcard.cards.format import CardFormat
from sdcard.cards.reading import KNOWN_FORMATS
from sdcard.disclosable import Treatment
from sdcard.disclosure.context import EVERYTHING, DisclosureContext, Meaning
from sdcard.errors import Finding, Part, Refused, Where
from sdcard.paths import ClaimPath, Segment
from sdcard.rules import Rule

_Value = TypeVar("_Value")
_MOST_REMEMBERED = 1_000_000
"""Characters of names, and a hundred for each place."""
_LONGEST_COMPARED = 64
"""Characters of a name that nobody knows: comparing takes time in proportion to its length, or more."""
_GROUPS = frozenset(group for card_format in KNOWN_FORMATS.values() for group in card_format.groups)


@dataclass(frozen=True, slots=True)
class Scope:
    """The places that one entry stands for: those beneath ``paths`` and not beneath ``apart``."""

    entry: str
    paths: tuple[ClaimPath, ...]
    apart: tuple[ClaimPath, ...] = ()
    is_group: bool = False

    def holds(self, place: tuple[Segment, ...]) -> bool:
        """Whether the entry stands for this place."""
        return any(p.covers(place) for p in self.paths) and not any(p.covers(place) for p in self.apart)


@dataclass(frozen=True, slots=True)
class Row:
    """One path of an entry, and its treatment."""

    path: ClaimPath
    scope: Scope
    treatment: Treatment

    def decides(self, place: tuple[Segment, ...]) -> bool:
        """Whether the row has a say about this place."""
        return self.path.covers(place) and not (self.scope.apart and any(p.covers(place) for p in self.scope.apart))

    @property
    def narrowness(self) -> tuple[int, int]:
        """Greater for a path that lies within another."""
        return len(self.path.segments), sum(segment is not None for segment in self.path.segments)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What entries mean in one context, for cards of one format.

    Attributes:
        card_format: gives its groups and members their meaning.
        groups: the operator's own.
        narrowed: groups that mean less in this context.
    """

    card_format: CardFormat
    groups: Mapping[str, Meaning]
    narrowed: Mapping[str, Meaning]

    def read(self, entry: str, where: Where) -> Scope:
        """What the entry stands for; a group that this format has not stands for nothing.

        Raises:
            Refused: ``path.malformed``.
        """
        if entry == EVERYTHING:
            return Scope(entry, (ClaimPath(()),), self.card_format.private)
        mine = self._group(entry)
        if mine is None:
            claim_path = ClaimPath.parse(entry, where)
            return Scope(entry, () if self._is_of_others(claim_path) else (claim_path,))
        others = (p for name, paths in self.card_format.groups.items() if name != entry for p in paths)
        built_in = entry in self.card_format.groups
        apart = tuple(p for p in others if any(m.includes(p) for m in mine)) if built_in else ()
        narrower = self._meaning(self.narrowed.get(entry, {}))
        paths = mine if narrower is None else tuple(p for p in narrower if any(m.includes(p) for m in mine))
        return Scope(entry, paths, apart, is_group=True)

    def read_known(self, entry: str, where: Where, unnamed: Sequence[str]) -> Scope:
        """The same, for an entry that somebody typed for a card of this format.

        Args:
            entry: what was typed.
            where: its place.
            unnamed: members that the card has beyond its format; they may be named too.

        Raises:
            Refused: ``path.malformed``, or ``disclose.unknown`` with the nearest known name.
        """
        scope = self.read(entry, where)
        groups = (*self.card_format.groups, *self.groups)
        members = self.card_format.members | set(self.card_format.always_disclosed)
        if entry not in (EVERYTHING, *groups) and (
            not scope.paths or scope.paths[0].segments[0] not in members | set(unnamed)
        ):
            raise Refused(Rule.DISCLOSE_UNKNOWN, where, nearest(entry, [*groups, *sorted(members)]))
        return scope

    def _is_of_others(self, claim_path: ClaimPath) -> bool:
        """Whether the path begins with a member of other formats that this one knows as a group of its own."""
        first = claim_path.segments[0]
        return first in self.card_format.groups and first not in self.card_format.members

    def _group(self, entry: str) -> tuple[ClaimPath, ...] | None:
        if entry in self.card_format.groups:
            return self.card_format.groups[entry]
        if entry in self.groups:
            return self._meaning(self.groups[entry]) or ()
        return () if entry in _GROUPS and entry not in self.card_format.members else None

    def _meaning(self, meaning: Meaning) -> tuple[ClaimPath, ...] | None:
        texts = meaning.get(self.card_format.family, meaning.get(EVERYTHING))
        return None if texts is None else tuple(map(_path, texts))


class PlaceMemory(dict[tuple[Segment, ...], _Value], Generic[_Value]):
    """What was found out about places. Their names come from strangers' cards, so there is a bound on what is kept."""

    def __init__(self) -> None:
        super().__init__()
        self._size = 0

    def keep(self, place: tuple[Segment, ...], value: _Value) -> _Value:
        """Remember a value, and give it back. Everything else is forgotten where it has become too much."""
        self._size += 100 + sum([len(segment) for segment in place if isinstance(segment, str)])
        if self._size > _MOST_REMEMBERED:
            self.clear()
            self._size = 0
        self[place] = value
        return value


@dataclass(frozen=True, slots=True)
class Grant:
    """What one context may show of cards of one format.

    Attributes:
        context: its name.
        rows: how its entries treat what they cover, the narrowest first.
        lists: what is asked for in place of the context's own choice; a place must be on each of them.
        shown: paths that cover everything that may be shown, and lead to every exception from what is withheld.
        numbered: whether an entry has indices, so that elements of one array can differ.
    """

    context: str
    rows: tuple[Row, ...]
    lists: tuple[tuple[Scope, ...], ...] = ()
    shown: tuple[ClaimPath, ...] = field(init=False)
    _decided: PlaceMemory[tuple[Row | None, Treatment]] = field(
        init=False, repr=False, compare=False, default_factory=PlaceMemory
    )
    numbered: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", tuple(sorted(self.rows, key=lambda row: row.narrowness, reverse=True)))
        shown = [row.path for row in self.rows if row.treatment is not Treatment.WITHHELD]
        if self.lists:
            asked = [ClaimPath(())]
            for one in self.lists:
                asked = _overlaps(asked, [p for scope in one for p in scope.paths])
            shown = [*asked, *_overlaps(asked, shown)]
        spared = [p for row in self.rows if row.treatment is Treatment.WITHHELD for p in row.scope.apart]
        object.__setattr__(self, "shown", tuple(dict.fromkeys((*shown, *_overlaps(shown, spared)))))
        numbered = any(type(segment) is int for p in self.edges() for segment in p.segments)
        object.__setattr__(self, "numbered", numbered)

    def treatment(self, place: tuple[Segment, ...]) -> Treatment:
        """Whether this place may be shown, and whether in the clear."""
        return self._decide(place)[1]

    def kind(self, place: tuple[Segment, ...]) -> tuple[Segment, ...]:
        """The same for all places that no entry tells apart: the elements of an array, unless an entry has indices."""
        return place if self.numbered else tuple([None if type(one) is int else one for one in place])

    def _decide(self, place: tuple[Segment, ...]) -> tuple[Row | None, Treatment]:
        """Decided once for a place, and for all elements of an array unless an entry tells them apart."""
        place = self.kind(place)
        decided = self._decided.get(place)
        if decided is None:
            row = next((row for row in self.rows if row.decides(place)), None)
            decided = self._decided.keep(place, (row, self._treat(place, row)))
        return decided

    def _treat(self, place: tuple[Segment, ...], row: Row | None) -> Treatment:
        if not self.lists:
            return row.treatment if row else Treatment.WITHHELD
        if not all(any(scope.holds(place) for scope in one) for one in self.lists):
            return Treatment.WITHHELD
        return row.treatment if row else Treatment.SELECTIVE

    def permits(self, place: tuple[Segment, ...]) -> bool:
        """Whether this place may be shown."""
        return self.treatment(place) is not Treatment.WITHHELD

    def forbids(self, place: tuple[Segment, ...]) -> bool:
        """Whether the context withholds this place whatever is asked for."""
        row = self.row(place)
        return row is not None and row.treatment is Treatment.WITHHELD

    def row(self, place: tuple[Segment, ...]) -> Row | None:
        """The row that decides about this place."""
        return self._decide(place)[0]

    def plain(self) -> Iterator[ClaimPath]:
        """Paths that cover everything that may be shown in the clear."""
        plain = [row.path for row in self.rows if row.treatment is Treatment.PLAIN]
        yield from _overlaps(plain, self.shown)

    def selective(self) -> Iterator[ClaimPath]:
        """Paths that the context gives a Disclosure of their own."""
        yield from (row.path for row in self.rows if row.treatment is Treatment.SELECTIVE)

    def leads_to_selective(self, place: tuple[Segment, ...]) -> bool:
        """Whether something at or beneath this place may be shown, and not in the clear."""
        if self.treatment(place) is Treatment.SELECTIVE:
            return True
        return any(self.treatment(p.segments) is Treatment.SELECTIVE for p in self.shown if p.leads_to(place))

    def leads_to(self, place: tuple[Segment, ...]) -> bool:
        """Whether something beneath this place may be shown."""
        return any(p.leads_to(place) for p in self.shown)

    def edges(self) -> Iterator[ClaimPath]:
        """Paths at which the treatment of places may change."""
        yield from (p for row in self.rows for p in (row.path, *row.scope.apart))
        yield from (p for one in self.lists for scope in one for p in (*scope.paths, *scope.apart))


def read_grant(
    name: str,
    context: DisclosureContext,
    vocabulary: Vocabulary,
    agreed: Sequence[str] | None,
    disclose: Sequence[str] | None,
    where: Where,
    unnamed: Sequence[str],
) -> Grant:
    """Read a context's entries for one card format.

    Args:
        name: what the context is called, for refusals.
        context: whose treatments and ceiling hold.
        vocabulary: what entries mean here.
        agreed: what an agreement lists, in place of the context's own choice.
        disclose: what a registration lists, in place of the context's own choice, or picked from what was agreed.
        where: the place of ``disclose``; entry ``i`` is at ``where/i``.
        unnamed: members that the card has beyond its format; ``disclose`` may name them.

    Raises:
        Refused: ``path.malformed``, ``disclose.unknown`` or ``disclose.beyond-ceiling``, for each entry of
            ``disclose``.
    """
    here = Where(Part.POLICY)
    grant = Grant(name, tuple(row for entry in context.claims for row in read_rows(context, entry, vocabulary, here)))
    if agreed is not None:
        grant = replace(grant, lists=(tuple(vocabulary.read(entry, here) for entry in agreed),))
    if disclose is None:
        return grant
    asked: list[Scope] = []
    findings: list[Finding] = []
    for number, entry in enumerate(disclose):
        try:
            scope = vocabulary.read_known(entry, where.within(number), unnamed)
            check_within(grant, scope, where.within(number))
            asked.append(scope)
        except Refused as refusal:
            findings += refusal.findings
    if findings:
        raise Refused.because(findings)
    return replace(grant, lists=(*grant.lists, tuple(asked)))


def read_rows(context: DisclosureContext, entry: str, vocabulary: Vocabulary, where: Where) -> Iterator[Row]:
    """The rows of one of a context's entries.

    Raises:
        Refused: ``path.malformed``.
    """
    scope = vocabulary.read(entry, where)
    if entry == EVERYTHING and context.claims[entry] is Treatment.WITHHELD:
        scope = replace(scope, apart=())
    for p in scope.paths:
        yield Row(p, scope, context.claims[entry])


def check_within(grant: Grant, scope: Scope, where: Where) -> None:
    """Refuse an entry that is withheld altogether; one that is withheld in part shows the rest.

    Raises:
        Refused: ``disclose.beyond-ceiling``.
    """
    if scope.paths and not any(_reaches(grant, p) for p in scope.paths):
        hint = "The agreement does not list it." if grant.lists else f"The context {grant.context} never shows it."
        raise Refused(Rule.DISCLOSE_BEYOND_CEILING, where, hint)


def _reaches(grant: Grant, claim_path: ClaimPath) -> bool:
    """Whether something at or beneath the path may be shown, once it is asked for."""
    overlaps = (claim_path.overlap(edge) for edge in grant.edges())
    places = (claim_path.segments, *(p.segments for p in overlaps if p is not None))
    return any(grant.permits(place) if grant.lists else not grant.forbids(place) for place in places)


def _overlaps(some: Sequence[ClaimPath], others: Sequence[ClaimPath]) -> list[ClaimPath]:
    return list(dict.fromkeys(p for one in some for other in others if (p := one.overlap(other))))


def nearest(text: str, known: Sequence[str]) -> str:
    """A hint that names the nearest of the known names."""
    matcher, near, most = difflib.SequenceMatcher(b=text[:_LONGEST_COMPARED]), "", -1.0
    for name in sorted(known, reverse=True):  # as `get_close_matches`, which measures each to the end
        matcher.set_seq1(name)
        if matcher.real_quick_ratio() > most and matcher.quick_ratio() > most and matcher.ratio() > most:
            near, most = name, matcher.ratio()
    return f"The nearest known name is {near}." if near else ""


def _path(text: str) -> ClaimPath:
    return ClaimPath.parse(text, Where(Part.POLICY))
