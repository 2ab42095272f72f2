"""Compare the native kernel with Python on public cards: issue, accept, present and verify in every context."""

from collections import Counter
from collections.abc import Iterator

from sdcard import DEFAULT_POLICY, Acceptance, Card, Unchecked, accept_sd_card, present, select_all, verify_presentation
from sdcard.cards.detect import examine_card
from sdcard.holder import HeldSdCard, Selection
from sdcard.issuer import Issuer, PreparedSdCard, prepare_sd_card, rounded_validity
from sdcard.key_binding import Answering, Challenge, ConsumedByCaller
from sdcard.limits import DEFAULT_LIMITS
from sdcard.policy.plan import plan_disclosure
from sdcard.trust import TrustedIssuers
from sdcard.verifier import Expectations
from tests.kernel.comparing import same, without_kernel
from tests.kernel.reading import compare_reading
from tests.shared import shared_dir
from vectors.actors import AUDIENCE, HOLDER, ISSUER, ISSUER_ID, NONCE, NOW, FixedSalts

TRUST = TrustedIssuers.of(ISSUER_ID, ISSUER.public_key)
CHALLENGE = Challenge(NONCE, AUDIENCE)
ACCEPTANCE = Acceptance(issuers=TRUST, published_keys=frozenset())
EXPECTED = Expectations(
    issuers=TRUST,
    key_binding=Answering(CHALLENGE, ConsumedByCaller()),
    status=Unchecked("comparing"),
    published_keys=frozenset(),
)


def public_cards() -> Iterator[tuple[str, Card]]:
    """Public cards that are valid, by file."""
    for file in sorted((shared_dir() / "cards" / "wild").glob("*.json")):
        card = examine_card(file.read_bytes()).card
        if card is not None:
            yield file.name, card


def prepared(card: Card, context: str) -> tuple[PreparedSdCard, bool]:
    """Two SD-Cards of one plan: the second one, and whether the kernel wrote it."""
    plan = plan_disclosure(card, DEFAULT_POLICY, context)
    salts, issuer = FixedSalts(context), Issuer(ISSUER_ID, ISSUER.public_key)
    for _ in range(2):
        made = prepare_sd_card(
            issuer, plan, agent_id="a", holder_key=HOLDER.public_key, validity=rounded_validity(NOW), salts=salts
        )
    return made, plan.templates[0] is not None


def selections(held: HeldSdCard) -> Iterator[Selection]:
    """Everything, nothing, and what has no Disclosure above it."""
    yield select_all(held)
    yield Selection(())
    yield Selection(tuple(one.disclosure.encoded for one in held.issued.verified.processed.revealed if not one.parent))


def compare_card(card: Card, context: str) -> Iterator[str]:
    """Do all that is done with a card, both ways."""
    quick, written = prepared(card, context)
    with without_kernel():
        slow, _ = prepared(card, context)
    same("issuing", (quick.signing_input, quick.disclosures), (slow.signing_input, slow.disclosures))
    yield f"cards: issuing, ordinary, {'accepted' if written else 'declined'}"
    text = str(quick.complete(ISSUER.sign(quick.signing_input)))
    held = accept_sd_card(text, ACCEPTANCE, HOLDER.public_key, NOW)
    with without_kernel():
        same("accepting", held.issued, accept_sd_card(text, ACCEPTANCE, HOLDER.public_key, NOW).issued)
    for selection in selections(held):
        presented = present(held, selection, CHALLENGE, HOLDER, NOW)
        with without_kernel():
            same("presenting", presented, present(held, selection, CHALLENGE, HOLDER, NOW))
            slow_card = verify_presentation(str(presented), EXPECTED, NOW)
        same(
            "verifying",
            *((one.members, one) for one in (verify_presentation(str(presented), EXPECTED, NOW), slow_card)),
        )
        outcome = compare_reading(
            presented.sd_jwt.issuer_jwt, presented.sd_jwt.disclosures, ordinary=True, limits=DEFAULT_LIMITS
        )
        yield f"cards: reading, {outcome}"


def compare_cards() -> Counter[str]:
    """Compare every valid card in every context, and count what the kernel accepts and declines."""
    return Counter(
        outcome
        for _, card in public_cards()
        for context in DEFAULT_POLICY.contexts
        for outcome in compare_card(card, context)
    )
