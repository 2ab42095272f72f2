"""Policy documents in TOML or JSON: their JSON Schema, and their parser."""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from sdcard.disclosable import Treatment
from sdcard.encoding import JsonObject, JsonValue, has_more_values, parse_json_object, why_not_utf8
from sdcard.errors import Finding, Refused, Where, first_findings, foreign_code
from sdcard.instants import MAX_INSTANT, parse_rfc3339
from sdcard.lenient import lenient_document, parse_toml
from sdcard.limits import DEFAULT_LIMITS, Limits
from sdcard.policy.context import BUILT_IN, EVERYTHING, Agreement, DisclosureContext, Meaning, nearest
from sdcard.policy.model import DEFAULT_POLICY, DisclosurePolicy
from sdcard.policy.validate import POLICY
from sdcard.rules import Rule

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


# -- Parsing ----------------------------------------------------------------------------------------------------------

_VALIDATOR = Draft202012Validator(SCHEMA)
_JSON = re.compile(rb"\s*\{")
_MOST_DOTS = 512
"""Dots in one line of TOML: its parser's time for a key grows with their square."""
_MOST_VALUES = 8_192
"""Values in one document; parser and schema take up to 40 µs for each."""
_MOST_ENTRY = 256
_MOST_AGREEMENTS = 256
_HIGHEST_STEP = 4096
_MOST_NAME = 64
"""A place does not name a member with a longer name."""


def parse_policy(data: bytes, limits: Limits = DEFAULT_LIMITS) -> DisclosurePolicy:
    """Parse a policy document. JSON begins with ``{``; everything else is TOML.

    Its contexts are added to the built-in ones, and replace one of the same name.

    Raises:
        Refused: ``limit.bytes``; ``policy.toml``, or a rule of ``parse_json_object``; otherwise every
            ``policy.malformed`` and every finding of ``check_policy`` at once.
    """
    if len(data) > limits.policy_bytes:
        raise Refused(Rule.LIMIT_BYTES, POLICY, f"A policy has at most {limits.policy_bytes} bytes.")
    text = lenient_document(data)
    if not text.strip():
        raise Refused(Rule.POLICY_MALFORMED, POLICY, "It is empty.")
    as_json = _JSON.match(text) is not None
    return read_policy(parse_json_object(text, POLICY, limits.json_depth) if as_json else _parse_toml(text, limits))


def read_policy(document: JsonObject) -> DisclosurePolicy:
    """Read a policy from a parsed document.

    Raises:
        Refused: as ``parse_policy``.
    """
    if has_more_values(document, _MOST_VALUES):
        raise Refused(Rule.POLICY_MALFORMED, POLICY, f"A policy has at most {_MOST_VALUES} values.")
    with foreign_code(Refused, Rule.POLICY_MALFORMED, POLICY, "It cannot be compared with the schema of policies."):
        findings = first_findings(finding for error in _VALIDATOR.iter_errors(document) for finding in _findings(error))
    decoy_sizes = _decoy_sizes(document.get("ladder"), findings)
    agreements = tuple(_agreements(document.get("agreements"), findings))
    contexts = {name: _context(name, value) for name, value in _members(document, "contexts", _MOST_CONTEXTS)}
    groups = {name: _meaning(value) for name, value in _members(document, "groups")}
    built_in = {one.name: one for one in BUILT_IN}
    try:
        policy = DisclosurePolicy(
            {**built_in, **contexts},
            decoy_sizes,
            groups,
            frozenset(_texts(document.get("members"))),
            agreements,
            _skills(document.get("skills")),
        )
    except Refused as refusal:
        findings += refusal.findings
    if findings:
        raise Refused.because(list(dict.fromkeys(findings)))
    return policy


def _parse_toml(data: bytes, limits: Limits) -> JsonObject:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused(Rule.UTF8, POLICY, why_not_utf8(data)) from None
    if sum(map(text.count, ",\n")) > _MOST_VALUES:
        raise Refused(Rule.POLICY_MALFORMED, POLICY, f"A policy has at most {_MOST_VALUES} lines and commas.")
    if any(line.count(".") > _MOST_DOTS for line in text.splitlines()):
        raise Refused(Rule.JSON_DEPTH, POLICY, f"A line has at most {_MOST_DOTS} dots.")
    try:
        return {name: _as_json(value, limits.json_depth - 1) for name, value in parse_toml(text).items()}
    except RecursionError:
        raise Refused(Rule.JSON_DEPTH, POLICY) from None
    except ValueError as error:
        raise Refused(Rule.POLICY_TOML, POLICY, str(error)) from None


def _as_json(value: Any, depth: int) -> JsonValue:
    """Convert TOML to JSON: its dates and times become texts."""
    if isinstance(value, dict | list) and depth < 1:
        raise Refused(Rule.JSON_DEPTH, POLICY)
    if isinstance(value, dict):
        return {name: _as_json(one, depth - 1) for name, one in value.items()}
    if isinstance(value, list):
        return [_as_json(one, depth - 1) for one in value]
    return value if isinstance(value, bool | int | float | str) else str(value.isoformat())


# -- Findings of the schema -------------------------------------------------------------------------------------------

