"""Which vectors count, and what an adapter is asked about each."""

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ACCEPTED = "accepted"
GENERIC = "sd-jwt"
"""The manifest's profile of vectors that RFC 9901 and the RFCs beneath it decide."""
OURS = frozenset({"sd-card"})
"""What a vector needs where the RFCs leave the result to a profile."""
NOT_ASKED = frozenset({"limits", "status", "unsolicited", "issuer-checks"})
"""Features that RFC 9901 does not have. No other library is asked about them."""
CALLERS = frozenset({"trust", "certificates"})
"""Folders of vectors on choosing the Issuer's key. Every library leaves this choice to its caller, or can."""

CONTESTED: Mapping[str, str] = {
    "jws/crit-empty": "RFC 7515 4.1.11 forbids producers an empty `crit`, and does not tell recipients to refuse it.",
    "jws/kid-number": "RFC 7515 4.1.4 demands a string, and does not tell recipients to refuse another type.",
    "jws/typ-number": "RFC 7515 4.1.9: JWS implementations ignore `typ`.",
    "key-binding/typ-media-type": "RFC 7515 4.1.9 reads `kb+jwt` as `application/kb+jwt`.",
}
"""Generic vectors whose results we do not count as wrong, and why."""
CHECKS: Mapping[str, tuple[str, ...]] = {
    "times": ("issuer-jwt/exp", "issuer-jwt/nbf", "issuer-jwt/iat"),
    "audience": ("issuer-jwt/aud",),
    "kb-times": ("kb-jwt/exp", "kb-jwt/nbf"),
    "kb-audience": ("kb-jwt/aud",),
    "kb-iat": ("kb-jwt/iat",),
}
"""A check that some libraries leave to their callers → where a vector about it is refused."""
SIGNATURES = frozenset({"jws.signature", "jws.alg", "jws.crit", "jws.header", "jws.format"})
"""Rules on signatures, which some libraries leave to their callers: the need ``jws``."""
SETTINGS: Mapping[str, tuple[str, ...]] = {
    "kb-past": ("key-binding/stale", "key-binding/iat-oldest", "key-binding/iat-fraction", "key-binding/narrow-window"),
    "kb-future": ("key-binding/from-future", "key-binding/iat-newest"),
}
"""A setting that RFC 9901 leaves to the Verifier, and some libraries lack → how names of vectors about it begin."""
LEEWAY_S = 61
"""A vector whose date is nearer than this needs a library without a leeway of its own: ``exact-times``."""


@dataclass(frozen=True, slots=True)
class Case:
    """A vector that other libraries are asked about.

    Attributes:
        name: folder and file.
        family: the folder, a column of the page.
        rule: the rule that refuses, or ``accepted``.
        needs: features that a library must have.
        is_stricter: the RFCs allow another result, so the result is not counted.
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
    for entry in json.loads((root / "manifest.json").read_text(encoding="utf-8"))["vectors"]:
        family, _, file = entry["file"].partition("/")
        needs = frozenset(entry.get("needs", ()))
        is_generic = entry["profile"] == GENERIC
        if entry["kind"] != "verify" or family in CALLERS or needs & NOT_ASKED or not (is_generic or needs & OURS):
            continue
        vector = json.loads((root / entry["file"]).read_text(encoding="utf-8"))
        name = f"{family}/{file.removesuffix('.json')}"
        if key := issuer_key(vector):
            yield Case(
                name,
                family,
                vector["expect"],
                (needs - OURS) | set(_derived(name, vector)),
                not is_generic or name in CONTESTED,
                _request(vector, key),
                vector.get("claims"),
            )


def _derived(name: str, vector: Mapping[str, Any]) -> Iterator[str]:
    """List the needs that follow from what a vector is about."""
    document, where = vector["document"], vector.get("where", "")
    if name.startswith("times/"):
        yield "times"
    settings = [setting for setting, starts in SETTINGS.items() if name.startswith(starts)]
    yield from settings or (check for check, places in CHECKS.items() if where in places)
    if vector["expect"] in SIGNATURES:
        yield "jws"
    if "clock_skew" in vector["expectations"]:
        yield "clock-skew"
    if vector["expect"].startswith("time.") and _is_near(document, where, vector["now"]):
        yield "exact-times"
    if name.startswith("algorithms/") and name.endswith(("-both", "-holder")) and "es256" not in name:
        yield "kb-alg"
    if "aud" in _decoded(_parts(document)[1]):
        yield "audience"


def _is_near(document: str, where: str, now: float) -> bool:
    jwt = document.rpartition("~")[2] if where.startswith("kb-jwt") else document.partition("~")[0]
    date = _decoded(jwt.split(".")[1]).get(where.rpartition("/")[2])
    return isinstance(date, int | float) and abs(date - now) < LEEWAY_S


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
    keys = [key for one in found for key in one.get("keys", ())]
    kid = header.get("kid")
    chosen = [key for key in keys if key.get("kid") == kid] if isinstance(kid, str) else keys
    return chosen[0] if len(chosen) == 1 else None


def _parts(document: str) -> tuple[str, str]:
    """Return the header and the payload of the Issuer-signed JWT, still encoded; nothing for what cannot be read."""
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
