"""Conversion of A2A interfaces, security schemes and security requirements.

A conversion may close a way in. It never opens one.

0.3 has one endpoint with additional interfaces, 1.0 a list. 0.3 tells schemes apart by ``type`` and allows several
OAuth flows in one; 1.0 has a wrapper for each kind, and one flow in a scheme. A requirement is a list of alternatives,
and an empty list means that nothing is required. So an alternative that cannot be expressed is left out and reported,
but never the last one: then the conversion refuses.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any, TypeAlias

from sdcard.cards.a2a.shared import CARD
from sdcard.cards.conversion import Losses, renamed, without
from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Level, Where

# -- Interfaces -------------------------------------------------------------------------------------------------------

VERSION_0_3 = "0.3.0"
_BEFORE_0_3 = ("0.1", "0.2")
_DEFAULT_TRANSPORT = "JSONRPC"
_REPEATED = "It is left out: it repeats another interface."
_NO_PLACE = "A2A 0.3 has no place for it."


def to_interfaces(source: dict[str, Any], version: str, losses: Losses) -> list[JsonValue]:
    """List the endpoint of a card from before 1.0, then its other interfaces.

    Args:
        version: the version to write if the card names none.
        losses: collects what is lost.
    """
    for name in ("preferredTransport", "protocolVersion"):
        if not source.get(name):
            losses.add(CARD.within(name), "It was not said; the converted card says the default.", Level.NOTE)
    spoken = source.get("protocolVersion") or version
    interfaces: list[JsonValue] = [
        {
            "url": source["url"],
            "protocolBinding": source.get("preferredTransport") or _DEFAULT_TRANSPORT,
            "protocolVersion": spoken,
        }
    ]
    seen = {_text(interfaces[0])}
    where = CARD.within("additionalInterfaces")
    for index, other in enumerate(source.get("additionalInterfaces", [])):
        here = where.within(index)
        own = without(other, ("protocolVersion", "tenant"), here, losses)
        interface = {**renamed(own, "transport", "protocolBinding", here, losses), "protocolVersion": spoken}
        if _text(interface) in seen:
            losses.add(here, _REPEATED, Level.NOTE)
            continue
        seen.add(_text(interface))
        interfaces.append(interface)
    if "additionalInterfaces" in source and len(interfaces) == 1:
        losses.add(where, "It is left out: it says no more than the endpoint.", Level.NOTE)
    return interfaces


def to_endpoint(interfaces: list[dict[str, Any]], losses: Losses) -> JsonObject:
    """Return the endpoint members of A2A 0.3, without tenants and single versions."""
    where = CARD.within("supportedInterfaces")
    speaking = (index for index, one in enumerate(interfaces) if one.get("protocolVersion", "").startswith("0.3"))
    chosen = next(speaking, 0)
    if chosen:
        losses.add(where.within(chosen), "It comes first: it is the first that speaks A2A 0.3.", Level.NOTE)
    version = _version_to_write(interfaces[chosen], where.within(chosen, "protocolVersion"), losses)
    entries = [_entry(one, where.within(index), losses) for index, one in enumerate(interfaces)]
    main = entries.pop(chosen)
    unplaced = [name for name in main if name not in ("url", "transport")]
    main = without(main, unplaced, where.within(chosen), losses, _NO_PLACE)
    seen = {_text(main)}
    others: list[JsonValue] = []
    for position, entry in enumerate(entries):
        index = position + (position >= chosen)
        own = interfaces[index].get("protocolVersion")
        if own != version:
            hint, level = "A2A 0.3 says one version for all interfaces.", Level.WARNING if own else Level.NOTE
            losses.add(where.within(index, "protocolVersion"), hint, level)
        if _text(entry) in seen:
            losses.add(where.within(index), _REPEATED, Level.NOTE)
            continue
        seen.add(_text(entry))
        others.append(entry)
    endpoint: JsonObject = {"url": main["url"], "preferredTransport": main["transport"], "protocolVersion": version}
    return {**endpoint, "additionalInterfaces": others} if others else endpoint


def _entry(interface: dict[str, Any], where: Where, losses: Losses) -> dict[str, Any]:
    own = without(interface, ("tenant",), where, losses, _NO_PLACE)
    own.pop("protocolVersion", None)
    return renamed(own, "protocolBinding", "transport", where, losses)


def _version_to_write(interface: dict[str, Any], where: Where, losses: Losses) -> str:
    """Return the version to write. A version before 0.3 would mean an older card."""
    version: str = interface.get("protocolVersion") or ""
    if version.startswith(_BEFORE_0_3):
        losses.add(where, f"The converted card says {VERSION_0_3}. Make sure that the agent speaks it.")
        return VERSION_0_3
    if not version.startswith("0.3"):
        losses.add(where, "No interface speaks A2A 0.3. Make sure that who reads the converted card speaks another.")
    return version or "1.0"


def _text(value: JsonValue) -> str:
    """Serialize a JSON value to a text that is independent of member order."""
    return json.dumps(value, sort_keys=True)


# -- Security schemes and requirements --------------------------------------------------------------------------------

Alternatives: TypeAlias = list[dict[str, Any]]
"""Each names the schemes that are needed together, with their scopes: the form of A2A 0.3."""

_WRAPPERS = {
    "apiKey": "apiKeySecurityScheme",
    "http": "httpAuthSecurityScheme",
    "oauth2": "oauth2SecurityScheme",
    "openIdConnect": "openIdConnectSecurityScheme",
    "mutualTLS": "mtlsSecurityScheme",
}
_TYPES = {wrapper: kind for kind, wrapper in _WRAPPERS.items()}
_FLOWS = ("authorizationCode", "clientCredentials", "implicit", "password")
"""OAuth flows of both versions."""
_GROWTH = 64
"""Alternatives that a list may gain: schemes with several flows that are needed together multiply."""
_NOT_IN_0_3 = "A2A 0.3 has no such member."
_HTTP = ("basic", "bearer")


@dataclass(frozen=True, slots=True)
class ConvertedSchemes:
    """Schemes of the other version, and their names for each scheme of the card."""

    schemes: JsonObject = field(repr=False)
    became: Mapping[str, tuple[str, ...]] = field(repr=False)


def schemes_to_1_0(schemes: Mapping[str, Any], where: Where, losses: Losses) -> ConvertedSchemes:
    """Convert ``type`` to a wrapper, and split schemes with several OAuth flows.

    Raises:
        Refused: ``card.not-convertible`` if the name of a new scheme is taken.
    """
    converted: JsonObject = {}
    became: dict[str, tuple[str, ...]] = {}
    for name, scheme in schemes.items():
        here = where.within(name)
        inner = {member: value for member, value in scheme.items() if member != "type"}
        parts = {name: inner}
        if scheme["type"] == "apiKey":
            parts = {name: renamed(inner, "in", "location", here, losses)}
        elif scheme["type"] == "oauth2":
            parts = _one_flow_each(name, inner, here, losses)
        if any(part != name and part in schemes for part in parts):
            hint = "Rename the other scheme: this one has several flows, and would become one scheme for each."
            raise losses.refusal(here, hint)
        converted |= {part: {_WRAPPERS[scheme["type"]]: content} for part, content in parts.items()}
        became[name] = tuple(parts)
    return ConvertedSchemes(converted, became)


def schemes_to_0_3(schemes: Mapping[str, Any], where: Where, losses: Losses) -> ConvertedSchemes:
    """Convert each wrapper to ``type``. OAuth flows that are new in 1.0 are lost."""
    converted: JsonObject = {}
    became: dict[str, tuple[str, ...]] = {}
    for name, scheme in schemes.items():
        here = where.within(name)
        wrapper = next((member for member in scheme if member in _TYPES), None)
        if wrapper is None:
            losses.add(here, "It is written as A2A 0.3 has it, and stays so.", Level.NOTE)
            converted[name], became[name] = scheme, (name,)
            continue
        inner = without(scheme[wrapper], ("type",), here.within(wrapper), losses)
        if wrapper == "apiKeySecurityScheme":
            inner = renamed(inner, "location", "in", here.within(wrapper), losses)
        if wrapper == "oauth2SecurityScheme":
            inner["flows"] = _shared_flows(inner["flows"], here.within(wrapper, "flows"), losses, _NOT_IN_0_3)
        without(scheme, [member for member in scheme if member != wrapper], here, losses, _NOT_IN_0_3)
        if wrapper == "oauth2SecurityScheme" and not _known(inner["flows"]):
            losses.add(here, "A2A 0.3 has no such OAuth flow, and the scheme has no other.")
            became[name] = ()
            continue
        converted[name] = {"type": _TYPES[wrapper], **inner}
        became[name] = (name,)
    return ConvertedSchemes(converted, became)


def convert_requirements(
    required: Sequence[dict[str, Any]], converted: ConvertedSchemes, where: Where, losses: Losses
) -> Alternatives:
    """Express the same alternatives with the schemes of the other version.

    Raises:
        Refused: ``card.not-convertible`` if no alternative can be expressed, or there would be too many.
    """
    alternatives: Alternatives = []
    for index, needed in enumerate(required):
        choices = [[(part, scopes) for part in converted.became.get(name, ())] for name, scopes in needed.items()]
        count = prod(map(len, choices))
        if len(alternatives) + count > len(required) + _GROWTH:
            hint = "Require fewer schemes with several OAuth flows together: each combination is an alternative."
            raise losses.refusal(where.within(index), hint)
        if count == 0:
            losses.add(where.within(index), "It needs a scheme that the other A2A version cannot express.")
        elif count > 1:
            losses.add(where.within(index), "It became one alternative for each OAuth flow.", Level.NOTE)
        alternatives += [dict(choice) for choice in product(*choices)]
    if required and not alternatives:
        hint = "None of these can be expressed, and without them the agent would seem to require nothing."
        raise losses.refusal(where, hint)
    return alternatives


def to_schemes_and_lists(alternatives: Alternatives) -> list[JsonValue]:
    """Convert alternatives to the form of A2A 1.0."""
    return [{"schemes": {name: {"list": scopes} for name, scopes in needed.items()}} for needed in alternatives]


def from_schemes_and_lists(requirements: Sequence[dict[str, Any]], where: Where, losses: Losses) -> Alternatives:
    """Convert requirements of A2A 1.0 to alternatives."""
    alternatives: Alternatives = []
    for index, requirement in enumerate(requirements):
        here = where.within(index)
        without(requirement, [name for name in requirement if name != "schemes"], here, losses, _NOT_IN_0_3)
        if "schemes" not in requirement:
            losses.add(here.within("schemes"), "Without it nothing is required, as with an empty one.", Level.NOTE)
        needed: dict[str, Any] = {}
        for name, scopes in requirement.get("schemes", {}).items():
            place = here.within("schemes", name)
            without(scopes, [member for member in scopes if member != "list"], place, losses, _NOT_IN_0_3)
            if "list" not in scopes:
                losses.add(place.within("list"), "Without it no scope is required, as with an empty one.", Level.NOTE)
            needed[name] = scopes.get("list", [])
        alternatives.append(needed)
    return alternatives


def from_authentication(authentication: dict[str, Any], where: Where, losses: Losses) -> tuple[JsonObject, JsonValue]:
    """Convert 0.1's names of HTTP schemes to the security members of A2A 0.3.

    Any named scheme is enough. Bearer and Basic are known; of others only the name is, and a guess might send a secret
    to the wrong place. ``none`` alone means that nothing is required.

    Raises:
        Refused: ``card.not-convertible`` if something unknown is required.
    """
    losses.add(where, "It became `securitySchemes` and `security`.", Level.NOTE)
    without(authentication, [name for name in authentication if name != "schemes"], where, losses, "It has no place.")
    there = where.within("schemes")
    names = authentication.get("schemes")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        if any(value is not None for value in authentication.values()):
            raise losses.refusal(there, "Name the schemes; nobody can tell what is required.")
        names = []
    if [name.lower() for name in names] == ["none"]:
        return {}, []
    schemes: JsonObject = {}
    for index, name in enumerate(names):
        if name.lower() not in _HTTP:
            losses.add(there.within(index), "What this scheme is cannot be told from its name.")
        else:
            schemes.setdefault(name.lower(), {"type": "http", "scheme": name})
    if names and not schemes:
        hint = (
            "Describe the schemes in `securitySchemes` of a newer card: what they are cannot be told from their names."
        )
        raise losses.refusal(there, hint)
    return schemes, [{name: []} for name in schemes]


def _one_flow_each(name: str, scheme: dict[str, Any], where: Where, losses: Losses) -> dict[str, dict[str, Any]]:
    flows = _shared_flows(scheme["flows"], where.within("flows"), losses)
    there = _known(flows)
    if not there:
        losses.add(where, "It has no OAuth flow, and A2A 1.0 demands one.")
        return {}
    if len(there) == 1:
        return {name: {**scheme, "flows": flows}}
    losses.add(where, "It became one scheme for each OAuth flow, named after it: A2A 1.0 takes one.", Level.NOTE)
    others = {member: value for member, value in flows.items() if member not in there}
    return {f"{name}-{flow}": {**scheme, "flows": {flow: flows[flow], **others}} for flow in there}


def _shared_flows(flows: dict[str, Any], where: Where, losses: Losses, *hint: str) -> dict[str, Any]:
    """Remove flows and members that only A2A 1.0 has."""
    shared = without(flows, ("deviceCode",), where, losses, *hint)
    code = "authorizationCode"
    if code in shared:
        shared[code] = without(shared[code], ("pkceRequired",), where.within(code), losses, *hint)
    return shared


def _known(flows: dict[str, Any]) -> list[str]:
    return [flow for flow in flows if flow in _FLOWS]
