"""The result of a conversion, and a report of what it loses."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sdcard.cards.a2a.v1_0 import Scheme
from sdcard.cards.schema import ArrayOf, MapOf, Object, Shape, Tagged, snake_case
from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Finding, Level, Part, Refused, Where, first_findings
from sdcard.paths import Place
from sdcard.rules import Rule

# -- ``Conversion``: a document of another format, with its losses ----------------------------------------------------
# The losses are the parts of the card that could not be carried over.

_SECURITY = frozenset(
    {"auth", "authentication", "authorization", "security", "securityrequirements", "securityschemes"}
)
"""What formats call the way in, without underscores and capital letters."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """Result of a conversion.

    Attributes:
        document: of the other format. It is not signed: signatures are over the card as it was.
        lost: what is not in the document as it was in the card, with its place in the card; warnings where something
            that the card says is gone, notes where it is said in another way. Converting the document back gives
            the card again, apart from this.
    """

    document: JsonObject = field(repr=False)
    lost: tuple[Finding, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "lost", tuple(first_findings(self.lost)))


def check_security_is_read(document: JsonObject, own: Place) -> None:
    """Refuse a card that states security where its format has none.

    Nobody reads it there, and it would be lost.

    Args:
        document: the card.
        own: where its format states it.

    Raises:
        Refused: ``card.not-convertible``, at each such place.
    """
    hint = f"This says how to get in, and the card's format reads that in {'.'.join(map(str, own))}: move it there."
    stated = [place for place in _stated(document) if place != own]
    if stated:
        raise Refused.because([Finding(Rule.CARD_UNCONVERTIBLE, Where(Part.CARD, place), hint) for place in stated])


def _stated(document: JsonObject) -> Iterator[Place]:
    """List the places that state security.

    They may be in the card, its parts, and elements of them, such as a skill.
    """
    parts: list[tuple[Place, JsonValue]] = [((), document)]
    parts += [((name,), part) for name, part in document.items()]
    parts += [((*p, i), one) for p, part in parts[1:] if isinstance(part, list) for i, one in enumerate(part)]
    for place, part in parts:
        for name, value in part.items() if isinstance(part, dict) else ():
            if value and name.replace("_", "").lower() in _SECURITY:
                yield (*place, name)


# -- Losses of a conversion between A2A versions ----------------------------------------------------------------------
# The conversion works on one spelling, which is made here.
#
# Every finding names its place as the author spelt it, although the conversion sees one spelling only.

MISTAKEN = "It is left out: the other A2A version would take it for its own member of this name."

SPELT = "It is spelt in camelCase."


class Losses:
    """Findings about what is lost, one for a place: a later one knows more."""

    def __init__(self) -> None:
        self._found: dict[Where, Finding] = {}
        self._spelt: dict[Where, str] = {}

    def add(self, where: Where, hint: str, level: Level = Level.WARNING) -> None:
        """Record that this place is not carried over.

        For a note, record that it is said in another way.
        """
        place = self._as_spelt(where)
        self._found[place] = Finding(Rule.CARD_LOST, place, hint, level)

    def respell(self, where: Where, spelling: str) -> None:
        """The author spelt the last member of this place otherwise."""
        self._spelt[where] = spelling
        self.add(where, SPELT, Level.NOTE)

    def refusal(self, where: Where, hint: str) -> Refused:
        """There is no sound card of the other version, because of this place."""
        return Refused(Rule.CARD_UNCONVERTIBLE, self._as_spelt(where), hint)

    def all(self) -> tuple[Finding, ...]:
        """All of them, in the order in which their places were met."""
        return tuple(self._found.values())

    def _as_spelt(self, where: Where) -> Where:
        ends = range(1, len(where.path) + 1)
        spelt = (self._spelt.get(Where(where.part, where.path[:end]), where.path[end - 1]) for end in ends)
        return Where(where.part, tuple(spelt))


def tidy(value: Any, shape: Shape, where: Where, losses: Losses) -> Any:
    """Return a copy with one spelling and without null members.

    Members that the shape names are in camelCase.

    Both are the same to a reader (ProtoJSON). Members that no table names stay as they are.
    """
    match shape, value:
        case Scheme(), _:
            return tidy(value, shape.written_as(value), where, losses)
        case Tagged(tag, cases), dict():
            return tidy(value, cases[str(value[tag])], where, losses)
        case Object(members, legacy), dict():
            return _tidy_members(value, {**members, **legacy}, where, losses)
        case ArrayOf(element), list():
            return [tidy(inner, element, where.within(index), losses) for index, inner in enumerate(value)]
        case MapOf(element), dict():
            return {name: tidy(inner, element, where.within(name), losses) for name, inner in value.items()}
    return value


def without(
    members: JsonObject, names: Iterable[str], where: Where, losses: Losses, hint: str = MISTAKEN
) -> dict[str, Any]:
    """Return the members without those of these names, in either spelling.

    What they say is lost.
    """
    spellings = {spelling for name in names for spelling in (name, snake_case(name))}
    for name in spellings & members.keys():
        losses.add(where.within(name), hint, Level.NOTE if members[name] is None else Level.WARNING)
    return {name: value for name, value in members.items() if name not in spellings}


def renamed(members: JsonObject, old: str, new: str, where: Where, losses: Losses) -> dict[str, Any]:
    """The members, one of them under another name, which only this one may have."""
    kept = without(members, (new,), where, losses)
    return {new if name == old else name: value for name, value in kept.items()}


def _tidy_members(value: JsonObject, known: dict[str, Any], where: Where, losses: Losses) -> JsonObject:
    names = {spelling: name for name in known for spelling in (snake_case(name), name)}
    tidied: JsonObject = {}
    for spelling, inner in value.items():
        name = names.get(spelling)
        if name is None:
            tidied[spelling] = inner
        elif inner is None:
            losses.add(where.within(spelling), "It is null, which is the same as not there.", Level.NOTE)
        else:
            if name != spelling:
                losses.respell(where.within(name), spelling)
            tidied[name] = tidy(inner, known[name].shape, where.within(name), losses)
    return tidied
