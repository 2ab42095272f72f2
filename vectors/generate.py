"""Write vectors, manifest and pages: ``python -m vectors.generate [--check]``.

Regenerating gives the same bytes. ``--check`` writes nothing and fails when anything would change.
"""

import json
import sys
from collections.abc import Iterator, Mapping

from sdcard.encoding import JsonObject, JsonValue, decode_base64url
from sdcard.errors import Part, Where
from sdcard.rules import Rule
from sdcard.vectors import ACCEPTED, FORMAT, parse_vector
from sdcard.vectors.schema import KINDS, MANIFEST_SCHEMA, SCHEMA
from vectors.actors import HOLDER, Actor, trust
from vectors.case import Case
from vectors.cases import TOPICS, UNBOUND
from vectors.manifest import MANIFEST, manifest
from vectors.pages import ROOT, rules_page
from vectors.steps import PAGE, steps_page

RULES_PAGE = "docs/rules.md"

_REGISTRY = "A registry says it about a request to its HTTP API."
_RECORDS = "It depends on a registry's database."
_OUTSIDE = "It depends on another system that does not answer, and on no document."
_SEEN = "It compares a log with what a witness, a monitor or a Holder has stored."
_BYTES = "Its input is no text."
_FETCHED = "It is about the address that a document is fetched from."
NOT_TRIGGERED = {
    **dict.fromkeys(
        (Rule.REQUEST_TARGET, Rule.REQUEST_METHOD, Rule.REQUEST_MEDIA_TYPE, Rule.REQUEST_TIMEOUT, Rule.AGENT_ID,
         Rule.CONTEXT_REPEATED, Rule.CARD_DISAGREES, Rule.PROOF_MISSING, Rule.DISCLOSE_EMPTY, Rule.AGREEMENT_NONE,
         Rule.RATE_EXCEEDED, Rule.CONSOLE_FORGED, Rule.STATUS_LIST_TIME, Rule.DELEGATION_GRANT_TYPE,
         Rule.DELEGATION_TOKEN_TYPE, Rule.DELEGATION_TARGET),
        _REGISTRY,
    ),
    **dict.fromkeys(
        (Rule.AGENT_VERSION, Rule.AGENT_OWNED, Rule.AGENT_UNKNOWN, Rule.AGENT_CARDS, Rule.AGENT_NOT_RENEWABLE,
         Rule.IDEMPOTENCY_REUSED, Rule.IDEMPOTENCY_UNREADABLE, Rule.CURSOR, Rule.TOKEN_LIMIT,
         Rule.DELEGATION_SUBJECT, Rule.DELEGATION_NO_GRANT,
         Rule.AUDIT_STATE_CHANGED, Rule.AUDIT_STATE_MISSING, Rule.AUDIT_STATE_ADDED, Rule.DELEGATION_REVOKED,
         Rule.DELEGATION_GRANT_ENDED, Rule.DELEGATION_AGENT_ENDED, Rule.CARD_PUBLISHED,
         *(rule for rule in Rule if rule.startswith("approval."))),
        _RECORDS,
    ),
    **dict.fromkeys(
        (Rule.STORE_UNAVAILABLE, Rule.STORE_SLOW, Rule.STORE_BEHIND, Rule.SIGNER_UNAVAILABLE, Rule.TOKEN_KEYS,
         Rule.NOT_READY, Rule.REGISTRY_FAILED, Rule.KB_RECORD, Rule.DPOP_RECORD, Rule.ISSUER_METADATA, Rule.DOMAIN_DNS),
        _OUTSIDE,
    ),
    **dict.fromkeys(
        (Rule.FETCH_ADDRESS, Rule.FETCH_ABSENT, Rule.FETCH_FAILED, Rule.FETCHED_UNBOUND, Rule.FETCHED_UNSIGNED,
         Rule.FETCHED_ELSEWHERE),
        _FETCHED,
    ),
    **dict.fromkeys(
        (Rule.LOG_SILENT, Rule.LOG_CLOCK, Rule.LOG_ROLLED_BACK, Rule.LOG_CARD_MISSING, Rule.LOG_LEAF_UNKNOWN,
         Rule.LOG_PROMISE_BROKEN), _SEEN
    ),
    Rule.LOG_TILE: _BYTES,
}  # fmt: skip
"""Rules that no document triggers, and why."""


