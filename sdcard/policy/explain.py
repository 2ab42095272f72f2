"""Explanation of what each context would show of a card, part by part.

It puts the plans of several contexts side by side.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sdcard.cards.model import Card
from sdcard.disclosable import Disclosable, DisclosableArray, DisclosableObject, Treatment
from sdcard.encoding import JsonValue
from sdcard.paths import Place
from sdcard.policy.context import FEDERATION, Partner
from sdcard.policy.model import DisclosurePolicy
from sdcard.policy.plan import plan_disclosure
from sdcard.profile import SD_CARD, Profile


@dataclass(frozen=True, slots=True)
class ExplainedPart:
    """A part of a card.

    Attributes:
        place: where it is.
        treatments: one for each context, in their order.
        parts: what is in it; empty where every context treats all of that as it treats the part.
    """

    place: Place
    treatments: tuple[Treatment, ...]
    parts: tuple["ExplainedPart", ...] = field(repr=False)

    def walk(self) -> Iterator["ExplainedPart"]:
        """The part, and everything in it."""
        yield self
        for part in self.parts:
            yield from part.walk()


@dataclass(frozen=True, slots=True)
class Explanation:
    """A card, as the contexts of a policy treat it."""

    card_format: str
    contexts: tuple[str, ...]
    parts: tuple[ExplainedPart, ...] = field(repr=False)


def explain(
    card: Card,
    policy: DisclosurePolicy,
    contexts: Sequence[str] | None = None,
    profile: Profile = SD_CARD,
    partner: Partner | None = None,
) -> Explanation:
    """Plan for each context, and put the plans side by side.

    A Verifier that is shown everything sees exactly that.

    Args:
        card: the card.
        policy: the operator's.
        contexts: names; None stands for all of the policy's.
        profile: what would be written.
        partner: for whom *federation* is, and when.

    Raises:
        Refused: as ``plan_disclosure``.
    """
    names = tuple(policy.contexts if contexts is None else contexts)
    roots = [
        plan_disclosure(card, policy, name, profile=profile, partner=partner if name == FEDERATION.name else None).root
        for name in names
    ]
    whole = _part(card.document, (), [(Treatment.PLAIN, root) for root in roots])
    return Explanation(card.format.name, names, whole.parts)


def _part(value: JsonValue, place: Place, shown: Sequence[tuple[Treatment, Disclosable]]) -> ExplainedPart:
    divided = any(isinstance(inside, DisclosableObject | DisclosableArray) for _, inside in shown)
    parts: list[tuple[str | int, JsonValue]] = []
    if divided and isinstance(value, dict):
        parts = list(value.items())
    elif divided and isinstance(value, list):
        parts = list(enumerate(value))
    return ExplainedPart(
        place,
        tuple(treatment for treatment, _ in shown),
        tuple(_part(one, (*place, step), [_within(how, step) for how in shown]) for step, one in parts),
    )


def _within(shown: tuple[Treatment, Disclosable], step: str | int) -> tuple[Treatment, Disclosable]:
    treatment, inside = shown
    if treatment is Treatment.WITHHELD:
        return treatment, None
    if isinstance(inside, DisclosableObject):
        return inside.members[str(step)]
    if isinstance(inside, DisclosableArray):
        return inside.elements[int(step)]
    return Treatment.PLAIN, None
