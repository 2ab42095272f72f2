"""Detection and checks of the AgentCard dialects; an AgentCard in a JSON string.

The draft's project has several validators, which disagree with the draft and with each other. Each dialect is a shape
table; disclosure is the same for all. The draft is the default. Another dialect is chosen by name, or if the draft
refuses a card that has members of that dialect alone. No dialect refuses an unknown member (draft-00 5, rule 10).
Levels and tables: AEV-1 to AEV-18, AEV-21 and AEV-23.
"""

import re
from collections.abc import Iterator

from sdcard.cards.agentcard import draft_00, mcp_0_1, readme_1_0
from sdcard.cards.agentcard.shared import CARD, Dialect
from sdcard.cards.agentcard.values import faulty_schemas
from sdcard.cards.schema import find_list
from sdcard.encoding import JsonObject, parse_json, parse_json_object
from sdcard.errors import Finding, Level, Part, Refused, Where
from sdcard.rules import Rule

DRAFT, README, MCP = draft_00.DIALECT, readme_1_0.DIALECT, mcp_0_1.DIALECT
DIALECTS = (DRAFT, README, MCP)
"""The default first."""


def check(dialect: Dialect, document: JsonObject) -> Iterator[Finding]:
    """Find errors, warnings and notes for a card of the dialect."""
    yield from dialect.shape.check(document, CARD)
    yield from faulty_schemas(document)
    yield from _repeated_capabilities(document)
    yield from _self_declared(document)
    yield from _name_dialect(dialect, document)


_BROUGHT_BY_DRAFT = ("https", "stdio")
"""Protocols that the README does not have."""


def is_agentcard(document: JsonObject) -> bool:
    """Whether the card has two of three: an id, capabilities, an endpoint object."""
    endpoint = document.get("endpoint")
    marks = (
        document.get("agent_id") is not None,
        isinstance(document.get("capabilities"), list),
        isinstance(endpoint, dict) and ("protocol" in endpoint or "url" in endpoint),
    )
    return sum(marks) >= 2


def is_mcp(document: JsonObject) -> bool:
    """Whether the card breaks the draft, and has a mark of the MCP server's schema."""
    return is_agentcard(document) and MCP.is_marked(document) and not DRAFT.fits(document)


def is_readme(document: JsonObject) -> bool:
    """Whether the card breaks the draft, and has a mark of the README alone."""
    endpoint = document.get("endpoint")
    protocol = endpoint.get("protocol") if isinstance(endpoint, dict) else None
    is_marked = README.is_marked(document) and not DRAFT.is_marked(document) and protocol not in _BROUGHT_BY_DRAFT
    return is_agentcard(document) and is_marked and not DRAFT.fits(document)


# -- Rules across members ---------------------------------------------------------------------------------------------


def _repeated_capabilities(document: JsonObject) -> Iterator[Finding]:
    """Find capabilities that share an id: a client cannot know which is meant (AEV-7)."""
    spelling, capabilities = find_list(document, "capabilities")
    seen: set[str] = set()
    for index, capability in enumerate(capabilities):
        name = capability.get("id") if isinstance(capability, dict) else None
        if not isinstance(name, str):
            continue
        if name in seen:
            hint = "Give every capability an id of its own; another one has this."
            yield Finding(Rule.CARD_AMBIGUOUS, CARD.within(spelling, index, "id"), hint, Level.WARNING)
        seen.add(name)


def _self_declared(document: JsonObject) -> Iterator[Finding]:
    """Report ledger statements that the agent makes about itself (AEV-21)."""
    metadata = document.get("metadata")
    for name, value in metadata.items() if isinstance(metadata, dict) else ():
        if name.startswith("pacr:"):
            hint = (
                "Nobody but the agent says this. Ask the ledger before you rely on it; it is never a ground for trust."
            )
            if value == "banned":
                hint = "The agent says of itself that it is banned: do not call it."
            yield Finding(Rule.AGENTCARD_SELF_DECLARED, CARD.within("metadata", name), hint, Level.NOTE)


def _name_dialect(dialect: Dialect, document: JsonObject) -> Iterator[Finding]:
    """Name the dialect if it is not the default; else other dialects that fit."""
    if dialect is not DRAFT:
        hint = f"This was judged by {dialect.title}. To judge it by the draft, name the format {DRAFT.format.name}."
        yield Finding(Rule.AGENTCARD_DIALECT, CARD, hint, Level.NOTE)
        return
    others = [] if dialect.fits(document) else [other for other in (README, MCP) if other.fits(document)]
    for other in others:
        hint = f"By {other.title} its shape is right; if it follows that, name the format {other.format.name}."
        yield Finding(Rule.AGENTCARD_DIALECT, CARD, hint, Level.NOTE)


_WHERE = Where(Part.CARD)
_STRING = re.compile(rb'[ \t\r\n]*"(?:[^"\\]|\\.)*+"[ \t\r\n]*', re.DOTALL)


def parse_embedded(data: bytes, depth: int) -> JsonObject | None:
    """Parse a JSON string that holds an AgentCard; return None for any other text.

    MCP tools answer in this form. It has one level only. AgentCard draft-00 3 (AEV-18).

    Args:
        data: the text. The caller bounds its size.
        depth: how deeply arrays and objects may nest.

    Raises:
        Refused: a rule of ``parse_json_object``, for the text or its content; ``json.malformed`` also if the content is
            not an AgentCard: other formats have no such form.
    """
    inner = parse_json(data, _WHERE, depth) if _STRING.fullmatch(data) else None
    if not isinstance(inner, str) or not inner.lstrip(" \t\r\n").startswith("{"):
        return None
    document = parse_json_object(inner.encode(), _WHERE, depth)
    if not is_agentcard(document):
        raise Refused(Rule.JSON_MALFORMED, _WHERE, "A JSON object is expected; only an AgentCard may be in a string.")
    return document
