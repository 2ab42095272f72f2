"""KNO card formats: detection, disclosure and shapes (agent-card-schema 0.2.1).

A KNO card is an A2A card and a persona: perception, goals, boundaries, budget, and the owner of the agent. The persona
is private: ``*`` does not cover it, so no context shows it unless it is named. All members are optional that the schema
does not list as ``required``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sdcard.cards.a2a.shared import ENDPOINT, FACTS, FLAG, FOUND_BY, LINK
from sdcard.cards.model import CardFormat
from sdcard.cards.schema import ArrayOf, Choice, Member, Need, Object, Text, find
from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Finding, Level, Where
from sdcard.paths import path
from sdcard.rules import Rule

SCHEMA = "$schema"
VERSIONS = ("0.1.0", "0.2.0", "0.2.1")
_CARD = "agent-card@"
_SERVICE = "service-config@"
_BLUEPRINT = "agent-blueprint@"

_A2A = ("protocolVersion", "securitySchemes", "security", "preferredTransport")
"""Marks of A2A cards, which may have any other member."""

PERSONA = ("ownership", "perception", "goals", "boundaries", "budget_override")

_MEMBERS = frozenset(
    {
        *(SCHEMA, "type", "subtype", "id", "slug", "visibility"),
        *("name", "description", "url", "version", "documentation_url", "provider", "capabilities", "authentication"),
        *("default_input_modes", "default_output_modes", "skills"),
        *PERSONA,
    }
)
_GROUPS = {
    "skills": (path("skills"),),
    "endpoints": (path("url"),),
    "operational_info": (
        path("description"),
        path("capabilities"),
        path("default_input_modes"),
        path("default_output_modes"),
        path("documentation_url"),
    ),
    "security_context": (path("authentication"),),
    "provider": (path("provider"),),
}


def _format(name: str) -> CardFormat:
    return CardFormat(
        name=name,
        always_disclosed=("id", "name", "version"),
        members=_MEMBERS,
        units=(
            path("skills", None),
            path("skills", None, None),
            path("goals", None),
            path("boundaries", None),
            path("perception", "domains", None),
            path("ownership", "possibility_slug"),
        ),
        together=(path("skills", None, "id"), path("skills", None, "name")),
        groups=_GROUPS,
        facts=FACTS,
        found_by=FOUND_BY,
        private=(*map(path, PERSONA), path("budgetOverride"), path("persona")),
        names_agent=("id",),
    )


V0_1 = _format("kno/0.1")
V0_2 = _format("kno/0.2")
"""The versions differ in their members, not in disclosure: a persona under an old ``$schema`` stays private."""


def is_0_1(document: JsonObject) -> bool:
    """Whether the card says 0.1."""
    return _schema(document).startswith(_CARD + "0.1.")


def is_0_2(document: JsonObject) -> bool:
    """Whether the card says another version, or is a service and an agent card.

    Such a service says no version of the card. 0.2 only adds members to 0.1, so 0.2 fits.
    """
    schema = _schema(document)
    return schema.startswith(_CARD) or (schema.startswith(_SERVICE) and document.get("subtype") == "agent-card")


def is_unlabelled(document: JsonObject) -> bool:
    """Whether a card without ``$schema`` has the owner that only KNO has."""
    if document.get(SCHEMA) is not None or any(find(document, name) for name in _A2A):
        return False
    owner = document.get("ownership")
    return isinstance(owner, dict) and "context" in owner and document.keys() >= {"id", "url"}


def is_blueprint(document: JsonObject) -> bool:
    """Whether the document is a blueprint, the source of cards since 0.2.1."""
    return _schema(document).startswith(_BLUEPRINT)


def is_other_service(document: JsonObject) -> bool:
    """Whether the document describes a service that is not an agent."""
    return _schema(document).startswith(_SERVICE)


def card_version(document: JsonObject) -> str:
    """Return the version of the card schema; empty if the document names none."""
    schema = _schema(document)
    return schema.removeprefix(_CARD) if schema.startswith(_CARD) else ""


def is_service(document: JsonObject) -> bool:
    """Whether the document names the schema of services instead of that of cards."""
    return _schema(document).startswith(_SERVICE)


def _schema(document: JsonObject) -> str:
    schema = document.get(SCHEMA)
    return schema if isinstance(schema, str) else ""


# -- Shapes -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Quoted(Text):
    """A string that may lack quotes in YAML (KNO-4, KNO-18): ``0.1`` is a number."""

    def check(self, value: JsonValue, where: Where) -> Iterator[Finding]:
        """Find a value that is not a string, or is empty."""
        if isinstance(value, bool | int | float):
            hint = "This must be a string. Put it in quotes: without them YAML takes it for something else."
            yield Finding(Rule.CARD_MEMBER_TYPE, where, hint)
        else:
            yield from Text.check(self, value, where)


@dataclass(frozen=True, slots=True)
class _Number:
    """A number within inclusive bounds. ``whole``: without a fraction, even of zero."""

    least: int
    most: int | None = None
    whole: bool = False

    def check(self, value: JsonValue, where: Where) -> Iterator[Finding]:
        """Find a value that is not such a number, or out of bounds."""
        if isinstance(value, bool) or not isinstance(value, int if self.whole else int | float):
            noun = "a whole number, such as 1000" if self.whole else "a number"
            yield Finding(Rule.CARD_MEMBER_TYPE, where, f"This must be {noun}.")
        elif value < self.least or (self.most is not None and value > self.most):
            bounds = f"at least {self.least}" if self.most is None else f"a fraction from {self.least} to {self.most}"
            yield Finding(Rule.CARD_MEMBER_VALUE, where, f"Give {bounds}.")


_TEXT = _Quoted()
_SAID = _Quoted(empty=Level.WARNING)
_NAMED = _Quoted(empty=Level.ERROR)
_TEXTS = ArrayOf(_TEXT)


def _open(members: Mapping[str, Member]) -> Object:
    """Make an object that notes unknown members (KNO-25)."""
    return Object(members, notes_unknown=True)


_SKILL = _open(
    {
        "id": Member(_NAMED, Need.REQUIRED, "a short name for the skill, unique in the card"),
        "name": Member(_NAMED, Need.REQUIRED, "what people call the skill"),
        "description": Member(_TEXT),
        "tags": Member(_TEXTS),
        "examples": Member(_TEXTS),
        "input_modes": Member(_TEXTS),
        "output_modes": Member(_TEXTS),
    }
)
_OWNERSHIP = _open(
    {
        "context": Member(Choice(("platform", "tenant")), Need.REQUIRED, "platform or tenant"),
        "possibility_slug": Member(_TEXT),
    }
)
_PERCEPTION = _open(
    {"domains": Member(_TEXTS), "refresh": Member(Choice(("on-change", "periodic", "on-demand", "scheduled")))}
)
_GOAL = _open(
    {
        "id": Member(_NAMED, Need.REQUIRED, "a name in kebab-case, unique in the card"),
        "description": Member(_SAID, Need.REQUIRED, "what the agent is trying to achieve"),
        "metric": Member(_TEXT),
        "target": Member(_TEXT),
        "target_query": Member(_TEXT),
    }
)
_BUDGET = _open(
    {
        "max_invocation_tokens": Member(_Number(1, whole=True)),
        "max_phase_tokens": Member(_Number(1, whole=True)),
        "warn_threshold_pct": Member(_Number(0, 1)),
        "cost_ceiling_usd": Member(_Number(0)),
        "on_breach": Member(Choice(("blocked", "failed"))),
    }
)
SHAPE = _open(
    {
        SCHEMA: Member(_TEXT),
        "type": Member(_TEXT),
        "subtype": Member(_TEXT),
        "id": Member(_NAMED, Need.REQUIRED, "a ULID that nothing else has"),
        "slug": Member(_TEXT),
        "visibility": Member(_TEXT),
        "name": Member(_SAID, Need.REQUIRED, "what people call the agent"),
        "description": Member(_TEXT),
        "url": Member(ENDPOINT, Need.REQUIRED, "where the agent listens"),
        "version": Member(_SAID, Need.REQUIRED, 'the version of the agent, in quotes, such as "1.0.0"'),
        "documentation_url": Member(LINK),
        "provider": Member(
            _open({"organization": Member(_SAID, Need.REQUIRED, "who runs the agent"), "url": Member(LINK)})
        ),
        "capabilities": Member(
            _open({name: Member(FLAG) for name in ("streaming", "push_notifications", "state_transition_history")}),
            Need.REQUIRED,
            "an object that says what the agent supports, or an empty one",
        ),
        "authentication": Member(_open({"schemes": Member(_TEXTS), "credentials": Member(_TEXT)})),
        "default_input_modes": Member(_TEXTS),
        "default_output_modes": Member(_TEXTS),
        "skills": Member(ArrayOf(_SKILL, empty=Level.ERROR), Need.REQUIRED, "an array of what the agent can do"),
        "ownership": Member(_OWNERSHIP, Need.REQUIRED, "an object with a `context`, platform or tenant"),
        "perception": Member(_PERCEPTION),
        "goals": Member(ArrayOf(_GOAL)),
        "boundaries": Member(_TEXTS),
        "budget_override": Member(_BUDGET),
    }
)
