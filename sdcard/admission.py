"""``AdmissionPolicy``: the verified cards that a route admits.

It decides by Issuer, card format and shown claims. It never decides by disclosure context: no claim contains the
context, whose name would reveal partners. It only requires claims to be shown, so hiding a claim never helps a caller.
"""

from dataclasses import dataclass
from typing import TypeAlias

from sdcard.cards.detect import KNOWN_FORMATS
from sdcard.cards.model import Fact
from sdcard.claim_request import ClaimRequest
from sdcard.errors import Finding, Misuse, Part, Refused, Where
from sdcard.issuer_checks import check_codes, missing_checks
from sdcard.paths import ClaimPath, did_you_mean, value_at
from sdcard.requesting import is_shown
from sdcard.rules import Rule
from sdcard.spiffe import SPIFFE_ID, check_entries, missing_id
from sdcard.transparency.proofs import NOT_ASKED, InLog, LogDecision, LogNotAsked
from sdcard.trust import TrustedIssuers
from sdcard.verifier import VerifiedCard


@dataclass(frozen=True, slots=True)
class Required:
    """Claims, skills and a SPIFFE ID that a card must show, and checks of its Issuer.

    At least one of the three must be given. A card must meet all that are given.

    Attributes:
        claims: each must show something, see ``is_shown``.
        skills: ids of skills that must be shown.
        checks: codes of checks that the Issuer must confirm, such as ``domain``.
        spiffe_ids: entries, one of which must name the card's ``spiffe_id``; see ``sdcard.spiffe``.
    """

    claims: ClaimRequest
    skills: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    spiffe_ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.skills, tuple) or not all(isinstance(one, str) and one for one in self.skills):
            raise Misuse("required skills are a tuple of ids")
        check_codes(self.checks)
        check_entries(self.spiffe_ids)
        if not (self.claims.entries or self.skills or self.checks or self.spiffe_ids):
            raise Misuse("nothing is required; if that is meant, say NothingRequired and why")


@dataclass(frozen=True, slots=True)
class NothingRequired:
    """Admit every Holder of a trusted Issuer; ``reason`` documents the choice."""

    reason: str

    def __post_init__(self) -> None:
        if not isinstance(self.reason, str) or not self.reason.strip():
            raise Misuse("say why nothing is required")


Requirement: TypeAlias = Required | NothingRequired


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionPolicy:
    """Demands of a route. Only ``also_requested`` and ``log`` have defaults.

    Attributes:
        formats: accepted values of ``card_format``, such as ``a2a/1.0``.
        requirement: ``Required`` or ``NothingRequired``.
        also_requested: optional claims that the route asks for.
        log: ``InLog`` if the SD-Card must be in a transparency log; by default no log is asked for.
    """

    issuers: TrustedIssuers
    formats: frozenset[str]
    requirement: Requirement
    also_requested: ClaimRequest = ClaimRequest()
    log: LogDecision = NOT_ASKED

    def __post_init__(self) -> None:
        if not isinstance(self.formats, frozenset) or not self.formats or not self.formats <= set(KNOWN_FORMATS):
            raise Misuse(f"formats are a frozenset of some of {', '.join(KNOWN_FORMATS)}")
        if not isinstance(self.requirement, Required | NothingRequired):
            raise Misuse("decide what is required: Required or NothingRequired")
        if not isinstance(self.issuers, TrustedIssuers):
            raise Misuse("issuers are TrustedIssuers")
        if not isinstance(self.log, InLog | LogNotAsked):
            raise Misuse("decide about the transparency log: InLog or LogNotAsked")
        self._check_names()

    @property
    def request(self) -> ClaimRequest:
        """Build the request to a Holder: required claims, skills, and optional claims."""
        entries = list(self.requirement.claims.entries) if isinstance(self.requirement, Required) else []
        if isinstance(self.requirement, Required) and self.requirement.skills:
            entries += [place for name in sorted(self.formats) for place in KNOWN_FORMATS[name].facts[Fact.SKILL]]
        if isinstance(self.requirement, Required) and self.requirement.spiffe_ids:
            entries.append(ClaimPath((SPIFFE_ID,)))
        return ClaimRequest(tuple(dict.fromkeys([*entries, *self.also_requested.entries])))

    def _check_names(self) -> None:
        """Refuse a misspelt name: no caller could ever show such a claim.

        A card may have members that its format lacks, so any other name can be asked for.
        """
        formats = [KNOWN_FORMATS[name] for name in self.formats]
        known = {name for one in formats for name in (*one.members, *one.groups)}
        for entry in self.request.entries:
            name = str(entry.segments[0])
            near = did_you_mean(name, known) if name not in known else ""
            if near:
                raise Misuse(f"{name} is no claim of {', '.join(sorted(self.formats))}. {near}")


def check_admission(card: VerifiedCard, policy: AdmissionPolicy) -> None:
    """Refuse a verified card that the policy does not admit, with all reasons.

    Raises:
        Refused: ``issuer.unknown``, ``policy.format``, ``policy.claim-missing``, ``policy.skill-missing``,
            ``policy.spiffe-id-missing`` and ``policy.check-missing``, each at its place. A withheld and an absent claim
            cannot be told apart.
    """
    findings: list[Finding] = []
    if card.issuer not in policy.issuers.keys:
        findings.append(Finding(Rule.ISSUER_UNKNOWN, Where(Part.ISSUER_JWT, ("iss",))))
    if card.card_format not in policy.formats:
        formats = f"Admitted: {', '.join(sorted(policy.formats))}."
        findings.append(Finding(Rule.POLICY_FORMAT, Where(Part.ISSUER_JWT, ("card_format",)), formats))
    if isinstance(policy.requirement, Required):
        findings += _missing(card, policy.requirement)
    if findings:
        raise Refused.because(findings)


def _missing(card: VerifiedCard, required: Required) -> list[Finding]:
    claims = [
        Finding(Rule.POLICY_CLAIM, Where(Part.CARD, _place(entry)))
        for entry in required.claims.entries
        if not is_shown(card, entry)
    ]
    card_format = KNOWN_FORMATS.get(card.card_format or "")
    paths = card_format.facts[Fact.SKILL] if card_format else ()
    shown = [value_at(card.members, place) for path in paths for place in path.find(card.members)]
    where = Where(Part.CARD, _place(paths[0]) if paths else ())
    skills = [
        Finding(Rule.POLICY_SKILL, where, f"Required: {skill}.") for skill in required.skills if skill not in shown
    ]
    spiffe_id = missing_id(card.members, required.spiffe_ids)
    return claims + skills + spiffe_id + missing_checks(card.issuer_checks, required.checks)


def _place(path: ClaimPath) -> tuple[str | int, ...]:
    return tuple("*" if segment is None else segment for segment in path.segments)
