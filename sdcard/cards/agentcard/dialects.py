"""Detection and checks of the AgentCard dialects; an AgentCard in a JSON string.

The draft's project has several validators, which disagree with the draft and with each other. Each dialect is a shape
table; disclosure is the same for all. The draft is the default. Another dialect is chosen by name, or if the draft
refuses a card that has members of that dialect alone. No dialect refuses an unknown member (draft-00 5, rule 10).
Levels and tables: AEV-1 to AEV-18, AEV-21 and AEV-23.
"""

import re
from collections.abc import Iterator, Mapping

from sdcard.cards.agentcard.shared import (
    AMOUNT,
    AUTH_SCHEMES,
    CAPABILITY_ID,
    CARD,
    COST,
    GOALS,
    ID_ADVICE,
    LINK,
    NO_EMPTY_SEGMENT,
    SCHEMA,
    SHARE,
    TEXT,
    TIERS,
    Dialect,
    card,
    optional,
)
from sdcard.cards.agentcard.values import Advice, Endpoint, Spelling, faulty_schemas
from sdcard.cards.schema import ArrayOf, Choice, Member, Need, Object, open_object, repeated_ids
from sdcard.encoding import JsonObject, parse_json, parse_json_object
from sdcard.errors import Finding, Level, Refused
from sdcard.paths import path
from sdcard.rules import Rule

# -- Draft ------------------------------------------------------------------------------------------------------------

_CONVENTION = Advice(
    re.compile(r"(?:(?:text|tool|data|fn|a2a)\.|[^.]+\.[^.]+\.).+"),
    "By convention the id begins with text., tool., data., fn. or a2a., or with your domain in reverse.",
    Level.NOTE,
)
_NULL_ELSEWHERE = Level.WARNING
"""The README allows null here, so some cards have it."""
_PROTOCOLS: Mapping[str, tuple[str, ...]] = {
    "http": ("http",),
    "https": ("https",),
    "grpc": ("grpc", "grpcs"),
    "stdio": ("stdio",),
    "mcp": ("mcp",),
}
_CAPABILITY: Mapping[str, Member] = {
    "id": Member(Spelling(CAPABILITY_ID, ID_ADVICE, (NO_EMPTY_SEGMENT, _CONVENTION)), Need.REQUIRED, "its name"),
    "description": Member(TEXT, Need.RECOMMENDED, "what it does, in one to three sentences", null=Level.ERROR),
    "input_schema": Member(SCHEMA, null=_NULL_ELSEWHERE),
    "output_schema": Member(SCHEMA, null=_NULL_ELSEWHERE),
    "tags": optional(ArrayOf(TEXT)),
}
DRAFT = Dialect.make(
    "draft-00",
    "the Internet-Draft",  # draft-aevum-agentcard-00, sections 2 and 5 (April 2026)
    card(
        _CAPABILITY,
        Endpoint(
            _PROTOCOLS,
            binding=frozenset({"http", "https"}),
            members={"auth": Member(open_object({"scheme": optional(AUTH_SCHEMES)}), null=_NULL_ELSEWHERE)},
        ),
        {
            "pricing": Member(
                open_object(
                    {"base_cost_joules": Member(COST, null=_NULL_ELSEWHERE), "per_token_joules": optional(AMOUNT)}
                ),
                null=_NULL_ELSEWHERE,
            ),
            "metadata": optional(Object({"pacr:trust_tier": optional(TIERS), "pacr:substrate_scope": optional(TEXT)})),
            "goal_subscriptions": optional(GOALS),
        },
    ),
    marks=(
        path("goal_subscriptions"),
        path("pricing", "per_token_joules"),
        path("metadata", "pacr:trust_tier"),
        path("metadata", "pacr:substrate_scope"),
    ),
)

# -- README -----------------------------------------------------------------------------------------------------------

_STATISTICS: Mapping[str, Member] = {
    "pacr:interaction_count": Member(AMOUNT),
    "pacr:avg_latency_ms": Member(AMOUNT),
    "pacr:avg_cost_joules": Member(AMOUNT),
    "pacr:reputation_score": Member(SHARE),
    "pacr:influence_rank": Member(AMOUNT),
    "pacr:critical_score": Member(AMOUNT),
}
_ID_OF_README = Spelling(re.compile(f"(?=.{{1,128}}\\Z){CAPABILITY_ID.pattern}"), ID_ADVICE, (NO_EMPTY_SEGMENT,))
README = Dialect.make(
    "readme-1.0",
    "the README's schema.json",  # before April 2026
    card(
        {
            "id": Member(_ID_OF_README, Need.REQUIRED, "its name, of at most 128 characters"),
            "description": Member(
                Spelling(re.compile("(?s:.{1,512})"), "Write 1 to 512 characters."), Need.REQUIRED, "what it does"
            ),
            "input_schema": Member(SCHEMA),
            "output_schema": Member(SCHEMA),
            "tags": optional(ArrayOf(TEXT)),
        },
        Endpoint(
            {
                "http": ("http", "https"),
                "websocket": ("ws", "wss"),
                "sse": ("http", "https"),
                "grpc": ("grpc", "grpcs", "http", "https"),
                "mcp": (),
                "google_a2a": ("http", "https"),
                "native": (),
            },
            binding=frozenset(),
            members={
                "health_url": optional(LINK),
                "auth": Member(
                    open_object(
                        {
                            "scheme": Member(AUTH_SCHEMES, Need.REQUIRED, f"one of {', '.join(AUTH_SCHEMES.options)}"),
                            "token_url": optional(LINK),
                        }
                    )
                ),
            },
        ),
        {
            "pricing": Member(
                open_object(
                    {
                        "base_cost_joules": Member(COST),
                        "estimated_latency_ms": Member(AMOUNT),
                        "currency": Member(TEXT),
                        "cost_per_request": Member(AMOUNT),
                    }
                )
            ),
            "metadata": optional(Object(_STATISTICS)),
        },
    ),
    marks=(
        path("endpoint", "health_url"),
        path("endpoint", "auth", "token_url"),
        path("pricing", "estimated_latency_ms"),
        path("pricing", "cost_per_request"),
        *(path("metadata", name) for name in _STATISTICS),
    ),
    urls=(path("endpoint", "health_url"),),
)

