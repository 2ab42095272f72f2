"""``DisclosurePlan``: a context applied to one card. Every part has exactly one treatment; unlisted means withheld."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sdcard.cards.card import Card
from sdcard.cards.format import Fact
from sdcard.disclosable import Disclosable, DisclosableArray, DisclosableObject, Treatment
from sdcard.disclosure.agreement import Agreement, Partner
from sdcard.disclosure.grant import Grant
from sdcard.disclosure.kinds import Kind, Kinds
from sdcard.disclosure.policy import DisclosurePolicy
from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Part, Refused, Where
from sdcard.paths import Place, Segment
from sdcard.profile import SD_CARD, Profile
from sdcard.rules import Rule


@dataclass(frozen=True, slots=True)
class DisclosurePlan:
    """What an SD-Card for one context shows of one card.

    Attributes:
        context: its name; never written into the SD-Card.
        card_format: becomes the claim ``card_format``: the family, since hidden members can decide the version.
        profile: what is written.
        root: the card, each part with its treatment.
        policy: the operator's; its ladder says how many decoys there will be.
        places: where the shown parts are in the card.
        discloses: the same as paths, with ``*`` for array elements; names, never values.
        nothing_behind: entries asked for that the card has nothing for.
        agreement: the one that decided, if any; never written into the SD-Card either.
        names_agent: members that identify the agent, as ``CardFormat`` has them.
    """

    context: str
    card_format: str
    profile: Profile
    root: DisclosableObject = field(repr=False)
    policy: DisclosurePolicy = field(repr=False)
    places: frozenset[Place] = field(repr=False)
    discloses: tuple[str, ...] = field(repr=False)
    nothing_behind: tuple[str, ...] = field(repr=False)
    agreement: Agreement | None = field(repr=False)
    names_agent: tuple[str, ...] = field(default=(), repr=False)


def plan_disclosure(
    card: Card,
    policy: DisclosurePolicy,
    context: str,
    disclose: Sequence[str] | None = None,
    profile: Profile = SD_CARD,
    where: Where = Where(Part.POLICY),
    partner: Partner | None = None,
) -> DisclosurePlan:
    """Decide for every part of a card whether, and how, an SD-Card for this context shows it.

    Args:
        card: the card.
        policy: the operator's.
        context: the name of one of its contexts.
        disclose: a registration's own list of groups, claims and paths in place of the context's default.
        profile: what is written; says what is in the clear beside what the card's format demands.
        where: the place of ``disclose``, for refusals.
        partner: for whom an SD-Card of the *federation* context is, and when; without one, or without an agreement
            that is in force, that context shows what *public* shows.

    Raises:
        Refused: ``context.unknown``, ``disclose.unknown``, ``disclose.beyond-ceiling`` or ``agreement.unexpected``.
    """
    unnamed = [name for name in card.document if name not in card.format.members]
    agreement = policy.agreement(context, partner, where)
    kinds = policy.kinds(context, card.format, disclose, where, unnamed, agreement)
    permitted = kinds.grant
    clear = {*card.format.always_disclosed, *profile.also_clear}
    _check_clear(clear & card.document.keys(), permitted, where)
    planner = _Planner(card, kinds, clear, policy.skills)
    root = planner.object(card.document, (), (), covered=False)
    places = [place for place, _ in planner.shown]
    asked = permitted.lists[-1] if disclose is not None else ()
    return DisclosurePlan(
        context=context,
        card_format=card.format.family,
        profile=profile,
        root=root,
        policy=policy,
        places=frozenset(places),
        discloses=tuple(dict.fromkeys([family for _, family in planner.shown])),
        nothing_behind=tuple(scope.entry for scope in asked if not any(map(scope.holds, places))),
        agreement=agreement,
        names_agent=card.format.names_agent,
    )


def _check_clear(clear: set[str], permitted: Grant, where: Where) -> None:
    """Refuse a context that must not show what every SD-Card shows: one of the two would silently give way.

    Withholding ``*`` means everything else.
    """
    for name in sorted(clear):
        row = permitted.row((name,))
        if row and row.path.segments and row.treatment is Treatment.WITHHELD:
            hint = f"The context {permitted.context} must not show {name}, which the format or profile always shows."
            raise Refused(Rule.DISCLOSE_BEYOND_CEILING, where, hint)


class _Planner:
    """Walks a card.

    ``like``: a part's place as ``Grant.kind`` has it. ``covered``: it lies within one that has a Disclosure of its own.

    Attributes:
        shown: the parts that are shown, each with its family, and before what is in it.
    """

    def __init__(self, card: Card, kinds: Kinds, clear: set[str], skills: int) -> None:
        self._kinds, self._clear, self._numbered, self._skills = kinds, clear, kinds.grant.numbered, skills
        self._of_skills = {claim_path.segments[:-2] for claim_path in card.format.facts[Fact.SKILL]}
        self._bare = frozenset(_bare(card.document, kinds))
        self.shown: list[tuple[Place, str]] = []

    def object(
        self, members: Mapping[str, JsonValue], place: Place, like: tuple[Segment, ...], covered: bool
    ) -> DisclosableObject:
        """Treat each member, in sorted order: the author's order of members would link this author's cards."""
        parts = {name: self._part(members[name], (*place, name), (*like, name), covered) for name in sorted(members)}
        return DisclosableObject(parts, self._kinds.room(place, covered))

    def _array(
        self, elements: Sequence[JsonValue], place: Place, like: tuple[Segment, ...], covered: bool
    ) -> DisclosableArray:
        parts = [
            self._part(element, (*place, index), (*like, index if self._numbered else None), covered)
            for index, element in enumerate(elements)
        ]
        room = self._kinds.room(place, covered)
        return DisclosableArray(tuple(parts), max(room, self._skills) if room and place in self._of_skills else room)

    def _part(
        self, value: JsonValue, place: Place, like: tuple[Segment, ...], covered: bool
    ) -> tuple[Treatment, Disclosable]:
        kind, before = self._kinds.like(like), len(self.shown)
        if len(place) == 1 and place[0] in self._clear:
            self.shown.append((place, kind.family))
            return Treatment.PLAIN, _in_order(value)
        if not kind.permitted and not (kind.on_the_way and isinstance(value, dict | list)):
            return Treatment.WITHHELD, None
        self.shown.append((place, kind.family))
        treatment = self._how(place, kind, covered)
        inside: Disclosable = _in_order(value)
        if kind.divided or not kind.permitted:  # else nothing inside is treated differently
            within = covered or treatment is Treatment.SELECTIVE
            if isinstance(value, dict):
                inside = self.object(value, place, like, within)
            elif isinstance(value, list):
                inside = self._array(value, place, like, within)
            must_show = value or (kind.forbidden and not kind.permitted)
            if must_show and not self._shows_something(inside, like):
                del self.shown[before:]
                return Treatment.WITHHELD, None
        return treatment, inside

    def _how(self, place: Place, kind: Kind, covered: bool) -> Treatment:
        """How a part that is shown is shown: in the clear only where the policy or the card format says so."""
        if kind.plain or kind.along or place in self._bare:
            return Treatment.PLAIN
        return Treatment.SELECTIVE if kind.own or not covered else Treatment.PLAIN

    def _shows_something(self, inside: Disclosable, like: tuple[Segment, ...]) -> bool:
        """Whether a part that was asked for is shown: a container emptied by its context would say what is not so."""
        if isinstance(inside, DisclosableObject):
            shown = (name for name, (treatment, _) in inside.members.items() if treatment is not Treatment.WITHHELD)
            return any(not self._kinds.like((*like, name)).only_along for name in shown)
        if isinstance(inside, DisclosableArray):
            return any(treatment is not Treatment.WITHHELD for treatment, _ in inside.elements)
        return True


def _in_order(value: JsonValue) -> JsonValue:
    """The same value with the members of all its objects sorted; JSON gives their order no meaning."""
    if isinstance(value, dict):
        return {name: _in_order(value[name]) for name in sorted(value)}
    return [_in_order(element) for element in value] if isinstance(value, list) else value


def _bare(document: JsonObject, kinds: Kinds) -> Iterator[Place]:
    """The places in which something is in the clear, and which therefore are so themselves."""
    for claim_path in kinds.plain:
        for place in claim_path.find(document):
            if kinds.grant.treatment(place) is Treatment.PLAIN:
                yield from (place[:length] for length in range(1, len(place)))
