"""Result of a conversion between card formats, with a report of what is lost."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sdcard.cards.a2a.v1_0 import Scheme
from sdcard.cards.schema import ArrayOf, MapOf, Object, Shape, Tagged, snake_case
from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Finding, Level, Part, Refused, Where, first_findings
from sdcard.paths import Place
from sdcard.rules import Rule

_SECURITY = frozenset(
    {"auth", "authentication", "authorization", "security", "securityrequirements", "securityschemes"}
)
"""Names that formats use for security members, in lower case and without underscores."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """Result of a conversion.

    Attributes:
        document: the card in the other format, unsigned: signatures cover the original card.
        lost: members that differ or are missing, with their place in the original: warnings for lost information, notes
            for information that is expressed differently. Apart from these, converting back gives the original card.
    """

    document: JsonObject = field(repr=False)
    lost: tuple[Finding, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "lost", tuple(first_findings(self.lost)))


def check_security_is_read(document: JsonObject, own: Place) -> None:
    """Refuse security members that the card's format does not read.

    Args:
        own: the place that the format reads.

    Raises:
        Refused: ``card.not-convertible``, at each such place.
    """
    hint = f"This says how to get in, and the card's format reads that in {'.'.join(map(str, own))}: move it there."
    stated = [place for place in _stated(document) if place != own]
    if stated:
        raise Refused.because([Finding(Rule.CARD_UNCONVERTIBLE, Where(Part.CARD, place), hint) for place in stated])


def _stated(document: JsonObject) -> Iterator[Place]:
    """List the places that state security: in the card, its parts, and their elements."""
    parts: list[tuple[Place, JsonValue]] = [((), document)]
    parts += [((name,), part) for name, part in document.items()]
    parts += [((*p, i), one) for p, part in parts[1:] if isinstance(part, list) for i, one in enumerate(part)]
    for place, part in parts:
        for name, value in part.items() if isinstance(part, dict) else ():
            if value and name.replace("_", "").lower() in _SECURITY:
                yield (*place, name)


MISTAKEN = "It is left out: the other A2A version would take it for its own member of this name."

SPELT = "It is spelt in camelCase."


class Losses:
    """Findings about losses. A later finding about a place replaces an earlier one.

    The conversion sees one spelling of each name. A finding names its place as the author spelt it.
    """

    def __init__(self) -> None:
        self._found: dict[Where, Finding] = {}
        self._spelt: dict[Where, str] = {}

    def add(self, where: Where, hint: str, level: Level = Level.WARNING) -> None:
        """Record that this place is lost; or, as a note, that it is expressed differently."""
        place = self._as_spelt(where)
        self._found[place] = Finding(Rule.CARD_LOST, place, hint, level)

    def respell(self, where: Where, spelling: str) -> None:
        """Record that the author spelt the last name of this place differently."""
        self._spelt[where] = spelling
        self.add(where, SPELT, Level.NOTE)

    def refusal(self, where: Where, hint: str) -> Refused:
        """Make a refusal: this place has no valid counterpart in the other version."""
        return Refused(Rule.CARD_UNCONVERTIBLE, self._as_spelt(where), hint)

    def all(self) -> tuple[Finding, ...]:
        """Return all findings, in the order of their places."""
        return tuple(self._found.values())

    def _as_spelt(self, where: Where) -> Where:
        ends = range(1, len(where.path) + 1)
        spelt = (self._spelt.get(Where(where.part, where.path[:end]), where.path[end - 1]) for end in ends)
        return Where(where.part, tuple(spelt))


def tidy(value: Any, shape: Shape, where: Where, losses: Losses) -> Any:
    """Return a copy with known members in camelCase, and without null members.

    Both are equivalent for readers (ProtoJSON). Members that no table names stay unchanged.
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
    """Return the members without these names, in either spelling, and record the loss."""
    spellings = {spelling for name in names for spelling in (name, snake_case(name))}
    for name in [name for name in members if name in spellings]:
        losses.add(where.within(name), hint, Level.NOTE if members[name] is None else Level.WARNING)
    return {name: value for name, value in members.items() if name not in spellings}


def renamed(members: JsonObject, old: str, new: str, where: Where, losses: Losses) -> dict[str, Any]:
    """Rename one member; remove a member that already has the new name."""
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