def generate() -> dict[str, bytes]:
    """Path → bytes of every file, as it should be."""
    for signing_input, signature in _kept_signatures():
        Actor.kept.setdefault(signing_input, []).append(signature)
    files: dict[str, bytes] = {}
    for topic, makers in TOPICS.items():
        for case in (case for make in makers for case in make()):
            name = f"vectors/{topic}/{case.name}.json"
            assert name not in files, name
            files[name] = _encoded(_document(topic, case))
    before = json.loads((ROOT / MANIFEST).read_bytes()) if (ROOT / MANIFEST).is_file() else {}
    return files | {
        MANIFEST: _encoded(manifest(files, before)),
        "vectors/schema.json": _encoded(SCHEMA),
        "vectors/manifest.schema.json": _encoded(MANIFEST_SCHEMA),
        PAGE: steps_page((ROOT / PAGE).read_text(encoding="utf-8"), files).encode(),
        RULES_PAGE: rules_page({name: parse_vector(data) for name, data in files.items()}, NOT_TRIGGERED).encode(),
    }


def _encoded(document: JsonObject) -> bytes:
    return json.dumps(document, indent=2, ensure_ascii=True).encode() + b"\n"


def _document(topic: str, case: Case) -> JsonObject:
    needs = set(case.needs)
    expectations: JsonObject = dict(case.expectations or {})
    kind = "accept" if topic == "holder" else case.kind
    if kind == "verify":
        expectations["key_binding"] = case.key_binding or UNBOUND
    if kind == "accept":
        expectations["holder_key"] = HOLDER.jwk
    for need, present in (
        ("card", kind in ("card", "card-file") or "complete" in expectations),
        ("yaml", kind == "card-file" and not case.document.startswith(("{", "\ufeff{"))),
        ("json-form", kind in ("verify", "accept") and case.document.startswith("{")),
        ("admission", "admission" in expectations),
        ("key-binding", case.key_binding is not None and case.key_binding != UNBOUND),
        ("status", "statuses" in expectations),
        ("limits", "limits" in expectations),
    ):
        needs |= {need} if present else set()
    document: JsonObject = {"format": FORMAT, "about": case.about, "standard": case.standard, "kind": kind}
    if needs:
        document["needs"] = list[JsonValue](sorted(needs))
    members = KINDS[kind]["properties"]
    assert isinstance(members, dict)
    if "now" in members:
        document["now"] = case.now
    if "trust" in members:
        document["trust"] = case.trust or trust()
    if expectations:
        document["expectations"] = expectations
    document |= {"document": case.document, "expect": case.expect.value if case.expect else ACCEPTED}
    if case.expect:
        document["where"] = case.where
    else:
        document |= {name: getattr(case, name) for name in ("claims", "result") if name in members}
    if "findings" in members:
        document["findings"] = list[JsonValue](case.findings)
    return document


def _kept_signatures() -> Iterator[tuple[bytes, bytes]]:
    """Read the signatures in compact vectors, by their signed text, for ML-DSA."""
    for file in sorted((ROOT / "vectors" / "algorithms").glob("*.json")):
        for part in str(json.loads(file.read_bytes())["document"]).split("~"):
            signing_input, _, signature = part.rpartition(".")
            if signing_input:
                yield signing_input.encode(), decode_base64url(signature, Where(Part.PRESENTATION))


def stale(files: Mapping[str, bytes]) -> list[str]:
    """List stale files, and vectors that nothing generates."""
    written = {
        file.relative_to(ROOT).as_posix() for topic in TOPICS for file in (ROOT / "vectors" / topic).glob("*.json")
    }
    differing = {
        name for name, data in files.items() if not (ROOT / name).is_file() or (ROOT / name).read_bytes() != data
    }
    return sorted(differing | written - files.keys())


def main() -> int:
    """Write everything, or with ``--check`` say what would change."""
    files = generate()
    changes = stale(files)
    if "--check" in sys.argv[1:]:
        print(*changes or ["nothing would change"], sep="\n")
        return 1 if changes else 0
    for name in changes:
        if name in files:
            (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / name).write_bytes(files[name])
        else:
            (ROOT / name).unlink()
    print(f"{sum(name.count('/') == 2 for name in files)} vectors, {len(changes)} files changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
