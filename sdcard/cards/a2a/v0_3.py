"""``a2a/0.3``: as 0.2, with signatures, security of single skills and mutual TLS.

A2A 0.3.0, ``specification/json/a2a.json``.
"""

from collections.abc import Iterator

from sdcard.cards.a2a import v0_2
from sdcard.cards.a2a.shared import (
    ALTERNATIVES,
    ALWAYS_DISCLOSED,
    CARD,
    FACTS,
    FOUND_BY,
    GROUPS,
    LINK,
    OF_FAMILY,
    REQUIREMENTS,
    SAID,
    SIGNATURES,
    SKILLS_ADVICE,
    TEXT,
    TOGETHER,
    UNITS,
    another_version,
    repeated_skill_ids,
    requirements,
    skill,
    undefined_schemes,
)
from sdcard.cards.model import CardFormat
from sdcard.cards.schema import ArrayOf, MapOf, Member, Need, Object, Tagged
from sdcard.encoding import JsonObject
from sdcard.errors import Finding, Level

SCHEME = Tagged(
    "type",
    {
        **v0_2.SCHEMES,
        "oauth2": Object({**v0_2.OAUTH2, "oauth2MetadataUrl": Member(LINK)}),
        "mutualTLS": Object({"description": Member(TEXT)}),
    },
)

_SKILL = Object(
    {**skill(empty=Level.NOTE), "security": Member(ALTERNATIVES)},
    legacy={"securityRequirements": Member(REQUIREMENTS, advice="before 1.0 it is `security`")},
)

SHAPE = Object(
    {
        **v0_2.MEMBERS,
        "protocolVersion": Member(SAID, Need.EXPECTED, "the version of A2A, 0.3.0"),
        "skills": Member(ArrayOf(_SKILL, empty=Level.NOTE), Need.REQUIRED, SKILLS_ADVICE),
        "securitySchemes": Member(MapOf(SCHEME)),
        "signatures": Member(SIGNATURES),
    },
    legacy=v0_2.OTHER_MEMBERS,
    notes_unknown=True,
)

FORMAT = CardFormat(
    name="a2a/0.3",
    always_disclosed=ALWAYS_DISCLOSED,
    members=frozenset(SHAPE.members),
    members_of_family=OF_FAMILY,
    units=UNITS,
    together=TOGETHER,
    groups=GROUPS,
    facts=FACTS,
    found_by=FOUND_BY,
)

_ANOTHER = "Write 0.3.0, or move the endpoint to `supportedInterfaces`: the card has the shape of A2A 0.3."


def check(document: JsonObject) -> Iterator[Finding]:
    """Find errors, warnings and notes for an A2A 0.3 card."""
    yield from SHAPE.check(document, CARD)
    yield from another_version(document, "0.3", _ANOTHER)
    yield from repeated_skill_ids(document)
    yield from undefined_schemes(document, requirements(document, "security"))
