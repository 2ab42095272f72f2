"""``Conversion``: a document of another format, with its losses.

The losses are the parts of the card that could not be carried over.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Finding, Part, Refused, Where, first_findings
from sdcard.paths import Place
from sdcard.rules import Rule

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
