"""Entries of contexts, agreements and registrations.

An entry is a group, a path or ``*``. This module says which places of a card it covers.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sdcard.cards.format import CardFormat
from sdcard.cards.reading import KNOWN_FORMATS
from sdcard.disclosable import Treatment
from sdcard.disclosure.context import EVERYTHING, DisclosureContext, Meaning
from sdcard.errors import Part, Where
from sdcard.frozen import frozen
from sdcard.paths import ClaimPath, Segment

_POLICY = Where(Part.POLICY)
_NONE: Mapping[str, Meaning] = frozen({})
_LONGEST_COMPARED = 64
"""Characters of an unknown name: comparing takes time in proportion to its length, or more."""
_GROUPS = frozenset(group for card_format in KNOWN_FORMATS.values() for group in card_format.groups)


@dataclass(frozen=True, slots=True)
class Entry:
    """The places that an entry covers.

    They are beneath ``paths`` and not beneath ``excluded``.

    Attributes:
        text: a group, a path, or ``*``.
        paths: what it covers in one card format.
        excluded: parts of ``paths`` that belong to another group, or that the format calls private.
        is_group: whether the text names a group.
        treatment: how its context treats these places; None for an entry of a list.
    """

    text: str
    paths: tuple[ClaimPath, ...]
    excluded: tuple[ClaimPath, ...] = ()
    is_group: bool = False
    treatment: Treatment | None = None

    def covers(self, place: tuple[Segment, ...]) -> bool:
        """Whether the entry covers this place."""
        return any(p.covers(place) for p in self.paths) and not any(p.covers(place) for p in self.excluded)


def read_entry(
    text: str,
    card_format: CardFormat,
    where: Where,
    groups: Mapping[str, Meaning] = _NONE,
    narrowed: Mapping[str, Meaning] = _NONE,
) -> Entry:
    """Read an entry for cards of one format.

    A group that the format does not have covers nothing.

    Args:
        text: a group, a path, or ``*``.
        card_format: gives its groups and members their meaning.
        where: the place of the entry, for refusals.
        groups: the operator's own.
        narrowed: groups that mean less in this context.

    Raises:
        Refused: ``path.malformed``.
    """
    if text == EVERYTHING:
        return Entry(text, (ClaimPath(()),), card_format.private)
    whole = _group(text, card_format, groups)
    if whole is None:
        claim_path = ClaimPath.parse(text, where)
        first = claim_path.segments[0]
        is_group_here = first in card_format.groups and first not in card_format.members
        return Entry(text, () if is_group_here else (claim_path,))
    excluded: tuple[ClaimPath, ...] = ()
    if text in card_format.groups:
        others = (p for name, paths in card_format.groups.items() if name != text for p in paths)
        excluded = tuple(p for p in others if any(one.includes(p) for one in whole))
    part = _meaning(narrowed.get(text, {}), card_format)
    paths = whole if part is None else tuple(p for p in part if any(one.includes(p) for one in whole))
    return Entry(text, paths, excluded, is_group=True)


def _group(text: str, card_format: CardFormat, groups: Mapping[str, Meaning]) -> tuple[ClaimPath, ...] | None:
    if text in card_format.groups:
        return card_format.groups[text]
    if text in groups:
        return _meaning(groups[text], card_format) or ()
    return () if text in _GROUPS and text not in card_format.members else None


def _meaning(meaning: Meaning, card_format: CardFormat) -> tuple[ClaimPath, ...] | None:
    texts = meaning.get(card_format.family, meaning.get(EVERYTHING))
    return None if texts is None else tuple(ClaimPath.parse(text, _POLICY) for text in texts)


def read_context_entry(
    context: DisclosureContext, text: str, card_format: CardFormat, groups: Mapping[str, Meaning]
) -> Entry:
    """Read one of a context's own entries, with its treatment.

    Raises:
        Refused: ``path.malformed``.
    """
    entry, treatment = read_entry(text, card_format, _POLICY, groups, context.narrowed), context.claims[text]
    if text == EVERYTHING and treatment is Treatment.WITHHELD:
        return replace(entry, excluded=(), treatment=treatment)
    return replace(entry, treatment=treatment)


def nearest(text: str, known: Sequence[str]) -> str:
    """Return a hint that names the nearest of the known names."""
    matcher, near, most = difflib.SequenceMatcher(b=text[:_LONGEST_COMPARED]), "", -1.0
    for name in sorted(known, reverse=True):  # as `get_close_matches`, which measures each to the end
        matcher.set_seq1(name)
        if matcher.real_quick_ratio() > most and matcher.quick_ratio() > most and matcher.ratio() > most:
            near, most = name, matcher.ratio()
    return f"The nearest known name is {near}." if near else ""
