"""JSON Schema of vectors, one definition for each kind, and of their manifest.

``parse_vector`` checks every vector by it, and ``vectors/schema.json`` is made of it.
"""

from dataclasses import fields
from typing import Final

from sdcard.encoding import JsonObject, JsonValue
from sdcard.instants import MAX_INSTANT
from sdcard.limits import Limits
from sdcard.profile import PROFILES

FORMAT = "sd-card-vectors/1"
ACCEPTED = "accepted"
NEEDS = frozenset(
    {
        *("sd-card", "card", "card-signatures", "yaml", "json-form", "key-binding", "unsolicited", "status", "limits"),
        *("ES384", "ES512", "EdDSA", "ML-DSA-44", "ML-DSA-65", "ML-DSA-87", "sha-384", "sha-512", "agent-proof", "x5c"),
    }
)
"""Features beyond ES256, sha-256 and the compact form. A reader without a feature skips the vectors that need it."""

_TEXT: JsonObject = {"type": "string"}
_TEXTS: JsonObject = {"type": "array", "items": _TEXT}
_OBJECT: JsonObject = {"type": "object"}
_COUNT: JsonObject = {"type": "integer", "minimum": 1}
_SECONDS: JsonObject = {"type": "integer"}
_BOOLEAN: JsonObject = {"type": "boolean"}


def _members(required: JsonObject, optional: JsonObject | None = None) -> JsonObject:
    """An object with these members and no others."""
    members: JsonObject = {**required, **(optional or {})}
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list[JsonValue](sorted(required)),
        "properties": members,
    }


_JWKS: JsonObject = _members({"keys": {"type": "array", "items": _OBJECT}})
_LIMITS = _members({}, {one.name: _COUNT for one in fields(Limits)})
_WINDOW: JsonObject = {"interaction_id": _TEXT, "past": _SECONDS, "future": _SECONDS}
_UNBOUND = _members({"unbound": _TEXT})
_CHALLENGE = _members({"audience": _TEXT, "nonce": _TEXT}, {"answered": _BOOLEAN, **_WINDOW})
_UNSOLICITED = _members({"audience": _TEXT}, {"seen": _TEXTS, **_WINDOW})
_KEY_BINDING: JsonObject = {
    "description": "No key binding, with the reason; an answer to this challenge; or a nonce of the Holder.",
    "if": {"required": ["unbound"]},
    "then": _UNBOUND,
    "else": {"if": {"required": ["nonce"]}, "then": _CHALLENGE, "else": _UNSOLICITED},
}
_ACCEPTANCE: JsonObject = {
    "profile": {"enum": list[JsonValue](PROFILES)},
    "clock_skew": _SECONDS,
    "limits": _LIMITS,
    "max_lifetime": _SECONDS,
}
_AGENT: JsonObject = {
    **dict.fromkeys(("origin", "sd_card"), _TEXT),
    **dict.fromkeys(("requests", "audiences", "services", "public", "proved"), _TEXTS),
    "holder_key": _OBJECT,
    "caller_proved": _BOOLEAN,
}


def _kind(description: str, own: JsonObject, optional: JsonObject | None = None, result: str = "claims") -> JsonObject:
    """A kind of vectors.

    Args:
        own: members beside those of every kind.
        optional: members that may be absent.
        result: ``claims`` of an accepted document, or ``findings`` of every document.
    """
    outcome: JsonObject = {"description": "Findings, as RULE at PLACE (LEVEL).", **_TEXTS}
    accepted: JsonObject = {"required": [result], "properties": {"where": {"not": {}}}}
    refused: JsonObject = {"required": ["where"]}
    if result == "findings":
        refused["required"] = ["where", "findings"]
    else:
        outcome = {"description": "What an accepted document contains."}
        refused["properties"] = {result: {"not": {}}}
    every: JsonObject = {
        "format": {"const": FORMAT},
        "about": _TEXT,
        "standard": _TEXT,
        "kind": _TEXT,
        "document": _TEXT,
        "expect": {"description": f"`{ACCEPTED}`, or the id of a rule.", "type": "string"},
    }
    rest: JsonObject = {
        "needs": {"type": "array", "items": {"enum": list[JsonValue](sorted(NEEDS))}, "uniqueItems": True},
        "where": _TEXT,
        result: outcome,
    }
    return {
        "description": description,
        **_members({**every, **own}, {**rest, **(optional or {})}),
        "if": {"properties": {"expect": {"const": ACCEPTED}}},
        "then": accepted,
        "else": refused,
    }


def _reader(required: JsonObject, optional: JsonObject | None = None) -> JsonObject:
    """Members of a kind whose reader has a clock and trusts Issuers."""
    return {
        "now": {"description": "Unix seconds.", "type": "number", "minimum": 0, "maximum": MAX_INSTANT},
        "trust": {"description": "A trust document. It can itself be the fault."},
        "expectations": _members(required, optional),
    }


_CARD: JsonObject = {"expectations": _members({}, {"limits": _LIMITS, "signers": _JWKS})}

KINDS: Final[dict[str, JsonObject]] = {
    "verify": _kind(
        "A presentation to a Verifier.", _reader({"key_binding": _KEY_BINDING}, {**_ACCEPTANCE, "statuses": _OBJECT})
    ),
    "accept": _kind("An SD-JWT that a Holder receives.", _reader({"holder_key": _OBJECT}, _ACCEPTANCE)),
    "agent-challenge": _kind("A challenge to a called agent.", _reader(_AGENT)),
    "agent-proof": _kind(
        "A proof of a called agent to its client.",
        _reader({"key_binding": _CHALLENGE, "agent": _members({"iss": _TEXT, "sub": _TEXT})}, _ACCEPTANCE),
    ),
    "card": _kind("An agent card in JSON.", {}, _CARD, "findings"),
    "card-file": _kind("The file of an agent card, JSON or YAML.", {}, _CARD, "findings"),
}
"""Kind → JSON Schema of its vectors."""

_DIALECT = "https://json-schema.org/draft/2020-12/schema"

SCHEMA: Final[JsonObject] = {
    "$schema": _DIALECT,
    "title": "SD-Card test vector",
    "type": "object",
    "required": ["kind"],
    "properties": {"kind": {"enum": list[JsonValue](KINDS)}},
    "allOf": [{"if": {"properties": {"kind": {"const": kind}}}, "then": {"$ref": f"#/$defs/{kind}"}} for kind in KINDS],
    "$defs": {**KINDS},
}

_VERSION: JsonObject = {"type": "string", "pattern": r"^[0-9]+\.[0-9]+$"}

MANIFEST_SCHEMA: Final[JsonObject] = {
    "$schema": _DIALECT,
    "title": "Manifest of the SD-Card test vectors",
    **_members(
        {
            "format": {"const": FORMAT},
            "version": _VERSION,
            "schema": {"description": "Path of the JSON Schema of a vector.", "type": "string"},
            "vectors": {
                "type": "array",
                "items": _members(
                    {
                        "file": {"description": "Path from the manifest; the vector's name.", "type": "string"},
                        "kind": {"enum": list[JsonValue](KINDS)},
                        "profile": {
                            "description": "sd-jwt: RFC 9901 decides; sd-card: this project's profile does.",
                            "enum": ["sd-jwt", "sd-card"],
                        },
                        "expect": _TEXT,
                        "since": {"description": "The version that added it.", **_VERSION},
                        "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
                    },
                    {"needs": _TEXTS, "rows": {"description": "Rows of docs/rules.md.", **_TEXTS}},
                ),
            },
        }
    ),
}
