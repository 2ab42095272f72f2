"""Registration as one unit of work: read, plan, sign, then write all rows.

Nothing is written before everything is signed. A failed write leaves nothing.
"""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from issuer_service.access import Caller, check_limits
from issuer_service.agents import repository
from issuer_service.agents.audiences import Subjects, decided_by, disclosed_in, discovery_rows, kept
from issuer_service.agents.checks import find_unproved
from issuer_service.agents.idempotency import IdempotentRequest, find_earlier_response, open_response, seal_response
from issuer_service.agents.new_agents_repository import add_agent
from issuer_service.agents.nonces import recognize_nonce_of
from issuer_service.agents.reading import Registration, Terms, asked_for, content_of, read_registration
from issuer_service.agents.records import IssuedNonce, KeyRow, RegistrationRow
from issuer_service.agents.schemas import REQUEST, AgreementShown, CardIssued, Registered, StatusShown
from issuer_service.audit.records import AuditEvent, Possession, Supersedes
from issuer_service.container import Bounds, Container
from issuer_service.discovery.records import Audience, DiscoveryRow
from issuer_service.keys.repository import KeyNotInUse, KeyUse
from issuer_service.keys.ring import KeysInUse
from issuer_service.reviews.records import ReviewPending, ReviewState, covers_of, needs_approval
from issuer_service.reviews.repository import find_open
from issuer_service.routes import show_findings
from issuer_service.settings import ProofPolicy
from issuer_service.status.records import CardRow, StatusRow, StatusTaken
from issuer_service.status.repository import free_statuses
from issuer_service.transparency.promises import LogDue, find_due, sign_promise
from sdcard import issuer as issuing
from sdcard.errors import Refused
from sdcard.instants import Instant
from sdcard.issuer import Issuer, SdCard, issuing_step, linkable_by, rounded_validity
from sdcard.issuer_checks import codes_of
from sdcard.jose.jws import InMemorySigner, signed_digest
from sdcard.rules import Rule
from sdcard.status_list import StatusReference

_ATTEMPTS = 5
"""A registration that loses a race for status entries, or against a change of keys, is signed again."""
_MARKS = (b",", b"[", b"{")
"""One of these bytes precedes each value of a JSON text."""
_DISCLOSURES_PER_CARD = 16
"""As long as it takes to make so many, an SD-Card takes with none."""


@dataclass(frozen=True, slots=True)
class Change:
    """Input for new SD-Cards.

    Attributes:
        possession: whether possession of the keys was proved, now or at their registration.
        made_from: the Batch that must still be the agent's last, for a change that starts from it.
        asked: the request, if its response is stored for retries.
        nonce: the nonce of the proofs, to be consumed.
        is_domain_proved: whether the last check proved control of every host of the card.
        is_approved: whether a person approved it.
        due: by when the transparency log has the SD-Cards.
    """

    event: AuditEvent
    possession: Possession
    made_from: str | None
    asked: IdempotentRequest | None
    nonce: IssuedNonce | None = None
    is_domain_proved: bool = False
    is_approved: bool = False
    due: LogDue | None = None


async def register_agent(
    container: Container, caller: Caller, body: bytes, asked: IdempotentRequest | None = None
) -> bytes:
    """Register an agent and issue its Batch.

    Args:
        asked: the retriable request, if it has an Idempotency-Key. Retries get the same response.

    Returns:
        A ``Registered`` in JSON.

    Raises:
        Refused: for all faults of the request at once; then ``token.limit``; then ``agent.taken``,
            ``agent.version-reused``, ``key.bound-elsewhere``, ``proof.nonce``, ``idempotency.…``,
            ``approval.denied``, ``signer.unavailable`` or ``store.unavailable``. Nothing is written.
        ReviewPending: when a person has to approve it first, and nothing else is wrong.
    """
    now = container.clock.now()
    if asked is not None:
        earlier = await find_earlier_response(container.database, asked, now)
        if earlier is not None:
            return earlier
    terms = await terms_of(container, now, container.proofs)
    registration = await read(container, caller, body, lambda: read_registration(body, terms))
    possession = Possession.NOT_PROVEN if registration.nonce is None else Possession.PROVEN
    return await issue(
        container, caller, registration, Change(AuditEvent.AGENT_REGISTERED, possession, None, asked), now
    )


