"""Good KNO cards to start from, and random ones."""

from typing import Any

from hypothesis import strategies as st

from sdcard.encoding import JsonObject
from tests.sdcard.cards.documents import findings

CANARY = "canary-7f3a"
"""In everything that must stay inside."""


def persona() -> JsonObject:
    return {
        "ownership": {"context": "tenant", "possibility_slug": f"{CANARY}-tenant"},
        "perception": {"domains": [f"{CANARY}-domain", "api-surface"], "refresh": "on-change"},
        "goals": [
            {"id": "no-drift", "description": CANARY, "metric": f"{CANARY}_metric", "target": "0"},
            {"id": "all-seen", "description": "b", "metric": "seen", "target_query": f"{CANARY}.count == 0"},
        ],
        "boundaries": [f"MUST NOT touch {CANARY}", "SHOULD NOT guess"],
        "budget_override": {
            "max_invocation_tokens": 1000,
            "max_phase_tokens": 1,
            "warn_threshold_pct": 0.8,
            "cost_ceiling_usd": 7.3125,
            "on_breach": "blocked",
        },
    }


def outside() -> JsonObject:
    """A card of the platform without what only insiders need."""
    return {
        "$schema": "agent-card@0.2.1",
        "id": "01KKSY7MK56WAKNP2QVKKZ1RXP",
        "slug": "drift-agent",
        "name": "Drift Agent",
        "description": "Finds what has drifted",
        "url": "https://agent.example.com/a2a",
        "version": "1.0.0",
        "documentation_url": "https://agent.example.com/docs",
        "provider": {"organization": "Possibility", "url": "https://possibility.example.com"},
        "capabilities": {"streaming": True, "push_notifications": False, "state_transition_history": True},
        "authentication": {"schemes": ["Bearer"], "credentials": "https://agent.example.com/token"},
        "default_input_modes": ["text/plain"],
        "default_output_modes": ["text/plain", "application/json"],
        "skills": [
            {
                "id": "find",
                "name": "Find",
                "description": "Finds",
                "tags": ["drift"],
                "examples": ["What drifted?"],
                "input_modes": ["text/plain"],
                "output_modes": ["application/json"],
            },
            {"id": "tell", "name": "Tell"},
        ],
        "ownership": {"context": "platform"},
    }


def kno() -> JsonObject:
    """A card with everything."""
    return outside() | persona()


def found(document: JsonObject, place: str) -> list[tuple[str, str]]:
    """Return the findings at one place, as (level, rule)."""
    return [(one.level.value, one.rule.value) for one in findings(document) if str(one.where) == f"card/{place}"]


_TEXT = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "Zs"]), min_size=1, max_size=12)
_TEXTS = st.lists(_TEXT, max_size=2)
_URL = st.just("https://x.example.com/")


def _object(required: dict[str, Any], **optional: Any) -> Any:
    return st.fixed_dictionaries(required, optional={name: value | st.none() for name, value in optional.items()})


_SKILL = _object(
    {"name": _TEXT}, description=_TEXT, tags=_TEXTS, examples=_TEXTS, input_modes=_TEXTS, output_modes=_TEXTS, x=_TEXT
)
VALID = _object(
    {
        "$schema": st.sampled_from(["agent-card@0.1.0", "agent-card@0.2.0", "agent-card@0.2.1"]),
        **dict.fromkeys(("id", "name", "version"), _TEXT),
        "url": _URL,
        "capabilities": _object({}, streaming=st.booleans(), push_notifications=st.booleans(), extra=_TEXT),
        "skills": st.lists(_SKILL, min_size=1, max_size=3).map(
            lambda skills: [{"id": f"skill-{number}", **skill} for number, skill in enumerate(skills)]
        ),
        "ownership": st.just({"context": "tenant", "possibility_slug": CANARY}),
    },
    description=_TEXT,
    slug=_TEXT,
    documentation_url=_URL,
    provider=_object({"organization": _TEXT}, url=_URL, x=_TEXT),
    authentication=_object({}, schemes=st.lists(st.sampled_from(["Bearer", "Basic"]), max_size=2)),
    default_input_modes=_TEXTS,
    default_output_modes=_TEXTS,
    perception=st.just(persona()["perception"]),
    goals=st.just(persona()["goals"]),
    boundaries=st.just(persona()["boundaries"]),
    budget_override=st.just(persona()["budget_override"]),
    x_own=_TEXT,
)
