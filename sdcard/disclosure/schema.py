"""``SCHEMA``: the shape of a policy document, as a JSON Schema.

``checking.py`` checks its meaning.
"""

from typing import Final

from sdcard.disclosable import Treatment
from sdcard.encoding import JsonObject
from sdcard.instants import MAX_INSTANT

NAME = r"^[A-Za-z][A-Za-z0-9_-]{0,63}$(?!\n)"

_ENTRY: JsonObject = {"type": "string", "minLength": 1, "maxLength": 256}
_ENTRIES: JsonObject = {"type": "array", "items": _ENTRY, "maxItems": 64}
_INSTANT: JsonObject = {
    "type": ["string", "integer"],
    "minimum": 0,
    "maximum": MAX_INSTANT,
    "description": "RFC 3339 with an offset, such as 2027-01-31T00:00:00Z, or Unix seconds; whole seconds. "
    "In TOML, also a date-time.",
}
_MEANING: JsonObject = {
    "description": "Claim paths; or family of card formats, such as a2a, and * for all others, with claim paths each.",
    "type": ["array", "object"],
    "items": _ENTRY,
    "maxItems": 64,
    "minProperties": 1,
    "maxProperties": 16,
    "propertyNames": {"maxLength": 64},
    "additionalProperties": _ENTRIES,
}
_CONTEXT: JsonObject = {
    "description": "A named audience and purpose.",
    "type": "object",
    "additionalProperties": False,
    "required": ["claims"],
    "properties": {
        "claims": {
            "description": "Claim group, claim, path such as skills.*.id, or * for everything, with its treatment. The "
            "entry with the narrowest path decides. plain: in the clear, and nobody can hide it when presenting; "
            "selective: by a Disclosure; withheld: not in the SD-Card, whatever a registration asks for. What no entry "
            "covers is withheld unless a registration asks for it.",
            "type": "object",
            "maxProperties": 64,
            "propertyNames": {"minLength": 1, "maxLength": 256},
            "additionalProperties": {"enum": [str(treatment) for treatment in Treatment]},
        },
        "narrowed": {
            "description": "Claim groups that mean less in this context.",
            "type": "object",
            "maxProperties": 16,
            "propertyNames": {"pattern": NAME},
            "additionalProperties": _MEANING,
        },
        "contains": {
            "description": "Contexts that show nothing that this one does not show. Checked, not inherited.",
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": 64},
            "maxItems": 8,
        },
    },
}
_AGREEMENT: JsonObject = {
    "description": "What one partner may see. The context federation goes by it.",
    "type": "object",
    "additionalProperties": False,
    "required": ["partner", "discloses", "expires"],
    "properties": {
        "partner": {
            "description": "Its issuer URL or token subject; compared exactly.",
            "type": "string",
            "minLength": 1,
            "maxLength": 256,
        },
        "discloses": {**_ENTRIES, "minItems": 1, "description": "Claim groups, claims and paths."},
        "not_before": _INSTANT,
        "expires": _INSTANT,
    },
}

SCHEMA: Final[JsonObject] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "SD-Card disclosure policy",
    "description": "What an operator offers beside or instead of the built-in contexts. TOML and JSON have one shape.",
    "type": "object",
    "additionalProperties": False,
    "minProperties": 1,
    "properties": {
        "contexts": {
            "description": "Name and context; the name of a built-in one replaces it.",
            "type": "object",
            "maxProperties": 32,
            "propertyNames": {"pattern": NAME},
            "additionalProperties": _CONTEXT,
        },
        "groups": {
            "description": "Names for claims, beside those of the card formats; no group loses a claim to them.",
            "type": "object",
            "maxProperties": 64,
            "propertyNames": {"pattern": NAME},
            "additionalProperties": _MEANING,
        },
        "members": {
            "description": "Members that cards have and no card format names, so that entries may name them.",
            **_ENTRIES,
        },
        "agreements": {"type": "array", "items": _AGREEMENT, "maxItems": 256},
        "ladder": {
            "description": "Arrays of digests are filled with decoys to the next of these rising sizes.",
            "type": "array",
            "items": {"type": "integer", "minimum": 1, "maximum": 4096},
            "minItems": 1,
            "maxItems": 64,
        },
        "skills": {
            "description": "The array of skills has at least this many digests, decoys among them.",
            "type": "integer",
            "minimum": 1,
            "maximum": 4096,
        },
    },
}
