"""``Card``: a validated agent card of any format.

The module also finds names that no card may use.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

from sdcard.cards.format import CardFormat
from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Finding, Part, Refused, Where, first_findings
from sdcard.limits import DEEPEST
from sdcard.names import RESERVED_ANYWHERE, RESERVED_AT_TOP
from sdcard.paths import Place
from sdcard.rules import Rule

_HAS_PARTS = (dict, list)


@dataclass(frozen=True, slots=True)
class Card:
    """A document that its format accepts.

    Attributes:
        format: the specification that the document follows.
        document: the members exactly as read, unknown ones among them; not to be changed. ``signatures`` are not
            in it: they are checked on the whole card and cannot survive partial disclosure (SD-Card T-32).
        findings: what a careful author would still mend; never an error.

    Raises:
        Refused: ``card.reserved-member`` or ``json.depth``, for a document that no reader checked.
    """

    format: CardFormat
    document: JsonObject = field(repr=False)
    findings: tuple[Finding, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        reserved = reserved_members(self.document)
        if reserved:
            raise Refused.because(reserved)
        if _is_deeper(self.document, DEEPEST):
            raise Refused(Rule.JSON_DEPTH, Where(Part.CARD), f"A card nests at most {DEEPEST} deep.")


def _is_deeper(document: JsonObject, most: int) -> bool:
    """Whether arrays and objects nest deeper than functions that are recursive can go."""
    level: list[JsonObject | list[JsonValue]] = [document]
    for _ in range(most):
        inner = (part for one in level for part in (one.values() if isinstance(one, dict) else one))
        level = [part for part in inner if isinstance(part, _HAS_PARTS)]
        if not level:
            return False
    return True


def reserved_members(document: JsonObject) -> tuple[Finding, ...]:
    """Find members whose names would collide with claims of the SD-Card.

    They would land on a claim with another meaning.

    A card's ``status`` or ``exp`` would be taken for the SD-Card's own, and ``_sd`` for digests of the Issuer's.

    RFC 9901 4.1, SD-Card T-30.
    """
    at_top = [(name,) for name in document if name in RESERVED_AT_TOP]
    hint = "Rename this member: in an SD-Card its name belongs to a claim with another meaning."
    places = chain(at_top, _reserved_anywhere(document)) if _has_reserved(document) else iter(at_top)
    return tuple(first_findings(Finding(Rule.CARD_RESERVED, Where(Part.CARD, place), hint) for place in places))


def _has_reserved(document: JsonObject) -> bool:
    """Whether a member with a reserved name exists, so that a search is worthwhile.

    The function is iterative, since a caller may hand over a document that no limit on depth was applied to.
    """
    waiting: list[JsonObject | list[JsonValue]] = [document]
    for inner in waiting:  # which grows
        if isinstance(inner, list):
            waiting += [part for part in inner if isinstance(part, _HAS_PARTS)]
        elif RESERVED_ANYWHERE.isdisjoint(inner):
            waiting += [part for part in inner.values() if isinstance(part, _HAS_PARTS)]
        else:
            return True
    return False


def _reserved_anywhere(document: JsonObject) -> Iterator[Place]:
    waiting: list[tuple[JsonValue, Place]] = [(document, ())]
    while waiting:
        inner, place = waiting.pop()
        if isinstance(inner, dict):
            if not RESERVED_ANYWHERE.isdisjoint(inner):
                yield from ((*place, name) for name in inner if name in RESERVED_ANYWHERE)
            parts = [(part, (*place, name)) for name, part in inner.items() if isinstance(part, _HAS_PARTS)]
            waiting += parts[::-1]
        elif isinstance(inner, list):
            elements = [(part, (*place, index)) for index, part in enumerate(inner) if isinstance(part, _HAS_PARTS)]
            waiting += elements[::-1]
