"""The work, done by SD-Card, with every rule in force."""

import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache

from cryptography.hazmat.primitives.asymmetric import ec

from benchmarks.work import AUDIENCE, CARD, ISSUER, NONCE, SELECTIVE, SHOWN, Work
from sdcard.acceptance import Acceptance
from sdcard.cards.a2a.v1_0 import FORMAT
from sdcard.cards.model import Card
from sdcard.disclosable import Disclosable, DisclosableArray, DisclosableObject
from sdcard.holder import HeldSdCard, accept_sd_card, select_paths
from sdcard.holder import present as present_sd_card
from sdcard.io.system import SystemSalts
from sdcard.issuer import Issuer, issue_sd_card, rounded_validity
from sdcard.jose.jws import InMemorySigner
from sdcard.key_binding import Answering, Challenge, ConsumedByCaller
from sdcard.parallel_verifier import verify_many
from sdcard.paths import path
from sdcard.policy.model import DEFAULT_POLICY
from sdcard.policy.plan import DisclosurePlan, plan_disclosure
from sdcard.status_list import Unchecked
from sdcard.trust import TrustedIssuers
from sdcard.verification_cache import VerificationCache
from sdcard.verifier import Expectations, VerifiedCard, verify_presentation

NOW = time.time()
VALIDITY = rounded_validity(NOW)
SALTS = SystemSalts()
POOL = ThreadPoolExecutor(8)
CHALLENGE = Challenge(NONCE, AUDIENCE)
PATHS = tuple(path(name) for name in SHOWN)


@cache
def _plan() -> DisclosurePlan:
    """Plan whole claims, as the peer discloses them.

    It is the A2A format without units inside claims.
    """
    whole = replace(FORMAT, units=(), together=())
    plan = plan_disclosure(Card(whole, json.loads(CARD)), DEFAULT_POLICY, "full")
    assert len(SELECTIVE) == 7
    return plan


@cache
def _parties(work: Work) -> tuple[Issuer, InMemorySigner, InMemorySigner, Acceptance, Expectations]:
    signer, holder = InMemorySigner(work.issuer_key), InMemorySigner(work.holder_key)
    issuers = TrustedIssuers.of(ISSUER, signer.public_key)
    expectations = Expectations(
        issuers=issuers, key_binding=Answering(CHALLENGE, ConsumedByCaller()), status=Unchecked("benchmark")
    )
    return Issuer(ISSUER, signer.public_key), signer, holder, Acceptance(issuers=issuers), expectations


def issue(work: Work) -> str:
    """Plan at hand → SD-Card as text."""
    issuer, signer, holder, _, _ = _parties(work)
    key = holder.public_key
    return str(issue_sd_card(issuer, _plan(), signer, agent_id="a", holder_key=key, validity=VALIDITY, salts=SALTS))


def issue_first(work: Work) -> str:
    """The same, of a plan of which no SD-Card was issued."""
    forget_layout(_plan())
    return issue(work)


def accept(work: Work, text: str, cache: VerificationCache | None = None) -> HeldSdCard:
    """Parse and check an SD-Card as its Holder."""
    _, _, holder, acceptance, _ = _parties(work)
    return accept_sd_card(text, acceptance, holder.public_key, NOW, cache)


def present(work: Work, held: HeldSdCard, cache: VerificationCache | None = None) -> str:
    """Present three claims of seven, with a KB-JWT, as text."""
    _, _, holder, _, _ = _parties(work)
    return str(present_sd_card(held, select_paths(held, PATHS), CHALLENGE, holder, NOW, cache))


def verify(work: Work, presentation: str, cache: VerificationCache | None = None) -> VerifiedCard:
    """Verify a presentation."""
    return verify_presentation(presentation, _parties(work)[4], NOW, cache)


def presentations(work: Work, count: int) -> list[str]:
    """Make presentations, each of an SD-Card and a Holder of its own."""
    others = [replace(work, holder_key=ec.generate_private_key(ec.SECP256R1())) for _ in range(count)]
    return [present(other, accept(other, issue(other))) for other in others]


def verify_batch(
    work: Work, texts: Sequence[str], threads: int, cache: VerificationCache | None = None
) -> list[VerifiedCard]:
    """Verify presentations in several threads."""
    expectations = _parties(work)[4]
    cards = verify_many([(text, expectations) for text in texts], NOW, POOL, threads, cache)
    return [card for card in cards if isinstance(card, VerifiedCard)]


def forget_layout(plan: DisclosurePlan) -> None:
    """Make the plan one of which no SD-Card was issued."""
    plan.templates.clear()
    waiting: list[Disclosable] = [plan.root] if plan.root.layout else []  # which the kernel does not need
    for part in waiting:  # which grows
        if isinstance(part, DisclosableObject | DisclosableArray):
            part.layout.clear()
            inside = part.members.values() if isinstance(part, DisclosableObject) else part.elements
            waiting += [inner for _, inner in inside]
