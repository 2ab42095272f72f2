"""``a2a/0.2``: one endpoint at the top, and security schemes with a ``type``.

A2A 0.2.0 to 0.2.6, ``specification/json/a2a.json``; 0.2.9, which the SD-Card draft names, is a release of the SDK. A
card without a mark of 0.1 is read as 0.2: what is valid here was valid there.
"""

import re
from collections.abc import Iterator

from sdcard.cards.a2a.shared import (
    ALTERNATIVES,
    ALWAYS_DISCLOSED,
    API_KEY_NAME,
    CAPABILITIES_ADVICE,
    CARD,
    COMMON,
    ENDPOINT,
    EXTENSION,
    FACTS,
    FLAG,
    FLAGS,
    FOUND_BY,
    GROUPS,
    HISTORY,
    HTTP_AUTH,
    KEY_PLACE,
    NAMED,
    OAUTH_FLOWS,
    OF_FAMILY,
    OLD_AUTHENTICATION,
    OPEN_ID_CONNECT,
    REQUIREMENTS,
    SKILLS_ADVICE,
    TEXT,
    TOGETHER,
    UNITS,
    another_version,
    claimed_version,
    default_modes,
    repeated_skill_ids,
    requirements,
    skill,
    undefined_schemes,
)
from sdcard.cards.model import CardFormat
from sdcard.cards.schema import ArrayOf, MapOf, Member, Need, Object, Shape, Tagged, find
from sdcard.encoding import JsonObject
from sdcard.errors import Finding, Level
from sdcard.rules import Rule

FLOWS = Object({name: Member(Object(OAUTH_FLOWS[name])) for name in OAUTH_FLOWS if name != "deviceCode"})
OAUTH2 = {"flows": Member(FLOWS, Need.REQUIRED, "an object with the OAuth flows"), "description": Member(TEXT)}

SCHEMES: dict[str, Shape] = {
    "apiKey": Object(
        {
            "in": Member(KEY_PLACE, Need.REQUIRED, "one of cookie, header, query"),
            "name": API_KEY_NAME,
            "description": Member(TEXT),
        }
    ),
    "http": Object(HTTP_AUTH),
    "oauth2": Object(OAUTH2),
    "openIdConnect": Object(OPEN_ID_CONNECT),
}
"""Kinds of security schemes, by their ``type``."""

INTERFACES = ArrayOf(
    Object(
        {
            "url": Member(ENDPOINT, Need.REQUIRED, "where the agent listens"),
            "transport": Member(NAMED, Need.REQUIRED, "the transport, such as JSONRPC, GRPC or HTTP+JSON"),
        }
    )
)

CAPABILITIES = Object(
    {**FLAGS, "extensions": Member(ArrayOf(Object(EXTENSION))), "stateTransitionHistory": HISTORY},
    legacy={"extendedAgentCard": Member(FLAG, advice="before 1.0 it is `supportsAuthenticatedExtendedCard`")},
)

MEMBERS: dict[str, Member] = {
    **COMMON,
    **default_modes(empty=Level.NOTE),
    "protocolVersion": Member(TEXT),
    "url": Member(ENDPOINT, Need.REQUIRED, "where the agent listens"),
    "preferredTransport": Member(TEXT),
    "additionalInterfaces": Member(INTERFACES),
    "capabilities": Member(CAPABILITIES, Need.REQUIRED, CAPABILITIES_ADVICE),
    "skills": Member(ArrayOf(Object(skill(empty=Level.NOTE)), empty=Level.NOTE), Need.REQUIRED, SKILLS_ADVICE),
    "securitySchemes": Member(MapOf(Tagged("type", SCHEMES))),
    "security": Member(ALTERNATIVES),
    "supportsAuthenticatedExtendedCard": Member(FLAG),
}

OTHER_MEMBERS: dict[str, Member] = {
    "authentication": Member(OLD_AUTHENTICATION, advice="describe it in `securitySchemes` and `security`"),
    "securityRequirements": Member(REQUIREMENTS, advice="before 1.0 it is `security`"),
}
"""Members that 0.1 had, or that 1.0 introduced."""

SHAPE = Object(MEMBERS, legacy=OTHER_MEMBERS, notes_unknown=True)

FORMAT = CardFormat(
    name="a2a/0.2",
    always_disclosed=ALWAYS_DISCLOSED,
    members=frozenset(SHAPE.members),
    members_of_family=OF_FAMILY,
    units=UNITS,
    together=TOGETHER,
    groups=GROUPS,
    facts=FACTS,
    found_by=FOUND_BY,
)

BROUGHT = (
    "securitySchemes",
    "security",
    "supportsAuthenticatedExtendedCard",
    "preferredTransport",
    "additionalInterfaces",
)
"""Members that 0.1 does not have."""

_SINCE = {"supportsAuthenticatedExtendedCard": 1, "iconUrl": 2, "preferredTransport": 4, "additionalInterfaces": 4}
_PATCH = re.compile(r"0\.2\.([0-9]{1,2})")


def check(document: JsonObject) -> Iterator[Finding]:
    """Find errors, warnings and notes for an A2A 0.2 card."""
    yield from SHAPE.check(document, CARD)
    yield from another_version(document, "0.2", "Write 0.2.6: the card has members that A2A 0.2 brought.")
    yield from _newer_than_claimed(document)
    yield from _undecided(document)
    yield from repeated_skill_ids(document)
    yield from undefined_schemes(document, requirements(document, "security"))


def _newer_than_claimed(document: JsonObject) -> Iterator[Finding]:
    claim = _PATCH.fullmatch(claimed_version(document))
    for name, patch in _SINCE.items():
        found = find(document, name)
        if claim and found and int(claim[1]) < patch:
            hint = f"Readers of the version that the card claims do not know this member: A2A has it since 0.2.{patch}."
            yield Finding(Rule.CARD_AMBIGUOUS, CARD.within(found[0]), hint, Level.NOTE)


def _undecided(document: JsonObject) -> Iterator[Finding]:
    if not any(find(document, name) for name in ("protocolVersion", "iconUrl", *BROUGHT)):
        hint = "Nothing in this card tells A2A 0.1 from 0.2; it is read as 0.2. Say so in `protocolVersion`."
        yield Finding(Rule.CARD_AMBIGUOUS, CARD, hint, Level.NOTE)
