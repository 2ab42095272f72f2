"""``a2a/0.1``, ``a2a/0.2`` and ``a2a/0.3``: one endpoint at the top.

A2A 0.1.0, 0.2.0 to 0.2.6, and 0.3.0: ``specification/json/a2a.json``. 0.2.9, which the SD-Card draft names, is
a release of the SDK.

- 0.1 has no ``protocolVersion``, and names of HTTP authentication schemes instead of security schemes. Many members
  that later versions demand are optional.
- 0.2 has security schemes told apart by ``type``. A card without a mark of 0.1 is read as 0.2: what is valid in 0.2 was
  valid in 0.1.
- 0.3 adds signatures, security of single skills, and mutual TLS.
"""

import re
from collections.abc import Iterator

from sdcard.cards.a2a.shared import (
    ALTERNATIVES,
    CARD,
    COMMON,
    CREDENTIALS,
    ENDPOINT,
    EXTENSION,
    FLAG,
    FLAGS,
    HTTP_AUTH,
    LINK,
    MODES,
    NOT_EMPTY,
    OAUTH_FLOWS,
    OLD_AUTHENTICATION,
    OPEN_ID_CONNECT,
    PROVIDER,
    REQUIREMENTS,
    SIGNATURES,
    SKILL_NAMES,
    SKILL_REST,
    TEXT,
    TEXTS,
    WARN_IF_EMPTY,
    api_key,
    capabilities,
    card_format,
    claimed_version,
    default_modes,
    repeated_skill_ids,
    requirements,
    skill,
    skills,
    undefined_schemes,
)
from sdcard.cards.schema import ArrayOf, MapOf, Member, Need, Object, Shape, Tagged, find
from sdcard.encoding import JsonObject
from sdcard.errors import Finding, Level
from sdcard.rules import Rule

_ENDPOINT = Member(ENDPOINT, Need.REQUIRED, "where the agent listens")
_EXTENSIONS = ArrayOf(Object(EXTENSION))
_SINCE_0_2 = "A2A has it since 0.2"
_BEFORE_1_0 = Member(REQUIREMENTS, advice="before 1.0 it is `security`")


# -- 0.1 --------------------------------------------------------------------------------------------------------------

_AUTHENTICATION = Object(
    {
        "schemes": Member(ArrayOf(NOT_EMPTY), Need.EXPECTED, "an array of HTTP authentication schemes, such as Bearer"),
        "credentials": CREDENTIALS,
    }
)
SHAPE_0_1 = Object(
    {
        "name": COMMON["name"],
        "description": Member(WARN_IF_EMPTY),
        "version": COMMON["version"],
        "url": _ENDPOINT,
        "provider": Member(Object({**PROVIDER, "url": Member(LINK)})),
        "documentationUrl": Member(LINK),
        "capabilities": capabilities(
            {**FLAGS, "stateTransitionHistory": Member(FLAG)}, {"extensions": Member(_EXTENSIONS, advice=_SINCE_0_2)}
        ),
        "authentication": Member(_AUTHENTICATION),
        "defaultInputModes": Member(MODES),
        "defaultOutputModes": Member(MODES),
        "skills": skills(
            {**SKILL_NAMES, "description": Member(TEXT), "tags": Member(TEXTS), **SKILL_REST}, empty=Level.NOTE
        ),
    },
    legacy={
        "iconUrl": Member(LINK, advice=_SINCE_0_2),
        "securityRequirements": Member(REQUIREMENTS, advice="A2A 0.1 has `authentication`"),
    },
    notes_unknown=True,
)
V0_1 = card_format("a2a/0.1", SHAPE_0_1)


def check_0_1(document: JsonObject) -> Iterator[Finding]:
    """Find errors, warnings and notes for an A2A 0.1 card."""
    yield from SHAPE_0_1.check(document, CARD)
    if not claimed_version(document) and find(document, "authentication") is None:
        hint = "Nothing but the missing `description` tells this card from one of A2A 0.2; it is read as A2A 0.1."
        yield Finding(Rule.CARD_AMBIGUOUS, CARD, hint, Level.NOTE)
    yield from repeated_skill_ids(document)


# -- 0.2 --------------------------------------------------------------------------------------------------------------

_FLOWS = Object({name: Member(Object(members)) for name, members in OAUTH_FLOWS.items() if name != "deviceCode"})
_OAUTH2 = {"flows": Member(_FLOWS, Need.REQUIRED, "an object with the OAuth flows"), "description": Member(TEXT)}
_SCHEMES: dict[str, Shape] = {
    "apiKey": api_key("in"),
    "http": Object(HTTP_AUTH),
    "oauth2": Object(_OAUTH2),
    "openIdConnect": Object(OPEN_ID_CONNECT),
}
"""Kinds of security schemes, by their ``type``."""