# -- MCP server -------------------------------------------------------------------------------------------------------

MCP = Dialect.make(
    "mcp-0.1",
    "the MCP server's schema",
    card(
        {**_CAPABILITY, "input_schema": optional(SCHEMA), "output_schema": optional(SCHEMA)},
        Endpoint(
            {**_PROTOCOLS, "http": ("http", "https")},
            binding=frozenset(),
            members={
                "auth": optional(
                    open_object(
                        {"scheme": optional(AUTH_SCHEMES), "header": optional(TEXT), "scopes": optional(ArrayOf(TEXT))}
                    )
                )
            },
        ),
        {
            "pricing": optional(
                open_object(
                    {
                        "base_cost_joules": optional(COST),
                        "per_token_joules": optional(AMOUNT),
                        "currency_unit": optional(TEXT),
                        "base_cost_currency": optional(AMOUNT),
                    }
                )
            ),
            "metadata": optional(
                Object(
                    {
                        "pacr:trust_tier": optional(TIERS),
                        "pacr:substrate_scope": optional(TEXT),
                        "pacr:ossification_risk": optional(Choice(("low", "medium", "high"))),
                        "framework": optional(TEXT),
                        "created_at": optional(TEXT),
                    }
                )
            ),
            "goal_subscriptions": optional(GOALS),
        },
    ),
    marks=(
        path("pricing", "currency_unit"),
        path("pricing", "base_cost_currency"),
        path("metadata", "pacr:ossification_risk"),
    ),
)

# -- Detection --------------------------------------------------------------------------------------------------------

DIALECTS = (DRAFT, README, MCP)
"""The default first."""
_NOT_IN_README = ("https", "stdio")
"""Protocols of the draft that the README does not have."""


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
    """Whether the card breaks the draft, and has a mark of the README alone.

    The protocol ``http`` with an https URL is such a mark of a card that fits the README: its first example has both.
    """
    endpoint = document.get("endpoint")
    protocol, url = (endpoint.get("protocol"), endpoint.get("url")) if isinstance(endpoint, dict) else (None, None)
    if not is_agentcard(document) or DRAFT.is_marked(document) or protocol in _NOT_IN_README or DRAFT.fits(document):
        return False
    is_secure_http = protocol == "http" and isinstance(url, str) and url[:8].lower() == "https://"
    return README.is_marked(document) or (is_secure_http and README.fits(document))


# -- Rules across members ---------------------------------------------------------------------------------------------


def check(dialect: Dialect, document: JsonObject) -> Iterator[Finding]:
    """Find errors, warnings and notes for a card of the dialect."""
    yield from dialect.shape.check(document, CARD)
    yield from faulty_schemas(document)
    hint = "Give every capability an id of its own; another one has this."
    yield from repeated_ids(document, "capabilities", CARD, hint, Level.WARNING)  # AEV-7
    yield from _self_declared(document)
    yield from _name_dialect(dialect, document)


def _self_declared(document: JsonObject) -> Iterator[Finding]:
    """Report ledger statements that the agent makes about itself (AEV-21)."""
    metadata = document.get("metadata")
    for name, value in metadata.items() if isinstance(metadata, dict) else ():
        if name.startswith("pacr:"):
            hint = "SD-Cards leave it out, because a registry cannot check it. Ask the ledger before you rely on it."
            if value == "banned":
                hint = "The agent states that it is banned: do not call it."
            yield Finding(Rule.AGENTCARD_SELF_DECLARED, CARD.within("metadata", name), hint, Level.NOTE)


def _name_dialect(dialect: Dialect, document: JsonObject) -> Iterator[Finding]:
    """Name the dialect if it is not the default; else other dialects that fit."""
    if dialect is not DRAFT:
        hint = f"It was checked against {dialect.title}. For the draft, name the format {DRAFT.format.name}."
        yield Finding(Rule.AGENTCARD_DIALECT, CARD, hint, Level.NOTE)
        return
    others = [] if dialect.fits(document) else [other for other in (README, MCP) if other.fits(document)]
    for other in others:
        hint = f"It fits {other.title}; if it follows that, name the format {other.format.name}."
        yield Finding(Rule.AGENTCARD_DIALECT, CARD, hint, Level.NOTE)


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
    inner = parse_json(data, CARD, depth) if _STRING.fullmatch(data) else None
    if not isinstance(inner, str) or not inner.lstrip(" \t\r\n").startswith("{"):
        return None
    document = parse_json_object(inner.encode(), CARD, depth)
    if not is_agentcard(document):
        raise Refused(Rule.JSON_MALFORMED, CARD, "A JSON object is expected; only an AgentCard may be in a string.")
    return document
