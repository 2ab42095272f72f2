"""The one unit of work behind a registration: read, plan, sign, and only then write, all of it or nothing."""

import asyncio
import hashlib
from dataclasses import dataclass, field

from issuer_service.access import Caller, check_limits
from issuer_service.registration.reading import Registration, Terms, read_registration
from issuer_service.registration.schemas import REQUEST
from issuer_service.stores.ports import CardRow, KeyRow, RegistrationRow
from issuer_service.wiring import Bounds, Wiring
from sdcard.encoding import encode_json
from sdcard.errors import Finding, Refused
from sdcard.instants import Instant
from sdcard.issuer import SdCard, linkable_by, prepare_batch, rounded_validity
from sdcard.rules import Rule


@dataclass(frozen=True, slots=True)
class Batch:
    """Everything issued for one registration.

    Attributes:
        batch_id: names it.
        agent_id: whose it is.
        cards: in the order of contexts, and within one of keys.
        linkable_by: claims by which two of them can be told to be one agent's.
        findings: what the card's author would still mend.
    """

    batch_id: str
    agent_id: str
    cards: tuple[SdCard, ...] = field(repr=False)
    linkable_by: tuple[str, ...]
    findings: tuple[Finding, ...]


async def register_agent(wiring: Wiring, caller: Caller, body: bytes) -> Batch:
    """Register an agent and issue its Batch.

    Reading and signing take a while, so they leave the event loop to others; the transaction comes last and is short.

    Raises:
        Refused: for every reason in the request at once; then for what the token does not cover; then
            ``agent.taken``, ``key.bound-elsewhere`` or ``store.unavailable``. Nothing is written then.
    """
    now = wiring.clock.now()
    registration, batch = await asyncio.to_thread(_issue, wiring, caller, body, now)
    await wiring.store.record_registration(_row(caller, registration, batch, now))
    return batch


def _issue(wiring: Wiring, caller: Caller, body: bytes, now: Instant) -> tuple[Registration, Batch]:
    terms = Terms(wiring.policy, wiring.profile, wiring.published_keys, wiring.limits)
    registration = read_registration(body, terms)
    check_limits(caller, registration.agent_id, registration.card)
    _check_work(registration, wiring.bounds)
    prepared = prepare_batch(
        wiring.issuer,
        registration.plans,
        agent_id=registration.agent_id,
        holder_keys=[holder.key for holder in registration.keys],
        validity=rounded_validity(now, wiring.lifetime),
        salts=wiring.salts,
        limits=wiring.limits,
    )
    cards = tuple(one.complete(wiring.signer.sign(one.signing_input)) for one in prepared)
    batch_id = wiring.salts.draw(1).hex()
    return registration, Batch(batch_id, registration.agent_id, cards, linkable_by(cards), registration.findings)


def _check_work(registration: Registration, bounds: Bounds) -> None:
    """Refuse a Batch that would keep the registry busy for long, before the work is done."""
    work = len(registration.keys) * sum(len(plan.places) for plan in registration.plans)
    size = len(registration.keys) * len(registration.plans) * len(encode_json(registration.card.document))
    if work > bounds.batch_disclosures:
        raise Refused(Rule.LIMIT_DISCLOSURES, REQUEST, "Register fewer keys or contexts at a time.")
    if size > bounds.batch_bytes:
        raise Refused(Rule.LIMIT_BYTES, REQUEST, "Register fewer keys or contexts at a time.")


def _row(caller: Caller, registration: Registration, batch: Batch, now: Instant) -> RegistrationRow:
    """What is remembered of it: of the SD-Cards their digests, of what they show the names."""
    return RegistrationRow(
        at=int(now),
        subject=caller.subject,
        agent_id=registration.agent_id,
        card_format=registration.card.format.name,
        card=encode_json(registration.card.document).decode(),
        keys=tuple(KeyRow(holder.key.thumbprint, holder.where) for holder in registration.keys),
        batch_id=batch.batch_id,
        cards=tuple(_card_row(card) for card in batch.cards),
        disclosed={plan.context: plan.discloses for plan in registration.plans},
    )


def _card_row(card: SdCard) -> CardRow:
    return CardRow(
        digest=hashlib.sha256(card.sd_jwt.issuer_jwt.encode("ascii")).hexdigest(),
        context=card.context,
        thumbprint=card.holder_key.thumbprint,
        expires_at=card.validity.expires_at,
    )
