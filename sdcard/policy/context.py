"""Disclosure contexts (SD-Card 5.3.2), their entries, and partner agreements.

Table 1 is read so that each context contains the one before it. No claim names the context: it would reveal partners.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from sdcard.cards.detect import KNOWN_FORMATS
from sdcard.cards.model import CardFormat
from sdcard.disclosable import Treatment
from sdcard.encoding import frozen
from sdcard.errors import Misuse, Part, Where
from sdcard.instants import Instant, check_instant
from sdcard.paths import ANY, ClaimPath, Segment

EVERYTHING = ANY

Meaning: TypeAlias = Mapping[str, tuple[str, ...]]
"""Meaning of a group: family of card formats, such as ``a2a``, or ``*`` for all others → claim paths."""


@dataclass(frozen=True, slots=True)
class DisclosureContext:
    """A disclosure context: the parts that one audience may see.

    Attributes:
        name: its name in registrations.
        claims: group, claim, path, or ``*`` for everything that a format does not call private → treatment. A place
            without an entry is withheld unless a registration asks for it; a withheld one stays hidden in any case.
        narrowed: groups with a narrower meaning here.
        contains: names of contexts that show nothing that this one does not show.
    """

    name: str
    claims: Mapping[str, Treatment]
    narrowed: Mapping[str, Meaning] = field(default_factory=dict)
    contains: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "claims", frozen(self.claims))
        object.__setattr__(self, "narrowed", frozen_meanings(self.narrowed))


def frozen_meanings(meanings: Mapping[str, Meaning]) -> Mapping[str, Meaning]:
    """Return an immutable copy."""
    return frozen({name: frozen(meaning) for name, meaning in meanings.items()})


_NEVER = {"security_context": Treatment.WITHHELD}
_SKILL_NAMES = {"skills": {EVERYTHING: ("skills.*.id", "skills.*.name"), "agentcard": ("capabilities.*.id",)}}

PUBLIC = DisclosureContext(
    "public", {**dict.fromkeys(("description", "skills"), Treatment.SELECTIVE), **_NEVER}, _SKILL_NAMES
)
"""Everybody: what the agent is, and the names of its skills. No Holder can make it show a security scheme."""

INTERNAL = DisclosureContext(
    "internal",
    dict.fromkeys(("description", "skills", "endpoints", "operational_info", "provider"), Treatment.SELECTIVE),
    contains=("public",),
)
"""The own organisation: how to reach and use the agent."""

DIAGNOSTIC = DisclosureContext("diagnostic", {EVERYTHING: Treatment.SELECTIVE}, contains=("internal",))
"""Operators of the agent: everything."""

FEDERATION = DisclosureContext("federation", _NEVER, _SKILL_NAMES)
"""A partner: the list of its agreement, below this ceiling; without an agreement what *public* shows."""

FULL = DisclosureContext("full", {EVERYTHING: Treatment.SELECTIVE}, contains=("diagnostic",))
"""An agent that wants one card and narrows it itself, presentation by presentation."""

BUILT_IN = (PUBLIC, INTERNAL, DIAGNOSTIC, FEDERATION, FULL)


# -- Entries ----------------------------------------------------------------------------------------------------------

_POLICY = Where(Part.POLICY)
_NONE: Mapping[str, Meaning] = frozen({})
_LONGEST_COMPARED = 64
"""Characters of an unknown name: the time of a comparison grows at least with its length."""
_GROUPS = frozenset(group for card_format in KNOWN_FORMATS.values() for group in card_format.groups)


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry for one card format: places beneath ``paths``, not in ``excluded``.

    Attributes:
        text: a group, a path, or ``*``.
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
    """Read an entry for one format. A group that the format lacks covers nothing.

    Args:
        text: a group, a path, or ``*``.
        card_format: gives groups and members their meaning.
        where: the place of the entry, for refusals.
        groups: the operator's own groups.
        narrowed: groups with a narrower meaning in this context.

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
    """Return a hint that names the most similar known name."""
    matcher, near, most = difflib.SequenceMatcher(b=text[:_LONGEST_COMPARED]), "", -1.0
    for name in sorted(known, reverse=True):  # as `get_close_matches`, which measures each to the end
        matcher.set_seq1(name)
        if matcher.real_quick_ratio() > most and matcher.quick_ratio() > most and matcher.ratio() > most:
            near, most = name, matcher.ratio()
    return f"The nearest known name is {near}." if near else ""


# -- Agreements -------------------------------------------------------------------------------------------------------

ISSUING_STEP = 7 * 86_400
"""Seconds: SD-Cards of the default lifetime begin and end on multiples of it."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """An agreement with one partner, which the *federation* context follows.

    Attributes:
        partner: the partner's issuer URL or token subject; compared exactly.
        discloses: groups, claims and paths, read as a registration's list for *federation*.
        expires: Unix seconds; the agreement ends then.
        not_before: Unix seconds; the agreement begins then.
    """

    partner: str
    discloses: tuple[str, ...] = field(repr=False)
    expires: int
    not_before: int | None = None

    def __post_init__(self) -> None:
        times = (self.expires,) if self.not_before is None else (self.expires, self.not_before)
        if any(type(time) is not int for time in times):
            raise Misuse("an agreement's dates are whole Unix seconds")
        for time in times:
            check_instant(time)

    def is_in_force(self, now: Instant) -> bool:
        """Whether the agreement holds at this instant."""
        return (self.not_before is None or self.not_before <= now) and now < self.expires

    def last_end(self, step: int) -> int:
        """Return the last end that an SD-Card can have within this agreement.

        The exact end would identify the partner to everyone who knows it.
        """
        return self.expires // step * step

    def decides(self, partner: "Partner") -> bool:
        """Whether it holds for SD-Cards issued now: in force to the end of a step."""
        named = self.partner == partner.name
        return named and self.is_in_force(partner.now) and partner.now < self.last_end(partner.step)

    def overlaps(self, other: "Agreement") -> bool:
        """Whether both are with one partner and hold at one instant."""
        starts = [one.not_before for one in (self, other) if one.not_before is not None]
        latest = max(starts, default=min(self.expires, other.expires) - 1)
        return self.partner == other.partner and latest < min(self.expires, other.expires)


@dataclass(frozen=True, slots=True)
class Partner:
    """The partner of a *federation* SD-Card, and the instant of issuance.

    ``step``: seconds; all SD-Cards of the Issuer end on multiples of it. See ``issuing_step``.
    """

    name: str
    now: Instant
    step: int = ISSUING_STEP

    def __post_init__(self) -> None:
        check_instant(self.now)
        if type(self.step) is not int or self.step < 1:
            raise Misuse("a step is a whole number of seconds, 1 or more")
