"""``DisclosurePolicy``: the contexts that an operator offers; and a context's entries read for one card format."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from sdcard.cards.format import CardFormat
from sdcard.disclosure.context import DIAGNOSTIC, EVERYTHING, FEDERATION, FULL, INTERNAL, PUBLIC, DisclosureContext
from sdcard.errors import Finding, Misuse, Refused, Where
from sdcard.paths import ClaimPath, Place
from sdcard.rules import Rule


@dataclass(frozen=True, slots=True)
class Scope:
    """The places that one entry stands for: those beneath ``paths`` and not beneath ``apart``."""

    entry: str
    paths: tuple[ClaimPath, ...]
    apart: tuple[ClaimPath, ...] = ()

    def holds(self, place: Place) -> bool:
        """Whether the entry shows this place."""
        return any(p.covers(place) for p in self.paths) and not any(p.covers(place) for p in self.apart)


@dataclass(frozen=True, slots=True)
class Grant:
    """What one context may show of cards of one format.

    Attributes:
        context: its name.
        shown: what is asked for, entry by entry.
        never: what is withheld all the same.
    """

    context: str
    shown: tuple[Scope, ...]
    never: tuple[Scope, ...]

    def permits(self, place: Place) -> bool:
        """Whether this place may be shown."""
        return any(scope.holds(place) for scope in self.shown) and not self.forbids(place)

    def forbids(self, place: Place) -> bool:
        """Whether the context's ceiling lies below this place."""
        return any(scope.holds(place) for scope in self.never)

    def leads_to(self, place: Place) -> bool:
        """Whether something beneath this place may be shown."""
        return any(p.leads_to(place) for scope in self.shown for p in scope.paths)


@dataclass(frozen=True, slots=True)
class DisclosurePolicy:
    """What an operator offers. A value: replace it to offer something else.

    Attributes:
        contexts: name → context.
        ladder: every array of digests is filled with decoys to the next of these sizes, and beyond the last to a
            multiple of it, so that the number of digests tells nothing about hidden members.
    """

    contexts: Mapping[str, DisclosureContext]
    ladder: tuple[int, ...] = (4, 8, 16, 32, 64, 128, 256)

    def __post_init__(self) -> None:
        if not self.ladder or list(self.ladder) != sorted(set(self.ladder)) or self.ladder[0] < 1:
            raise Misuse("a ladder is a rising row of positive sizes")
        object.__setattr__(self, "contexts", MappingProxyType(dict(self.contexts)))

    def context(self, name: object, where: Where) -> DisclosureContext:
        """The context of this name.

        Raises:
            Refused: ``context.unknown``; the hint lists the known names.
        """
        context = self.contexts.get(name) if isinstance(name, str) else None
        if context is None:
            raise Refused(Rule.CONTEXT_UNKNOWN, where, "Known contexts: " + ", ".join(self.contexts) + ".")
        return context

    def padded_size(self, count: int) -> int:
        """The step of the ladder that ``count`` digests are filled to."""
        last = self.ladder[-1]
        return next((step for step in self.ladder if step >= count), -(-count // last) * last)


DEFAULT_POLICY = DisclosurePolicy({c.name: c for c in (PUBLIC, INTERNAL, DIAGNOSTIC, FEDERATION, FULL)})


def grant(
    context: DisclosureContext,
    card_format: CardFormat,
    disclose: Sequence[str] | None,
    where: Where,
    unnamed: Sequence[str] = (),
) -> Grant:
    """Read a context's entries for one card format.

    Args:
        context: whose ceiling and meanings hold.
        card_format: gives groups and members their meaning.
        disclose: a registration's own list, in place of the default; None keeps the default.
        where: the list's place, for refusals; entry ``i`` is at ``where/i``.
        unnamed: members that the card has beyond its format; they may be named too.

    Raises:
        Refused: ``disclose.unknown`` with the nearest known name, or ``disclose.beyond-ceiling``, for every entry.
    """
    never = tuple(_scope(entry, card_format, {}, where, ()) for entry in context.never)
    shown: list[Scope] = []
    findings: list[Finding] = []
    for number, entry in enumerate(context.default if disclose is None else disclose):
        try:
            scope = _scope(entry, card_format, context.narrowed, where.within(number), unnamed)
            _check_ceiling(scope, never, where.within(number), context.name)
            shown.append(scope)
        except Refused as refusal:
            findings += refusal.findings
    if findings:
        raise Refused.because(findings)
    return Grant(context.name, tuple(shown), never)


def _check_ceiling(scope: Scope, never: Sequence[Scope], where: Where, context: str) -> None:
    """Refuse an entry that is withheld altogether; one that is withheld in part shows the rest."""
    bounds = [bound for ceiling in never for bound in ceiling.paths]
    if all(any(bound.includes(p) for bound in bounds) for p in scope.paths):
        raise Refused(Rule.DISCLOSE_BEYOND_CEILING, where, f"The context {context} never shows it.")


def _scope(
    entry: str,
    card_format: CardFormat,
    narrowed: Mapping[str, Mapping[str, tuple[str, ...]]],
    where: Where,
    unnamed: Sequence[str],
) -> Scope:
    if entry == EVERYTHING:
        return Scope(entry, (ClaimPath(()),))
    if entry in narrowed:
        meaning = narrowed[entry].get(card_format.family, narrowed[entry][EVERYTHING])
        return Scope(entry, tuple(ClaimPath.parse(text, where) for text in meaning))
    if entry in card_format.groups:
        mine = card_format.groups[entry]
        others = (p for name, paths in card_format.groups.items() if name != entry for p in paths)
        return Scope(entry, mine, tuple(p for p in others if any(m.includes(p) for m in mine)))
    claim_path = ClaimPath.parse(entry, where)
    known = card_format.members | set(card_format.always_disclosed) | set(unnamed)
    if claim_path.segments[0] not in known:
        near = difflib.get_close_matches(entry, [*card_format.groups, *sorted(known - set(unnamed))], 1, 0)
        raise Refused(Rule.DISCLOSE_UNKNOWN, where, f"The nearest known name is {near[0]}." if near else "")
    return Scope(entry, (claim_path,))
