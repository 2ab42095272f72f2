"""SD-Card: agent cards as SD-JWTs (RFC 9901) whose parts can be shown selectively.

The public names. Data flows one way: ``parse_card`` → ``plan_disclosure`` → ``issue_sd_card`` → ``accept_sd_card`` →
``present`` → ``verify_presentation``. Anything may raise ``Refused``, with a rule and a place, or ``Misuse``.

A name's module is imported when the name is asked for: who verifies does not pay for reading card documents.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sdcard.admission import AdmissionPolicy, NothingRequired, Required, check_admission
    from sdcard.cards.a2a.signatures.creation import prepare_card_signature
    from sdcard.cards.a2a.signatures.verification import CardSigners, parse_card_signers
    from sdcard.cards.card import Card
    from sdcard.cards.conversion import Conversion
    from sdcard.cards.converting import convert_card
    from sdcard.cards.partial import PartialCard
    from sdcard.cards.reading import parse_card, parse_card_file
    from sdcard.claim_request import ClaimRequest
    from sdcard.disclosure.plan import DisclosurePlan, plan_disclosure
    from sdcard.disclosure.policy import DEFAULT_POLICY, DisclosurePolicy
    from sdcard.dpop.binding import binding_claim, check_unbound, parse_binding
    from sdcard.dpop.creation import create_dpop_proof
    from sdcard.dpop.verification import (
        DpopExpectations,
        DpopProof,
        WithoutToken,
        WithToken,
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
    )
    from sdcard.instants import FreshnessWindow, Instant
    from sdcard.issued import Acceptance
    from sdcard.issuer import Issuer, SdCard, issue_sd_card, prepare_batch, prepare_sd_card, rounded_validity
    from sdcard.jose.keys import PublicKey, parse_public_jwk
    from sdcard.jose.signer import InMemorySigner, Signer
    from sdcard.keybinding.challenge import Answering, Challenge, Unbound, Unsolicited, new_challenge
    from sdcard.limits import Limits
    from sdcard.parallel_verifier import verify_many
    from sdcard.paths import ClaimPath
    from sdcard.profile import AGENT_SD_JWT_02, SD_CARD, Profile
    from sdcard.rules import Rule
    from sdcard.sdjwt.serialization import to_flattened, to_general
    from sdcard.status.reference import Checked, CheckedAsync, Unchecked
    from sdcard.trust import TrustedIssuers, parse_trusted_issuers
    from sdcard.trust_list import issue_trust_list, verify_trust_list
    from sdcard.verification_cache import VerificationCache
    from sdcard.verifier import Expectations, VerifiedCard, verify_presentation, verify_presentation_async

__all__ = [
    "AGENT_SD_JWT_02",
    "DEFAULT_POLICY",
    "SD_CARD",
    "Acceptance",
    "AdmissionPolicy",
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
    "InMemorySigner",
    "Instant",
    "Issuer",
    "Limits",
    "Misuse",
    "NothingRequired",
    "PartialCard",
    "Profile",
    "PublicKey",
    "Refused",
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
    "issue_sd_card",
    "issue_trust_list",
    "new_challenge",
    "parse_binding",
    "parse_card",
    "parse_card_file",
    "parse_card_signers",
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
]

_HOMES = {
    "admission": "AdmissionPolicy NothingRequired Required check_admission",
    "cards.a2a.signatures.creation": "prepare_card_signature",
    "cards.a2a.signatures.verification": "CardSigners parse_card_signers",
    "cards.card": "Card",
    "cards.conversion": "Conversion",
    "cards.converting": "convert_card",
    "cards.partial": "PartialCard",
    "cards.reading": "parse_card parse_card_file",
    "claim_request": "ClaimRequest",
    "disclosure.plan": "DisclosurePlan plan_disclosure",
    "disclosure.policy": "DEFAULT_POLICY DisclosurePolicy",
    "dpop.binding": "binding_claim check_unbound parse_binding",
    "dpop.creation": "create_dpop_proof",
    "dpop.verification": "DpopExpectations DpopProof WithoutToken WithToken verify_dpop_proof verify_dpop_proof_async",
    "errors": "Finding Misuse Refused Where",
    "holder": "HeldSdCard RequestAnswered accept_sd_card disclose present "
    "select_all select_context select_paths select_requested",
    "instants": "FreshnessWindow Instant",
    "issued": "Acceptance",
    "issuer": "Issuer SdCard issue_sd_card prepare_batch prepare_sd_card rounded_validity",
    "jose.keys": "PublicKey parse_public_jwk",
    "jose.signer": "InMemorySigner Signer",
    "keybinding.challenge": "Answering Challenge Unbound Unsolicited new_challenge",
    "limits": "Limits",
    "parallel_verifier": "verify_many",
    "paths": "ClaimPath",
    "profile": "AGENT_SD_JWT_02 SD_CARD Profile",
    "rules": "Rule",
    "sdjwt.serialization": "to_flattened to_general",
    "status.reference": "Checked CheckedAsync Unchecked",
    "trust": "TrustedIssuers parse_trusted_issuers",
    "trust_list": "issue_trust_list verify_trust_list",
    "verification_cache": "VerificationCache",
    "verifier": "Expectations VerifiedCard verify_presentation verify_presentation_async",
}
"""Module → its names, as they stand above for type checkers; a test compares the two."""
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
