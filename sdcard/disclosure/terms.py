"""The terms that an agent is found by: what an SD-Card of one context shows of its card, as normalised text.

Whatever a plan withholds is not looked at, so nobody can ask about it. The same normal form makes the terms of a card
and those of a query: NFKC, case folded, runs of white space as one space. A word is a run of letters, marks and digits.
"""

import re
import unicodedata
from typing import TypeAlias

from sdcard.cards.format import CardFormat, Criterion
from sdcard.disclosable import shown
from sdcard.disclosure.plan import DisclosurePlan
from sdcard.encoding import JsonValue
from sdcard.paths import Place

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
    document, found = shown(plan.root), dict[Term, None]()
    for criterion in Criterion:
        for claim_path in card_format.found_by[criterion]:
            for place, value in claim_path.parts(document):
                for text in _texts(criterion, place, value):
                    found[criterion, text] = None
    return tuple(found)[:MOST_TERMS]


def query_terms(criterion: Criterion, text: str) -> tuple[Term, ...]:
    """The terms that an agent must have to be found by this text; none for a text that says nothing."""
    return tuple(dict.fromkeys((criterion, one) for one in _normalized(criterion, text)))


def _texts(criterion: Criterion, place: Place, value: JsonValue) -> list[str]:
    if criterion is Criterion.CAPABILITIES:
        return _normalized(criterion, str(place[-1])) if value is True else []
    return _normalized(criterion, value) if isinstance(value, str) else []


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
