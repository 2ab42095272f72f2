"""Endpoints of an agent in A2A 0.3 and A2A 1.0.

A2A 0.3 has one endpoint with additional interfaces. A2A 1.0 has a list.
"""

import json
from typing import Any

from sdcard.cards.a2a.losses import Losses, renamed, without
from sdcard.cards.a2a.shared import CARD
from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Level, Where

VERSION_0_3 = "0.3.0"
_BEFORE_0_3 = ("0.1", "0.2")
_DEFAULT_TRANSPORT = "JSONRPC"
_REPEATED = "It is left out: it repeats another interface."
_NO_PLACE = "A2A 0.3 has no place for it."


def to_interfaces(source: dict[str, Any], version: str, losses: Losses) -> list[JsonValue]:
    """List the endpoint of a card from before 1.0 first, then the others.

    Each is listed once: 0.3 wants the endpoint repeated among the others.

    Args:
        source: the card.
        version: what is spoken where the card says none.
        losses: takes what is lost.
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
    """Return the members of A2A 0.3 that say what the list of 1.0 says.

    Tenants and versions of their own are left out.
    """
    where = CARD.within("supportedInterfaces")
    speaking = (index for index, one in enumerate(interfaces) if one.get("protocolVersion", "").startswith("0.3"))
    chosen = next(speaking, 0)
    if chosen:
        losses.add(where.within(chosen), "It comes first: it is the first that speaks A2A 0.3.", Level.NOTE)
    version = _spoken(interfaces[chosen], where.within(chosen, "protocolVersion"), losses)
    entries = [_entry(one, where.within(index), losses) for index, one in enumerate(interfaces)]
    main = entries.pop(chosen)
    unplaced = [name for name in main if name not in ("url", "transport")]
    main = without(main, unplaced, where.within(chosen), losses, _NO_PLACE)
    seen, others = {_text(main)}, list[JsonValue]()
    for position, entry in enumerate(entries):
        index = position + (position >= chosen)
        _compare(interfaces[index].get("protocolVersion"), version, where.within(index, "protocolVersion"), losses)
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


def _spoken(interface: dict[str, Any], where: Where, losses: Losses) -> str:
    """Return the version that the card will say.

    A reader would take the whole card for an older one if it said a version before 0.3.
    """
    version: str = interface.get("protocolVersion") or ""
    if version.startswith(_BEFORE_0_3):
        losses.add(where, f"The converted card says {VERSION_0_3}. Make sure that the agent speaks it.")
        return VERSION_0_3
    if not version.startswith("0.3"):
        losses.add(where, "No interface speaks A2A 0.3. Make sure that who reads the converted card speaks another.")
    return version or "1.0"


def _compare(version: str | None, said: str, where: Where, losses: Losses) -> None:
    if version != said:
        losses.add(where, "A2A 0.3 says one version for all interfaces.", Level.WARNING if version else Level.NOTE)


def _text(value: JsonValue) -> str:
    """Serialize a JSON value to one text, whatever the order of its members."""
    return json.dumps(value, sort_keys=True)
