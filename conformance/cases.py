"""Which vectors count, and what an adapter is asked about each."""

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ACCEPTED = "accepted"
NOT_GENERIC = frozenset({"limits", "status", "unsolicited", "agent-proof", "card", "yaml", "card-signatures"})
"""Features that RFC 9901 does not have. No other library is asked about them."""
STRICTER = "sd-card"
"""Marks a vector where the RFCs leave the result open."""
CALLERS = "trust"
"""The folder of vectors on choosing the Issuer's key. Every library leaves this choice to its caller."""

CONTESTED: Mapping[str, str] = {
    "jws/crit-empty": "RFC 7515 4.1.11 forbids producers an empty `crit`, and does not tell recipients to refuse it.",
    "jws/kid-number": "RFC 7515 4.1.4 demands a string, and does not tell recipients to refuse another type.",
    "jws/typ-number": "RFC 7515 4.1.9: JWS implementations ignore `typ`.",
    "key-binding/typ-media-type": "RFC 7515 4.1.9 reads `kb+jwt` as `application/kb+jwt`.",
}
"""Vectors without ``sd-card`` whose results we do not count as wrong, and why."""
CHECKS: Mapping[str, tuple[str, ...]] = {
    "audience": ("sd-card/audience-other", "sd-card/audience-type"),
    "times": ("times/",),
    "kb-times": ("key-binding/exp", "key-binding/nbf"),
    "kb-iat": ("key-binding/no-iat", "key-binding/iat-type"),
    "kb-audience": ("key-binding/audience", "key-binding/aud-type", "key-binding/no-aud"),
}
"""A check that some libraries leave to their callers → the refused vectors about it, by how their names begin."""
SETTINGS: Mapping[str, tuple[str, ...]] = {
    "kb-past": ("key-binding/stale", "key-binding/iat-oldest", "key-binding/iat-fraction", "key-binding/narrow-window"),
    "kb-future": ("key-binding/from-future", "key-binding/iat-newest"),
}
"""A setting that RFC 9901 leaves to the Verifier, and that some libraries do not have → the vectors about it."""


@dataclass(frozen=True, slots=True)
class Case:
    """A vector that other libraries are asked about.

    Attributes:
        name: folder and file.
        family: the folder, a column of the page.
        rule: the rule that refuses, or ``accepted``.
        needs: features that a library must have.
        is_stricter: RFC 9901 allows another result, so the result is not counted.
        request: what an adapter is asked.
        claims: the Processed SD-JWT Payload of an accepted document.
    """

    name: str
    family: str
    rule: str
    needs: frozenset[str]
    is_stricter: bool
    request: Mapping[str, Any]
    claims: Mapping[str, Any] | None


def cases(root: Path = ROOT / "vectors") -> Iterator[Case]:
    """Read the vectors that any SD-JWT library can be asked about."""
    for file in sorted(root.glob("*/*.json")):
        vector = json.loads(file.read_text(encoding="utf-8"))
        needs = frozenset(vector.get("needs", ()))
        if vector.get("kind") != "verify" or needs & NOT_GENERIC or file.parent.name == CALLERS:
            continue
        if key := issuer_key(vector):
            name, rule = f"{file.parent.name}/{file.stem}", vector["expect"]
            yield Case(
                name,
                file.parent.name,
                rule,
                (needs - {STRICTER}) | set(_derived(name, rule, vector["expectations"])),
                STRICTER in needs or name in CONTESTED,
                _request(vector, key),
                vector.get("claims"),
            )


def _derived(name: str, rule: str, expectations: Mapping[str, Any]) -> Iterator[str]:
    """List the needs that follow from what a vector is about."""
    if rule != ACCEPTED:
        yield from (check for check, starts in CHECKS.items() if name.startswith(starts))
    yield from (setting for setting, starts in SETTINGS.items() if name.startswith(starts))
    if "clock_skew" in expectations:
        yield "clock-skew"
    if name.startswith("algorithms/") and name.endswith(("-both", "-holder")) and "es256" not in name:
        yield "kb-alg"


def _request(vector: Mapping[str, Any], key: Mapping[str, str]) -> dict[str, Any]:
    expectations = vector["expectations"]
    binding = expectations["key_binding"]
    return {
        "op": "verify",
        "text": vector["document"],
        "key": key,
        "now": vector["now"],
        "skew": expectations.get("clock_skew", 0),
        "audience": binding.get("audience"),
        "nonce": binding.get("nonce"),
        "past": binding.get("past", 300),
        "future": binding.get("future", 60),
    }


def issuer_key(vector: Mapping[str, Any]) -> Mapping[str, str] | None:
    """Choose the Issuer's key as a caller does: by ``iss`` and ``kid``, else the only one."""
    issuers = vector["trust"].get("issuers", {})
    header, payload = (_decoded(part) for part in _parts(vector["document"]))
    iss = payload.get("iss")
    named = issuers.get(iss) if isinstance(iss, str) else None
    found = [named] if named else list(issuers.values())
    keys = [key for one in found for key in one["keys"]]
    kid = header.get("kid")
    chosen = [key for key in keys if key.get("kid") == kid] if isinstance(kid, str) else keys
    return chosen[0] if len(chosen) == 1 else None


def _parts(document: str) -> tuple[str, str]:
    if document.startswith("{"):
        members = json.loads(document)
        return str(members.get("protected", "")), str(members.get("payload", ""))
    parts = [*document.partition("~")[0].split("."), "", ""]
    return parts[0], parts[1]


def _decoded(part: str) -> Mapping[str, Any]:
    try:
        value = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
