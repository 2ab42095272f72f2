"""Disclosure plans for cards, their explanations, and search terms."""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, cast

from sdcard.acceleration import Template
from sdcard.cards.model import Card, CardFormat, Criterion, Fact
from sdcard.disclosable import Disclosable, DisclosableArray, DisclosableObject, Treatment
from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Part, Refused, Where
from sdcard.paths import ClaimPath, Place, encode_segment
from sdcard.policy.context import FEDERATION, Agreement, Partner
from sdcard.policy.model import DisclosurePolicy
from sdcard.policy.rules import ContextRules, Position
from sdcard.profile import SD_CARD, Profile
from sdcard.rules import Rule

# -- Disclosure plans: the treatment of each part of a card, and search terms -----------------------------------------


@dataclass(frozen=True, slots=True)
class DisclosurePlan:
    """The plan of an SD-Card: the treatment of each part of one card for one context.

    Attributes:
        context: its name; never written into the SD-Card.
        card_format: the family, for the claim ``card_format``: hidden members can decide the version.
        profile: the profile of the SD-Card.
        root: the card, each part with its treatment.
        policy: the operator's policy; its sizes determine the number of decoys.
        places: places of the shown parts in the card.
        discloses: their paths, with ``*`` for array elements; names, never values.
        nothing_behind: entries of the list that the card has nothing for.
        agreement: the agreement that decided, if any; never written into the SD-Card.
        names_agent: members that identify the agent, as ``CardFormat`` has them.
        templates: what the kernel keeps of the plan, once an SD-Card was issued; a copy of the plan begins without.
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
    templates: list[Template | None] = field(default_factory=list, init=False, repr=False, compare=False)


def plan_disclosure(
    card: Card,
    policy: DisclosurePolicy,
    context: str,
    disclose: Sequence[str] | None = None,
    profile: Profile = SD_CARD,
    where: Where = Where(Part.POLICY),
    partner: Partner | None = None,
) -> DisclosurePlan:
    """Decide how an SD-Card for this context treats every part of a card.

    Args:
        disclose: a registration's list of groups, claims and paths instead of the context's choice.
        profile: names members in the clear, beside those that the card's format demands.
        where: the place of ``disclose``, for refusals.
        partner: the partner for *federation*, and the instant. Without a partner, or an agreement in force, that
            context shows what *public* shows.

    Raises:
        Refused: ``context.unknown``, ``disclose.unknown``, ``disclose.beyond-ceiling`` or ``agreement.unexpected``.
    """
    document = _signable(card)
    unnamed = [name for name in document if name not in card.format.members]
    agreement = policy.agreement(context, partner, where)
    rules = policy.rules(context, card.format, disclose, where, unnamed, agreement)
    clear = {*card.format.always_disclosed, *profile.also_clear}
    _check_clear(clear & document.keys(), rules, where)
    walk = _Walk(card.format, document, rules, clear, policy.skills)
    members, _ = walk.members(document, (), walk.start, "", covered=False)
    asked = [] if disclose is None else rules.listed()
    return DisclosurePlan(
        context=context,
        card_format=card.format.family,
        profile=profile,
        root=DisclosableObject(members, rules.top_digests),
        policy=policy,
        places=frozenset([place for place, _ in walk.shown]),
        discloses=tuple(dict.fromkeys([family for _, family in walk.shown])),
        nothing_behind=tuple(entry.text for entry, bit in asked if not walk.applied & bit),
        agreement=agreement,
        names_agent=card.format.names_agent,
    )


def withhold(plan: DisclosurePlan, member: str) -> DisclosurePlan:
    """Withhold a top-level member of a card, whatever the context shows."""
    members = {name: _NOT_SHOWN if name == member else part for name, part in plan.root.members.items()}
    return replace(
        plan,
        root=replace(plan.root, members=members),
        places=frozenset([place for place in plan.places if place[0] != member]),
        discloses=tuple([path for path in plan.discloses if path.partition(".")[0] != member]),
    )


def _signable(card: Card) -> JsonObject:
    """Leave out what an agent must not claim about itself (AgentCard 8.4)."""
    prefix = card.format.self_declared
    return cast(JsonObject, _without(card.document, prefix)) if prefix else card.document


def _without(value: JsonValue, prefix: str) -> JsonValue:
    if isinstance(value, dict):
        return {name: _without(inside, prefix) for name, inside in value.items() if not name.startswith(prefix)}
    return [_without(element, prefix) for element in value] if isinstance(value, list) else value


def _check_clear(clear: set[str], rules: ContextRules, where: Where) -> None:
    """Refuse a context that withholds by name what every SD-Card shows."""
    start = rules.start()
    for name in sorted(clear):
        if rules.withholds_by_name(start.into(name)):
            hint = f"The policy withholds {name} in the context {rules.context}, but every such SD-Card shows it."
            raise Refused(Rule.DISCLOSE_BEYOND_CEILING, where, hint)


_Treated: TypeAlias = tuple[Treatment, Disclosable]
_NOT_SHOWN: _Treated = (Treatment.WITHHELD, None)


class _Walk:
    """A walk through a card, beside the trie of the rules.

    Attributes:
        start: the position of the whole card.
        shown: the shown parts with their paths, each before the parts inside.
        applied: bits of the rules that apply to these parts.
    """

    def __init__(
        self, card_format: CardFormat, document: JsonObject, rules: ContextRules, clear: set[str], skills: int
    ) -> None:
        self._document, self._rules, self._clear, self._skills = document, rules, clear, skills
        self._of_skills = {claim_path.segments[:-2] for claim_path in card_format.facts[Fact.SKILL]}
        self.start = rules.start()
        self._bare = frozenset(self._places_around_plain()) if rules.plain else frozenset()
        self.shown: list[tuple[Place, str]] = []
        self.applied = 0

    def members(
        self, members: Mapping[str, JsonValue], place: Place, at: Position, family: str, covered: bool
    ) -> tuple[dict[str, _Treated], bool]:
        """Treat each member, sorted: the author's order would link the author's cards.

        Also return whether a member is shown for its own sake: showing a container that its context emptied would be
        false.
        """
        shows = False
        parts: dict[str, _Treated] = {}
        for name in sorted(members):
            inner = at.into(name)
            path = family + (name if name.isidentifier() else encode_segment(name))
            parts[name] = part = self._part(members[name], (*place, name), inner, path, covered)
            shows = shows or (part is not _NOT_SHOWN and inner.counts)
        return parts, shows

    def _elements(
        self, elements: Sequence[JsonValue], place: Place, at: Position, family: str, covered: bool
    ) -> tuple[DisclosableArray, bool]:
        parts = [
            self._part(element, (*place, index), at.into(index), family, covered)
            for index, element in enumerate(elements)
        ]
        room = at.room(covered)
        least = max(room, self._skills) if room and place in self._of_skills else room
        return DisclosableArray(tuple(parts), least), any([part is not _NOT_SHOWN for part in parts])

    def _part(self, value: JsonValue, place: Place, at: Position, family: str, covered: bool) -> _Treated:
        """Treat one part. ``covered``: a part around it has its own Disclosure."""
        if len(place) == 1 and place[0] in self._clear:
            self._show(place, at, family)
            return Treatment.PLAIN, _in_order(value)
        if not at.permitted and not (at.leads and isinstance(value, dict | list)):
            return _NOT_SHOWN
        before, applied = len(self.shown), self.applied
        self._show(place, at, family)
        treatment = self._how(place, at, covered)
        if not isinstance(value, dict | list):
            return treatment, value
        if at.permitted and not at.divided:  # nothing inside is treated differently
            return treatment, _in_order(value)
        within = covered or treatment is Treatment.SELECTIVE
        inside: Disclosable
        if isinstance(value, dict):
            parts, shows = self.members(value, place, at, family + ".", within)
            inside = DisclosableObject(parts, at.room(within))
        else:
            inside, shows = self._elements(value, place, at, family + ".*", within)
        if not shows and (value or at.forbidden):
            del self.shown[before:]
            self.applied = applied
            return _NOT_SHOWN
        return treatment, inside

    def _show(self, place: Place, at: Position, family: str) -> None:
        self.shown.append((place, family))
        self.applied |= at.applying

    def _how(self, place: Place, at: Position, covered: bool) -> Treatment:
        """Choose the treatment of a shown part: plain only by policy or card format."""
        if at.treatment is Treatment.PLAIN or at.along or place in self._bare:
            return Treatment.PLAIN
        return Treatment.SELECTIVE if at.own or not covered else Treatment.PLAIN

    def _places_around_plain(self) -> Iterator[Place]:
        """Return the containers of all plain places, which are therefore plain too."""
        for claim_path in self._rules.plain:
            for place in claim_path.find(self._document):
                if self.start.at(place).treatment is Treatment.PLAIN:
                    yield from (place[:length] for length in range(1, len(place)))


def _in_order(value: JsonValue) -> JsonValue:
    """Sort the members of all objects in a value; their order has no meaning in JSON."""
    if isinstance(value, dict):
        return {name: _in_order(value[name]) for name in sorted(value)}
    return [_in_order(element) for element in value] if isinstance(value, list) else value


# -- Search terms -----------------------------------------------------------------------------------------------------

Term: TypeAlias = tuple[Criterion, str]

MOST_TERMS = 1024
"""Terms of one agent in one context. The last terms of a longer card are not indexed."""

_MOST_TEXT = 16_384
"""Characters of all texts for one criterion: a character can become eighteen in the normal form."""
_APART = str.maketrans({one: " " for one in map(chr, range(128)) if not one.isalnum()})
"""Separators of words, in ASCII."""


def terms_of(plan: DisclosurePlan, card_format: CardFormat) -> tuple[Term, ...]:
    """Return the search terms of an SD-Card of this plan, each once.

    Terms of cards and of queries have one normal form: NFKC, case folded, runs of white space as one space. A word is a
    run of letters, marks and digits.
    """
    document = shown(plan.root)
    found: list[Term] = []
    for criterion in Criterion:
        texts = _cut(criterion, _texts(criterion, card_format.found_by[criterion], document))
        found += [(criterion, text) for text in dict.fromkeys(_normalized(criterion, texts))]
    return tuple(found[:MOST_TERMS])


def all_terms(criterion: Criterion, card: Card) -> frozenset[Term]:
    """Return every term of a whole card; a plan has no others, but of a cut text."""
    texts = _texts(criterion, card.format.found_by[criterion], card.document)
    return frozenset([(criterion, one) for one in _normalized(criterion, texts)])


def shown(disclosable: Disclosable) -> JsonValue:
    """Return the value with every Disclosure, without withheld parts."""
    if isinstance(disclosable, DisclosableObject):
        members = disclosable.members.items()
        return {name: shown(part) for name, (treatment, part) in members if treatment is not Treatment.WITHHELD}
    if isinstance(disclosable, DisclosableArray):
        return [shown(part) for treatment, part in disclosable.elements if treatment is not Treatment.WITHHELD]
    return disclosable


def query_terms(criterion: Criterion, text: str) -> tuple[Term, ...]:
    """Return the terms that an agent must have to match this text."""
    return tuple([(criterion, one) for one in dict.fromkeys(_normalized(criterion, [text]))])


def _texts(criterion: Criterion, paths: Sequence[ClaimPath], document: JsonValue) -> list[str]:
    if criterion is Criterion.CAPABILITIES:
        return [str(place[-1]) for one in paths for place, value in one.parts(document) if value is True]
    return [value for one in paths for value in one.values(document) if isinstance(value, str)]


def _cut(criterion: Criterion, texts: Sequence[str]) -> list[str]:
    """Return the first texts, up to the maximum of characters.

    The last text is cut only if each word counts for itself: half an id could be another id.
    """
    room = _MOST_TEXT
    kept: list[str] = []
    for text in texts:
        if room <= 0:
            break
        kept += [text[:room]] if criterion is Criterion.TEXT or len(text) <= room else []
        room -= len(text)
    return kept


def _normalized(criterion: Criterion, texts: Sequence[str]) -> list[str]:
    if criterion is Criterion.TEXT:  # words of many texts are those of one: none goes over the end of a line
        return _words(_folded("\n".join(texts)))
    wholes = [" ".join(_folded(text).split()) for text in texts]
    if criterion is Criterion.CAPABILITIES:
        wholes = [whole.replace("_", "") for whole in wholes]  # push_notifications is pushNotifications spelt otherwise
    return [whole for whole in wholes if whole]


def _folded(text: str) -> str:
    if text.isascii():  # all that there is to fold is case
        return text.lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def _words(folded: str) -> list[str]:
    if folded.isascii():
        return folded.translate(_APART).split()
    return "".join([one if unicodedata.category(one)[0] in "LMN" else " " for one in folded]).split()


# -- The treatment of each part of a card in several contexts, side by side -------------------------------------------


@dataclass(frozen=True, slots=True)
class ExplainedPart:
    """A part of a card.

    Attributes:
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
        contexts: names; None for all contexts of the policy.
        partner: the partner for *federation*, and the instant.

    Raises:
        Refused: as ``plan_disclosure``.
    """
    names = tuple(policy.contexts if contexts is None else contexts)
    roots = [
        plan_disclosure(card, policy, name, profile=profile, partner=partner if name == FEDERATION.name else None).root
        for name in names
    ]
    whole = _part(_signable(card), (), [(Treatment.PLAIN, root) for root in roots])
    return Explanation(card.format.name, names, whole.parts)


def _part(value: JsonValue, place: Place, shown: Sequence[tuple[Treatment, Disclosable]]) -> ExplainedPart:
    divided = any(isinstance(inside, DisclosableObject | DisclosableArray) for _, inside in shown)
    parts: Iterable[tuple[str | int, JsonValue]] = ()
    if divided and isinstance(value, dict | list):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
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
