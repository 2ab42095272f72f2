"""The embedded form: a JSON string that holds an AgentCard.

The answer of an MCP tool has this form. It has one level, no more.

AgentCard draft-00 3 (AEV-18).
"""

import re

from sdcard.cards.agentcard.dialects import is_agentcard
from sdcard.encoding import JsonObject, parse_json, parse_json_object
from sdcard.errors import Part, Refused, Where
from sdcard.rules import Rule

_WHERE = Where(Part.CARD)
_STRING = re.compile(rb'[ \t\r\n]*"(?:[^"\\]|\\.)*+"[ \t\r\n]*', re.DOTALL)


def parse_embedded(data: bytes, depth: int) -> JsonObject | None:
    """Parse a JSON string that holds an AgentCard.

    Return the card. Return None for any text but a string with an object.

    Args:
        data: the text. Its size is the caller's to bound.
        depth: how deeply arrays and objects may nest.

    Raises:
        Refused: a rule of ``parse_json_object``, for the text or what is in it; ``json.malformed`` also where that is
            no AgentCard: other formats have no such form.
    """
    inner = parse_json(data, _WHERE, depth) if _STRING.fullmatch(data) else None
    if not isinstance(inner, str) or not inner.lstrip(" \t\r\n").startswith("{"):
        return None
    document = parse_json_object(inner.encode(), _WHERE, depth)
    if not is_agentcard(document):
        raise Refused(Rule.JSON_MALFORMED, _WHERE, "A JSON object is expected; only an AgentCard may be in a string.")
    return document
