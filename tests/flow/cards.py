"""A card with a canary in every part, and the canaries that each context shows, from the README."""

import base64
import re
from typing import Any

ID = "route-by-sea"
"""The skill that the agent is looked for by."""
PARTNER = "https://partner.example"
POLICY = f"""
[[agreements]]
partner = "{PARTNER}"
discloses = ["skills.*", "provider"]
not_before = 2026-01-01T00:00:00Z
expires = 2036-01-01T00:00:00Z
"""

_INSIDE = {"canary-example", "canary-skill-tag", "canary-skill-description"}
SHOWN: dict[str, set[str]] = {
    "public": set(),
    "internal": {*_INSIDE, "canary-endpoint", "canary-extension", "canary-provider"},
    "diagnostic": {*_INSIDE, "canary-endpoint", "canary-extension", "canary-provider", "canary-scheme", "canary-scope"},
    "federation": {*_INSIDE, "canary-provider"},
}
"""Context → the canaries that it shows; every other part of the card is in all contexts."""
_OPERATIONAL = {"capabilities", "defaultInputModes", "defaultOutputModes"}
_INTERNAL = {"skills", "supportedInterfaces", "provider", *_OPERATIONAL}
MEMBERS = {
    "public": {"skills"},
    "internal": _INTERNAL,
    "diagnostic": {*_INTERNAL, "securitySchemes", "securityRequirements"},
    "federation": {"skills", "provider"},
}
"""The same by the members of the card; name, description and version are in all of them."""
CANARIES = SHOWN["diagnostic"]


def make_card(address: str) -> dict[str, Any]:
    """The card of an agent at this address, A2A 1.0."""
    return {
        "name": "Sea Routes",
        "description": "Plans routes for ships.",
        "version": "1.0.0",
        "supportedInterfaces": [
            {"url": f"{address}/canary-endpoint", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}
        ],
        "provider": {"organization": "canary-provider", "url": "https://provider.example"},
        "capabilities": {"extensions": [{"uri": "https://provider.example/e", "description": "canary-extension"}]},
        "defaultInputModes": ["application/json"],
        "defaultOutputModes": ["application/json"],
        "skills": [
            {
                "id": ID,
                "name": "Routes by sea",
                "description": "canary-skill-description",
                "tags": ["canary-skill-tag"],
                "examples": ["canary-example"],
            }
        ],
        "securitySchemes": {
            "key": {"apiKeySecurityScheme": {"description": "canary-scheme", "location": "header", "name": "X-Key"}}
        },
        "securityRequirements": [{"schemes": {"key": {"list": ["canary-scope"]}}}],
    }


def canaries_in(sent: bytes) -> set[str]:
    """The canaries that a reader finds in what was sent: as they are, or in a part in base64url, as Disclosures are."""
    decoded = [base64.urlsafe_b64decode(part + b"=" * (-len(part) % 4)) for part in _parts(sent)]
    everything = b"\n".join((sent, *decoded)).decode("utf-8", "replace")
    return set(re.findall("|".join(CANARIES), everything))


def _parts(sent: bytes) -> list[bytes]:
    return [part for part in re.findall(rb"[A-Za-z0-9_-]{8,}", sent) if len(part) % 4 != 1]
