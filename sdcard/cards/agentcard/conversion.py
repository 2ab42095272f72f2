"""Conversion of AgentCard to A2A 1.0, with a report of losses and assumptions.

AgentCard has no description of the agent, no binding of A2A and no OAuth flows; A2A has no prices, no goals and no
schemas of skills. Members beside the skills go into an extension, unchanged. AgentCard draft-00 2; A2A 1.0 4.4.
"""

from collections.abc import Iterator, Mapping, Set

from sdcard.cards.agentcard.values import MEMBERS as SCHEMAS
from sdcard.cards.conversion import Conversion, check_security_is_read
from sdcard.cards.model import Card
from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Finding, Level, Part, Refused, Where
from sdcard.rules import Rule

EXTENSION = "urn:ietf:id:draft-aevum-agentcard-00"
"""URI of the extension that carries members without a place in A2A (RFC 2648)."""

_CARD = Where(Part.CARD)
_ENDPOINT = _CARD.within("endpoint")
_BINDINGS: Mapping[str, str] = {"http": "HTTP+JSON", "https": "HTTP+JSON", "grpc": "GRPC", "google_a2a": "JSONRPC"}
_EXTENDED = ("agent_id", "pricing", "metadata", "goal_subscriptions")
_CONVERTED = frozenset({*_EXTENDED, "name", "version", "capabilities", "endpoint"})
_SKILL_MEMBERS = ("id", "description", "tags")


def to_1_0(card: Card) -> Conversion:
    """Convert an AgentCard of any dialect to an A2A 1.0 card.

    Raises:
        Refused: ``card.not-convertible`` for an endpoint without an A2A binding, an ``api_key`` without its header, an
            ``auth`` without a scheme, and security members that AgentCard does not read. ``convert_card`` checks the
            result.
    """
    source = card.document
    check_security_is_read(source, ("endpoint", "auth"))
    endpoint = _object(source["endpoint"])
    document: JsonObject = {
        "name": source["name"],
        "description": _own_description(source) or _made_description(source),
        "version": source["version"],
        "supportedInterfaces": [_interface(endpoint)],
        "capabilities": {"extensions": [_extension(source)]},
        "skills": [_skill(capability) for capability in _capabilities(source)],
        **_security(_object(endpoint.get("auth"))),
    }
    return Conversion(document, tuple(_lost(source, endpoint)))


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _capabilities(source: JsonObject) -> list[JsonObject]:
    capabilities = source["capabilities"]
    return [one for one in capabilities if isinstance(one, dict)] if isinstance(capabilities, list) else []


def _own_description(source: JsonObject) -> str:
    """Return the description; some cards have one, although no dialect names it."""
    own = source.get("description")
    return own if isinstance(own, str) else ""


def _made_description(source: JsonObject) -> str:
    """Join the descriptions of the capabilities."""
    said = [capability.get("description") or capability["id"] for capability in _capabilities(source)]
    return " ".join(str(one) for one in said)


def _interface(endpoint: JsonObject) -> JsonObject:
    binding = _BINDINGS.get(str(endpoint["protocol"]))
    if binding is None:
        hint = f"A2A is spoken over {', '.join(_BINDINGS)}; give an endpoint with one of these protocols."
        raise Refused(Rule.CARD_UNCONVERTIBLE, _ENDPOINT.within("protocol"), hint)
    return {"url": endpoint["url"], "protocolBinding": binding, "protocolVersion": "1.0"}


def _extension(source: JsonObject) -> JsonObject:
    return {
        "uri": EXTENSION,
        "description": "What the AgentCard says that A2A has no member for.",
        "params": {name: source[name] for name in _EXTENDED if source.get(name) is not None},
    }


def _skill(capability: JsonObject) -> JsonObject:
    return {"name": capability["id"], **{name: capability[name] for name in _SKILL_MEMBERS if name in capability}}


