"""A2A 1.0 cards, and detection of a document's A2A version."""

from collections.abc import Iterator
from dataclasses import dataclass

from sdcard.cards.a2a import v0
from sdcard.cards.a2a.shared import (
    ALTERNATIVES,
    CARD,
    COMMON,
    ENDPOINT,
    EXTENSION,
    FLAG,
    FLAGS,
    HTTP_AUTH,
    LINK,
    NOT_EMPTY,
    OAUTH_FLOWS,
    OLD_AUTHENTICATION,
    OPEN_ID_CONNECT,
    REQUIREMENTS,
    SIGNATURES,
    TEXT,
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
from sdcard.cards.schema import ArrayOf, MapOf, Member, Need, Object, Reach, Shape, Url, find, find_list, snake_case
from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Finding, Level, Where
from sdcard.rules import Rule

# -- ``a2a/1.0``: a list of interfaces, and security schemes in wrappers ----------------------------------------------
# A2A 1.0, ``specification/a2a.proto``, read as ProtoJSON. The specification's sample cards still have members of 0.3,
# and so do cards for readers of both versions: those members are kept and checked, with a warning.

_MOST_LEVELS = 40
_PKCE = {"pkceRequired": Member(FLAG)}
_DEPRECATED = {name: Member(LINK) for name in ("authorizationUrl", "tokenUrl", "refreshUrl")} | {
    "scopes": Member(MapOf(TEXT))
}
FLOWS = Object(
    {
        "authorizationCode": Member(Object({**OAUTH_FLOWS["authorizationCode"], **_PKCE})),
        "clientCredentials": Member(Object(OAUTH_FLOWS["clientCredentials"])),
        "deviceCode": Member(Object(OAUTH_FLOWS["deviceCode"])),
        "implicit": Member(Object(_DEPRECATED)),
        "password": Member(Object(_DEPRECATED)),
    },
    exactly_one=True,
)
"""Nothing is demanded of the two deprecated flows; ``_deprecated_flows`` warns of them."""
_INSTEAD = {
    "implicit": "use `authorizationCode` with PKCE (RFC 9700 2.1.2)",
    "password": "use `authorizationCode` or `deviceCode` (RFC 9700 2.4)",
}

WRAPPERS = Object(
    {
        "apiKeySecurityScheme": Member(api_key("location")),
        "httpAuthSecurityScheme": Member(Object(HTTP_AUTH)),
        "oauth2SecurityScheme": Member(
            Object(
                {
                    "flows": Member(FLOWS, Need.REQUIRED, "an object with one OAuth flow"),
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


@dataclass(frozen=True, slots=True)
class Scheme:
    """A security scheme in its wrapper, or as in 0.3, which the SDKs read too."""

    def written_as(self, value: JsonValue) -> Shape:
        """Return the shape of the version that the scheme is written for."""
        of_0_3 = isinstance(value, dict) and "type" in value and not any(find(value, name) for name in WRAPPERS.members)
        return v0.SCHEME if of_0_3 else WRAPPERS

    def check(self, value: JsonValue, where: Where) -> Iterator[Finding]:
        """Find faults in the version that the scheme is written for."""
        shape = self.written_as(value)
        if shape is not WRAPPERS:
            hint = "This is a scheme of A2A 0.3; 1.0 has it inside a member such as `apiKeySecurityScheme`."
            yield Finding(Rule.CARD_AMBIGUOUS, where, hint, Level.WARNING)
        yield from shape.check(value, where)


@dataclass(frozen=True, slots=True)
class _Struct:
    """A free object. Protobuf readers stop at 100 messages, two for each level."""

    def check(self, value: JsonValue, where: Where) -> Iterator[Finding]:
        """Find a value that is not an object, or nests too deep."""
        yield from Object().check(value, where)
        level: list[JsonValue] = [value]
        for _ in range(_MOST_LEVELS):
            level = [inner for outer in level for inner in _children(outer)]
        if level:
            hint = f"Nest at most {_MOST_LEVELS} levels: readers in protobuf stop there."
            yield Finding(Rule.CARD_MEMBER_VALUE, where, hint)


def _children(value: JsonValue) -> list[JsonValue]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


_INTERFACES = ArrayOf(
    Object(
        {
            "url": Member(ENDPOINT, Need.REQUIRED, "where the agent listens"),
            "protocolBinding": Member(NOT_EMPTY, Need.REQUIRED, "the binding, such as JSONRPC, GRPC or HTTP+JSON"),
            "protocolVersion": Member(WARN_IF_EMPTY, Need.EXPECTED, "the version of A2A spoken here, such as 1.0"),
            "tenant": Member(TEXT),
        },
        legacy={"transport": Member(TEXT, advice="A2A 1.0 has it in `protocolBinding`")},
    ),
    empty=Level.ERROR,
)

_EXTENSION = {**EXTENSION, "uri": Member(Url(Reach.NAME, empty=Level.NOTE)), "params": Member(_Struct())}

SHAPE = Object(
    {
        **COMMON,
        **default_modes(empty=Level.WARNING),
        "supportedInterfaces": Member(_INTERFACES, Need.REQUIRED, "an array of where and how the agent listens"),
        "capabilities": capabilities(
            {**FLAGS, "extensions": Member(ArrayOf(Object(_EXTENSION))), "extendedAgentCard": Member(FLAG)},
            {"stateTransitionHistory": Member(FLAG, advice="A2A 1.0 dropped it")},
        ),
        "skills": skills(
            {**skill(empty=Level.WARNING), "securityRequirements": Member(REQUIREMENTS)},
            Level.WARNING,
            {"security": Member(ALTERNATIVES, advice="A2A 1.0 has it in `securityRequirements`")},
        ),
        "securitySchemes": Member(MapOf(Scheme())),
        "securityRequirements": Member(REQUIREMENTS),
        "signatures": Member(SIGNATURES),
    },
    legacy={
        "url": Member(ENDPOINT, advice="A2A 1.0 has it in `supportedInterfaces`"),
        "preferredTransport": Member(TEXT, advice="A2A 1.0 has it in `supportedInterfaces`"),
        "additionalInterfaces": Member(v0.INTERFACES, advice="A2A 1.0 has it in `supportedInterfaces`"),
        "protocolVersion": Member(TEXT, advice="A2A 1.0 has it in each of `supportedInterfaces`"),
        "security": Member(ALTERNATIVES, advice="A2A 1.0 has it in `securityRequirements`"),
        "supportsAuthenticatedExtendedCard": Member(FLAG, advice="A2A 1.0 has it in `capabilities`"),
        "authentication": Member(OLD_AUTHENTICATION, advice="describe it in `securitySchemes`"),
    },
    notes_unknown=True,
)

FORMAT = card_format("a2a/1.0", SHAPE)


def check(document: JsonObject) -> Iterator[Finding]:
    """Find errors, warnings and notes for an A2A 1.0 card."""
    yield from SHAPE.check(document, CARD)
    yield from repeated_skill_ids(document)
    yield from _deprecated_flows(document)
    yield from undefined_schemes(document, requirements(document, "security"))
    for where, requirement in requirements(document, "securityRequirements"):
        yield from _check_requirement(document, requirement, where)


def _deprecated_flows(document: JsonObject) -> Iterator[Finding]:
    """Warn of OAuth flows that A2A 1.0 deprecates, in schemes of 1.0 and of 0.3."""
    spelling, schemes = find(document, "securitySchemes") or ("", None)
    for name, scheme in schemes.items() if isinstance(schemes, dict) else ():
        place, inner = CARD.within(spelling, name), scheme
        for member in ("oauth2SecurityScheme", "flows"):
            found = find(inner, member) if isinstance(inner, dict) else None
            if found is not None:
                place, inner = place.within(found[0]), found[1]
        for flow, instead in _INSTEAD.items():
            found = find(inner, flow) if isinstance(inner, dict) and inner is not scheme else None
            if found is not None and found[1] is not None:
                hint = f"A2A 1.0 deprecates this flow, and OAuth 2.1 leaves it out: {instead}."
                yield Finding(Rule.CARD_MEMBER_VALUE, place.within(found[0]), hint, Level.WARNING)


def _check_requirement(document: JsonObject, requirement: JsonObject, where: Where) -> Iterator[Finding]:
    """Find undefined schemes, and names outside ``schemes``, which readers ignore."""
    spelling, schemes = find(requirement, "schemes") or ("schemes", None)
    if isinstance(schemes, dict):
        yield from undefined_schemes(document, [(where.within(spelling), schemes)])
    elif schemes is None and any(value is not None for value in requirement.values()):
        hint = "Put the names of the schemes inside `schemes`, each with an object that holds a `list` of scopes."
        yield Finding(Rule.CARD_MEMBER_MISSING, where.within(spelling), hint)


# -- Detection of a document's A2A version by members that only one version has ---------------------------------------
# ``cards/detect.py`` asks the questions in order; the first true one decides. A mark outweighs the version that the
# card claims, since readers fail on members; the check of each version reports where they differ.

_KNOWN_TO_1_0 = frozenset(SHAPE.members) | frozenset(map(snake_case, SHAPE.members))
_TWO_WORDS = tuple(name for name in v0.SHAPE_0_3.members if snake_case(name) != name)
_ONLY_A2A = ("defaultInputModes", "defaultOutputModes", *v0.NEW_IN_0_2[2:])
_OF_OTHERS = ("agent_id", "schema_version", "registrations", "services", "tools", "serverInfo", "mcpServers")
"""Members of other documents, some of which list skills at a URL too."""


def is_1_0(document: JsonObject) -> bool:
    """Whether the card lists interfaces, or says 1 and has no endpoint of 0.3."""
    if _has(document, "supportedInterfaces"):
        return True
    return claimed_version(document).startswith("1") and _has(document, "skills") and not _has(document, "url")


def is_0_3(document: JsonObject) -> bool:
    """Whether the card says 0.3, uses members new in 0.3, or is in snake_case.

    The Python SDK has written snake_case since its last releases for 0.2, and readers of 0.3 accept it.
    """
    claim = claimed_version(document)
    if claim.startswith("0.3"):
        return True
    if not _is_card(document):
        return False
    if _has(document, "signatures") or _has_skill_security(document) or _has_mutual_tls(document):
        return True
    return not claim.startswith(("0.1", "0.2")) if claim else _is_snake(document)


def is_0_1(document: JsonObject) -> bool:
    """Whether the card has a mark of 0.1, and nothing that is new in 0.2."""
    claim = claimed_version(document)
    if any(_has(document, name) for name in v0.NEW_IN_0_2):
        return False
    if claim:
        return claim.startswith("0.1") and (_is_card(document) or _has(document, "skills"))
    return _is_card(document) and (_has(document, "authentication") or not _has(document, "description"))


def is_0_2(document: JsonObject) -> bool:
    """Whether the card says 0.2, or is a card without a mark of another version."""
    claim = claimed_version(document)
    return (claim.startswith("0.2") and _has(document, "skills")) or _is_card(document)


def is_beginning(document: JsonObject) -> bool:
    """Whether the card is too incomplete to show marks, and may be a current one."""
    if document.keys() <= _KNOWN_TO_1_0:
        return True
    described = _lists_skills(document) and isinstance(document.get("capabilities"), dict)
    return described and not _has(document, "url")


def _has(document: JsonObject, name: str) -> bool:
    return find(document, name) is not None


def _is_card(document: JsonObject) -> bool:
    """Whether the document has an endpoint, and other members of A2A up to 0.3."""
    if not _has(document, "url"):
        return False
    capabilities = document.get("capabilities")
    flags = isinstance(capabilities, dict) and any(_has(capabilities, name) for name in v0.CAPABILITIES)
    if flags or any(_has(document, name) for name in _ONLY_A2A):
        return True
    return _lists_skills(document) and not any(_has(document, name) for name in _OF_OTHERS)


def _lists_skills(document: JsonObject) -> bool:
    skills = document.get("skills")
    return isinstance(skills, list) and (not skills or any(isinstance(skill, dict) for skill in skills))


def _is_snake(document: JsonObject) -> bool:
    spelt = [name for name in _TWO_WORDS if _has(document, name)]
    return bool(spelt) and all(document.get(name) is None for name in spelt)


def _has_skill_security(document: JsonObject) -> bool:
    return any(isinstance(skill, dict) and _has(skill, "security") for skill in find_list(document, "skills")[1])


def _has_mutual_tls(document: JsonObject) -> bool:
    schemes: JsonValue = (find(document, "securitySchemes") or ("", None))[1]
    if not isinstance(schemes, dict):
        return False
    return any(isinstance(scheme, dict) and scheme.get("type") == "mutualTLS" for scheme in schemes.values())
