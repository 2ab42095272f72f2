"""SD-Card: agent cards as selectively disclosable SD-JWTs (RFC 9901).

These are the public names. Data flows one way: ``parse_card`` → ``plan_disclosure`` → ``issue_sd_card`` →
``accept_sd_card`` → ``present`` → ``verify_presentation``. Every function may raise ``Refused`` or ``Misuse``.
``Verifier``, ``Agent`` and ``Registry`` are the front for the common case: they choose clock, salts, records and cache.

A module is imported when one of its names is first used, so that a Verifier does not load card parsers.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sdcard.acceptance import Acceptance
    from sdcard.admission import AdmissionPolicy, NothingRequired, Required, check_admission
    from sdcard.cards.a2a.signatures import CardSigners, parse_card_signers, prepare_card_signature
    from sdcard.cards.conversion import Conversion
    from sdcard.cards.converting import convert_card
    from sdcard.cards.detect import parse_card, parse_card_file
    from sdcard.cards.model import Card
    from sdcard.cards.partial import PartialCard
    from sdcard.claim_request import ClaimRequest
    from sdcard.dpop import (
        DpopExpectations,
        DpopProof,
        WithoutToken,
        WithToken,
        binding_claim,
        check_unbound,
        create_dpop_proof,
        parse_binding,
        verify_dpop_proof,
        verify_dpop_proof_async,
    )
    from sdcard.errors import Finding, Misuse, Refused, Where
    from sdcard.holder import (
        HeldSdCard,
        RequestAnswered,
        accept_sd_card,
        disclose,
        present,
        select_all,
        select_context,
        select_paths,
        select_requested,
        with_log_proof,
    )
    from sdcard.instants import FreshnessWindow, Instant
    from sdcard.io.agent import Agent
    from sdcard.io.registry_client import Registry
    from sdcard.io.verifier import Verifier
    from sdcard.issuer import (
        Issuer,
        SdCard,
        issue_batch,
        issue_sd_card,
        prepare_batch,
        prepare_sd_card,
        rounded_validity,
    )
    from sdcard.jose.jws import InMemorySigner, Signer
    from sdcard.jose.keys import PublicKey, parse_public_jwk
    from sdcard.key_binding import Answering, Challenge, Unbound, Unsolicited, new_challenge
    from sdcard.limits import Limits
    from sdcard.parallel_verifier import verify_many
    from sdcard.paths import ClaimPath
    from sdcard.policy.model import DEFAULT_POLICY, DisclosurePolicy
    from sdcard.policy.plan import DisclosurePlan, plan_disclosure
    from sdcard.profile import AGENT_SD_JWT_02, SD_CARD, Profile
    from sdcard.rules import Rule
    from sdcard.sdjwt.model import to_flattened, to_general
    from sdcard.status_list import Checked, CheckedAsync, Unchecked
    from sdcard.transparency.policy import LogPolicy, parse_log_policy
    from sdcard.transparency.proofs import Inclusion, InLog, LogNotAsked
    from sdcard.trust import TrustedIssuers, issue_trust_list, parse_trusted_issuers, verify_trust_list
    from sdcard.verification_cache import VerificationCache
    from sdcard.verifier import Expectations, VerifiedCard, verify_presentation, verify_presentation_async

__all__ = [
    "AGENT_SD_JWT_02",
    "DEFAULT_POLICY",
    "SD_CARD",
    "Acceptance",
    "AdmissionPolicy",
    "Agent",
    "Answering",
    "Card",
    "CardSigners",
    "Challenge",
    "Checked",
    "CheckedAsync",
    "ClaimPath",
    "ClaimRequest",
    "Conversion",
    "DisclosurePlan",
    "DisclosurePolicy",
    "DpopExpectations",
    "DpopProof",
    "Expectations",
    "Finding",
    "FreshnessWindow",
    "HeldSdCard",
    "InLog",
    "InMemorySigner",
    "Inclusion",
    "Instant",
    "Issuer",
    "Limits",
    "LogNotAsked",
    "LogPolicy",
    "Misuse",
    "NothingRequired",
    "PartialCard",
    "Profile",
    "PublicKey",
    "Refused",
    "Registry",
    "RequestAnswered",
    "Required",
    "Rule",
    "SdCard",
    "Signer",
    "TrustedIssuers",
    "Unbound",
    "Unchecked",
    "Unsolicited",
    "VerificationCache",
    "VerifiedCard",
    "Verifier",
    "Where",
    "WithToken",
    "WithoutToken",
    "accept_sd_card",
    "binding_claim",
    "check_admission",
    "check_unbound",
    "convert_card",
    "create_dpop_proof",
    "disclose",
    "issue_batch",
    "issue_sd_card",
    "issue_trust_list",
    "new_challenge",
    "parse_binding",
    "parse_card",
    "parse_card_file",
    "parse_card_signers",
    "parse_log_policy",
    "parse_public_jwk",
    "parse_trusted_issuers",
    "plan_disclosure",
    "prepare_batch",
    "prepare_card_signature",
    "prepare_sd_card",
    "present",
    "rounded_validity",
    "select_all",
    "select_context",
    "select_paths",
    "select_requested",
    "to_flattened",
    "to_general",
    "verify_dpop_proof",
    "verify_dpop_proof_async",
    "verify_many",
    "verify_presentation",
    "verify_presentation_async",
    "verify_trust_list",
    "with_log_proof",
]

_HOMES = {
    "acceptance": "Acceptance",
    "admission": "AdmissionPolicy NothingRequired Required check_admission",
    "cards.a2a.signatures": "prepare_card_signature CardSigners parse_card_signers",
    "cards.conversion": "Conversion",
    "cards.converting": "convert_card",
    "cards.detect": "parse_card parse_card_file",
    "cards.model": "Card",
    "cards.partial": "PartialCard",
    "claim_request": "ClaimRequest",
    "dpop": "binding_claim check_unbound parse_binding create_dpop_proof DpopExpectations DpopProof WithoutToken "
    "WithToken verify_dpop_proof verify_dpop_proof_async",
    "errors": "Finding Misuse Refused Where",
    "holder": "HeldSdCard RequestAnswered accept_sd_card disclose present select_all select_context select_paths "
    "select_requested with_log_proof",
    "instants": "FreshnessWindow Instant",
    "io.agent": "Agent",
    "io.registry_client": "Registry",
    "io.verifier": "Verifier",
    "issuer": "Issuer SdCard issue_batch issue_sd_card prepare_batch prepare_sd_card rounded_validity",
    "jose.jws": "InMemorySigner Signer",
    "jose.keys": "PublicKey parse_public_jwk",
    "key_binding": "Answering Challenge Unbound Unsolicited new_challenge",
    "limits": "Limits",
    "parallel_verifier": "verify_many",
    "paths": "ClaimPath",
    "policy.model": "DEFAULT_POLICY DisclosurePolicy",
    "policy.plan": "DisclosurePlan plan_disclosure",
    "profile": "AGENT_SD_JWT_02 SD_CARD Profile",
    "rules": "Rule",
    "sdjwt.model": "to_flattened to_general",
    "status_list": "Checked CheckedAsync Unchecked",
    "transparency.policy": "LogPolicy parse_log_policy",
    "transparency.proofs": "InLog Inclusion LogNotAsked",
    "trust": "TrustedIssuers parse_trusted_issuers issue_trust_list verify_trust_list",
    "verification_cache": "VerificationCache",
    "verifier": "Expectations VerifiedCard verify_presentation verify_presentation_async",
}
"""Module → its names. A test compares them with the imports above."""
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
