"""``ClaimRequest``: what a Verifier would like to be shown; what is asked of a card says no more than that.

An entry is a claim path such as ``provider`` or ``skills.*.id``, or the name of a claim group of the card's format such
as ``endpoints``, so that one request fits every version of a card. It has no indices: what is not shown of an array is
not counted either, so a Verifier and a Holder would not mean the same element (SD-Card 7.4.2, SDC-24).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sdcard.cards.format import CardFormat
from sdcard.cards.partial import PartialCard
from sdcard.cards.reading import KNOWN_FORMATS
from sdcard.disclosure.grant import Scope, Vocabulary
from sdcard.encoding import JsonValue
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.paths import ClaimPath, Place, value_at
from sdcard.rules import Rule

MAX_ENTRIES = 32
"""A route that needs more than this of a card should ask for groups. All of them must fit into a header."""
MAX_ENTRY = 128
"""Characters of an entry's text."""
_CALLERS = Where(Part.CHALLENGE, ("requested",))


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """What is asked for. Without entries: nothing but what every SD-Card shows."""

    entries: tuple[ClaimPath, ...] = ()

    def __post_init__(self) -> None:
        problem = _problem(self.entries)
        if problem:
            raise Misuse(problem)

    @classmethod
    def of(cls, *texts: str) -> "ClaimRequest":
        """The same from texts that the caller wrote.

        Raises:
            Misuse: when one is no claim path, or they are too many or too long.
        """
        try:
            return cls.parse(texts, _CALLERS)
        except Refused as refusal:
            raise Misuse(f"a request lists claim paths: {refusal.findings[0].hint or refusal.rule.sentence}") from None

    @classmethod
    def parse(cls, texts: Sequence[object], where: Where) -> "ClaimRequest":
        """A stranger's texts → request.

        Raises:
            Refused: ``challenge.malformed`` for too many, one that is too long, twice there or has an index;
                ``path.malformed``.
        """
        entries = tuple(_parse_entry(text, where.within(number)) for number, text in enumerate(texts))
        problem = _problem(entries)
        if problem:
            raise Refused(Rule.CHALLENGE_MALFORMED, where, f"{problem[0].upper()}{problem[1:]}.")
        return cls(entries)


def scope_of(entry: ClaimPath, card_format: CardFormat | None) -> Scope:
    """The places that an entry stands for in cards of this format; of an unknown format, those of the path."""
    if card_format is None:
        return Scope(str(entry), (entry,))
    return Vocabulary(card_format, {}, {}).read(str(entry), _CALLERS)


def is_shown(card: PartialCard, entry: ClaimPath) -> bool:
    """Whether the card shows something at the entry's places.

    A group is shown when what it is about is: of ``endpoints`` a URL, of ``provider`` a name, of ``skills`` an id. What
    is ``emptied`` shows nothing.
    """
    card_format = KNOWN_FORMATS.get(card.card_format or "")
    scope = scope_of(entry, card_format)
    paths = _about(scope, card_format) if scope.is_group and card_format else scope.paths
    places = (found for path in paths for found in path.find(card.members))
    return any(_is_something(card, place) for place in places)


def undisclosed(card: PartialCard, request: ClaimRequest) -> tuple[ClaimPath, ...]:
    """What was requested and is not shown. Nobody can tell whether it was withheld or is not there."""
    return tuple(entry for entry in request.entries if not is_shown(card, entry))


def leaves(value: JsonValue, place: Place = ()) -> Iterator[Place]:
    """Every place that has a value which is no object or array, or an empty one."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from leaves(inner, (*place, name))
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from leaves(inner, (*place, index))
    else:
        yield place


def _about(group: Scope, card_format: CardFormat) -> tuple[ClaimPath, ...]:
    """Where the facts are that a group of claims is there for; the whole group, where it has none."""
    facts = tuple(f for paths in card_format.facts.values() for f in paths if any(p.includes(f) for p in group.paths))
    return facts or group.paths


def _is_something(card: PartialCard, place: Place) -> bool:
    return any(leaf not in card.emptied for leaf in leaves(value_at(card.members, place), place))


def _parse_entry(text: object, where: Where) -> ClaimPath:
    if not isinstance(text, str) or len(text) > MAX_ENTRY:
        raise Refused(
            Rule.CHALLENGE_MALFORMED, where, f"A requested claim is a text of at most {MAX_ENTRY} characters."
        )
    return ClaimPath.parse(text, where)


def _problem(entries: tuple[ClaimPath, ...]) -> str:
    """Why these are no entries of a request; empty where they are."""
    if not isinstance(entries, tuple) or not all(isinstance(entry, ClaimPath) for entry in entries):
        return "a request is a tuple of claim paths"
    if len(entries) > MAX_ENTRIES or any(len(str(entry)) > MAX_ENTRY for entry in entries):
        return f"a request has at most {MAX_ENTRIES} claim paths of at most {MAX_ENTRY} characters"
    if any(not entry.segments or entry.segments[0] is None for entry in entries):
        return "a requested path begins with a member's name: everything at once is not asked for"
    if any(isinstance(segment, int) for entry in entries for segment in entry.segments):
        return "a requested path has member names and `*`, and no index"
    if len(set(entries)) != len(entries):
        return "a claim is requested once"
    return ""
