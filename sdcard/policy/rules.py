"""Compiled rules of a context, and comparison of two contexts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from sdcard.cards.detect import KNOWN_FORMATS
from sdcard.cards.model import CardFormat
from sdcard.disclosable import Treatment
from sdcard.errors import Finding, Part, Refused, Where
from sdcard.paths import ClaimPath, PathNode, Segment
from sdcard.policy.context import EVERYTHING, DisclosureContext, Entry, Meaning, nearest, read_context_entry, read_entry
from sdcard.rules import Rule

# -- ``ContextRules``: what a context may show of cards of one format, as a trie --------------------------------------
# Of the entries that cover a place, the one with the narrowest path decides. A policy in which two entries disagree
# and neither is narrower is refused (``validate.py``). A plan walks the trie beside the card.

_POLICY = Where(Part.POLICY)
_PLAIN, _SELECTIVE, _WITHHELD = Treatment

_FEW = 4
_MEMBERS_OF_CARDS = 16
_MEMBERS_OF_ELEMENTS = 8
"""Ordinary cards and skills have no more members with a Disclosure, so their numbers of digests look alike."""
_UNNAMED = ""
"""A member that no card format names."""

_ALONG, _UNIT, _OWN, _DIVIDED, _LEADS, _LEADS_TO_SELECTIVE, _SHOWN = (1 << bit for bit in range(7))
"""Flags of a node. Three describe its place: it is shown with its parent; it is a unit of the format; it has a
Disclosure of its own. Three describe what lies beneath: treatments differ there; some of it may be shown; some of that
selectively. The last one marks the end of a path in ``ContextRules.shown``."""


@dataclass(frozen=True, slots=True)
class ContextRules:
    """The compiled rules of one context for one card format.

    Attributes:
        lists: lists that limit the context's choice; a place must be on each of them.
        paths: the paths of the entries, the narrowest first; the first that applies to a place decides.
        shown: paths that cover everything that may be shown, and exceptions from what is withheld.
        plain: paths that cover everything that may be shown in the clear.
        top_digests: how many top-level members the context could show selectively in any card.
    """

    context: str
    card_format: CardFormat
    entries: tuple[Entry, ...]
    lists: tuple[tuple[Entry, ...], ...] = ()
    paths: tuple[tuple[ClaimPath, Entry], ...] = field(init=False, repr=False, compare=False)
    shown: tuple[ClaimPath, ...] = field(init=False, repr=False, compare=False)
    plain: tuple[ClaimPath, ...] = field(init=False, repr=False, compare=False)
    top_digests: int = field(init=False, repr=False, compare=False)
    _trie: PathNode = field(init=False, repr=False, compare=False)
    _bits: "_Bits" = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        keep = partial(object.__setattr__, self)
        paths = [(p, entry) for entry in self.entries for p in entry.paths]
        paths.sort(key=lambda one: (len(one[0].segments), -one[0].segments.count(None)), reverse=True)
        keep("paths", tuple(paths))
        keep("shown", self._find_shown())
        plain = [p for p, entry in self.paths if entry.treatment is _PLAIN]
        keep("plain", tuple(_overlaps(plain, self.shown)))
        keep("_trie", PathNode())
        keep("_bits", self._add_entries())
        self._add_flags()
        keep("top_digests", self._count_at_top())

    @classmethod
    def compile(
        cls,
        name: str,
        context: DisclosureContext,
        card_format: CardFormat,
        groups: Mapping[str, Meaning],
        agreed: Sequence[str] | None = None,
    ) -> "ContextRules":
        """Compile a context for one format. ``agreed``: the list of an agreement."""
        entries = tuple(read_context_entry(context, text, card_format, groups) for text in context.claims)
        if agreed is None:
            return cls(name, card_format, entries)
        listed = tuple(read_entry(text, card_format, _POLICY, groups, context.narrowed) for text in agreed)
        return cls(name, card_format, entries, (listed,))

    def limited_to(
        self,
        disclose: Sequence[str],
        context: DisclosureContext,
        groups: Mapping[str, Meaning],
        where: Where,
        unnamed: Sequence[str],
    ) -> "ContextRules":
        """Limit the rules to a registration's list; see ``DisclosurePolicy.rules``."""
        card_format, listed, findings = self.card_format, list[Entry](), list[Finding]()
        of_format = card_format.members.union(card_format.always_disclosed)
        known, members = [*card_format.groups, *groups, *sorted(of_format)], of_format.union(unnamed)
        for number, text in enumerate(disclose):
            here = where.within(number)
            try:
                entry = read_entry(text, card_format, here, groups, context.narrowed)
                firsts = {p.segments[0] for p in entry.paths[:1] if p.segments}
                if text not in (EVERYTHING, *card_format.groups, *groups) and not firsts & members:
                    raise Refused(Rule.DISCLOSE_UNKNOWN, here, nearest(text, known))
                self.check_within(entry, here)
                listed.append(entry)
            except Refused as refusal:
                findings += refusal.findings
        if findings:
            raise Refused.because(findings)
        return replace(self, lists=(*self.lists, tuple(listed)))

    def start(self) -> "Position":
        """Return the position at the top of a card."""
        return Position(self._bits, [self._trie], 0, 0, 0, _OWN)

    def edges(self) -> Iterator[ClaimPath]:
        """Return the paths at which the treatment of places may change."""
        yield from (p for claim_path, entry in self.paths for p in (claim_path, *entry.excluded))
        yield from (p for one in self.lists for entry in one for p in (*entry.paths, *entry.excluded))

    def withholds_by_name(self, position: "Position") -> bool:
        """Whether an entry other than ``*`` withholds the place."""
        return position.forbidden and bool(self.paths[position.decisive.bit_length() - 1][0].segments)

    def listed(self) -> list[tuple[Entry, int]]:
        """Return the entries of the last list, each with its bit."""
        first = len(self.paths) + sum(map(len, self.lists[:-1]))
        return [(entry, 1 << number) for number, entry in enumerate(self.lists[-1], first)]

    def check_within(self, entry: Entry, where: Where) -> None:
        """Refuse an entry that is withheld as a whole, not only in part.

        Raises:
            Refused: ``disclose.beyond-ceiling``.
        """
        start = self.start()
        for p in entry.paths:
            overlaps = (p.overlap(edge) for edge in self.edges())
            for place in (p, *overlaps):
                position = start.at(place.segments) if place else None
                if position and (position.treatment is not _WITHHELD if self.lists else not position.forbidden):
                    return
        if entry.paths:
            hint = "The agreement does not list it." if self.lists else f"The context {self.context} never shows it."
            raise Refused(Rule.DISCLOSE_BEYOND_CEILING, where, hint)

    def _find_shown(self) -> tuple[ClaimPath, ...]:
        shown = [p for p, entry in self.paths if entry.treatment is not _WITHHELD]
        if self.lists:
            asked = [ClaimPath(())]
            for one in self.lists:
                asked = _overlaps(asked, [p for entry in one for p in entry.paths])
            shown = [*asked, *_overlaps(asked, shown)]
        spared = [p for _, entry in self.paths if entry.treatment is _WITHHELD for p in entry.excluded]
        return tuple(dict.fromkeys((*shown, *_overlaps(shown, spared))))

    def _add_entries(self) -> "_Bits":
        """Give bits to the paths, the narrowest first, then to the entries of lists."""
        of_treatment, bit, lists = dict.fromkeys(Treatment, 0), 1, []
        for claim_path, entry in self.paths:
            self._add_bit(bit, (claim_path,), entry.excluded)
            if entry.treatment is not None:
                of_treatment[entry.treatment] |= bit
            bit <<= 1
        of_paths = bit - 1
        for one in self.lists:
            first = bit
            for entry in one:
                self._add_bit(bit, entry.paths, entry.excluded)
                bit <<= 1
            lists.append(bit - first)
        return _Bits(of_paths, of_treatment[_SELECTIVE], of_treatment[_WITHHELD], tuple(lists))

    def _add_bit(self, bit: int, paths: Sequence[ClaimPath], excluded: Sequence[ClaimPath]) -> None:
        for p in paths:
            self._trie.add(p)[-1].covers |= bit
        for p in excluded:
            self._trie.add(p)[-1].excludes |= bit

    def _add_flags(self) -> None:
        card_format = self.card_format
        for p in card_format.together:
            self._flag(p, _ALONG, 0)
        for p in card_format.units:
            self._flag(p, _UNIT | _OWN, _DIVIDED)
        for p, entry in self.paths:
            if entry.treatment is _SELECTIVE and not card_format.goes_with_parent(p.segments):
                self._flag(p, _OWN, 0)
        for p in self.edges():
            self._flag(p, 0, _DIVIDED)
        for p in self.shown:
            self._flag(p, _SHOWN, _LEADS)
        start = self.start()
        for p in self.shown:
            if start.at(p.segments).treatment is _SELECTIVE:
                self._flag(p, 0, _LEADS_TO_SELECTIVE)

    def _flag(self, claim_path: ClaimPath, at_end: int, on_the_way: int) -> None:
        *above, end = self._trie.add(claim_path)
        end.flags |= at_end
        for node in above:
            node.flags |= on_the_way

    def _count_at_top(self) -> int:
        """Count up to four members exactly; else return the most of ordinary cards."""
        start, card_format = self.start(), self.card_format
        members = card_format.members_of_family or card_format.members
        hidden = members.difference(card_format.always_disclosed)
        shown = sum(1 for name in hidden if start.into(name).may_show_selective)
        few = shown <= _FEW and not start.into(_UNNAMED).may_show_selective
        return max(shown, 1 if few else _MEMBERS_OF_CARDS)


