"""JSON Schema of vectors, one definition for each kind, and of their manifest.

``parse_vector`` checks every vector by it, and ``vectors/schema.json`` is made of it.
"""

from dataclasses import fields
from typing import Final

from sdcard.encoding import JsonObject, JsonValue
from sdcard.instants import MAX_INSTANT
from sdcard.limits import Limits
from sdcard.nonces import NoncePurpose
from sdcard.profile import PROFILES

FORMAT = "sd-card-vectors/1"
ACCEPTED = "accepted"
NEEDS = frozenset(
    {
        *("sd-card", "card", "card-signatures", "yaml", "json-form", "key-binding", "unsolicited", "status", "limits"),
        *("ES384", "ES512", "EdDSA", "ML-DSA-44", "ML-DSA-65", "ML-DSA-87", "sha-384", "sha-512", "agent-proof", "x5c"),
        *("admission", "issuer-checks", "spiffe-id"),
    }
)
"""Features beyond ES256, sha-256 and the compact form. A reader without a feature skips the vectors that need it."""

_TEXT: JsonObject = {"type": "string"}
_TEXTS: JsonObject = {"type": "array", "items": _TEXT}
_OBJECT: JsonObject = {"type": "object"}
_COUNT: JsonObject = {"type": "integer", "minimum": 1}
_SECONDS: JsonObject = {"type": "integer"}
_RECORDS: JsonObject = {"type": "array", "items": _TEXTS}
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


_FINDINGS: JsonObject = {"description": "Findings, as RULE at PLACE (LEVEL).", **_TEXTS}
_RESULT: JsonObject = {"description": "What an accepted document contains, or what is made of it."}
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
    "required_checks": _TEXTS,
}
_AGENT: JsonObject = {
    **dict.fromkeys(("origin", "sd_card"), _TEXT),
    **dict.fromkeys(("requests", "audiences", "services", "public", "proved"), _TEXTS),
    "holder_key": _OBJECT,
    "caller_proved": _BOOLEAN,
}


def _kind(description: str, own: JsonObject, optional: JsonObject | None = None, results: str = "result") -> JsonObject:
    """A kind of vectors.

    Args:
        own: members beside those of every kind.
        optional: members that may be absent.
        results: members with the outcome: ``findings`` of every document, others of an accepted one.
    """
    values = list[JsonValue](results.split())
    always: list[JsonValue] = ["findings"] if "findings" in values else []
    accepted: JsonObject = {"required": values, "properties": {"where": {"not": {}}}}
    never: JsonObject = {str(name): {"not": {}} for name in values if name not in always}
    refused: JsonObject = {"required": ["where", *always], "properties": never}
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
        **{str(name): _FINDINGS if name in always else _RESULT for name in values},
    }
    return {
        "description": description,
        **_members({**every, **own}, {**rest, **(optional or {})}),
        "if": {"properties": {"expect": {"const": ACCEPTED}}},
        "then": accepted,
        "else": refused,
    }


_NOW: JsonObject = {"now": {"description": "Unix seconds.", "type": "number", "minimum": 0, "maximum": MAX_INSTANT}}


_HOST = _members({"file": _TEXT, "txt": _RECORDS, "wildcard": _RECORDS})
"""What a host publishes: a file, TXT records, and those that each name of the host has."""


def _settings(required: JsonObject, optional: JsonObject | None = None) -> JsonObject:
    """The member with a reader's settings."""
    return {"expectations": _members(required, optional)}


def _reader(required: JsonObject, optional: JsonObject | None = None) -> JsonObject:
    """Members of a kind whose reader has a clock and trusts Issuers."""
    trust: JsonObject = {"trust": {"description": "A trust document. It can itself be the fault."}}
    return {**_NOW, **trust, **_settings(required, optional)}


_CARD = _settings({}, {"limits": _LIMITS, "signers": _JWKS, "source": _TEXT})
_ADMISSION = _members({"formats": _TEXTS, "claims": _TEXTS, "skills": _TEXTS}, {"checks": _TEXTS, "spiffe_ids": _TEXTS})
_STATUS = _members({"uri": _TEXT, "index": {"type": "integer", "minimum": 0}})
_CHOICE: JsonObject = {"policy": _TEXT, "disclose": _TEXTS}
_ISSUING: JsonObject = {
    **dict.fromkeys(("issuer", "context", "agent_id"), _TEXT),
    "issuer_key": _OBJECT,
    "holder_keys": {"type": "array", "items": _OBJECT},
    "iat": _SECONDS,
    "exp": _SECONDS,
    "salts": {"description": "One for each Disclosure, decoy and array in the order of use, base64url.", **_TEXTS},
}
_PRESENTING: JsonObject = {"holder_key": _OBJECT, "audience": _TEXT, "nonce": _TEXT}
_REQUEST: JsonObject = {"method": _TEXT, "url": _TEXT}
_BOUND_TOKEN = _members({"text": _TEXT, "claims": _OBJECT})
_SERVER: JsonObject = {"issuer": _TEXT, "audience": _TEXT, "keys": _JWKS}
_NEXT = _members(
    {"actor": _TEXT, "target": _TEXT, "most_actors": _COUNT, "scope": _TEXT, "permitted": _TEXTS},
    {"interaction_id": _TEXT},
)
_NONCE: JsonObject = {
    "key": {"description": "The 32 bytes of the record's key, base64url.", "type": "string"},
    "purpose": {"enum": list[JsonValue](one.value for one in NoncePurpose)},
    "audience": _TEXT,
    "lifetime": _COUNT,
}
_TARGET: JsonObject = {**dict.fromkeys(("origin", "method", "path", "service", "interaction_id"), _TEXT)}
_HEAD = _members({"sequence": {"type": "integer"}, "digest": _TEXT})