INTERFACES = ArrayOf(
    Object(
        {
            "url": _ENDPOINT,
            "transport": Member(NOT_EMPTY, Need.REQUIRED, "the transport, such as JSONRPC, GRPC or HTTP+JSON"),
        }
    )
)
CAPABILITIES = {**FLAGS, "extensions": Member(_EXTENSIONS), "stateTransitionHistory": Member(FLAG)}
_CAPABILITIES = capabilities(
    CAPABILITIES, {"extendedAgentCard": Member(FLAG, advice="before 1.0 it is `supportsAuthenticatedExtendedCard`")}
)
_MEMBERS: dict[str, Member] = {
    **COMMON,
    **default_modes(empty=Level.NOTE),
    "protocolVersion": Member(TEXT),
    "url": _ENDPOINT,
    "preferredTransport": Member(TEXT),
    "additionalInterfaces": Member(INTERFACES),
    "capabilities": _CAPABILITIES,
    "skills": skills(skill(empty=Level.NOTE), empty=Level.NOTE),
    "securitySchemes": Member(MapOf(Tagged("type", _SCHEMES))),
    "security": Member(ALTERNATIVES),
    "supportsAuthenticatedExtendedCard": Member(FLAG),
}
_LEGACY: dict[str, Member] = {
    "authentication": Member(OLD_AUTHENTICATION, advice="describe it in `securitySchemes` and `security`"),
    "securityRequirements": _BEFORE_1_0,
}
SHAPE_0_2 = Object(_MEMBERS, legacy=_LEGACY, notes_unknown=True)
V0_2 = card_format("a2a/0.2", SHAPE_0_2)

NEW_IN_0_2 = (
    *("securitySchemes", "security", "supportsAuthenticatedExtendedCard", "preferredTransport", "additionalInterfaces"),
)
"""Members that 0.1 does not have."""
_NEW_IN_PATCH = {
    "supportsAuthenticatedExtendedCard": 1,
    "iconUrl": 2,
    "preferredTransport": 4,
    "additionalInterfaces": 4,
}
_PATCH = re.compile(r"0\.2\.([0-9]{1,2})")


def check_0_2(document: JsonObject) -> Iterator[Finding]:
    """Find errors, warnings and notes for an A2A 0.2 card."""
    yield from SHAPE_0_2.check(document, CARD)
    yield from _another_version(document, "0.2", "Write 0.2.6: the card has members that A2A 0.2 brought.")
    claim = _PATCH.fullmatch(claimed_version(document))
    for name, patch in _NEW_IN_PATCH.items():
        found = find(document, name)
        if claim and found and int(claim[1]) < patch:
            hint = f"Readers of the version that the card claims do not know this member: A2A has it since 0.2.{patch}."
            yield Finding(Rule.CARD_AMBIGUOUS, CARD.within(found[0]), hint, Level.NOTE)
    if not any(find(document, name) for name in ("protocolVersion", "iconUrl", *NEW_IN_0_2)):
        hint = "Nothing in this card tells A2A 0.1 from 0.2; it is read as 0.2. Say so in `protocolVersion`."
        yield Finding(Rule.CARD_AMBIGUOUS, CARD, hint, Level.NOTE)
    yield from repeated_skill_ids(document)
    yield from undefined_schemes(document, requirements(document, "security"))


# -- 0.3 --------------------------------------------------------------------------------------------------------------

SCHEME = Tagged(
    "type",
    {
        **_SCHEMES,
        "oauth2": Object({**_OAUTH2, "oauth2MetadataUrl": Member(LINK)}),
        "mutualTLS": Object({"description": Member(TEXT)}),
    },
)
SHAPE_0_3 = Object(
    {
        **_MEMBERS,
        "protocolVersion": Member(WARN_IF_EMPTY, Need.EXPECTED, "the version of A2A, 0.3.0"),
        "skills": skills(
            {**skill(empty=Level.NOTE), "security": Member(ALTERNATIVES)},
            Level.NOTE,
            {"securityRequirements": _BEFORE_1_0},
        ),
        "securitySchemes": Member(MapOf(SCHEME)),
        "signatures": Member(SIGNATURES),
    },
    legacy=_LEGACY,
    notes_unknown=True,
)
V0_3 = card_format("a2a/0.3", SHAPE_0_3)


def check_0_3(document: JsonObject) -> Iterator[Finding]:
    """Find errors, warnings and notes for an A2A 0.3 card."""
    yield from SHAPE_0_3.check(document, CARD)
    advice = "Write 0.3.0, or move the endpoint to `supportedInterfaces`: the card has the shape of A2A 0.3."
    yield from _another_version(document, "0.3", advice)
    yield from repeated_skill_ids(document)
    yield from undefined_schemes(document, requirements(document, "security"))


def _another_version(document: JsonObject, version: str, advice: str) -> Iterator[Finding]:
    """Find a card that claims another version of A2A than that of its shape."""
    spelling, claim = find(document, "protocolVersion") or ("", "")
    if isinstance(claim, str) and claim and not claim.startswith(version):
        yield Finding(Rule.CARD_AMBIGUOUS, CARD.within(spelling), advice, Level.WARNING)
