"""``PartialCard``: the disclosed members of a card.

It gives the whole card where nothing that matters is missing.

An absent member may exist and be withheld, so nothing is filled in for it: no ``[]``, no ``{}``, no default (SD-Card
T-31, DECISIONS 6).

The card formats are imported when a card is examined: to verify a presentation takes none of them.
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
    """The disclosed part of a card. It may have further members.

    Attributes:
        declared_format: the claim ``card_format``, where the SD-Card has one: a family such as ``a2a``, or a format.
        members: the disclosed members, exact JSON values.
        emptied: objects and arrays among them that may have something, of which nothing is shown.
    """

    declared_format: str | None
    members: JsonObject = field(repr=False)
    emptied: frozenset[Place] = field(repr=False)

    @property
    def card_format(self) -> str | None:
        """The format, such as ``a2a/1.0``.

        It is the declared one, or within the declared family as the shown members tell.

        An unknown declaration is returned unchanged.
        """
        from sdcard.cards.detect import format_of

        known = format_of(self.declared_format, self.members)
        return self.declared_format if known is None else known.name

    @property
    def missing(self) -> tuple[Finding, ...]:
        """Every place where the format demands a member that was not disclosed.

        It is empty where the card is complete.

        What the format merely allows may be missing all the same: who is shown no security requirement does not know
        that there is none.
        """
        return _missing(self._examine())

    def complete(self) -> "Card":
        """The card for software that knows nothing of selective disclosure.

        It has the disclosed members and no others.

        What is ``emptied`` is left out: an empty array would say that there is nothing.

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
    """Find what is missing.

    An error counts whatever it is about: the Issuer saw the whole card, and found none.
    """
    return tuple(
        Finding(Rule.CARD_INCOMPLETE, finding.where, _ASK if finding.rule is Rule.CARD_MEMBER_MISSING else finding.hint)
        for finding in examination.findings
        if finding.level is Level.ERROR or (finding.level is Level.WARNING and finding.rule is Rule.CARD_MEMBER_MISSING)
    )


def _without(value: JsonValue, place: Place, emptied: frozenset[Place]) -> JsonValue:
    """Return the value without members that are emptied.

    An array keeps its elements: the others must not move.
    """
    if isinstance(value, dict):
        kept = {name: inner for name, inner in value.items() if (*place, name) not in emptied}
        return {name: _without(inner, (*place, name), emptied) for name, inner in kept.items()}
    if isinstance(value, list):
        return [_without(element, (*place, index), emptied) for index, element in enumerate(value)]
    return value
