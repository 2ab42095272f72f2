"""The claim ``issuer_checks``: what an Issuer checked before it signed.

The claim lists codes, and never a host, a name or a date. It is always in the clear, and equal in all SD-Cards of a
Batch, so it tells no context (decision 0045).
"""

import re
from collections.abc import Collection
from enum import StrEnum
from typing import TypeGuard

from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Finding, Misuse, Part, Refused, Where
from sdcard.profile import ISSUER_CHECKS
from sdcard.rules import Rule

MAX_CHECKS = 16
_WHERE = Where(Part.ISSUER_JWT, (ISSUER_CHECKS,))
_CODE = re.compile(r"[a-z][a-z0-9-]{0,31}")


class IssuerCheck(StrEnum):
    """Codes of our registry. Other Issuers may have others."""

    POSSESSION = "possession"
    """The agent proved possession of the Holder keys at their registration."""
    DOMAIN = "domain"
    """The agent controls the hosts of its endpoints and its provider."""
    APPROVED = "approved"
    """A person who is not the owner approved this card."""


def codes_of(*, possession: bool, domain: bool, approved: bool) -> tuple[IssuerCheck, ...]:
    """Return the codes of what our registry checked."""
    done = {IssuerCheck.POSSESSION: possession, IssuerCheck.DOMAIN: domain, IssuerCheck.APPROVED: approved}
    return tuple([check for check, is_done in done.items() if is_done])


def are_checks(codes: object) -> TypeGuard[list[str]]:
    """Narrow a value to a list of codes, each once.

    A code has 1 to 32 lower-case letters, digits and ``-``, of which the first is a letter.
    """
    if not isinstance(codes, list) or len(codes) > MAX_CHECKS:
        return False
    return all(isinstance(code, str) and _CODE.fullmatch(code) for code in codes) and len(set(codes)) == len(codes)


def check_codes(codes: object) -> None:
    """Require a tuple of codes, each once.

    Raises:
        Misuse: for anything else.
    """
    if not isinstance(codes, tuple) or not are_checks([*codes]):
        raise Misuse(f"checks are a tuple of at most {MAX_CHECKS} codes such as possession and domain, each once")


def issuer_checks_claim(codes: tuple[str, ...]) -> list[JsonValue]:
    """Return the claim's value: the codes, sorted.

    Raises:
        Misuse: as ``check_codes``.
    """
    check_codes(codes)
    return list[JsonValue](sorted(map(str, codes)))


def read_issuer_checks(claims: JsonObject) -> tuple[str, ...] | None:
    """Read the codes, also those of other registries; None without the claim.

    Raises:
        Refused: ``claim.type`` or ``claim.value``, at the claim.
    """
    if ISSUER_CHECKS not in claims:
        return None
    codes = claims[ISSUER_CHECKS]
    if not isinstance(codes, list) or not all(isinstance(code, str) for code in codes):
        raise Refused(Rule.CLAIM_TYPE, _WHERE, "The claim must be a list of strings.")
    if not are_checks(codes):
        raise Refused(Rule.CLAIM_VALUE, _WHERE, f"It has at most {MAX_CHECKS} codes such as domain, each once.")
    return tuple(codes)


def missing_checks(confirmed: Collection[str] | None, required: Collection[str]) -> list[Finding]:
    """List the required checks that an Issuer does not confirm, by code.

    An Issuer without the claim confirms nothing.
    """
    missing = sorted(set(required).difference(confirmed or ()))
    return [Finding(Rule.POLICY_CHECK, _WHERE, f"Required: {code}.") for code in missing]
