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
from sdcard.vectors.schema import MANIFEST_SCHEMA, SCHEMA
from vectors.actors import HOLDER, Actor, trust
from vectors.case import Case
from vectors.cases import TOPICS, UNBOUND
from vectors.manifest import MANIFEST, manifest
from vectors.pages import ROOT, rules_page
from vectors.steps import PAGE, steps_page

RULES_PAGE = "docs/rules.md"

_ASKING = "It answers a caller's request; the document that was given plays no part in it."
_POLICY = "It is about an operator's policy, and a vector is about a document that travels."
_REGISTRY = "A registry says it about a request or about its own records."
NOT_TRIGGERED = {
    Rule.STATUS_LIST_MALFORMED: "It is about a status list, which no presentation carries.",
    Rule.STATUS_LIST_OTHER: "It is about a status list, which no presentation carries.",
    Rule.LIMIT_CONTAINERS: "It takes 100 kB of brackets.",
    Rule.KB_RECORD: "A Verifier's own record cannot be reached.",
    **dict.fromkeys(
        (Rule.KB_CHALLENGE_EXPIRED, Rule.KB_OTHER_REQUEST, Rule.PRESENTATION_MISSING, Rule.CHALLENGE_AUDIENCE,
         Rule.CHALLENGE_INTERACTION),
        "It is about challenges and presentations in HTTP headers.",
    ),
    **dict.fromkeys(
        (Rule.POLICY_FORMAT, Rule.POLICY_CLAIM, Rule.POLICY_SKILL),
        "It is about what a route demands of a card that was verified.",
    ),
    Rule.SIGNER_UNAVAILABLE: "It is about a registry whose key is out of reach.",
    Rule.KEY_REPEATED: "It is about two keys of one registration.",
    Rule.KEY_BOUND_ELSEWHERE: "It is about the records of a registry.",
    **dict.fromkeys((Rule.CARD_LOST, Rule.CARD_UNCONVERTIBLE), "It is about a conversion, which is no verification."),
    Rule.CARD_INCOMPLETE: "It is about handing over what was verified.",
    **dict.fromkeys(
        (Rule.CONTEXT_UNKNOWN, Rule.PATH_MALFORMED, Rule.DISCLOSE_UNKNOWN, Rule.DISCLOSE_BEYOND_CEILING,
         Rule.DISCLOSE_EMPTY, Rule.SELECTION_COARSE, Rule.SELECTION, Rule.CARD_UNSIGNABLE),
        _ASKING,
    ),
    **dict.fromkeys(
        (Rule.POLICY_TOML, Rule.POLICY_MALFORMED, Rule.POLICY_AMBIGUOUS, Rule.POLICY_ALWAYS, Rule.POLICY_CONTAINMENT),
        _POLICY,
    ),
    **dict.fromkeys((Rule.AGREEMENT_UNEXPECTED, Rule.AGREEMENT_NONE), _ASKING),
    **dict.fromkeys(
        (Rule.CONTEXT_REPEATED, Rule.REQUEST, Rule.REQUEST_TARGET, Rule.REQUEST_METHOD, Rule.REQUEST_MEDIA_TYPE,
         Rule.REQUEST_TIMEOUT, Rule.AGENT_ID, Rule.AGENT_OWNED, Rule.CARD_DISAGREES, Rule.TOKEN_MISSING,
         Rule.TOKEN_INVALID, Rule.TOKEN_SCOPE, Rule.TOKEN_LIMIT, Rule.STORE_UNAVAILABLE, Rule.STORE_SLOW,
         Rule.REGISTRY_FAILED, Rule.AGENT_UNKNOWN, Rule.STATUS_LIST_TIME, Rule.CURSOR, Rule.AGENT_VERSION),
        _REGISTRY,
    ),
    **dict.fromkeys(
        (Rule.AGENT_NOT_RENEWABLE, Rule.PROOF_MISSING, Rule.PROOF_STALE, Rule.PROOF_FROM_FUTURE, Rule.PROOF_AUDIENCE,
         Rule.PROOF_AGENT, Rule.PROOF_NONCE, Rule.IDEMPOTENCY_REUSED, Rule.IDEMPOTENCY_UNREADABLE,
         Rule.TOKEN_KEYS, Rule.RATE_EXCEEDED, Rule.NOT_READY, Rule.CONSOLE_FORGED),
        _REGISTRY,
    ),
    **dict.fromkeys((Rule.CARD_LOST, Rule.CARD_UNCONVERTIBLE), "It is about a conversion, which is no verification."),
    **dict.fromkeys(
        (Rule.AUDIT_RECORD, Rule.AUDIT_CHANGED, Rule.AUDIT_MISSING, Rule.AUDIT_ORDER, Rule.AUDIT_LINK, Rule.AUDIT_HEAD,
         Rule.AUDIT_CHECKPOINT, Rule.AUDIT_ROLLED_BACK, Rule.AUDIT_STATE_CHANGED, Rule.AUDIT_STATE_MISSING,
         Rule.AUDIT_STATE_ADDED),
        "It is about the audit chain of a registry.",
    ),
    Rule.REQUEST_NOT_ACCEPTABLE: "An agent says it of a request for its card.",
    **dict.fromkeys(
        (Rule.DPOP_MISSING, Rule.DPOP_REPEATED, Rule.DPOP_METHOD, Rule.DPOP_URL, Rule.DPOP_STALE,
         Rule.DPOP_FROM_FUTURE, Rule.DPOP_TOKEN_HASH, Rule.DPOP_OTHER_KEY, Rule.DPOP_UNBOUND, Rule.DPOP_REPLAYED,
         Rule.DPOP_RECORD),
        "It is about a DPoP proof, which no presentation carries.",
    ),
    **dict.fromkeys(
        (rule for rule in Rule if rule.startswith(("delegation.", "approval."))),
        "It is about handing authority on, in which no card plays a part.",
    ),
    **dict.fromkeys(
        (Rule.AGENTCARD_FETCHED, Rule.FETCHED_UNBOUND, Rule.FETCHED_UNSIGNED, Rule.FETCHED_ELSEWHERE),
        "It is about the address that a card came from.",
    ),
    **dict.fromkeys((Rule.FETCH_ADDRESS, Rule.FETCH_ABSENT, Rule.FETCH_FAILED), "It is about an address."),
    Rule.ISSUER_METADATA: "It is about what an Issuer publishes, and whether it can be had.",
    Rule.AGENT_PROOF_MISSING: "There is no document.",
    Rule.TRUST_SIGNER: "It is about a trust list, and the vectors have trust documents.",
}  # fmt: skip
"""Rules that no presentation, SD-Card, trust document or card triggers, and why."""


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
        ("card", kind.startswith("card")),
        ("yaml", kind == "card-file" and not case.document.startswith(("{", "\ufeff{"))),
        ("json-form", not kind.startswith("card") and case.document.startswith("{")),
        ("key-binding", case.key_binding is not None and case.key_binding != UNBOUND),
        ("status", "statuses" in expectations),
        ("limits", "limits" in expectations),
    ):
        needs |= {need} if present else set()
    document: JsonObject = {"format": FORMAT, "about": case.about, "standard": case.standard, "kind": kind}
    if needs:
        document["needs"] = list[JsonValue](sorted(needs))
    if not kind.startswith("card"):
        document |= {"now": case.now, "trust": case.trust or trust()}
    if expectations:
        document["expectations"] = expectations
    document |= {"document": case.document, "expect": case.expect.value if case.expect else ACCEPTED}
    if case.expect:
        document["where"] = case.where
    elif not kind.startswith("card"):
        document["claims"] = case.claims
    if kind.startswith("card"):
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
