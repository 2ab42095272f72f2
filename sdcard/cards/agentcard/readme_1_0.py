"""``agentcard/readme-1.0``: the project's README before April 2026."""

import re
from collections.abc import Mapping

from sdcard.cards.agentcard.shared import (
    AMOUNT,
    AUTH_SCHEMES,
    CAPABILITY_ID,
    COST,
    ID_ADVICE,
    LINK,
    NO_EMPTY_SEGMENT,
    SCHEMA,
    SHARE,
    TEXT,
    URL,
    Dialect,
    card,
    card_format,
    open_object,
    optional,
)
from sdcard.cards.agentcard.values import Endpoint, Spelling
from sdcard.cards.schema import ArrayOf, Member, Need, Object
from sdcard.paths import path

_PACR_STATISTICS: Mapping[str, Member] = {
    "pacr:interaction_count": Member(AMOUNT),
    "pacr:avg_latency_ms": Member(AMOUNT),
    "pacr:avg_cost_joules": Member(AMOUNT),
    "pacr:reputation_score": Member(SHARE),
    "pacr:influence_rank": Member(AMOUNT),
    "pacr:critical_score": Member(AMOUNT),
}
SHAPE = card(
    {
        "id": Member(
            Spelling(re.compile(f"(?=.{{1,128}}\\Z){CAPABILITY_ID.pattern}"), ID_ADVICE, (NO_EMPTY_SEGMENT,)),
            Need.REQUIRED,
            "its name, of at most 128 characters",
        ),
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
        "metadata": optional(Object(_PACR_STATISTICS)),
    },
)
DIALECT = Dialect(
    card_format("readme-1.0", SHAPE, (URL, path("endpoint", "health_url"))),
    "the README's schema.json",
    SHAPE,
    (
        path("endpoint", "health_url"),
        path("endpoint", "auth", "token_url"),
        path("pricing", "estimated_latency_ms"),
        path("pricing", "cost_per_request"),
        *(path("metadata", name) for name in _PACR_STATISTICS),
    ),
)
