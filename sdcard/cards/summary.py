"""``summary``: the card of an agent that registered without a card document.

The registration has a name, a description and a version.

A registration request may carry no more (SD-Card 3.3.1). Such a card is made, never read: a document with these three
members alone is an unfinished A2A card.
"""

from sdcard.cards.a2a.shared import FACTS, FOUND_BY, GROUPS
from sdcard.cards.card import Card
from sdcard.cards.format import CardFormat

_MEMBERS = ("name", "description", "version")

FORMAT = CardFormat(
    name="summary",
    always_disclosed=_MEMBERS,
    members=frozenset(_MEMBERS),
    units=(),
    together=(),
    groups=GROUPS,
    facts=FACTS,
    found_by=FOUND_BY,
)
"""The groups are those of A2A, so that asking for one is no mistake; there is nothing behind them."""


def summary_card(name: str, description: str, version: str) -> Card:
    """The Card that says no more than this."""
    return Card(FORMAT, {"name": name, "description": description, "version": version})
