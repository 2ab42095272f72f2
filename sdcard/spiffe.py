"""SPIFFE IDs of agents: the member ``spiffe_id`` of cards (SD-Card 7.2).

A card of any format can have the member. An Issuer that signs it vouches for it: our registry signs only an id that the
operator permits to the owner's token (decision 0051). No SVID is checked.

- An id has a trust domain and a path, and no other characters than those of SPIFFE-ID 2. So there is no port, user,
  query, fragment or escape, and each id has one spelling.
- An *entry* permits or requires ids. It is one id, or a text with a last slash, which stands for the ids beneath it.
"""

import re
from collections.abc import Iterator, Sequence
from typing import TypeGuard

from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Finding, Misuse, Part, Refused, Where
from sdcard.rules import Rule

SPIFFE_ID = "spiffe_id"
_WHERE = Where(Part.CARD, (SPIFFE_ID,))
_ROOT = r"(?=.{1,2047}[^/]?\Z)spiffe://[a-z0-9._-]{1,255}"
_SEGMENT = r"(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._-]+"
_ID = re.compile(rf"{_ROOT}(?:/{_SEGMENT})+", re.ASCII)
ENTRY = re.compile(rf"{_ROOT}(?:/{_SEGMENT})*/(?:{_SEGMENT})?", re.ASCII)
"""``spiffe://example.org/ns/prod/planner``, or everything beneath ``spiffe://example.org/ns/``."""


def is_spiffe_id(value: JsonValue) -> TypeGuard[str]:
    """Narrow a value to the SPIFFE ID of a workload: it has a path."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def check_entries(entries: object) -> None:
    """Require a tuple of entries.

    Raises:
        Misuse: for anything else.
    """
    if not isinstance(entries, tuple) or not all(map(_is_entry, entries)):
        form = "such as spiffe://example.org/planner; a last slash stands for all ids beneath"
        raise Misuse(f"SPIFFE IDs are a tuple of texts {form}")


def _is_entry(entry: object) -> bool:
    return isinstance(entry, str) and ENTRY.fullmatch(entry) is not None


def is_covered(value: JsonValue, entries: Sequence[str]) -> bool:
    """Whether a value is a SPIFFE ID that an entry names."""
    if not is_spiffe_id(value):
        return False
    return any(value.startswith(entry) if entry.endswith("/") else value == entry for entry in entries)


def malformed_id(value: JsonValue) -> Iterator[Finding]:
    """Find a member ``spiffe_id`` of a card that is none."""
    if not is_spiffe_id(value):
        yield Finding(
            Rule.CARD_MEMBER_VALUE, _WHERE, "A SPIFFE ID is spiffe://TRUST-DOMAIN/PATH, at most 2,048 characters."
        )


def missing_id(members: JsonObject, required: Sequence[str]) -> list[Finding]:
    """Find that a card shows none of the required SPIFFE IDs.

    Without entries, none is required. The finding does not list them: they name workloads of the Verifier.
    """
    is_shown = not required or is_covered(members.get(SPIFFE_ID), required)
    return [] if is_shown else [Finding(Rule.POLICY_SPIFFE_ID, _WHERE)]


def check_spiffe_id(members: JsonObject, required: tuple[str, ...]) -> None:
    """Require that a verified card shows a SPIFFE ID of these entries.

    Args:
        members: of the ``VerifiedCard``.
        required: entries; one of them must name the id. Without entries, none is required.

    Raises:
        Refused: ``policy.spiffe-id-missing``.
        Misuse: for entries that no id can match.
    """
    check_entries(required)
    if missing := missing_id(members, required):
        raise Refused.because(missing)
