"""Search terms of an agent, as normalised text.

They are what an SD-Card of one context shows of its card.

Whatever a plan withholds is not looked at, so nobody can ask about it. The same normal form makes the terms of a card
and those of a query: NFKC, case folded, runs of white space as one space. A word is a run of letters, marks and digits.
"""

import unicodedata
from collections.abc import Sequence
from typing import TypeAlias

from sdcard.cards.format import CardFormat, Criterion
from sdcard.disclosable import shown
from sdcard.disclosure.plan import DisclosurePlan
from sdcard.encoding import JsonValue
from sdcard.paths import ClaimPath

_CRITERIA = tuple(Criterion)
Term: TypeAlias = tuple[Criterion, str]

MOST_TERMS = 1024
"""Of one agent in one context. What a longer card says last is not found by it."""

_MOST_TEXT = 16_384
"""Characters of all texts that one criterion looks at: a character can become eighteen in the normal form."""
_APART = str.maketrans({one: " " for one in map(chr, range(128)) if not one.isalnum()})
"""What stands between words, in ASCII."""


def terms_of(plan: DisclosurePlan, card_format: CardFormat) -> tuple[Term, ...]:
    """Everything that an SD-Card of this plan is found by, each term once.

    Args:
        plan: what the SD-Card can show.
        card_format: that of the plan's card; says by what its cards are found.
    """
    document, found = shown(plan.root), list[Term]()
    for criterion in _CRITERIA:
        texts = _cut(_texts(criterion, card_format.found_by[criterion], document))
        found += [(criterion, text) for text in dict.fromkeys(_normalized(criterion, texts))]
    return tuple(found[:MOST_TERMS])


def query_terms(criterion: Criterion, text: str) -> tuple[Term, ...]:
    """Return the terms that an agent must have to match this text.

    A text that says nothing has none.
    """
    return tuple([(criterion, one) for one in dict.fromkeys(_normalized(criterion, [text]))])


def _texts(criterion: Criterion, paths: Sequence[ClaimPath], document: JsonValue) -> list[str]:
    if criterion is Criterion.CAPABILITIES:
        return [str(place[-1]) for one in paths for place, value in one.parts(document) if value is True]
    return [value for one in paths for value in one.values(document) if isinstance(value, str)]


def _cut(texts: Sequence[str]) -> list[str]:
    """Return the first texts, up to so many characters together.

    The last of them may lack its end.
    """
    kept, room = list[str](), _MOST_TEXT
    for text in texts:
        if room <= 0:
            break
        kept.append(text[:room])
        room -= len(text)
    return kept


def _normalized(criterion: Criterion, texts: Sequence[str]) -> list[str]:
    if criterion is Criterion.TEXT:  # words of many texts are those of one: none goes over the end of a line
        return _words(_folded("\n".join(texts)))
    wholes = [" ".join(_folded(text).split()) for text in texts]
    if criterion is Criterion.CAPABILITIES:
        wholes = [whole.replace("_", "") for whole in wholes]  # push_notifications is pushNotifications spelt otherwise
    return [whole for whole in wholes if whole]


def _folded(text: str) -> str:
    if text.isascii():  # all that there is to fold is case
        return text.lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def _words(folded: str) -> list[str]:
    if folded.isascii():
        return folded.translate(_APART).split()
    return "".join([one if unicodedata.category(one)[0] in "LMN" else " " for one in folded]).split()
