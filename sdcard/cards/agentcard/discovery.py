"""Discovery of AgentCards: where they are published, and the checks of a client.

AgentCard draft-00 3, 4, 8.5 and 9 (AEV-19, AEV-20).
"""

from collections.abc import Iterator
from urllib.parse import urlsplit

from sdcard.cards.card import Card
from sdcard.errors import Finding, Level, Part, Where
from sdcard.rules import Rule

MEDIA_TYPE = "application/agentcard+json"
ACCEPTED_MEDIA_TYPES = (MEDIA_TYPE, "application/json")
WELL_KNOWN_PATH = "/.well-known/agentcard"
MAX_AGE = 3600
"""Seconds that a published card should be kept for, as ``Cache-Control`` says it."""


def compare_with_source(card: Card, source: str) -> Iterator[Finding]:
    """Find an endpoint whose scheme is not the one that the card was fetched by.

    Over plain HTTP anybody on the way can put another endpoint into a card.

    Args:
        card: an AgentCard.
        source: the URL that it was fetched from.
    """
    endpoint = card.document.get("endpoint")
    url = endpoint.get("url") if isinstance(endpoint, dict) else None
    if isinstance(url, str) and urlsplit(url).scheme != urlsplit(source).scheme:
        hint = "Fetch the card by the scheme of its endpoint, or do not use it: it may have been changed on the way."
        yield Finding(Rule.AGENTCARD_FETCHED, Where(Part.CARD, ("endpoint", "url")), hint, Level.WARNING)
