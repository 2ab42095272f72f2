"""Problem documents (RFC 9457) of the registry, agents and Verifiers."""

from sdcard.encoding import JsonObject
from sdcard.errors import AND_MORE, Refused

PROBLEM = "application/problem+json"
RETRY_AFTER = 5
"""Seconds, for answers of 503."""


def problem_document(refusal: Refused, status: int) -> JsonObject:
    """The refusal as it is sent.

    It names rules and places, never a value; ``rule`` and ``where`` are the first.
    """
    return {
        "type": f"urn:sd-card:rule:{refusal.rule}",
        "title": refusal.rule.sentence,
        "status": int(status),
        "detail": _detail(refusal),
        "rule": str(refusal.rule),
        "where": str(refusal.where),
        "findings": [
            {"rule": str(one.rule), "level": str(one.level), "where": str(one.where), "hint": one.hint}
            for one in refusal.findings
        ],
    }


def _detail(refusal: Refused) -> str:
    first = refusal.findings[0].hint or refusal.rule.sentence
    return (
        f"{first} {AND_MORE}" if len(refusal.findings) > 1 and refusal.findings[-1].hint.endswith(AND_MORE) else first
    )