def _security(auth: JsonObject) -> JsonObject:
    name = auth.get("scheme")
    if name is None and any(auth.values()):
        hint = "Name the scheme; nobody can tell what is required."
        raise Refused(Rule.CARD_UNCONVERTIBLE, _ENDPOINT.within("auth", "scheme"), hint)
    if not isinstance(name, str) or name == "none":
        return {}
    scopes = auth.get("scopes")
    requirement: JsonObject = {"schemes": {name: {"list": scopes if isinstance(scopes, list) else []}}}
    return {"securitySchemes": {name: _scheme(name, auth)}, "securityRequirements": [requirement]}


def _scheme(name: str, auth: JsonObject) -> JsonObject:
    if name == "mtls":
        return {"mtlsSecurityScheme": {}}
    if name == "api_key":
        header = auth.get("header")
        if not isinstance(header, str) or not header:
            hint = "Name the header that carries the key in `header`: A2A demands to know where it goes."
            raise Refused(Rule.CARD_UNCONVERTIBLE, _ENDPOINT.within("auth", "header"), hint)
        return {"apiKeySecurityScheme": {"location": "header", "name": header}}
    if name == "oauth2" and isinstance(auth.get("token_url"), str):
        scopes = auth.get("scopes")
        named: JsonObject = {str(scope): "" for scope in scopes} if isinstance(scopes, list) else {}
        flow: JsonObject = {"tokenUrl": auth["token_url"], "scopes": named}
        return {"oauth2SecurityScheme": {"flows": {"clientCredentials": flow}}}
    return {"httpAuthSecurityScheme": {"scheme": "Bearer"}}


# -- Losses -----------------------------------------------------------------------------------------------------------


def _lost(source: JsonObject, endpoint: JsonObject) -> Iterator[Finding]:
    if not _own_description(source):
        hint = "A2A demands a description, and AgentCard has none: it was made of the capabilities. Write a better one."
        yield _lost_at(_CARD.within("description"), hint)
    for name in _others(source, _CONVERTED | {"description"}):
        yield _lost_at(_CARD.within(name))
    for name in (name for name in _EXTENDED if source.get(name) is not None):
        hint = f"A2A has no member for it; it is in the extension {EXTENSION}."
        yield Finding(Rule.CARD_LOST, _CARD.within(name), hint, Level.NOTE)
    hint = "AgentCard does not say that A2A is spoken here. The binding was assumed from the protocol: check it."
    yield _lost_at(_ENDPOINT.within("protocol"), hint)
    for name in _others(endpoint, {"protocol", "url", "auth"}):
        yield _lost_at(_ENDPOINT.within(name))
    yield from _lost_of_auth(_object(endpoint.get("auth")))
    for index, capability in enumerate(_capabilities(source)):
        for name in _others(capability, set(_SKILL_MEMBERS)):
            where = _CARD.within("capabilities", index, name)
            if name in SCHEMAS:
                yield _lost_at(where, "A2A has no schemas of what a skill takes and gives.")
            else:
                yield _lost_at(where)


def _lost_of_auth(auth: JsonObject) -> Iterator[Finding]:
    where = _ENDPOINT.within("auth")
    scheme = auth.get("scheme")
    used = {"scheme", "scopes"} | {"api_key": {"header"}, "oauth2": {"token_url"}}.get(str(scheme), set())
    if scheme == "oauth2":
        hint = "The client credentials flow was assumed: AgentCard names none."
        if not isinstance(auth.get("token_url"), str):
            hint = "Where tokens come from is not known, so the scheme became HTTP authentication with a Bearer token."
        yield _lost_at(where.within("scheme"), hint)
    for name in _others(auth, used):
        yield _lost_at(where.within(name))


def _others(members: JsonObject, converted: Set[str]) -> list[str]:
    """Return the names of members that are not converted and not null."""
    return [name for name, value in members.items() if name not in converted and value is not None]


def _lost_at(where: Where, hint: str = "A2A has no such member.") -> Finding:
    return Finding(Rule.CARD_LOST, where, hint, Level.WARNING)
