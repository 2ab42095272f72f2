"""Disclosable members, shapes and rules that the A2A versions share.

The disclosure tables are the union of all versions, in both spellings. A path that a card lacks matches nothing, so
a card that mixes versions or uses snake_case discloses no more than a regular one.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from sdcard.cards.model import CardFormat, Criterion, Fact
from sdcard.cards.schema import (
    ArrayOf,
    Choice,
    Flag,
    MapOf,
    MediaType,
    Member,
    Need,
    Object,
    Reach,
    Text,
    Url,
    find,
    find_list,
    repeated_ids,
    snake_case,
)
from sdcard.encoding import JsonObject, JsonValue, frozen
from sdcard.errors import Finding, Level, Part, Where
from sdcard.paths import ClaimPath, path
from sdcard.rules import Rule

CARD = Where(Part.CARD)


# -- Disclosure (DECISIONS 9 and 11) ----------------------------------------------------------------------------------


def _both_spellings(*paths: ClaimPath) -> tuple[ClaimPath, ...]:
    spelt = [
        ClaimPath(tuple(snake_case(segment) if isinstance(segment, str) else segment for segment in one.segments))
        for one in paths
    ]
    return tuple(dict.fromkeys((*paths, *spelt)))


_ALWAYS_DISCLOSED = ("name", "description", "version", "protocolVersion", "protocol_version")
"""Up to 0.3 a card has a version of A2A, which every reader needs (DECISIONS 3). A card of 1.0 that has it shows it
too: otherwise its absence would tell of hidden interfaces. """
_OF_FAMILY = frozenset(
    {
        *("name", "description", "version", "protocolVersion", "provider", "iconUrl", "documentationUrl"),
        *("url", "preferredTransport", "additionalInterfaces", "supportedInterfaces", "capabilities"),
        *("defaultInputModes", "defaultOutputModes", "skills", "supportsAuthenticatedExtendedCard"),
        *("authentication", "security", "securitySchemes", "securityRequirements"),
    }
)
"""The members of all versions except ``signatures``, which no SD-Card has."""

_TENANTS = (path("supportedInterfaces", None, "tenant"), path("additionalInterfaces", None, "tenant"))

_UNITS = _both_spellings(
    path("skills", None),
    path("skills", None, None),
    path("supportedInterfaces", None),
    path("additionalInterfaces", None),
    *_TENANTS,
    path("capabilities", "extensions", None),
)
_TOGETHER = (path("skills", None, "id"), path("skills", None, "name"))
GROUPS: Mapping[str, tuple[ClaimPath, ...]] = frozen(
    {
        "skills": (path("skills"),),
        "endpoints": _both_spellings(
            path("url"), path("preferredTransport"), path("additionalInterfaces"), path("supportedInterfaces")
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
FACTS: Mapping[Fact, tuple[ClaimPath, ...]] = frozen(
    {
        Fact.PROVIDER: (path("provider", "organization"),),
        Fact.PROVIDER_URL: (path("provider", "url"),),
        Fact.ENDPOINT: _both_spellings(
            path("url"), path("supportedInterfaces", None, "url"), path("additionalInterfaces", None, "url")
        ),
        Fact.SKILL: (path("skills", None, "id"),),
    }
)
FOUND_BY: Mapping[Criterion, tuple[ClaimPath, ...]] = frozen(
    {
        Criterion.SKILLS: (path("skills", None, "id"), path("skills", None, "name")),
        Criterion.TAGS: (path("skills", None, "tags", None),),
        Criterion.CAPABILITIES: (path("capabilities", None),),
        Criterion.INPUT_MODES: _both_spellings(
            path("defaultInputModes", None), path("skills", None, "inputModes", None)
        ),
        Criterion.OUTPUT_MODES: _both_spellings(
            path("defaultOutputModes", None), path("skills", None, "outputModes", None)
        ),
        Criterion.GOALS: (),
        Criterion.DOMAINS: (),
        Criterion.TEXT: (
            path("name"),
            path("description"),
            path("skills", None, "id"),
            path("skills", None, "name"),
            path("skills", None, "description"),
            path("skills", None, "tags", None),
        ),
    }
)


def card_format(name: str, shape: Object) -> CardFormat:
    """Make the card format of a version."""
    return CardFormat(
        name=name,
        always_disclosed=_ALWAYS_DISCLOSED,
        members=frozenset(shape.members),
        members_of_family=_OF_FAMILY,
        units=_UNITS,
        together=_TOGETHER,
        groups=GROUPS,
        facts=FACTS,
        found_by=FOUND_BY,
    )


# -- Shapes -----------------------------------------------------------------------------------------------------------

TEXT = Text()
WARN_IF_EMPTY = Text(empty=Level.WARNING)
NOT_EMPTY = Text(empty=Level.ERROR)
FLAG = Flag()
ANY_OBJECT = Object()
LINK = Url(Reach.LINK, empty=Level.NOTE)
NEEDED_LINK = Url(Reach.LINK)
ENDPOINT = Url(Reach.ENDPOINT)
TEXTS = ArrayOf(TEXT)
MODES = ArrayOf(MediaType())


@dataclass(frozen=True, slots=True)
class _Secret:
    """Credentials in the card itself, which 0.1 had a member for."""

    def check(self, value: JsonValue, where: Where) -> Iterator[Finding]:
        """Find a value that is not a string, and any value at all."""
        yield from TEXT.check(value, where)
        if value:
            hint = "Remove it and send it on another channel: every reader of the card can use it."
            yield Finding(Rule.CARD_SECRET, where, hint, Level.WARNING)


CREDENTIALS = Member(_Secret())
OLD_AUTHENTICATION = Object({"credentials": CREDENTIALS})
"""``authentication`` of 0.1 in a card of a later version, whose readers ignore it."""

EXTENSION: Mapping[str, Member] = {
    "uri": Member(Url(Reach.NAME, Level.WARNING), Need.EXPECTED, "the URI that identifies the extension"),
    "description": Member(TEXT),
    "required": Member(FLAG),
    "params": Member(ANY_OBJECT),
}

SIGNATURES = ArrayOf(
    Object(
        {
            "protected": Member(NOT_EMPTY, Need.REQUIRED, "the protected header of the JWS, in base64url"),
            "signature": Member(NOT_EMPTY, Need.REQUIRED, "the signature of the JWS, in base64url"),
            "header": Member(ANY_OBJECT),
        }
    )
)

PROVIDER: Mapping[str, Member] = {
    "organization": Member(WARN_IF_EMPTY, Need.EXPECTED, "who runs the agent"),
    "url": Member(Url(Reach.LINK, Level.WARNING), Need.EXPECTED, "where to learn about who runs the agent"),
}

COMMON: Mapping[str, Member] = {
    "name": Member(WARN_IF_EMPTY, Need.REQUIRED, "what people call the agent"),
    "description": Member(WARN_IF_EMPTY, Need.REQUIRED, "what the agent does, in a sentence"),
    "version": Member(WARN_IF_EMPTY, Need.REQUIRED, "the version of the agent, such as 1.0.0"),
    "provider": Member(Object(PROVIDER)),
    "documentationUrl": Member(LINK),
    "iconUrl": Member(LINK),
}
"""Top-level members that every version since 0.2 spells and shapes alike."""

FLAGS: Mapping[str, Member] = {"streaming": Member(FLAG), "pushNotifications": Member(FLAG)}

SKILL_NAMES: Mapping[str, Member] = {
    "id": Member(NOT_EMPTY, Need.REQUIRED, "a short name for the skill, unique in the card"),
    "name": Member(WARN_IF_EMPTY, Need.REQUIRED, "what people call the skill"),
}
SKILL_REST: Mapping[str, Member] = {
    "examples": Member(TEXTS),
    "inputModes": Member(MODES),
    "outputModes": Member(MODES),
}


def default_modes(empty: Level) -> dict[str, Member]:
    """Return the members for media types of the whole card."""
    modes = ArrayOf(MediaType(), empty)
    return {
        "defaultInputModes": Member(modes, Need.EXPECTED, "the media types that skills accept, such as text/plain"),
        "defaultOutputModes": Member(modes, Need.EXPECTED, "the media types that skills produce, such as text/plain"),
    }


def skill(empty: Level) -> dict[str, Member]:
    """Return the members of a skill since 0.2. ``empty`` is the level of empty tags."""
    return {
        **SKILL_NAMES,
        "description": Member(WARN_IF_EMPTY, Need.EXPECTED, "what the skill does, in a sentence"),
        "tags": Member(ArrayOf(WARN_IF_EMPTY, empty), Need.EXPECTED, "words that the skill can be found by"),
        **SKILL_REST,
    }


def capabilities(members: Mapping[str, Member], legacy: Mapping[str, Member]) -> Member:
    """Make the member ``capabilities``."""
    advice = "an object that says what the agent supports, or an empty one"
    return Member(Object(members, legacy), Need.REQUIRED, advice)


def skills(members: Mapping[str, Member], empty: Level, legacy: Mapping[str, Member] = frozen({})) -> Member:
    """Make the member ``skills``. ``empty`` is the level of an empty array."""
    return Member(ArrayOf(Object(members, legacy), empty), Need.REQUIRED, "an array of what the agent can do")


ALTERNATIVES = ArrayOf(MapOf(TEXTS))
"""``security`` up to 0.3: alternatives; each names the schemes that are needed together, with their scopes."""

REQUIREMENTS = ArrayOf(Object({"schemes": Member(MapOf(Object({"list": Member(TEXTS)})))}))
"""``securityRequirements`` of 1.0, with the same meaning."""

_AUTHORIZATION = {"authorizationUrl": Member(NEEDED_LINK, Need.REQUIRED, "where the user grants access")}
_TOKEN = {"tokenUrl": Member(NEEDED_LINK, Need.REQUIRED, "where tokens are issued")}
_REST_OF_FLOW = {
    "refreshUrl": Member(LINK),
    "scopes": Member(MapOf(TEXT), Need.EXPECTED, "an object that explains each scope, or an empty one"),
}
OAUTH_FLOWS: Mapping[str, Mapping[str, Member]] = {
    "authorizationCode": {**_AUTHORIZATION, **_TOKEN, **_REST_OF_FLOW},
    "clientCredentials": {**_TOKEN, **_REST_OF_FLOW},
    "implicit": {**_AUTHORIZATION, **_REST_OF_FLOW},
    "password": {**_TOKEN, **_REST_OF_FLOW},
    "deviceCode": {
        "deviceAuthorizationUrl": Member(NEEDED_LINK, Need.REQUIRED, "where a device asks for its code"),
        **_TOKEN,
        **_REST_OF_FLOW,
    },
}
"""Each flow of OAuth 2.0 with its members."""


def api_key(location: str) -> Object:
    """Make the shape of an API key. ``location``: the member for its place."""
    return Object(
        {
            location: Member(Choice(("cookie", "header", "query")), Need.REQUIRED, "one of cookie, header, query"),
            "name": Member(NOT_EMPTY, Need.REQUIRED, "the name of the header, parameter or cookie"),
            "description": Member(TEXT),
        }
    )


HTTP_AUTH: Mapping[str, Member] = {
    "scheme": Member(NOT_EMPTY, Need.REQUIRED, "the HTTP authentication scheme, such as Bearer"),
    "bearerFormat": Member(TEXT),
    "description": Member(TEXT),
}
OPEN_ID_CONNECT: Mapping[str, Member] = {
    "openIdConnectUrl": Member(NEEDED_LINK, Need.REQUIRED, "where the OpenID Connect metadata is"),
    "description": Member(TEXT),
}


# -- Rules across members ---------------------------------------------------------------------------------------------


def claimed_version(document: JsonObject) -> str:
    """Return the version that the card names, of any type; empty if it names none."""
    return str((find(document, "protocolVersion") or ("", ""))[1])


def repeated_skill_ids(document: JsonObject) -> Iterator[Finding]:
    """Find skills that share an id."""
    hint = "Give every skill an id of its own; another skill has this one."
    return repeated_ids(document, "skills", CARD, hint)


def requirements(document: JsonObject, name: str) -> Iterator[tuple[Where, JsonObject]]:
    """Return the security requirements of the whole card, then of each skill."""
    yield from _objects(document, name, CARD)
    spelling, skills = find_list(document, "skills")
    for index, skill in enumerate(skills):
        if isinstance(skill, dict):
            yield from _objects(skill, name, CARD.within(spelling, index))


def undefined_schemes(document: JsonObject, needed: Iterable[tuple[Where, JsonObject]]) -> Iterator[Finding]:
    """Find required schemes that the card does not define. No client can satisfy them.

    Args:
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
