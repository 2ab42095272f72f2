"""``a2a/1.0``: its shape table. A list of interfaces, and security schemes told apart by the name of their wrapper.

A2A 1.0, ``specification/a2a.proto``, read as ProtoJSON. Its own sample cards still carry members of 0.3, and so do many
cards that want to serve readers of both: those members are warned about, checked, and kept.
"""

from collections.abc import Iterator

from sdcard.cards.a2a.shared import (
    ANY_OBJECT,
    API_KEY_NAME,
    CARD,
    COMMON,
    COMMON_CAPABILITIES,
    COMMON_SKILL,
    DEVICE_CODE,
    ENDPOINT,
    FLAG,
    GROUPS,
    HTTP_AUTH,
    KEY_PLACE,
    LINK,
    NAMED,
    OAUTH_FLOWS,
    OPEN_ID_CONNECT,
    SAID,
    SECURITY_0_3,
    TEXT,
    TEXTS,
    TOGETHER,
    UNITS,
    repeated_skill_ids,
    requirements,
    undefined_schemes,
)
from sdcard.cards.a2a.v0_3 import INTERFACES as INTERFACES_0_3
from sdcard.cards.format import CardFormat
from sdcard.cards.shapes import ArrayOf, MapOf, Member, Need, Object, find
from sdcard.encoding import JsonObject
from sdcard.errors import Finding, Level, Where
from sdcard.rules import Rule

_FLOWS = Object({**OAUTH_FLOWS, "deviceCode": DEVICE_CODE}, exactly_one=True)

_SCHEMES = MapOf(
    Object(
        {
            "apiKeySecurityScheme": Member(
                Object(
                    {
                        "location": Member(KEY_PLACE, Need.REQUIRED, "one of cookie, header, query"),
                        "name": API_KEY_NAME,
                        "description": Member(TEXT),
                    }
                )
            ),
            "httpAuthSecurityScheme": Member(Object(HTTP_AUTH)),
            "oauth2SecurityScheme": Member(
                Object(
                    {
                        "flows": Member(_FLOWS, Need.REQUIRED, "an object with one OAuth flow"),
                        "oauth2MetadataUrl": Member(LINK),
                        "description": Member(TEXT),
                    }
                )
            ),
            "openIdConnectSecurityScheme": Member(Object(OPEN_ID_CONNECT)),
            "mtlsSecurityScheme": Member(Object({"description": Member(TEXT)})),
        },
        exactly_one=True,
    )
)

_REQUIREMENTS = ArrayOf(Object({"schemes": Member(MapOf(Object({"list": Member(TEXTS)})))}))

_INTERFACES = ArrayOf(
    Object(
        {
            "url": Member(ENDPOINT, Need.REQUIRED, "where the agent listens"),
            "protocolBinding": Member(NAMED, Need.REQUIRED, "the binding, such as JSONRPC, GRPC or HTTP+JSON"),
            "protocolVersion": Member(SAID, Need.EXPECTED, "the version of A2A spoken here, such as 1.0"),
            "tenant": Member(TEXT),
        },
        legacy={"transport": Member(TEXT, advice="A2A 1.0 has it in `protocolBinding`")},
    ),
    empty=Level.ERROR,
)

_CAPABILITIES = Object(
    {**COMMON_CAPABILITIES, "extendedAgentCard": Member(FLAG)},
    legacy={"stateTransitionHistory": Member(FLAG, advice="A2A 1.0 dropped it")},
)

_SKILLS = ArrayOf(
    Object(
        {**COMMON_SKILL, "securityRequirements": Member(_REQUIREMENTS)},
        legacy={"security": Member(SECURITY_0_3, advice="A2A 1.0 has it in `securityRequirements`")},
    ),
    empty=Level.WARNING,
)

SHAPE = Object(
    {
        **COMMON,
        "supportedInterfaces": Member(_INTERFACES, Need.REQUIRED, "an array of where and how the agent listens"),
        "capabilities": Member(
            _CAPABILITIES, Need.REQUIRED, "an object that says what the agent supports, or an empty one"
        ),
        "skills": Member(_SKILLS, Need.REQUIRED, "an array of what the agent can do"),
        "securitySchemes": Member(_SCHEMES),
        "securityRequirements": Member(_REQUIREMENTS),
    },
    legacy={
        "url": Member(ENDPOINT, advice="A2A 1.0 has it in `supportedInterfaces`"),
        "preferredTransport": Member(TEXT, advice="A2A 1.0 has it in `supportedInterfaces`"),
        "additionalInterfaces": Member(INTERFACES_0_3, advice="A2A 1.0 has it in `supportedInterfaces`"),
        "protocolVersion": Member(TEXT, advice="A2A 1.0 has it in each of `supportedInterfaces`"),
        "security": Member(SECURITY_0_3, advice="A2A 1.0 has it in `securityRequirements`"),
        "supportsAuthenticatedExtendedCard": Member(FLAG, advice="A2A 1.0 has it in `capabilities`"),
        "authentication": Member(ANY_OBJECT, advice="describe it in `securitySchemes`"),
    },
    notes_unknown=True,
)

FORMAT = CardFormat(
    name="a2a/1.0",
    always_disclosed=("name", "description", "version"),
    members=frozenset(SHAPE.members),
    units=UNITS,
    together=TOGETHER,
    groups=GROUPS,
)


def check(document: JsonObject) -> Iterator[Finding]:
    """Find what is wrong with an A2A 1.0 card, and what its author might still mend."""
    yield from SHAPE.check(document, CARD)
    yield from repeated_skill_ids(document)
    yield from undefined_schemes(document, requirements(document, "security"))
    for where, requirement in requirements(document, "securityRequirements"):
        yield from _check_requirement(document, requirement, where)


def _check_requirement(document: JsonObject, requirement: JsonObject, where: Where) -> Iterator[Finding]:
    """Find names of schemes that are undefined, or outside ``schemes``, where a reader would find nothing required."""
    spelling, schemes = find(requirement, "schemes") or ("schemes", None)
    if isinstance(schemes, dict):
        yield from undefined_schemes(document, [(where.within(spelling), schemes)])
    elif schemes is None and any(value is not None for value in requirement.values()):
        hint = "Put the names of the schemes inside `schemes`, each with an object that holds a `list` of scopes."
        yield Finding(Rule.CARD_MEMBER_MISSING, where.within(spelling), hint)
