"""``DisclosurePolicy``: an operator's contexts, groups and agreements."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sdcard.cards.model import CardFormat
from sdcard.encoding import frozen
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.paths import did_you_mean
from sdcard.policy.context import (
    BUILT_IN,
    FEDERATION,
    PUBLIC,
    Agreement,
    DisclosureContext,
    Meaning,
    Partner,
    frozen_meanings,
)
from sdcard.policy.rules import ContextRules
from sdcard.policy.validate import check_policy
from sdcard.rules import Rule


@dataclass(frozen=True, slots=True)
class DisclosurePolicy:
    """A disclosure policy of an operator, checked when it is made.

    Attributes:
        contexts: name → context.
        decoy_sizes: every array of digests is filled with decoys to the next of these sizes, and beyond the last to a
            multiple of it, so that the number of digests reveals nothing about hidden members.
        groups: the operator's own groups, beside those of the card formats.
        members: members that cards have and no format names; contexts may name them.
        skills: minimum digests in the array of skills, so that most cards do not reveal how many skills they have.

    Raises:
        Refused: all faults at once, as ``check_policy``.
        Misuse: for sizes that do not rise, a size below 1, or a context under another name than its own.
    """

    contexts: Mapping[str, DisclosureContext]
    decoy_sizes: tuple[int, ...] = (4, 8, 16, 64, 256)
    groups: Mapping[str, Meaning] = field(default_factory=dict)
    members: frozenset[str] = frozenset()
    agreements: tuple[Agreement, ...] = ()
    skills: int = 16
    _rules: dict[tuple[str, str], ContextRules] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        if not self.decoy_sizes or list(self.decoy_sizes) != sorted(set(self.decoy_sizes)) or self.decoy_sizes[0] < 1:
            raise Misuse("decoy sizes are a rising row of positive numbers")
        if type(self.skills) is not int or self.skills < 1:
            raise Misuse("an array of skills has a whole number of digests, 1 or more")
        if any(name != context.name for name, context in self.contexts.items()):
            raise Misuse("a context is known by its own name")
        object.__setattr__(self, "contexts", frozen(self.contexts))
        object.__setattr__(self, "groups", frozen_meanings(self.groups))
        findings = check_policy(self)
        if findings:
            raise Refused.because(findings)

    def context(self, name: object, where: Where) -> DisclosureContext:
        """Return the context of this name.

        Raises:
            Refused: ``context.unknown``; the hint has a similar name and lists the known names.
        """
        context = self.contexts.get(name) if isinstance(name, str) else None
        if context is None:
            near = did_you_mean(name, self.contexts) if isinstance(name, str) else ""
            raise Refused(Rule.CONTEXT_UNKNOWN, where, f"{near} Known contexts: {', '.join(self.contexts)}.".lstrip())
        return context

    def agreement(self, context: str, partner: Partner | None, where: Where) -> Agreement | None:
        """Return the agreement that decides about this context, if one is in force.

        Raises:
            Refused: ``agreement.unexpected`` for a partner with another context than *federation*.
        """
        if partner is None:
            return None
        if context != FEDERATION.name:
            raise Refused(Rule.AGREEMENT_UNEXPECTED, where, f"Only {FEDERATION.name} goes by agreement.")
        return next((one for one in self.agreements if one.decides(partner)), None)

    def rules(
        self,
        context: str,
        card_format: CardFormat,
        disclose: Sequence[str] | None = None,
        where: Where = Where(Part.POLICY),
        unnamed: Sequence[str] = (),
        agreement: Agreement | None = None,
    ) -> ContextRules:
        """Compile what a context may show of cards of one format.

        The policy caches the rules of each context and format without list and agreement.

        Args:
            context: its name. Without an agreement, *federation* shows what *public* shows.
            card_format: gives groups and members their meaning.
            disclose: a registration's list, which replaces the context's choice. None keeps the choice.
            where: the place of the list, for refusals; entry ``i`` is at ``where/i``.
            unnamed: members of the card that its format does not name; the list may name them.
            agreement: what *federation* shows; a registration's list then selects from it.

        Raises:
            Refused: ``context.unknown``; for every entry ``path.malformed``, ``disclose.beyond-ceiling``, or
                ``disclose.unknown`` with the nearest known name.
        """
        decisive = self.context(context, where)
        if context == FEDERATION.name and agreement is None:
            decisive = self.context(PUBLIC.name, where)
        key = context, card_format.name
        rules = self._rules.get(key) if agreement is None else None
        if rules is None or rules.card_format is not card_format:
            agreed = agreement.discloses if agreement else None
            rules = ContextRules.compile(context, decisive, card_format, self.groups, agreed)
            if agreement is None:
                self._rules[key] = rules
        return rules if disclose is None else rules.limited_to(disclose, decisive, self.groups, where, unnamed)

    def padded_size(self, count: int) -> int:
        """Return the size to which an array of ``count`` digests is filled."""
        step, largest = bisect_left(self.decoy_sizes, count), self.decoy_sizes[-1]
        return self.decoy_sizes[step] if step < len(self.decoy_sizes) else -(-count // largest) * largest


DEFAULT_POLICY = DisclosurePolicy({context.name: context for context in BUILT_IN})