async def terms_of(container: Container, now: Instant, proofs: ProofPolicy) -> Terms:
    """Return the context for reading a request."""
    return Terms(
        policy=container.policy,
        profile=container.profile,
        published_keys=container.published_keys,
        issuer_keys=(await container.keys.current()).own,
        limits=container.limits,
        card_signers=container.card_signers,
        now=now,
        step=issuing_step(container.lifetime),
        issuer=container.issuer_url,
        proofs=proofs,
    )


async def read(container: Container, caller: Caller, body: bytes, reading: Callable[[], Registration]) -> Registration:
    """Read a request, and refuse it if the token or the bounds do not cover it.

    ``body`` is the text of the request.

    A small one is read here and now: a thread would take longer to begin, and to have the interpreter to itself.
    """

    def work() -> Registration:
        registration = reading()
        check_limits(caller, registration.agent_id, registration.card)
        check_work(registration, container.bounds)
        return registration

    bounds = container.bounds
    if len(body) <= bounds.read_at_once_bytes and sum(map(body.count, _MARKS)) <= bounds.read_at_once_parts:
        return work()
    async with container.turns.of(caller.subject):
        return await asyncio.to_thread(work)


async def issue(
    container: Container, caller: Caller, registration: Registration, change: Change, now: Instant
) -> bytes:
    """Issue the Batch of a registration, and return the answer.

    A large Batch is made in a thread, by few at a time, so that the event loop is free for others, and so is one that
    another machine signs; the transaction comes last and is short. Status entries are chosen before, since they are
    signed, and claimed in it.

    Raises:
        Refused: as ``register_agent``, after reading; ``signer.unavailable``; ``rate.exceeded`` after many conflicts.
        ReviewPending: as ``register_agent``.
        AgentChanged: when the agent has another last Batch than ``change.made_from``.
    """
    if change.event is not AuditEvent.AGENT_RENEWED:  # it brings no id and no key
        container.rates.conflicts.check(caller.subject, now)
    if registration.nonce is not None:
        given = await recognize_nonce_of(container, caller, registration.nonce, REQUEST.within("proofs"), now)
        change = replace(change, nonce=given)
    if container.checks.domains:
        unproved = await find_unproved(container, caller.subject, registration, now)
        registration = replace(registration, findings=registration.findings + unproved)
        change = replace(change, is_domain_proved=not unproved)
    if container.log is not None:
        change = replace(change, due=await find_due(container, sum(map(len, registration.holders)), now))
    secret = await container.discovery_secret.current()
    subjects = Subjects(container.subject_per, secret, container.salts)
    for _ in range(_ATTEMPTS):
        try:
            if container.approval_for:
                change = await _check_approved(container, caller, registration, change, now)
            keys = await container.keys.current()
            at_once = isinstance(keys.signer(KeyUse.CARDS), InMemorySigner) and _is_small(container, registration)
            async with nullcontext() if at_once else container.turns.of(caller.subject):
                count = sum(map(len, registration.holders))
                statuses = await free_statuses(container.database, count, container.salts, int(now))
                make = partial(issue_batch, container, keys, subjects, caller, registration, change, statuses, now)
                row, answer = make() if at_once else await asyncio.to_thread(make)
            database = container.database
            is_written = database.is_remote and await add_agent(database, row, secret, container.chain_keys)
            kept = None if is_written else await database.change(repository.record_registration, row, secret)
        except StatusTaken:
            continue
        except KeyNotInUse:
            container.keys.outdate()
            continue
        except Refused as refusal:
            if isinstance(refusal, repository.NonceOutdated):
                container.nonce_key.forget()
            if told := _told_by(refusal, registration):
                container.rates.conflicts.charge(caller.subject, told, now)
            raise
        if kept is not None and change.asked is not None:
            return open_response(kept, change.asked)
        for card in row.cards:
            container.metrics.count_card(card.context)
        return answer
    raise Refused(Rule.STORE_UNAVAILABLE, REQUEST)


