"""The manifest of the vectors: kind, profile, version and bytes of each.

A version is added when vectors are released. From then on its vectors keep their names and bytes.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from sdcard.encoding import JsonObject, JsonValue
from sdcard.vectors import FORMAT
from vectors.rows import cited

MANIFEST = "vectors/manifest.json"
VERSION = "1.1"
"""New vectors get this version. The next release of vectors gets the next one."""
RELEASED = {"1.0": "e1e340bf1a0a00000c137557f3e74c1852e53041dbc253327910463d7514167e"}
"""Version → digest of its vectors and those of earlier versions."""

GENERIC_KINDS = frozenset({"verify", "accept"})
GENERIC_NEEDS = frozenset(
    {"ES384", "ES512", "EdDSA", "ML-DSA-44", "ML-DSA-65", "ML-DSA-87", "sha-384", "sha-512", "key-binding", "json-form"}
)
"""With these kinds and needs a vector follows from RFC 9901 and the RFCs beneath it alone."""


def manifest(files: Mapping[str, bytes], before: JsonObject) -> JsonObject:
    """Make the manifest of these vectors.

    Args:
        files: path → bytes.
        before: the present manifest, whose vectors keep their version.
    """
    listed: Any = before.get("vectors", [])
    since = {one["file"]: one["since"] for one in listed}
    vectors: list[JsonValue] = [_entry(name, files[name], since) for name in sorted(files)]
    return {"format": FORMAT, "version": VERSION, "schema": "schema.json", "vectors": vectors}


def _entry(path: str, data: bytes, since: Mapping[str, str]) -> JsonObject:
    vector, name = json.loads(data), path.removeprefix("vectors/")
    needs = vector.get("needs", [])
    entry: JsonObject = {"file": name, "kind": vector["kind"], "profile": profile(vector["kind"], needs)}
    if needs:
        entry["needs"] = needs
    if rows := list[JsonValue](cited(vector["standard"])):
        entry["rows"] = rows
    return entry | {
        "expect": vector["expect"],
        "since": since.get(name, VERSION),
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def profile(kind: str, needs: list[str]) -> str:
    """``sd-jwt`` where RFC 9901 alone decides, otherwise ``sd-card``."""
    return "sd-jwt" if kind in GENERIC_KINDS and GENERIC_NEEDS.issuperset(needs) else "sd-card"


def released_digest(version: str, listed: list[Any]) -> str:
    """Digest of the names and bytes of the vectors up to this version."""
    number = _number(version)
    lines = sorted(f"{one['file']} {one['sha256']}\n" for one in listed if _number(one["since"]) <= number)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
