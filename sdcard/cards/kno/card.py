"""Rules of KNO agent cards (KNO-1 to KNO-25); their domains and budget.

agent-card-schema 0.2.1. Many of its demands are prose that no JSON Schema checks: a tenant's slug, one target for a
goal, no secrets.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from sdcard.cards.a2a.shared import CARD, repeated_skill_ids
from sdcard.cards.kno.format import SCHEMA, SHAPE, VERSIONS, card_version, is_service
from sdcard.cards.lint import holds_secret
from sdcard.cards.schema import find_list
from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Finding, Level, Where
from sdcard.rules import Rule

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
    """Find unknown perception domains (KNO-15).

    Args:
        document: a KNO agent card.
        resolves: looks a domain up in the catalogue; called once for each domain.
    """
    domains = _member(document, "perception").get("domains")
    for index, domain in enumerate(domains if isinstance(domains, list) else ()):
        if isinstance(domain, str) and not resolves(domain):
            hint = "Name a perception domain that exists, or create it."
            yield Finding(Rule.CARD_MEMBER_VALUE, CARD.within("perception", "domains", index), hint)


def merge_budget(template: JsonObject, document: JsonObject) -> JsonObject:
    """Return the effective budget of an agent (KNO-21): template and overrides.

    Args:
        template: the ``budget_policy`` of the process template, which may have members that no card overrides.
        document: a KNO agent card.
    """
    override = _member(document, "budget_override")
    return {**template, **{name: value for name, value in override.items() if value is not None}}


def _member(document: JsonObject, name: str) -> Mapping[str, JsonValue]:
    value = document.get(name)
    return value if isinstance(value, dict) else {}
