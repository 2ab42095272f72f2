"""The card, the keys and the floor: what both libraries work on."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

ISSUER = "https://registry.example"
AUDIENCE = "https://verifier.example"
NONCE = "n-0S6_WzA2Mj-benchmark"
TYPE = "https://registry.example/card"
LIFETIME = 604_800
SHOWN = ("skills", "capabilities", "provider")
SELECTIVE = (
    "skills", "supportedInterfaces", "capabilities", "securitySchemes", "provider", "defaultInputModes",
    "defaultOutputModes",
)  # fmt: skip


def _card() -> dict[str, Any]:
    skill = {
        "name": "Traffic-Aware Route Optimizer",
        "description": "Finds the best route between two or more places from live and historical traffic. " * 4,
        "tags": ["maps", "routing", "navigation", "directions", "traffic"],
        "examples": ["Plan a route from the airport to the harbour that avoids tolls and ferries."] * 3,
        "inputModes": ["application/json", "text/plain"],
        "outputModes": ["application/json", "application/geo+json", "text/html"],
    }
    return {
        "name": "GeoSpatial Route Planner Agent",
        "description": "Provides advanced route planning and traffic analysis services",
        "version": "1.2.0",
        "skills": [{"id": f"skill-{number}", **skill} for number in range(4)],
        "supportedInterfaces": [
            {"url": f"https://georoute.example/{b}", "protocolBinding": b, "protocolVersion": "1.0"}
            for b in ("JSONRPC", "GRPC", "HTTP+JSON")
        ],
        "capabilities": {"streaming": True, "pushNotifications": True},
        "securitySchemes": {"key": {"apiKeySecurityScheme": {"location": "header", "name": "X-API-Key"}}},
        "provider": {"organization": "Example Geo Services", "url": "https://geo.example"},
        "defaultInputModes": ["application/json", "text/plain"],
        "defaultOutputModes": ["application/json", "image/png"],
    }


CARD = json.dumps(_card(), separators=(",", ":")).encode()


def yardstick() -> dict[tuple[str | int, ...], Any]:
    """Plain Python of the kind that libraries are made of: a yardstick.

    It walks the places of a card's values, with no code of ours.

    A busy machine, or another one, is slower at this than at signatures; what it loses here it may lose elsewhere.
    """
    found: dict[tuple[str | int, ...], Any] = {}

    def walk(value: Any, place: tuple[str | int, ...]) -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                walk(inner, (*place, name))
        elif isinstance(value, list):
            for index, inner in enumerate(value):
                walk(inner, (*place, index))
        else:
            found[place] = value

    walk(json.loads(CARD), ())
    return found


@dataclass(frozen=True, eq=False)
class Work:
    """Keys and the floor's two steps."""

    issuer_key: ec.EllipticCurvePrivateKey
    holder_key: ec.EllipticCurvePrivateKey
    sign: Callable[[], Any]
    verify_twice: Callable[[], Any]


def make_work() -> Work:
    """Fresh keys, and the floor over a message of the size of a signing input."""
    issuer_key, holder_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    algorithm, message = ec.ECDSA(hashes.SHA256()), b"m" * 1024
    signature, public = issuer_key.sign(message, algorithm), issuer_key.public_key()

    def verify_twice() -> None:
        public.verify(signature, message, algorithm)
        public.verify(signature, message, algorithm)

    return Work(issuer_key, holder_key, lambda: issuer_key.sign(message, algorithm), verify_twice)