async def _check_approved(
    container: Container, caller: Caller, registration: Registration, change: Change, now: Instant
) -> Change:
    """Return the change as approved, or as it is if nobody has to approve it.

    Raises:
        Refused: ``approval.denied``; as the transaction of a registration.
        ReviewPending: when a person has to approve it.
    """
    if not needs_approval(container.approval_for, registration.card):
        return change
    row = _row(caller, registration, change, "", "", 0, (), (), now)
    review = await container.database.read(find_open, covers_of(row), int(now))
    if review is None or review.state in (ReviewState.PENDING, ReviewState.REJECTED):
        review = await container.database.change(repository.ask_approval, row, container.salts.draw(1).hex())
    if review.state is ReviewState.REJECTED:
        raise Refused(Rule.APPROVAL_DENIED, REQUEST, f"The reason: {review.reason}")
    if review.state is ReviewState.PENDING:
        raise ReviewPending(review)
    return replace(change, is_approved=True)


def issue_batch(
    container: Container,
    keys: KeysInUse,
    subjects: Subjects,
    caller: Caller,
    registration: Registration,
    change: Change,
    statuses: Sequence[StatusRow],
    now: Instant,
) -> tuple[RegistrationRow, bytes]:
    """Make a Batch with these status entries, and its response.

    Args:
        container, caller, registration, change, now: as for ``issue``.
        keys: the registry's keys; the active one signs.
        statuses: an entry for each SD-Card.
    """
    signer = keys.signer(KeyUse.CARDS)
    asked: Any = registration.contexts  # a partner is named as requested, whether or not an agreement holds
    audiences = [Audience(one["context"], one.get("partner", "")) for one in asked]
    possession = change.possession is Possession.PROVEN
    checks = codes_of(possession=possession, domain=change.is_domain_proved, approved=change.is_approved)
    cards = issuing.issue_batch(
        Issuer(container.issuer_url, signer.public_key),
        registration.plans,
        signer,
        agent_id=[
            subjects.id_of(registration.agent_id, one)
            for one, holders in zip(audiences, registration.holders, strict=True)
            for _ in holders
        ],
        holder_keys=registration.holders,
        validity=rounded_validity(now, container.lifetime),
        salts=container.salts,
        statuses=[StatusReference(list_uri(container, entry.list_id), entry.index) for entry in statuses],
        checks=checks,
        limits=container.limits,
    )
    batch_id = container.salts.draw(1).hex()
    row = _row(
        caller,
        registration,
        change,
        batch_id,
        signer.public_key.thumbprint,
        container.status.public_at(now) if registration.supersedes is Supersedes.REVOKE else 0,
        list(zip(cards, statuses, strict=True)),
        discovery_rows(registration, decided_by(container, keys), issuing_step(container.lifetime), subjects.per),
        now,
    )
    row = replace(row, checks=checks, is_checked=container.checks.are_on)
    promise = change.due and sign_promise(container.issuer_url, change.due, row.cards, signer, row.at)
    answer = _answer(registration, batch_id, cards, promise).model_dump_json().encode()
    if change.asked is not None:
        row = replace(row, answer=seal_response(answer, change.asked, container.salts, now, container.bounds))
    return row, answer


def list_uri(container: Container, list_id: str) -> str:
    """Return the address of a status list.

    It names no context: that would reveal a hidden SD-Card's purpose.
    """
    return f"{container.issuer_url}/status/{list_id}"


def check_work(registration: Registration, bounds: Bounds) -> None:
    """Refuse a Batch that would keep the registry busy for long.

    The refusal comes before the work.
    """
    _, disclosures, size = _work_of(registration)
    if disclosures > bounds.batch_disclosures:
        raise Refused(Rule.LIMIT_DISCLOSURES, REQUEST, "Register fewer keys or contexts at a time.")
    if size > bounds.batch_bytes:
        raise Refused(Rule.LIMIT_BYTES, REQUEST, "Register fewer keys or contexts at a time.")


