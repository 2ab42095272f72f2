"""What the A2A generations have in common: how their members may be disclosed, shapes, and rules across members.

The disclosure tables are the union of both generations, in both spellings. A path that a card lacks matches nothing,
and so a card that mixes generations, or is spelt in snake_case, shows no more than a tidy one.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from sdcard.cards.shapes import (
    ArrayOf,
    Choice,
    Flag,
    MapOf,
    Member,
    Need,
    Object,
    Reach,
    Text,
    Url,
    find,
    find_list,
    snake_case,
)
from sdcard.encoding import JsonObject
from sdcard.errors import Finding, Level, Part, Where
from sdcard.paths import ClaimPath, path
from sdcard.rules import Rule

CARD = Where(Part.CARD)


# -- what may be disclosed apart (DECISIONS 9 and 11) -----------------------------------------------------------------


def _both_spellings(*paths: ClaimPath) -> tuple[ClaimPath, ...]:
    spelt = [
        ClaimPath(tuple(snake_case(segment) if isinstance(segment, str) else segment for segment in one.segments))
        for one in paths
    ]
    return tuple(dict.fromkeys((*paths, *spelt)))


_TENANTS = (path("supportedInterfaces", None, "tenant"), path("additionalInterfaces", None, "tenant"))

UNITS = _both_spellings(
    path("skills", None),
    path("skills", None, None),
    path("supportedInterfaces", None),
    path("additionalInterfaces", None),
    *_TENANTS,
    path("capabilities", "extensions", None),
)
TOGETHER = (path("skills", None, "id"), path("skills", None, "name"))
GROUPS: Mapping[str, tuple[ClaimPath, ...]] = MappingProxyType(
    {
        "skills": (path("skills"),),
        "endpoints": _both_spellings(
            path("url"),
            path("preferredTransport"),
            path("additionalInterfaces"),
            path("supportedInterfaces"),
        ),
        "operational_info": _both_spellings(
            path("capabilities"),
            path("defaultInputModes"),
            path("defaultOutputModes"),
            path("documentationUrl"),
            path("iconUrl"),
            path("supportsAuthenticatedExtendedCard"),
        ),
        "security_context": _both_spellings(
            path("securitySchemes"),
            path("security"),
            path("securityRequirements"),
            path("authentication"),
            path("skills", None, "security"),
            path("skills", None, "securityRequirements"),
            *_TENANTS,
        ),
        "provider": (path("provider"),),
    }
)


# -- shapes that did not change ---------------------------------------------------------------------------------------

TEXT = Text()
SAID = Text(empty=Level.WARNING)
NAMED = Text(empty=Level.ERROR)
FLAG = Flag()
ANY_OBJECT = Object()
NAME_URL = Url(Reach.NAME)
LINK = Url(Reach.LINK)
ENDPOINT = Url(Reach.ENDPOINT)
TEXTS = ArrayOf(TEXT)
SOME_TEXTS = ArrayOf(SAID, empty=Level.WARNING)

EXTENSIONS = ArrayOf(
    Object(
        {
            "uri": Member(NAME_URL, Need.EXPECTED, "the URI that identifies the extension"),
            "description": Member(TEXT),
            "required": Member(FLAG),
            "params": Member(ANY_OBJECT),
        }
    )
)

SIGNATURES = ArrayOf(
    Object(
        {
            "protected": Member(NAMED, Need.REQUIRED, "the protected header of the JWS, in base64url"),
            "signature": Member(NAMED, Need.REQUIRED, "the signature of the JWS, in base64url"),
            "header": Member(ANY_OBJECT),
        }
    )
)

COMMON: Mapping[str, Member] = {
    "name": Member(SAID, Need.REQUIRED, "what people call the agent"),
    "description": Member(SAID, Need.REQUIRED, "what the agent does, in a sentence"),
    "version": Member(SAID, Need.REQUIRED, "the version of the agent, such as 1.0.0"),
    "provider": Member(
        Object(
            {
                "organization": Member(SAID, Need.EXPECTED, "who runs the agent"),
                "url": Member(LINK, Need.EXPECTED, "where to learn about who runs the agent"),
            }
        )
    ),
    "documentationUrl": Member(LINK),
    "iconUrl": Member(LINK),
    "defaultInputModes": Member(SOME_TEXTS, Need.EXPECTED, "the media types that skills accept, such as text/plain"),
    "defaultOutputModes": Member(SOME_TEXTS, Need.EXPECTED, "the media types that skills produce, such as text/plain"),
    "signatures": Member(SIGNATURES),
}
"""The top-level members that 0.3 and 1.0 spell and shape alike."""

COMMON_CAPABILITIES: Mapping[str, Member] = {
    "streaming": Member(FLAG),
    "pushNotifications": Member(FLAG),
    "extensions": Member(EXTENSIONS),
}

COMMON_SKILL: Mapping[str, Member] = {
    "id": Member(NAMED, Need.REQUIRED, "a short name for the skill, unique in the card"),
    "name": Member(NAMED, Need.REQUIRED, "what people call the skill"),
    "description": Member(SAID, Need.EXPECTED, "what the skill does, in a sentence"),
    "tags": Member(SOME_TEXTS, Need.EXPECTED, "words that the skill can be found by"),
    "examples": Member(TEXTS),
    "inputModes": Member(TEXTS),
    "outputModes": Member(TEXTS),
}

SECURITY_0_3 = ArrayOf(MapOf(TEXTS))
"""Alternatives; each names the schemes that are needed together, with their scopes."""

_AUTHORIZATION = {"authorizationUrl": Member(LINK, Need.REQUIRED, "where the user grants access")}
_TOKEN = {"tokenUrl": Member(LINK, Need.REQUIRED, "where tokens are issued")}
_SCOPES = {
    "refreshUrl": Member(LINK),
    "scopes": Member(MapOf(TEXT), Need.REQUIRED, "an object that explains each scope, or an empty one"),
}
OAUTH_FLOWS: Mapping[str, Member] = {
    "authorizationCode": Member(Object({**_AUTHORIZATION, **_TOKEN, **_SCOPES, "pkceRequired": Member(FLAG)})),
    "clientCredentials": Member(Object({**_TOKEN, **_SCOPES})),
    "implicit": Member(Object({**_AUTHORIZATION, **_SCOPES})),
    "password": Member(Object({**_TOKEN, **_SCOPES})),
}
DEVICE_CODE = Member(
    Object(
        {
            "deviceAuthorizationUrl": Member(LINK, Need.REQUIRED, "where a device asks for its code"),
            **_TOKEN,
            **_SCOPES,
        }
    )
)

KEY_PLACE = Choice(("cookie", "header", "query"))
API_KEY_NAME = Member(NAMED, Need.REQUIRED, "the name of the header, parameter or cookie")
HTTP_AUTH: Mapping[str, Member] = {
    "scheme": Member(NAMED, Need.REQUIRED, "the HTTP authentication scheme, such as Bearer"),
    "bearerFormat": Member(TEXT),
    "description": Member(TEXT),
}
OPEN_ID_CONNECT: Mapping[str, Member] = {
    "openIdConnectUrl": Member(LINK, Need.REQUIRED, "where the OpenID Connect metadata is"),
    "description": Member(TEXT),
}


# -- rules across members ---------------------------------------------------------------------------------------------


def repeated_skill_ids(document: JsonObject) -> Iterator[Finding]:
    """Find skills that share an id: whoever asks for one of them cannot know which is meant."""
    spelling, skills = find_list(document, "skills")
    seen: set[str] = set()
    for index, skill in enumerate(skills):
        skill_id = skill.get("id") if isinstance(skill, dict) else None
        if not isinstance(skill_id, str):
            continue
        if skill_id in seen:
            hint = "Give every skill an id of its own; another skill has this one."
            yield Finding(Rule.CARD_AMBIGUOUS, CARD.within(spelling, index, "id"), hint)
        seen.add(skill_id)


def requirements(document: JsonObject, name: str) -> Iterator[tuple[Where, JsonObject]]:
    """The security requirements of that member, of the whole card and then of each skill."""
    yield from _objects(document, name, CARD)
    spelling, skills = find_list(document, "skills")
    for index, skill in enumerate(skills):
        if isinstance(skill, dict):
            yield from _objects(skill, name, CARD.within(spelling, index))


def undefined_schemes(document: JsonObject, needed: Iterable[tuple[Where, JsonObject]]) -> Iterator[Finding]:
    """Find required schemes that the card does not define, so that no client could satisfy the requirement.

    Args:
        document: the card.
        needed: objects whose member names are names of schemes.
    """
    defined = (find(document, "securitySchemes") or ("", {}))[1]
    if not isinstance(defined, dict):
        return
    for where, schemes in needed:
        for scheme in schemes:
            if defined.get(scheme) is None:
                hint = "Define the scheme of this name in `securitySchemes`, or do not require it."
                yield Finding(Rule.CARD_MEMBER_VALUE, where.within(scheme), hint)


def _objects(members: JsonObject, name: str, where: Where) -> Iterator[tuple[Where, JsonObject]]:
    spelling, elements = find_list(members, name)
    for index, element in enumerate(elements):
        if isinstance(element, dict):
            yield where.within(spelling, index), element
