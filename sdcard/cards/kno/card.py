"""KNO cards (agent-card-schema 0.2.1): detection, disclosure, shapes and rules."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from sdcard.cards.a2a.shared import CARD, ENDPOINT, FACTS, FLAG, FOUND_BY, LINK, repeated_skill_ids
from sdcard.cards.lint import holds_secret
from sdcard.cards.model import CardFormat, Criterion
from sdcard.cards.schema import ArrayOf, Choice, Member, Need, Text, find, find_list, open_object
from sdcard.encoding import JsonObject, JsonValue, frozen
from sdcard.errors import Finding, Level, Where
from sdcard.paths import path
from sdcard.rules import Rule

# -- KNO card formats: detection, disclosure and shapes (agent-card-schema 0.2.1) -------------------------------------
# A KNO card is an A2A card and a persona: perception, goals, boundaries, budget, and the owner of the agent. The
# persona is private: ``*`` does not cover it, so no context shows it unless it is named. All members are optional
# that the schema does not list as ``required``.

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
    "operational_info": tuple(
        map(path, ("description", "capabilities", "default_input_modes", "default_output_modes", "documentation_url"))
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
        found_by=frozen({**FOUND_BY, Criterion.DOMAINS: (path("perception", "domains", None),)}),
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


_SKILL = open_object(
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
_OWNERSHIP = open_object(
    {
        "context": Member(Choice(("platform", "tenant")), Need.REQUIRED, "platform or tenant"),
        "possibility_slug": Member(_TEXT),
    }
)
_PERCEPTION = open_object(
    {"domains": Member(_TEXTS), "refresh": Member(Choice(("on-change", "periodic", "on-demand", "scheduled")))}
)
_GOAL = open_object(
    {
        "id": Member(_NAMED, Need.REQUIRED, "a name in kebab-case, unique in the card"),
        "description": Member(_SAID, Need.REQUIRED, "what the agent is trying to achieve"),
        "metric": Member(_TEXT),
        "target": Member(_TEXT),
        "target_query": Member(_TEXT),
    }
)
_BUDGET = open_object(
    {
        "max_invocation_tokens": Member(_Number(1, whole=True)),
        "max_phase_tokens": Member(_Number(1, whole=True)),
        "warn_threshold_pct": Member(_Number(0, 1)),
        "cost_ceiling_usd": Member(_Number(0)),
        "on_breach": Member(Choice(("blocked", "failed"))),
    }
)
SHAPE = open_object(
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
            open_object({"organization": Member(_SAID, Need.REQUIRED, "who runs the agent"), "url": Member(LINK)})
        ),
        "capabilities": Member(
            open_object(
                {name: Member(FLAG) for name in ("streaming", "push_notifications", "state_transition_history")}
            ),
            Need.REQUIRED,
            "an object that says what the agent supports, or an empty one",
        ),
        "authentication": Member(open_object({"schemes": Member(_TEXTS), "credentials": Member(_TEXT)})),
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


# -- Rules of KNO agent cards (KNO-1 to KNO-25); their domains and budget ---------------------------------------------
# Many demands are prose that no JSON Schema checks: a tenant's slug, one target for a goal, no secrets.

DomainResolver: TypeAlias = Callable[[str], bool]
"""Whether a perception domain with this slug exists."""

_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}", re.IGNORECASE | re.ASCII)
_KEBAB = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_BOUNDARY = re.compile(r"(?:MUST|SHOULD) NOT\b")
_SEMVER = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?", re.ASCII)
_NAMES_SECRET = re.compile(r"client[_-]?secret(?!_(?:basic|post|jwt))", re.IGNORECASE)
_SINCE = {"perception": "0.2.0", "goals": "0.2.0", "boundaries": "0.2.0", "budget_override": "0.2.1"}
"""Member → the version that introduced it (KNO-22)."""
_A2A_SPELLINGS = {
    "documentationUrl": "documentation_url",
    "defaultInputModes": "default_input_modes",
    "defaultOutputModes": "default_output_modes",
    "pushNotifications": "push_notifications",
    "stateTransitionHistory": "state_transition_history",
    "inputModes": "input_modes",
    "outputModes": "output_modes",
    "budgetOverride": "budget_override",
    "securitySchemes": "authentication",
    "supportedInterfaces": "url",
}
"""Member of an A2A card → its name in a KNO card."""


def check(document: JsonObject) -> Iterator[Finding]:
    """Find errors, warnings and notes for a KNO agent card."""
    yield from SHAPE.check(document, CARD)
    yield from _check_schema(document)
    yield from _check_identity(document)
    yield from _check_credentials(document)
    yield from repeated_skill_ids(document)
    yield from _check_ownership(document)
    yield from _check_goals(document)
    yield from _check_boundaries(document)
    yield from _check_age(document)
    yield from _check_spellings(document)


def _check_schema(document: JsonObject) -> Iterator[Finding]:
    """Check ``$schema`` (KNO-3). Readers of a card without it have to guess."""
    where, latest = CARD.within(SCHEMA), f"agent-card@{VERSIONS[-1]}"
    if document.get(SCHEMA) is None:
        yield Finding(Rule.CARD_MEMBER_MISSING, where, f"Add `{SCHEMA}`: {latest}.", Level.NOTE)
    elif isinstance(document[SCHEMA], str) and not is_service(document) and card_version(document) not in VERSIONS:
        yield Finding(Rule.CARD_MEMBER_VALUE, where, f"Write {latest}, or the version that the card is of.")


def _check_identity(document: JsonObject) -> Iterator[Finding]:
    """KNO-2, KNO-4 and KNO-23."""
    card_id, version, visibility = (document.get(name) for name in ("id", "version", "visibility"))
    if isinstance(card_id, str) and card_id and not _ULID.fullmatch(card_id):
        hint = "Use a ULID: 26 digits and letters without I, L, O and U, the first of them at most 7."
        yield Finding(Rule.CARD_MEMBER_VALUE, CARD.within("id"), hint, Level.WARNING)
    if isinstance(version, str) and version and not _SEMVER.fullmatch(version):
        hint = "Semantic versioning is recommended, such as 1.0.0."
        yield Finding(Rule.CARD_MEMBER_VALUE, CARD.within("version"), hint, Level.NOTE)
    if isinstance(visibility, str) and visibility != "public":
        hint = "The card is not for everybody by its own word; issue it only for contexts that suit it."
        yield Finding(Rule.CARD_MEMBER_VALUE, CARD.within("visibility"), hint, Level.NOTE)


def _check_credentials(document: JsonObject) -> Iterator[Finding]:
    """Report a secret in ``credentials`` as an error (KNO-8), not as a warning."""
    credentials = _member(document, "authentication").get("credentials")
    if isinstance(credentials, str) and (holds_secret(credentials) or _NAMES_SECRET.search(credentials)):
        hint = "Leave the secret out, and replace it wherever it is used: this is for settings such as a token URL."
        yield Finding(Rule.CARD_MEMBER_VALUE, CARD.within("authentication", "credentials"), hint)


def _check_ownership(document: JsonObject) -> Iterator[Finding]:
    """KNO-13 and KNO-14."""
    owner, where = _member(document, "ownership"), CARD.within("ownership", "possibility_slug")
    context, slug = owner.get("context"), owner.get("possibility_slug")
    if context == "tenant" and (slug is None or slug == ""):
        yield Finding(Rule.CARD_MEMBER_MISSING, where, "Add `possibility_slug`: it says which tenant owns the agent.")
    if context == "platform" and slug is not None:
        hint = "Remove it, or write `context: tenant`: an agent of the platform belongs to no tenant."
        yield Finding(Rule.CARD_AMBIGUOUS, where, hint, Level.WARNING)


def _check_goals(document: JsonObject) -> Iterator[Finding]:
    """KNO-17, KNO-18 and KNO-24."""
    seen: set[str] = set()
    for index, goal in enumerate(find_list(document, "goals")[1]):
        if isinstance(goal, dict):
            where = CARD.within("goals", index)
            yield from _check_goal(goal, where)
            goal_id = goal.get("id")
            if isinstance(goal_id, str) and goal_id in seen:
                hint = "Give every goal an id of its own; another goal has this one."
                yield Finding(Rule.CARD_AMBIGUOUS, where.within("id"), hint)
            seen |= {goal_id} if isinstance(goal_id, str) else set()


def _check_goal(goal: JsonObject, where: Where) -> Iterator[Finding]:
    goal_id, metric = goal.get("id"), goal.get("metric")
    targets = [name for name in ("target", "target_query") if goal.get(name) is not None]
    if isinstance(goal_id, str) and goal_id and not _KEBAB.fullmatch(goal_id):
        yield Finding(Rule.CARD_MEMBER_VALUE, where.within("id"), "Use kebab-case, such as my-goal.", Level.WARNING)
    if len(targets) == 2:
        hint = "Give `target` or `target_query`, not both: only one of them can be meant."
        yield Finding(Rule.CARD_AMBIGUOUS, where.within("target_query"), hint)
    if metric is None or not targets:
        hint = "Say how the goal is measured: a `metric`, and a `target` or `target_query`."
        yield Finding(Rule.CARD_MEMBER_MISSING, where, hint, Level.NOTE)


def _check_boundaries(document: JsonObject) -> Iterator[Finding]:
    """KNO-19."""
    for index, boundary in enumerate(find_list(document, "boundaries")[1]):
        if isinstance(boundary, str) and not _BOUNDARY.match(boundary):
            hint = "Begin with MUST NOT or SHOULD NOT, so that it is clear how strict it is."
            yield Finding(Rule.CARD_MEMBER_VALUE, CARD.within("boundaries", index), hint, Level.WARNING)


def _check_age(document: JsonObject) -> Iterator[Finding]:
    version = card_version(document)
    for name, since in _SINCE.items():
        if version in VERSIONS and version < since and document.get(name) is not None:
            hint = f"Write agent-card@{since} or later in `{SCHEMA}`: the version there does not have this member."
            yield Finding(Rule.CARD_AMBIGUOUS, CARD.within(name), hint, Level.WARNING)


def _check_spellings(document: JsonObject) -> Iterator[Finding]:
    """Find members of A2A cards: readers of KNO cards do not know them."""
    skills = [(skill, CARD.within("skills", i)) for i, skill in enumerate(find_list(document, "skills")[1])]
    capabilities = document.get("capabilities"), CARD.within("capabilities")
    for members, where in ((document, CARD), capabilities, *skills):
        for name in (name for name in _A2A_SPELLINGS if isinstance(members, dict) and name in members):
            hint = f"This is how A2A says it; a KNO card has it in `{_A2A_SPELLINGS[name]}`."
            yield Finding(Rule.CARD_AMBIGUOUS, where.within(name), hint, Level.WARNING)


def unresolved_domains(document: JsonObject, resolves: DomainResolver) -> Iterator[Finding]:
    """Find unknown perception domains (KNO-15): ``resolves`` gets each once."""
    domains = _member(document, "perception").get("domains")
    for index, domain in enumerate(domains if isinstance(domains, list) else ()):
        if isinstance(domain, str) and not resolves(domain):
            hint = "Name a perception domain that exists, or create it."
            yield Finding(Rule.CARD_MEMBER_VALUE, CARD.within("perception", "domains", index), hint)


def merge_budget(template: JsonObject, document: JsonObject) -> JsonObject:
    """Override a process template's ``budget_policy`` by the card's (KNO-21)."""
    override = _member(document, "budget_override")
    return {**template, **{name: value for name, value in override.items() if value is not None}}


def _member(document: JsonObject, name: str) -> Mapping[str, JsonValue]:
    value = document.get(name)
    return value if isinstance(value, dict) else {}