def _is_small(container: Container, registration: Registration) -> bool:
    """Whether making the Batch delays no other request."""
    cards, disclosures, size = _work_of(registration)
    weight = _DISCLOSURES_PER_CARD * cards + disclosures
    return weight <= container.bounds.batch_at_once_disclosures and size <= container.bounds.batch_at_once_bytes


def _work_of(registration: Registration) -> tuple[int, int, int]:
    """Count SD-Cards of a Batch, Disclosures at most, and bytes of cards."""
    counts = [len(keys) for keys in registration.holders]
    cards = sum(counts)
    disclosures = sum(count * len(plan.places) for count, plan in zip(counts, registration.plans, strict=True))
    return cards, disclosures, cards * len(registration.card_text.encode())


def _told_by(refusal: Refused, registration: Registration) -> int:
    """Count the agent ids or keys that a refusal reports as taken."""
    if refusal.rule is Rule.KEY_BOUND_ELSEWHERE:
        return len(registration.keys)  # of those that it does not name too
    return 1 if refusal.rule is Rule.AGENT_OWNED else 0


def _answer(registration: Registration, batch_id: str, cards: Sequence[SdCard], promise: str | None) -> Registered:
    issued = []
    plans = [plan for plan, keys in zip(registration.plans, registration.holders, strict=True) for _ in keys]
    for card, plan in zip(cards, plans, strict=True):
        agreement = plan.agreement
        assert card.status is not None, "every SD-Card has an entry"
        issued.append(
            CardIssued(
                context=card.context,
                agreement=AgreementShown(partner=agreement.partner, expires=agreement.expires) if agreement else None,
                key_thumbprint=card.holder_key.thumbprint,
                sub=card.subject,
                sd_card=str(card),
                discloses=list(card.discloses),
                exp=card.validity.expires_at,
                status=StatusShown(uri=card.status.uri, idx=card.status.index),
            )
        )
    return Registered(
        agent_id=registration.agent_id,
        sub=f"agent:{registration.agent_id}",
        batch_id=batch_id,
        linkable_by=list(linkable_by(cards)),
        cards=issued,
        log_promise=promise,
        findings=show_findings(registration.findings),
    )


def _row(
    caller: Caller,
    registration: Registration,
    change: Change,
    batch_id: str,
    kid: str,
    public_at: int,
    cards: Sequence[tuple[SdCard, StatusRow]],
    discovery: tuple[DiscoveryRow, ...],
    now: Instant,
) -> RegistrationRow:
    """Build the audit event: digests of SD-Cards, and names of their claims (R-38)."""
    return RegistrationRow(
        at=int(now),
        public_at=public_at,
        subject=caller.subject,
        agent_id=registration.agent_id,
        card_format=registration.card.format.name,
        card=registration.card_text,
        card_version=str(registration.card.document.get("version")),
        content=content_of(registration.card),
        keys=tuple(KeyRow(holder.key.thumbprint, holder.where) for holder in registration.keys),
        batch_id=batch_id,
        kid=kid,
        cards=tuple(
            CardRow(
                digest=hashlib.sha256(card.sd_jwt.issuer_jwt.encode("ascii")).hexdigest(),
                signed=signed_digest(card.sd_jwt.issuer_jwt).hex(),
                context=card.context,
                thumbprint=card.holder_key.thumbprint,
                expires_at=card.validity.expires_at,
                status=status,
                subject=kept(card.subject),
            )
            for card, status in cards
        ),
        discovery=discovery,
        disclosed=disclosed_in(registration.plans),
        event=change.event,
        asked=asked_for(registration),
        possession=change.possession,
        nonce=change.nonce,
        supersedes=registration.supersedes,
        made_from=change.made_from,
        interaction_id=registration.interaction_id,
    )
