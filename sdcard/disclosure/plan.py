"""``DisclosurePlan``: a context applied to one card. Every part has exactly one treatment; unlisted means withheld."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sdcard.cards.card import Card, reserved_members
from sdcard.cards.format import CardFormat
from sdcard.disclosable import Disclosable, DisclosableArray, DisclosableObject, Treatment, treatments
from sdcard.disclosure.policy import DisclosurePolicy, Grant, grant
from sdcard.encoding import JsonValue
from sdcard.errors import Part, Refused, Where
from sdcard.paths import ClaimPath, Place


@dataclass(frozen=True, slots=True)
class DisclosurePlan:
    """What an SD-Card for one context shows of one card.

    Attributes:
        context: its name; never written into the SD-Card.
        card_format: becomes the claim ``card_format``.
        root: the card, each part with its treatment.
        policy: the operator's; its ladder says how many decoys there will be.
        places: where the shown parts are in the card.
        discloses: the same as paths, with ``*`` for array elements; names, never values.
        nothing_behind: entries asked for that the card has nothing for.
    """

    context: str
    card_format: str
    root: DisclosableObject = field(repr=False)
    policy: DisclosurePolicy = field(repr=False)
    places: frozenset[Place] = field(repr=False)
    discloses: tuple[str, ...]
    nothing_behind: tuple[str, ...]


def plan_disclosure(
    card: Card,
    policy: DisclosurePolicy,
    context: str,
    disclose: Sequence[str] | None = None,
    also_clear: Sequence[str] = (),
    where: Where = Where(Part.POLICY),
) -> DisclosurePlan:
    """Decide for every part of a card whether, and how, an SD-Card for this context shows it.

    Args:
        card: the card.
        policy: the operator's.
        context: the name of one of its contexts.
        disclose: a registration's own list of groups, claims and paths in place of the context's default.
        also_clear: members that the profile shows in the clear beside those of the card's format.
        where: the place of ``disclose``, for refusals.

    Raises:
        Refused: ``context.unknown``, ``disclose.unknown`` or ``disclose.beyond-ceiling``; ``card.reserved-member``
            for a card that no reader checked.
    """
    reserved = reserved_members(card.document)
    if reserved:
        raise Refused.because(reserved)
    unnamed = [name for name in card.document if name not in card.format.members]
    permitted = grant(policy.context(context, where), card.format, disclose, where, unnamed)
    root = _Planner(card.format, permitted, {*card.format.always_disclosed, *also_clear}).object(card.document, ())
    places = [place for place, treatment in treatments(root) if treatment is not Treatment.WITHHELD]
    asked = permitted.shown if disclose is not None else ()
    return DisclosurePlan(
        context=context,
        card_format=card.format.name,
        root=root,
        policy=policy,
        places=frozenset(places),
        discloses=tuple(dict.fromkeys(str(_family(place)) for place in places)),
        nothing_behind=tuple(scope.entry for scope in asked if not any(map(scope.holds, places))),
    )


class _Planner:
    def __init__(self, card_format: CardFormat, permitted: Grant, clear: set[str]) -> None:
        self._format, self._grant, self._clear = card_format, permitted, clear

    def object(self, members: Mapping[str, JsonValue], place: Place) -> DisclosableObject:
        parts = {name: self._part(value, (*place, name)) for name, value in members.items()}
        return DisclosableObject(parts, self._separates(place))

    def _part(self, value: JsonValue, place: Place) -> tuple[Treatment, Disclosable]:
        if len(place) == 1 and place[0] in self._clear:
            return Treatment.PLAIN, value
        permitted = self._grant.permits(place) or (
            self._format.goes_with_parent(place) and not self._grant.forbids(place)
        )
        if not permitted and not (isinstance(value, dict | list) and self._grant.leads_to(place)):
            return Treatment.WITHHELD, None
        treatment = Treatment.SELECTIVE if self._format.is_unit(place) else Treatment.PLAIN
        return treatment, self._inside(value, place, permitted)

    def _inside(self, value: JsonValue, place: Place, permitted: bool) -> Disclosable:
        """Look inside only where something inside may be treated differently."""
        if isinstance(value, dict) and (not permitted or self._divides(place)):
            return self.object(value, place)
        if isinstance(value, list) and (not permitted or self._divides(place)):
            elements = tuple(self._part(element, (*place, index)) for index, element in enumerate(value))
            return DisclosableArray(elements, self._separates(place))
        return value

    def _divides(self, place: Place) -> bool:
        """Whether a unit or an exception of the grant lies beneath this place."""
        apart = (p for s in (*self._grant.shown, *self._grant.never) for p in (*s.apart, *s.paths))
        return any(p.leads_to(place) for p in (*self._format.units, *apart))

    def _separates(self, place: Place) -> bool:
        """Whether this context could show a part of this place by a Disclosure of its own, present or not."""
        if not place:
            return True
        return any(
            len(unit.segments) == len(place) + 1 and unit.leads_to(place) and self._could_show(place, unit)
            for unit in self._format.units
        )

    def _could_show(self, place: Place, unit: ClaimPath) -> bool:
        last = unit.segments[-1]
        if last is not None:
            return self._grant.permits((*place, last))
        if self._grant.permits(place):
            return True
        asked = (p.segments[len(place)] for s in self._grant.shown for p in s.paths if p.leads_to(place))
        return any(segment is None or self._format.is_unit((*place, segment)) for segment in asked)


def _family(place: Place) -> ClaimPath:
    return ClaimPath(tuple(None if isinstance(segment, int) else segment for segment in place))
