"""The terms that an agent is found by: what an SD-Card of one context shows of its card, as normalised text.

Whatever a plan withholds is not looked at, so nobody can ask about it. The same normal form makes the terms of a card
and those of a query: NFKC, case folded, runs of white space as one space. A word is a run of letters, marks and digits.
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import TypeAlias

from sdcard.cards.format import CardFormat, Criterion
from sdcard.disclosable import shown
from sdcard.disclosure.plan import DisclosurePlan
from sdcard.encoding import JsonValue
from sdcard.paths import Place

_CRITERIA = tuple(Criterion)
Term: TypeAlias = tuple[Criterion, str]

MOST_TERMS = 1024
"""Of one agent in one context. What a longer card says last is not found by it."""

_ASCII_WORD = re.compile("[a-z0-9]+")


def terms_of(plan: DisclosurePlan, card_format: CardFormat) -> tuple[Term, ...]:
    """Everything that an SD-Card of this plan is found by, each term once.

    Args:
        plan: what the SD-Card can show.
        card_format: that of the plan's card; says by what its cards are found.
    """
    document, found = shown(plan.root), list[Term]()
    for criterion in _CRITERIA:
        parts = [part for claim_path in card_format.found_by[criterion] for part in claim_path.parts(document)]
        found += [(criterion, text) for text in dict.fromkeys(_texts(criterion, parts))]
    return tuple(found[:MOST_TERMS])


def query_terms(criterion: Criterion, text: str) -> tuple[Term, ...]:
    """The terms that an agent must have to be found by this text; none for a text that says nothing."""
    return tuple([(criterion, one) for one in dict.fromkeys(_normalized(criterion, text))])


def _texts(criterion: Criterion, parts: Sequence[tuple[Place, JsonValue]]) -> list[str]:
    if criterion is Criterion.CAPABILITIES:
        texts = [str(place[-1]) for place, value in parts if value is True]
    else:
        texts = [value for _, value in parts if isinstance(value, str)]
    if criterion is Criterion.TEXT:  # words of many texts are those of one: none goes over the end of a line
        texts = ["\n".join(texts)]
    return [one for text in texts for one in _normalized(criterion, text)]


def _normalized(criterion: Criterion, text: str) -> list[str]:
    folded = text.lower() if text.isascii() else _folded(text)  # in ASCII all that there is to fold is case
    if criterion is Criterion.TEXT:
        return _words(folded)
    whole = " ".join(folded.split())
    if criterion is Criterion.CAPABILITIES:
        whole = whole.replace("_", "")  # push_notifications is the other spelling of pushNotifications
    return [whole] if whole else []


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def _words(folded: str) -> list[str]:
    if folded.isascii():
        return _ASCII_WORD.findall(folded)
    return "".join([one if unicodedata.category(one)[0] in "LMN" else " " for one in folded]).split()
