"""``a2a/0.1``: names of HTTP authentication schemes, and no security schemes yet.

A2A 0.1.0, ``specification/json/a2a.json``. It had no ``protocolVersion``, and much that later versions demand was
optional.
"""

from collections.abc import Iterator

from sdcard.cards.a2a.shared import (
    ALWAYS_DISCLOSED,
    CAPABILITIES_ADVICE,
    CARD,
    COMMON,
    CREDENTIALS,
    ENDPOINT,
    EXTENSION,
    FACTS,
    FLAGS,
    FOUND_BY,
    GROUPS,
    HISTORY,
    LINK,
    MODES,
    NAMED,
    OF_FAMILY,
    PROVIDER,
    REQUIREMENTS,
    SAID,
    SKILL_NAMES,
    SKILL_REST,
    SKILLS_ADVICE,
    TEXT,
    TEXTS,
    TOGETHER,
    UNITS,
    claimed_version,
    repeated_skill_ids,
)
from sdcard.cards.model import CardFormat
from sdcard.cards.schema import ArrayOf, Member, Need, Object, find
from sdcard.encoding import JsonObject
from sdcard.errors import Finding, Level
from sdcard.rules import Rule

_AUTHENTICATION = Object(
    {
        "schemes": Member(ArrayOf(NAMED), Need.EXPECTED, "an array of HTTP authentication schemes, such as Bearer"),
        "credentials": CREDENTIALS,
    }
)

_SKILL = Object({**SKILL_NAMES, "description": Member(TEXT), "tags": Member(TEXTS), **SKILL_REST})

_SINCE_0_2 = "A2A has it since 0.2"

SHAPE = Object(
    {
        "name": COMMON["name"],
        "description": Member(SAID),
        "version": COMMON["version"],
        "url": Member(ENDPOINT, Need.REQUIRED, "where the agent listens"),
        "provider": Member(Object({**PROVIDER, "url": Member(LINK)})),
        "documentationUrl": Member(LINK),
        "capabilities": Member(
            Object(
                {**FLAGS, "stateTransitionHistory": HISTORY},
                legacy={"extensions": Member(ArrayOf(Object(EXTENSION)), advice=_SINCE_0_2)},
            ),
            Need.REQUIRED,
            CAPABILITIES_ADVICE,
        ),
        "authentication": Member(_AUTHENTICATION),
        "defaultInputModes": Member(MODES),
        "defaultOutputModes": Member(MODES),
        "skills": Member(ArrayOf(_SKILL, empty=Level.NOTE), Need.REQUIRED, SKILLS_ADVICE),
    },
    legacy={
        "iconUrl": Member(LINK, advice=_SINCE_0_2),
        "securityRequirements": Member(REQUIREMENTS, advice="A2A 0.1 has `authentication`"),
    },
    notes_unknown=True,
)

FORMAT = CardFormat(
    name="a2a/0.1",
    always_disclosed=ALWAYS_DISCLOSED,
    members=frozenset(SHAPE.members),
    members_of_family=OF_FAMILY,
    units=UNITS,
    together=TOGETHER,
    groups=GROUPS,
    facts=FACTS,
    found_by=FOUND_BY,
)


def check(document: JsonObject) -> Iterator[Finding]:
    """Find errors, warnings and notes for an A2A 0.1 card."""
    yield from SHAPE.check(document, CARD)
    yield from _undecided(document)
    yield from repeated_skill_ids(document)


def _undecided(document: JsonObject) -> Iterator[Finding]:
    if not claimed_version(document) and find(document, "authentication") is None:
        hint = "Nothing but the missing `description` tells this card from one of A2A 0.2; it is read as A2A 0.1."
        yield Finding(Rule.CARD_AMBIGUOUS, CARD, hint, Level.NOTE)
