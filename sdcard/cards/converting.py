"""Conversion of a card to another format, only on request.

A new conversion is one function beside its format and one row in ``_CONVERSIONS``.
"""

from collections.abc import Callable, Mapping

from sdcard.cards.a2a import conversion as a2a
from sdcard.cards.agentcard import conversion as agentcard
from sdcard.cards.conversion import Conversion
from sdcard.cards.detect import examine_as, examine_document
from sdcard.cards.kno import conversion as kno
from sdcard.cards.model import Card
from sdcard.encoding import frozen
from sdcard.errors import Finding, Level, Misuse, Part, Refused, Where
from sdcard.rules import Rule

_CONVERSIONS: Mapping[tuple[str, str], Callable[[Card], Conversion]] = frozen(
    {
        ("a2a/0.1", "a2a/0.3"): a2a.older_to_0_3,
        ("a2a/0.2", "a2a/0.3"): a2a.older_to_0_3,
        ("a2a/0.1", "a2a/1.0"): a2a.to_1_0,
        ("a2a/0.2", "a2a/1.0"): a2a.to_1_0,
        ("a2a/0.3", "a2a/1.0"): a2a.to_1_0,
        ("a2a/1.0", "a2a/0.3"): a2a.to_0_3,
        ("agentcard/draft-00", "a2a/1.0"): agentcard.to_1_0,
        ("agentcard/mcp-0.1", "a2a/1.0"): agentcard.to_1_0,
        ("agentcard/readme-1.0", "a2a/1.0"): agentcard.to_1_0,
        ("kno/0.1", "a2a/0.3"): kno.to_0_3,
        ("kno/0.1", "a2a/1.0"): kno.to_1_0,
        ("kno/0.2", "a2a/0.3"): kno.to_0_3,
        ("kno/0.2", "a2a/1.0"): kno.to_1_0,
    }
)
"""(Source format, target format) → conversion function."""

TARGETS = tuple(sorted({target for _, target in _CONVERSIONS}))
"""Formats that cards can be converted to."""


def convert_card(card: Card, target: str) -> Conversion:
    """Convert a card to another format, and list what is lost.

    Raises:
        Refused: ``card.not-convertible`` if there is no conversion between the formats, or the result would not be a
            valid card, at every place that prevents it. As ``parse_card`` for a Card that was made by hand and breaks
            the rules of its format.
        Misuse: for another target.
    """
    if target not in TARGETS:
        raise Misuse(f"cards can be converted to {', '.join(TARGETS)}")
    convert = _CONVERSIONS.get((card.format.name, target))
    if convert is None:
        ours = card.format.name == target
        hint = "The card is of that format already." if ours else f"A card of {card.format.name} cannot become one."
        raise Refused(Rule.CARD_UNCONVERTIBLE, Where(Part.CARD), hint)
    try:
        conversion = convert(card)
    except (AttributeError, LookupError, TypeError):
        judged = examine_as(card.format.name, card.document)
        if judged.card is not None:
            raise
        raise Refused.because(judged.findings) from None  # of a card that no reader checked
    _check_result(conversion, target)
    return conversion


def _check_result(conversion: Conversion, target: str) -> None:
    """Refuse an invalid result. Nothing is made up that the target demands."""
    result = examine_document(conversion.document)
    errors = [
        Finding(Rule.CARD_UNCONVERTIBLE, finding.where, finding.hint)
        for finding in result.findings
        if finding.level is Level.ERROR
    ]
    if errors:
        raise Refused.because(errors)
    if result.kind != target:
        raise Refused(Rule.CARD_UNCONVERTIBLE, Where(Part.CARD), "The result would be taken for another format.")