class _Bits(NamedTuple):
    """Bits of a trie: of all, selective and withholding paths, and of each list."""

    paths: int
    selective: int
    withheld: int
    lists: tuple[int, ...]


class Position:
    """A place of a card in the trie. Places with equal rules share a position.

    Attributes:
        applying: bits of the paths and entries that apply.
        decisive: the bit of the path that decides; 0 if none does.
        treatment: by the rules alone, whatever the parent is.
        along, permitted: the place is shown with its parent; it may be shown, by the rules or with its parent.
        counts: if it is shown, it is shown not only with its parent.
        forbidden: the context withholds it whatever a list asks for.
        leads, own: something beneath it may be shown; it has a Disclosure of its own, wherever it is.
        divided: something beneath it may have another treatment, or a Disclosure of its own.
    """

    __slots__ = (
        *("_bits", "_covers", "_excludes", "_flags", "_inside", "_nodes", "_of_parts"),
        *("along", "applying", "counts", "decisive", "divided", "forbidden", "leads", "own", "permitted", "treatment"),
    )

    def __init__(
        self, bits: _Bits, nodes: Sequence[PathNode], covers: int, excludes: int, flags: int, of_parts: int = 0
    ) -> None:
        for node in nodes:
            covers, excludes, flags = covers | node.covers, excludes | node.excludes, flags | node.flags
        self._bits, self._nodes, self._covers, self._excludes, self._flags = bits, nodes, covers, excludes, flags
        self._of_parts = of_parts
        self._inside: dict[Segment, Position] = {}
        self.applying = applying = covers & ~excludes
        self.decisive = decisive = applying & -applying & bits.paths
        if not all([applying & one for one in bits.lists]):
            treatment = _WITHHELD
        elif decisive:
            treatment = _SELECTIVE if decisive & bits.selective else _WITHHELD if decisive & bits.withheld else _PLAIN
        else:
            treatment = _SELECTIVE if bits.lists else _WITHHELD
        self.treatment = treatment
        self.forbidden = bool(decisive & bits.withheld)
        self.along = bool(flags & _ALONG)
        self.permitted = treatment is not _WITHHELD or (self.along and not self.forbidden)
        self.counts = treatment is not _WITHHELD or not self.along
        self.leads = bool(flags & _LEADS)
        self.own = bool(flags & _OWN)
        self.divided = bool(flags & _DIVIDED)

    def into(self, segment: Segment) -> "Position":
        """Return the position of a part. Parts that no path names share one."""
        nodes = [node.parts[segment] for node in self._nodes if segment in node.parts]
        key = segment if nodes else None
        inside = self._inside.get(key)
        if inside is None:
            if segment is not None:
                nodes += [node.parts[None] for node in self._nodes if None in node.parts]
            inside = Position(self._bits, nodes, self._covers, self._excludes, self._of_parts)
            self._inside[key] = inside
        return inside

    def at(self, place: Sequence[Segment]) -> "Position":
        """Return the position of a place beneath this one."""
        here = self
        for segment in place:
            here = here.into(segment)
        return here

    @property
    def may_show_selective(self) -> bool:
        """Whether the place has a Disclosure, or something beneath it may be shown."""
        return self.leads or self.treatment is _SELECTIVE

    def room(self, covered: bool) -> int:
        """Count the parts that could have their own Disclosure, in any card.

        ``covered``: the place lies within one that has a Disclosure of its own.
        """
        own = self._parts_with(_OWN)
        if None in own and self._could_show_any():
            return _MEMBERS_OF_ELEMENTS
        shown = [part for part in own if part is not None and self.into(part).treatment is _SELECTIVE]
        selective = self.treatment is _SELECTIVE or self._flags & _LEADS_TO_SELECTIVE
        return len(shown) or int(bool(selective) and not covered)

    def _could_show_any(self) -> bool:
        """Whether any part, such as of a skill, may have a Disclosure of its own."""
        if self.treatment is _SELECTIVE:
            return True
        asked = self._parts_with(_SHOWN | _LEADS)
        return None in asked or any(self.into(part)._flags & (_UNIT | _ALONG) == _UNIT for part in asked)

    def _parts_with(self, flags: int) -> set[Segment]:
        return {part for node in self._nodes for part, inner in node.parts.items() if inner.flags & flags}


