"""``PartialCard``: the disclosed members of a card.

An absent member may exist and be withheld, so nothing is filled in for it: no ``[]``, no ``{}``, no default (SD-Card
T-31, DECISIONS 6). The card formats are imported when a card is examined: verifying a presentation needs none.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Finding, Level, Refused
from sdcard.paths import Place
from sdcard.rules import Rule

if TYPE_CHECKING:
    from sdcard.cards.detect import Examination
    from sdcard.cards.model import Card

_ASK = "Ask for it: it was not disclosed, or the card has none."


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialCard:
    """The disclosed part of a card, which may have further members.

    Attributes:
        declared_format: the claim ``card_format``, if any: a family such as ``a2a``, or a format.
        members: the disclosed members, exact JSON values.
        emptied: disclosed objects and arrays of which every part is hidden.
    """

    declared_format: str | None
    members: JsonObject = field(repr=False)
    emptied: frozenset[Place] = field(repr=False)

    @property
    def card_format(self) -> str | None:
        """The format, such as ``a2a/1.0``; an unknown declaration unchanged.

        Within a declared family, the disclosed members decide the version.
        """
        from sdcard.cards.detect import format_of

        known = format_of(self.declared_format, self.members)
        return self.declared_format if known is None else known.name

    @property
    def missing(self) -> tuple[Finding, ...]:
        """Every place where the format demands a member that was not disclosed.

        It is empty for a complete card. Optional members may be hidden all the same: without a security requirement in
        ``members``, the card may still have one.
        """
        return _missing(self._examine())

    def complete(self) -> "Card":
        """Return the card for software without selective disclosure.

        Containers in ``emptied`` are left out, because an empty array would say that there is nothing.

        Raises:
            Refused: ``card.incomplete``, once for every place that ``missing`` names.
        """
        examination = self._examine()
        missing = _missing(examination)
        if missing or examination.card is None:
            raise Refused.because(missing)
        return examination.card

    def _examine(self) -> "Examination":
        from sdcard.cards.detect import examine_as

        shown = _without(self.members, (), self.emptied)
        return examine_as(self.card_format or "", shown if isinstance(shown, dict) else {})


def _missing(examination: "Examination") -> tuple[Finding, ...]:
    """Find what is missing. Every error counts, since the Issuer found none."""
    return tuple(
        Finding(Rule.CARD_INCOMPLETE, finding.where, _ASK if finding.rule is Rule.CARD_MEMBER_MISSING else finding.hint)
        for finding in examination.findings
        if finding.level is Level.ERROR or (finding.level is Level.WARNING and finding.rule is Rule.CARD_MEMBER_MISSING)
    )


def _without(value: JsonValue, place: Place, emptied: frozenset[Place]) -> JsonValue:
    """Return the value without emptied members. Arrays keep their elements."""
    if isinstance(value, dict):
        kept = {name: inner for name, inner in value.items() if (*place, name) not in emptied}
        return {name: _without(inner, (*place, name), emptied) for name, inner in kept.items()}
    if isinstance(value, list):
        return [_without(element, (*place, index), emptied) for index, element in enumerate(value)]
    return value
