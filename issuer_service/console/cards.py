"""Summaries of cards for their owners.

The text is hostile: templates must escape it.
"""

from dataclasses import dataclass

from issuer_service.access import Caller
from issuer_service.lifecycle.service import find_agent
from issuer_service.wiring import Wiring
from sdcard.cards.format import Fact
from sdcard.cards.reading import KNOWN_FORMATS
from sdcard.encoding import parse_json_object
from sdcard.errors import Part, Where
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


async def card_says(wiring: Wiring, caller: Caller, agent_id: str) -> tuple[Said, ...]:
    """Summarize the card of the caller's agent.

    Raises:
        Refused: ``token.limit``; ``agent.unknown``.
    """
    agent = await find_agent(wiring, caller, agent_id)
    document = parse_json_object(agent.card.encode(), Where(Part.CARD), wiring.limits.json_depth)
    card_format = KNOWN_FORMATS.get(agent.card_format)
    facts = {} if card_format is None else card_format.facts
    asked: dict[str, tuple[ClaimPath, ...]] = {what: (ClaimPath((name,)),) for what, name in _TEXTS.items()}
    asked |= {what: tuple(facts.get(fact, ())) for what, fact in _FACTS.items()}
    asked["More about it"] = _ABOUT
    said = list[Said]()
    for what, paths in asked.items():
        texts = [text for path in paths for _, text in path.parts(document) if isinstance(text, str)]
        if texts:
            shown = tuple(map(_shortened, texts[:MOST_SHOWN]))
            said.append(Said(what, shown, len(texts) - len(shown)))
    return tuple(said)


def _shortened(text: str) -> str:
    return text if len(text) <= MOST_TEXT else text[:MOST_TEXT] + "…"
