"""The treatment of each part of a card in several contexts, side by side."""

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
        place: its place.
        treatments: one for each context, in their order.
        parts: the parts inside; empty if every context treats them all like this part.
    """

    place: Place
    treatments: tuple[Treatment, ...]
    parts: tuple["ExplainedPart", ...] = field(repr=False)

    def walk(self) -> Iterator["ExplainedPart"]:
        """Return the part, then everything inside."""
        yield self
        for part in self.parts:
            yield from part.walk()


@dataclass(frozen=True, slots=True)
class Explanation:
    """The treatment of a card by the contexts of a policy."""

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
    """Plan the disclosure for each context, and compare the plans part by part.

    Args:
        card: the card.
        policy: the operator's policy.
        contexts: names; None for all contexts of the policy.
        profile: the profile of the SD-Cards.
        partner: the partner for *federation*, and the instant.

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