KINDS: Final[dict[str, JsonObject]] = {
    "verify": _kind(
        "A presentation to a Verifier.",
        _reader(
            {"key_binding": _KEY_BINDING},
            {**_ACCEPTANCE, "statuses": _OBJECT, "admission": _ADMISSION, "complete": {"const": True}},
        ),
        results="claims",
    ),
    "accept": _kind(
        "An SD-JWT that a Holder receives.", _reader({"holder_key": _OBJECT}, _ACCEPTANCE), results="claims"
    ),
    "agent-challenge": _kind("A challenge to a called agent.", _reader(_AGENT), results="claims"),
    "agent-proof": _kind(
        "A proof of a called agent to its client; an empty document is an absent header.",
        _reader({"key_binding": _CHALLENGE, "agent": _members({"iss": _TEXT, "sub": _TEXT})}, _ACCEPTANCE),
        results="claims",
    ),
    "card": _kind("An agent card in JSON.", {}, _CARD, "findings"),
    "card-file": _kind("The file of an agent card, JSON or YAML.", {}, _CARD, "findings"),
    "conversion": _kind(
        "An agent card that is converted to another format.", _settings({"to": _TEXT}), results="result findings"
    ),
    "card-signing": _kind("An agent card that is signed: the signing input.", _settings({"key": _OBJECT})),
    "policy": _kind("A disclosure policy, TOML or JSON.", {}, results="findings"),
    "plan": _kind(
        "An agent card that is planned for a context: each place with its treatment.",
        _settings({"context": _TEXT}, {**_CHOICE, "partner": _members({"issuer": _TEXT, "at": _SECONDS})}),
    ),
    "issue": _kind(
        "An agent card from which SD-Cards are issued, one for each Holder key.",
        _settings(
            _ISSUING, {**_CHOICE, "statuses": {"type": "array", "items": _STATUS}, "checks": _TEXTS, "limits": _LIMITS}
        ),
    ),
    "present": _kind(
        "An SD-Card that its Holder presents: what it shows, and the presentation.",
        _reader(_PRESENTING, {"paths": _TEXTS, "context": _TEXT, "interaction_id": _TEXT}),
    ),
    "published": _kind(
        "`Accept` of a request for a published card.",
        {
            **_NOW,
            **_settings({"path": _TEXT, "contexts": _OBJECT, "exp": _SECONDS}, {"plain": _TEXT, "context": _TEXT}),
        },
    ),
    "challenge": _kind(
        "`WWW-Authenticate` in front of a Holder, one value a line.",
        _settings({"audience": _TEXT}, {"interaction_id": _TEXT}),
    ),
    "authorization": _kind(
        "`Authorization` in front of a server, one value a line; an empty document is an absent header.",
        _settings({"scheme": {"enum": ["SD-Card", "Bearer"]}}),
    ),
    "nonce": _kind("A stateless nonce that is answered.", {**_NOW, **_settings(_NONCE, _TARGET)}),
    "status-list": _kind(
        "A Status List Token.",
        {**_NOW, **_settings({"uri": _TEXT, "key": _OBJECT}, {"clock_skew": _SECONDS, "limits": _LIMITS})},
    ),
    "trust-list": _kind("A signed trust list.", {**_NOW, **_settings({"signers": _JWKS})}),
    "dpop": _kind(
        "`DPoP` of a request, one value a line; an empty document is an absent header.",
        {**_NOW, **_settings(_REQUEST, {"token": _BOUND_TOKEN, "seen": _TEXTS, "nonces": _TEXTS})},
    ),
    "possession": _kind(
        "A proof of possession at registration.",
        {**_NOW, **_settings({"key": _OBJECT, "audience": _TEXT, "agent_id": _TEXT})},
    ),
    "access-token": _kind(
        "An access token of an authorization server.",
        {**_NOW, **_settings(_SERVER, {"actor": _members({"registry": _TEXT, "names": _TEXTS})})},
    ),
    "delegated-token": _kind(
        "A delegated token at its target, and the delegation that continues it.",
        {**_NOW, **_settings(_SERVER, {"bound": _members({**_REQUEST, "proofs": _TEXTS}), "next": _NEXT})},
    ),
    "audit-chain": _kind(
        "Audit records, one JSON object a line.",
        {},
        _settings({}, {"keys": _JWKS, "checkpoints": _TEXTS, "head": {"anyOf": [_HEAD, {"type": "null"}]}}),
        "result findings",
    ),
    "log-proof": _kind(
        "A proof that an SD-Card is in a transparency log; an empty document is an absent proof.",
        {**_NOW, **_settings({"policy": _TEXT, "issuer_jwt": _TEXT})},
    ),
    "log-submission": _kind(
        "The body of `add-checkpoint` to a witness.", {**_NOW, **_settings({"policy": _TEXT}, {"older": _TEXT})}
    ),
    "domain-control": _kind(
        "An agent card, and what the hosts that it names publish.",
        _settings(
            {
                "issuer": _TEXT,
                "owner": _TEXT,
                "thumbprints": _TEXTS,
                "published": {"type": "object", "additionalProperties": _HOST},
            }
        ),
        results="result findings",
    ),
    "write": _kind(
        "A text that this library writes: these inputs make exactly the document.",
        _settings({"writes": _TEXT, "from": _OBJECT}, {"key": _OBJECT}),
        results="",
    ),
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