def _overlaps(some: Sequence[ClaimPath], others: Sequence[ClaimPath]) -> list[ClaimPath]:
    return list(dict.fromkeys(p for one in some for other in others if (p := one.overlap(other))))


# -- Containment: whether one context shows everything that another shows ---------------------------------------------

FORMATS = tuple(KNOWN_FORMATS.values())


def missing_from(compiled: Callable[[str, CardFormat], ContextRules], outer: str, inner: str) -> ClaimPath | None:
    """Find a place that the inner context may show and the outer one does not.

    ``compiled``: name of a context and card format → rules.
    """
    looked_at: set[tuple[object, ...]] = set()
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
    ways = dict.fromkeys(ClaimPath(p.segments[:end]) for p in less.shown for end in range(1, len(p.segments)))
    met = dict.fromkeys((*ways, *shown, *(p for one in shown for edge in edges if (p := one.overlap(edge)))))
    for way in ways:
        met |= dict.fromkeys(p for edge in edges if len(edge.segments) <= len(way.segments) if (p := way.overlap(edge)))
    apart = dict.fromkeys(p for one in met for hole in holes if (p := one.overlap(hole)))
    places = (place for place in {**met, **apart} if place.segments[:1] not in clear)
    start, start_of_more = less.start(), more.start()
    return next((p for p in places if not _is_contained(start, start_of_more, p.segments)), None)


def _shown_places(rules: ContextRules, card_format: CardFormat) -> Iterator[ClaimPath]:
    """Return the parts that the context shows, and those shown with them."""
    for shown in rules.shown:
        yield shown
        for *above, name in (along.segments for along in card_format.together):
            if met := ClaimPath(tuple(above)).overlap(ClaimPath(shown.segments[: len(above)])):
                yield ClaimPath((*met.segments, name))


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
