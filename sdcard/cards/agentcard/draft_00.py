"""``agentcard/draft-00``: draft-aevum-agentcard-00, sections 2 and 5 (April 2026)."""

import re
from collections.abc import Mapping

from sdcard.cards.agentcard.shared import (
    AMOUNT,
    AUTH_SCHEMES,
    CAPABILITY_ID,
    COST,
    GOALS,
    ID_ADVICE,
    NO_EMPTY_SEGMENT,
    SCHEMA,
    TEXT,
    TIERS,
    URL,
    Dialect,
    card,
    card_format,
    open_object,
    optional,
)
from sdcard.cards.agentcard.values import Endpoint, Spelling, Taste
from sdcard.cards.schema import ArrayOf, Member, Need, Object
from sdcard.errors import Level
from sdcard.paths import path

_CONVENTION = Taste(
    re.compile(r"(?:(?:text|tool|data|fn|a2a)\.|[^.]+\.[^.]+\.).+"),
    "By convention the id begins with text., tool., data., fn. or a2a., or with your domain in reverse.",
    Level.NOTE,
)
_NULL_ELSEWHERE = Level.WARNING
"""The README allows null here, so some cards have it."""

PROTOCOLS: Mapping[str, tuple[str, ...]] = {
    "http": ("http",),
    "https": ("https",),
    "grpc": ("grpc", "grpcs"),
    "stdio": ("stdio",),
    "mcp": ("mcp",),
}
CAPABILITY: Mapping[str, Member] = {
    "id": Member(Spelling(CAPABILITY_ID, ID_ADVICE, (NO_EMPTY_SEGMENT, _CONVENTION)), Need.REQUIRED, "its name"),
    "description": Member(TEXT, Need.RECOMMENDED, "what it does, in one to three sentences", null=Level.ERROR),
    "input_schema": Member(SCHEMA, null=_NULL_ELSEWHERE),
    "output_schema": Member(SCHEMA, null=_NULL_ELSEWHERE),
    "tags": optional(ArrayOf(TEXT)),
}
SHAPE = card(
    CAPABILITY,
    Endpoint(
        PROTOCOLS,
        binding=frozenset({"http", "https"}),
        members={"auth": Member(open_object({"scheme": optional(AUTH_SCHEMES)}), null=_NULL_ELSEWHERE)},
    ),
    {
        "pricing": Member(
            open_object({"base_cost_joules": Member(COST, null=_NULL_ELSEWHERE), "per_token_joules": optional(AMOUNT)}),
            null=_NULL_ELSEWHERE,
        ),
        "metadata": optional(Object({"pacr:trust_tier": optional(TIERS), "pacr:substrate_scope": optional(TEXT)})),
        "goal_subscriptions": optional(GOALS),
    },
)
DIALECT = Dialect(
    card_format("draft-00", SHAPE, (URL,)),
    "the Internet-Draft",
    SHAPE,
    (
        path("goal_subscriptions"),
        path("pricing", "per_token_joules"),
        path("metadata", "pacr:trust_tier"),
        path("metadata", "pacr:substrate_scope"),
    ),
)
