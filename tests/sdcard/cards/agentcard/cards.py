"""Good AgentCards to start from, and the conformance cases."""

import json
from typing import Any

from sdcard.cards.detect import Examination, examine_card
from sdcard.encoding import JsonObject
from sdcard.errors import Level
from tests.sdcard.cards.documents import Told
from tests.shared import ROOT, shared_dir

MINIMAL: JsonObject = {
    "agent_id": "01HZQK3P8EMXR9V7T5N2W4J6C0",
    "name": "ExampleAgent",
    "version": "1.0.0",
    "capabilities": [{"id": "text.summarise", "description": "Summarise."}],
    "endpoint": {"protocol": "https", "url": "https://agents.example.com/api"},
}


def whole() -> JsonObject:
    """A card with everything that the draft has."""
    document: JsonObject = json.loads((ROOT / "examples" / "georoute.agentcard.json").read_text(encoding="utf-8"))
    return document


def readme() -> JsonObject:
    """The parts that the README shows, put together."""
    return MINIMAL | {
        "capabilities": [
            {"id": "code.review", "description": "Review source code.", "input_schema": None, "tags": ["code"]}
        ],
        "endpoint": {
            "protocol": "http",
            "url": "https://agent.example.com/api",
            "health_url": "https://agent.example.com/health",
            "auth": {"scheme": "bearer", "token_url": "https://auth.example.com/token"},
        },
        "pricing": {
            "base_cost_joules": 2.854e-21,
            "estimated_latency_ms": 120.0,
            "currency": "USD",
            "cost_per_request": 0.001,
        },
        "metadata": {"pacr:interaction_count": 4, "pacr:reputation_score": 0.5, "team": "geo"},
    }


def mcp() -> JsonObject:
    """A card with what only the project's MCP server has."""
    return MINIMAL | {
        "endpoint": {
            "protocol": "http",
            "url": "https://agent.example.com/api",
            "auth": {"scheme": "api_key", "header": "X-Key", "scopes": ["read"]},
        },
        "pricing": {"base_cost_joules": 0, "currency_unit": "USD", "base_cost_currency": 0.01},
        "metadata": {"pacr:ossification_risk": "low", "framework": "crewai"},
        "goal_subscriptions": [{"goal_id": "q3"}],
    }


def conformance() -> list[dict[str, Any]]:
    """Every case, with the bytes of its document as ``data``."""
    given = json.loads((shared_dir() / "cards" / "aevum" / "conformance.json").read_text(encoding="utf-8"))
    cases: list[dict[str, Any]] = [*given["cases"], *given["raw"]]
    for case in cases:
        text = case.get("text") or json.dumps(case.get("doc", MINIMAL))
        case["data"] = text.encode("utf-16-le" if case["id"] == "raw-utf16" else "utf-8", "surrogatepass")
    return cases


def examine(document: Any, expected: str | None = None) -> Examination:
    """Return the findings of a document, read from its text."""
    return examine_card(json.dumps(document).encode(), expected=expected)


def told(document: Any, expected: str | None = None, *, notes: bool = False) -> Told:
    """The findings, to compare with what is expected; notes where they are asked for."""
    return {
        (finding.level.value, finding.rule.value, str(finding.where))
        for finding in examine(document, expected).findings
        if notes or finding.level is not Level.NOTE
    }
