"""Summaries of cards for people. The text is hostile: templates must escape it."""

from collections.abc import Mapping
from dataclasses import dataclass

from sdcard.cards.detect import KNOWN_FORMATS
from sdcard.cards.model import Fact
from sdcard.encoding import JsonValue
from sdcard.paths import ClaimPath

MOST_SHOWN = 20
"""Of a kind; the rest is counted."""
MOST_TEXT = 400
_TEXTS = {"Name": "name", "Description": "description", "Version": "version"}
_FACTS = {"Provider": Fact.PROVIDER, "Endpoints": Fact.ENDPOINT, "Skills": Fact.SKILL}
_ABOUT = (ClaimPath(("documentationUrl",)), ClaimPath(("provider", "url")))


@dataclass(frozen=True, slots=True)
class Said:
    """An entry of a card's summary: label, texts, and number of further texts."""

    what: str
    texts: tuple[str, ...]
    more: int


def summarize(document: Mapping[str, JsonValue], format_name: str) -> tuple[Said, ...]:
    """Summarize a card of this format."""
    card_format, whole = KNOWN_FORMATS.get(format_name), dict(document)
    facts = {} if card_format is None else card_format.facts
    asked: dict[str, tuple[ClaimPath, ...]] = {what: (ClaimPath((name,)),) for what, name in _TEXTS.items()}
    asked |= {what: tuple(facts.get(fact, ())) for what, fact in _FACTS.items()}
    asked["More about it"] = _ABOUT
    said: list[Said] = []
    for what, paths in asked.items():
        texts = [text for path in paths for _, text in path.parts(whole) if isinstance(text, str)]
        if texts:
            shown = tuple(map(_shortened, texts[:MOST_SHOWN]))
            said.append(Said(what, shown, len(texts) - len(shown)))
    return tuple(said)


def _shortened(text: str) -> str:
    return text if len(text) <= MOST_TEXT else text[:MOST_TEXT] + "…"
