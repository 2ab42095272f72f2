"""``agentcard/mcp-0.1``: the schema inside the project's MCP server."""

from sdcard.cards.agentcard.draft_00 import CAPABILITY, PROTOCOLS
from sdcard.cards.agentcard.shared import (
    AMOUNT,
    AUTH_SCHEMES,
    COST,
    GOALS,
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
from sdcard.cards.agentcard.values import Endpoint
from sdcard.cards.schema import ArrayOf, Choice, Object
from sdcard.paths import path

SHAPE = card(
    {**CAPABILITY, "input_schema": optional(SCHEMA), "output_schema": optional(SCHEMA)},
    Endpoint(
        {**PROTOCOLS, "http": ("http", "https")},
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
)
DIALECT = Dialect(
    card_format("mcp-0.1", SHAPE, (URL,)),
    "the MCP server's schema",
    SHAPE,
    (
        path("pricing", "currency_unit"),
        path("pricing", "base_cost_currency"),
        path("metadata", "pacr:ossification_risk"),
    ),
)
