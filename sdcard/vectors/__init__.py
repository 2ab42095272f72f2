"""Test vectors: parse a vector, and run this library on it.

``docs/vectors.md`` documents the format. A text of another format is ``Misuse``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from sdcard.encoding import parse_json_object, same_json
from sdcard.errors import Finding, Misuse, Part, Refused, Where
from sdcard.lenient import lenient_document
from sdcard.rules import Rule
from sdcard.vectors import cards, tokens
from sdcard.vectors.given import Given
from sdcard.vectors.schema import ACCEPTED as ACCEPTED
from sdcard.vectors.schema import FORMAT as FORMAT
from sdcard.vectors.schema import KINDS as KINDS
from sdcard.vectors.schema import NEEDS as NEEDS

_DEPTH = 64
_MOST_SAID = 300
_RULES = {rule.value: rule for rule in Rule}
_RUNNERS: Mapping[str, Callable[[Given], Any]] = {
    "verify": cards.run_verify,
    "accept": cards.run_accept,
    "agent-challenge": cards.run_agent_challenge,
    "agent-proof": cards.run_agent_proof,
    "card": cards.run_card,
    "card-file": cards.run_card,
    "conversion": cards.run_conversion,
    "card-signing": cards.run_card_signing,
    "policy": cards.run_policy,
    "plan": cards.run_plan,
    "issue": cards.run_issue,
    "present": cards.run_present,
    "published": cards.run_published,
    "challenge": tokens.run_challenge,
    "authorization": tokens.run_authorization,
    "nonce": tokens.run_nonce,
    "status-list": tokens.run_status_list,
    "trust-list": tokens.run_trust_list,
    "dpop": tokens.run_dpop,
    "possession": tokens.run_possession,
    "access-token": tokens.run_access_token,
    "delegated-token": tokens.run_delegated_token,
    "audit-chain": tokens.run_audit_chain,
    "log-proof": tokens.run_log_proof,
    "log-submission": tokens.run_log_submission,
    "domain-control": cards.run_domain_control,
    "write": tokens.run_write,
}
"""Kind → function that returns the result of an accepted document, with its findings if the kind has any."""
_VALIDATORS = {kind: Draft202012Validator(schema) for kind, schema in KINDS.items()}


@dataclass(frozen=True, slots=True)
class Vector:
    """A test vector.

    Attributes:
        about: what is special about the document, in a few words.
        standard: the section, and the row of the rules, that decides.
        needs: features that a reader must have.
        rules: every rule that the outcome names.
        run: computes this library's outcome.
    """

    about: str
    standard: str
    needs: frozenset[str]
    expected: str
    rules: frozenset[Rule]
    run: Callable[[], str] = field(repr=False)


def parse_vector(data: bytes) -> Vector:
    """Parse a vector. It has the shape of its kind in ``vectors/schema.json``.

    ``run`` of the result raises ``Misuse`` for settings that are out of range.

    Raises:
        Misuse: with the fault, for a person.
    """
    try:
        vector: Given = parse_json_object(lenient_document(data), Where(Part.REQUEST), _DEPTH)
    except Refused as refusal:
        raise Misuse(f"not a strict JSON object: {refusal.rule.sentence} {refusal.findings[0].hint}".rstrip()) from None
    kind = vector.get("kind")
    if vector.get("format") != FORMAT or not isinstance(kind, str) or kind not in KINDS:
        raise Misuse(f"`format` is {FORMAT} and `kind` one of {', '.join(KINDS)}")
    error = best_match(_VALIDATORS[kind].iter_errors(vector))
    if error is not None:
        place = "/".join(map(str, error.absolute_path)) or "the vector"
        raise Misuse(f"{place}: {error.message[:_MOST_SAID]}")
    expect, findings = vector["expect"], vector.get("findings", [])
    rules = [*([] if expect == ACCEPTED else [expect]), *(finding.split(" ")[0] for finding in findings)]
    if unknown := [rule for rule in rules if rule not in _RULES]:
        raise Misuse(f"there is no rule {unknown[0]}")
    outcome = expect if expect == ACCEPTED else f"{expect} at {vector['where']}"
    return Vector(
        about=vector["about"],
        standard=vector["standard"],
        needs=frozenset(vector.get("needs", [])),
        expected="\n".join((outcome, *findings)),
        rules=frozenset(_RULES[rule] for rule in rules),
        run=lambda: _run(vector),
    )


def _run(vector: Given) -> str:
    """Run the library, and describe the outcome as the vector describes its own."""
    outcome = ACCEPTED
    findings: tuple[Finding, ...] = ()
    try:
        result = _RUNNERS[vector["kind"]](vector)
        if "findings" in vector:
            result, findings = result
        expected = next((vector[name] for name in ("claims", "result") if name in vector), None)
        if not same_json(result, vector["document"] if vector["kind"] == "write" else expected):
            outcome = "accepted, with another result"
    except Refused as refusal:
        outcome, findings = f"{refusal.rule} at {refusal.where}", refusal.findings
    listed = findings if "findings" in vector else ()
    return "\n".join((outcome, *(f"{one.rule} at {one.where} ({one.level})" for one in listed)))
