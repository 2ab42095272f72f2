"""``a2a/0.3``: its shape table. One endpoint at the top, security schemes told apart by ``type``.

A2A 0.3.0, ``specification/json/a2a.json``.
"""

from collections.abc import Iterator

from sdcard.cards.a2a.shared import (
    ANY_OBJECT,
    API_KEY_NAME,
    CARD,
    COMMON,
    COMMON_CAPABILITIES,
    COMMON_SKILL,
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
    TOGETHER,
    UNITS,
    repeated_skill_ids,
    requirements,
    undefined_schemes,
)
from sdcard.cards.format import CardFormat
from sdcard.cards.shapes import ArrayOf, MapOf, Member, Need, Object, Tagged, find
from sdcard.encoding import JsonObject
from sdcard.errors import Finding, Level
from sdcard.rules import Rule

_SCHEMES = MapOf(
    Tagged(
        "type",
        {
            "apiKey": Object(
                {
                    "in": Member(KEY_PLACE, Need.REQUIRED, "one of cookie, header, query"),
                    "name": API_KEY_NAME,
                    "description": Member(TEXT),
                }
            ),
            "http": Object(HTTP_AUTH),
            "oauth2": Object(
                {
                    "flows": Member(Object(OAUTH_FLOWS), Need.REQUIRED, "an object with the OAuth flows"),
                    "oauth2MetadataUrl": Member(LINK),
                    "description": Member(TEXT),
                }
            ),
            "openIdConnect": Object(OPEN_ID_CONNECT),
            "mutualTLS": Object({"description": Member(TEXT)}),
        },
    )
)

INTERFACES = ArrayOf(
    Object(
        {
            "url": Member(ENDPOINT, Need.REQUIRED, "where the agent listens"),
            "transport": Member(NAMED, Need.REQUIRED, "the transport, such as JSONRPC, GRPC or HTTP+JSON"),
        }
    )
)

_SKILLS = ArrayOf(Object({**COMMON_SKILL, "security": Member(SECURITY_0_3)}), empty=Level.WARNING)

SHAPE = Object(
    {
        **COMMON,
        "protocolVersion": Member(SAID, Need.EXPECTED, "the version of A2A, 0.3.0"),
        "url": Member(ENDPOINT, Need.REQUIRED, "where the agent listens"),
        "preferredTransport": Member(TEXT),
        "additionalInterfaces": Member(INTERFACES),
        "capabilities": Member(
            Object({**COMMON_CAPABILITIES, "stateTransitionHistory": Member(FLAG)}),
            Need.REQUIRED,
            "an object that says what the agent supports, or an empty one",
        ),
        "skills": Member(_SKILLS, Need.REQUIRED, "an array of what the agent can do"),
        "securitySchemes": Member(_SCHEMES),
        "security": Member(SECURITY_0_3),
        "supportsAuthenticatedExtendedCard": Member(FLAG),
    },
    legacy={"authentication": Member(ANY_OBJECT, advice="describe it in `securitySchemes` and `security`")},
    notes_unknown=True,
)

FORMAT = CardFormat(
    name="a2a/0.3",
    always_disclosed=("name", "description", "version", "protocolVersion"),
    members=frozenset(SHAPE.members),
    units=UNITS,
    together=TOGETHER,
    groups=GROUPS,
)


def check(document: JsonObject) -> Iterator[Finding]:
    """Find what is wrong with an A2A 0.3 card, and what its author might still mend."""
    yield from SHAPE.check(document, CARD)
    yield from _another_version(document)
    yield from repeated_skill_ids(document)
    yield from undefined_schemes(document, requirements(document, "security"))


def _another_version(document: JsonObject) -> Iterator[Finding]:
    spelling, version = find(document, "protocolVersion") or ("", None)
    if isinstance(version, str) and version and not version.startswith("0.3"):
        hint = "Write 0.3.0, or move the endpoint to `supportedInterfaces`: the card has the shape of A2A 0.3."
        yield Finding(Rule.CARD_AMBIGUOUS, CARD.within(spelling), hint, Level.WARNING)