_KINDS = {
    "object": "an object (in TOML, a table)",
    "array": "an array",
    "string": "a string",
    "integer": "a whole number",
}
_TREATMENTS = "Use plain, selective or withheld; in TOML, quote a key that holds a dot."
_NAME = "A name is 1 to 64 letters of ASCII, digits, `_` and `-`; the first is a letter."
_MOST = {
    "maxLength": "It has at most {} characters.",
    "maxItems": "There are at most {} of them.",
    "maxProperties": "There are at most {} of them.",
    "minLength": "It is empty.",
    "minItems": "It is empty.",
    "minProperties": "It is empty.",
    "minimum": "It is {} or more.",
    "maximum": "It is {} or less.",
}


def _findings(error: ValidationError) -> Iterator[Finding]:
    """Describe a schema error without the validator's words, which quote values."""
    where, asked = POLICY.within(*error.absolute_path), error.validator_value
    if error.validator == "additionalProperties":
        known = list(error.schema["properties"])
        for name in error.instance:
            if name not in known:
                near = get_close_matches(name[:_MOST_NAME], known, 1)
                hint = nearest(near[0], near) if near else f"Known here: {', '.join(known)}."
                yield Finding(Rule.POLICY_MALFORMED, _named(where, name), hint)
    elif error.validator == "required":
        for name in asked:
            if name not in error.instance:
                yield Finding(Rule.POLICY_MALFORMED, where.within(name), "It is required.")
    elif "propertyNames" in error.absolute_schema_path:
        yield Finding(Rule.POLICY_MALFORMED, _named(where, str(error.instance)), _hint(error))
    else:
        yield Finding(Rule.POLICY_MALFORMED, where, _hint(error))


def _hint(error: ValidationError) -> str:
    asked = error.validator_value
    if error.validator == "type":
        kinds = [asked] if isinstance(asked, str) else asked
        return f"It must be {' or '.join(_KINDS[kind] for kind in kinds)}."
    if error.validator == "enum":
        return _TREATMENTS
    if error.validator == "pattern":
        return _NAME
    return _MOST[str(error.validator)].format(asked)


def _named(where: Where, name: str) -> Where:
    return where.within(name) if len(name) <= _MOST_NAME else where


# -- Document → values; a faulty part is left out, since it has a finding ---------------------------------------------

_MOST_CONTEXTS = 32
_MOST_ENTRIES = 64
_MOST_NARROWED = 16


def _members(document: JsonValue, name: str, most: int = _MOST_ENTRIES) -> list[tuple[str, JsonValue]]:
    value = document.get(name) if isinstance(document, dict) else None
    return list(value.items())[:most] if isinstance(value, dict) else []


def _texts(value: JsonValue) -> tuple[str, ...]:
    texts = value[:_MOST_ENTRIES] if isinstance(value, list) else []
    return tuple(one for one in texts if isinstance(one, str) and len(one) <= _MOST_ENTRY)


def _context(name: str, value: JsonValue) -> DisclosureContext:
    claims = {
        entry: Treatment(treatment)
        for entry, treatment in _members(value, "claims")
        if isinstance(treatment, str) and treatment in Treatment._value2member_map_ and len(entry) <= _MOST_ENTRY
    }
    narrowed = {group: _meaning(meaning) for group, meaning in _members(value, "narrowed", _MOST_NARROWED)}
    return DisclosureContext(name, claims, narrowed, _texts(value.get("contains") if isinstance(value, dict) else None))


def _meaning(value: JsonValue) -> Meaning:
    if isinstance(value, dict):
        return {name: _texts(one) for name, one in list(value.items())[:_MOST_ENTRIES]}
    return {EVERYTHING: _texts(value)}


def _decoy_sizes(value: JsonValue, findings: list[Finding]) -> tuple[int, ...]:
    steps = value if isinstance(value, list) else []
    decoy_sizes = tuple(step for step in map(_whole, steps) if step is not None and 1 <= step <= _HIGHEST_STEP)
    if not decoy_sizes or len(decoy_sizes) < len(steps):
        return DEFAULT_POLICY.decoy_sizes
    if list(decoy_sizes) != sorted(set(decoy_sizes)):
        findings.append(Finding(Rule.POLICY_MALFORMED, POLICY.within("ladder"), "Each size is above the one before."))
        return DEFAULT_POLICY.decoy_sizes
    return decoy_sizes


def _skills(value: JsonValue) -> int:
    size = _whole(value)
    return size if size is not None and 1 <= size <= _HIGHEST_STEP else DEFAULT_POLICY.skills


def _whole(value: JsonValue) -> int | None:
    """Read a whole number as JSON Schema defines it: 4.0 is 4, and true is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        return None
    return int(value)


def _agreements(value: JsonValue, findings: list[Finding]) -> Iterator[Agreement]:
    for number, one in enumerate(value[:_MOST_AGREEMENTS] if isinstance(value, list) else []):
        if isinstance(one, dict):
            where = POLICY.within("agreements", number)
            not_before, expires = (_instant(one, name, where, findings) for name in ("not_before", "expires"))
            partner, discloses = one.get("partner"), _texts(one.get("discloses"))
            if isinstance(partner, str) and expires is not None:
                yield Agreement(partner, discloses, expires, not_before)


def _instant(agreement: JsonObject, name: str, where: Where, findings: list[Finding]) -> int | None:
    value = agreement.get(name)
    instant = _whole(parse_rfc3339(value) if isinstance(value, str) else value)
    if instant is not None and 0 <= instant <= MAX_INSTANT:
        return instant
    if isinstance(value, str):
        hint = (
            "Use RFC 3339 with an offset, such as 2027-01-31T00:00:00Z, or Unix seconds; whole seconds, from 1970 on."
        )
        findings.append(Finding(Rule.POLICY_MALFORMED, where.within(name), hint))
    return None
