"""SD-Cards for discovery, issued on demand and renewed before they expire.

The first SD-Card is issued when a caller finds the agent, and the next one before the last expires.

A registration writes search terms and signs no SD-Card for discovery. A renewal plans the stored registration again, so
terms and SD-Card come from one plan. Several processes may renew an agent at the same time. The first to write wins,
and an owner's change in between is not overwritten.

Agents are independent: one that cannot be renewed is logged, and the others are renewed.
"""

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from issuer_service.agents.audiences import Subjects, as_texts, decided_by, kept, subjects_of
from issuer_service.agents.checks import find_proved
from issuer_service.agents.registration import list_uri
from issuer_service.agents.schemas import REQUEST
from issuer_service.container import Container
from issuer_service.discovery import postings_repository
from issuer_service.discovery.records import DiscoveryCardRow, RenewalRow, SourceRow
from issuer_service.keys.repository import KeyNotInUse, KeyUse
from issuer_service.keys.ring import KeysInUse
from issuer_service.reviews.records import needs_approval
from issuer_service.reviews.repository import find_in_force
from issuer_service.status import repository as status_repository
from issuer_service.status.records import CardRow, StatusRow, StatusTaken
from sdcard.cards.detect import KNOWN_FORMATS
from sdcard.cards.model import Card
from sdcard.encoding import JsonObject, parse_json_object
from sdcard.errors import Part, Refused, Where
from sdcard.instants import Instant
from sdcard.issuer import Issuer, PreparedSdCard, issuing_step, prepare_sd_card, rounded_validity
from sdcard.jose.jws import Signer, signed_digest
from sdcard.jose.keys import PublicKey, parse_public_jwk
from sdcard.policy.context import Partner
from sdcard.policy.plan import DisclosurePlan, plan_disclosure, terms_of, withhold
from sdcard.rules import Rule
from sdcard.spiffe import SPIFFE_ID
from sdcard.status_list import StatusReference

_log = logging.getLogger(__name__)

_ATTEMPTS = 5
_OUTAGES = (Rule.SIGNER_UNAVAILABLE, Rule.STORE_UNAVAILABLE)
_KEY = Where(Part.KEY)


async def renew(container: Container, positions: Sequence[int], now: Instant) -> frozenset[int]:
    """Renew the SD-Cards at these positions.

    Returns:
        The positions of agents that could not be renewed.

    Raises:
        Refused: ``signer.unavailable`` or ``store.unavailable``, when no agent could be renewed for this reason, and
            the registry is not ready either.
    """
    found = await container.database.read(postings_repository.sources, positions)
    agent_ids = [one.agent_id for one in found]
    proved = await find_proved(container, agent_ids, now)
    approved = await container.database.read(find_in_force, agent_ids) if container.approval_for else frozenset[str]()
    sources = [
        replace(one, is_domain_proved=one.agent_id in proved, is_approved=one.agent_id in approved) for one in found
    ]
    failures = _Failures(sources)
    subjects = await subjects_of(container)
    for _ in range(_ATTEMPTS):
        statuses = await status_repository.free_statuses(container.database, len(sources), container.salts, int(now))
        async with container.turns.of(""):
            keys = await container.keys.current()
            rows = await asyncio.to_thread(_renew_all, container, keys, subjects, sources, statuses, now, failures)
        try:
            await _write(container, rows, failures)
        except StatusTaken:
            continue
        except KeyNotInUse:
            container.keys.outdate()
            continue
        written = [row for row in rows if row.position not in failures.positions]
        for row in written:
            if row.issued is not None:
                container.metrics.count_card(row.audience.context)
        tried = frozenset(failures.positions - failures.not_tried)
        if failures.outage is None:
            return tried
        if await _is_ready(container, now):
            return tried | await renew(container, sorted(failures.not_tried), now) if failures.not_tried else tried
        if not written:
            raise failures.outage
        return frozenset(failures.positions)
    raise Refused(Rule.STORE_UNAVAILABLE, REQUEST)


async def _is_ready(container: Container, now: Instant) -> bool:
    """Whether the keys sign and the database commits.

    If they do, a failure is about the agents.
    """
    try:
        await container.readiness.check(container.database, container.keys, now)
    except Refused:
        return False
    return True


@dataclass(slots=True)
class _Failures:
    """The agents that could not be renewed.

    Attributes:
        positions: the positions that failed or were not tried.
        not_tried: the positions after two outages in a row.
        outage: the last refusal of the signer or the database.
    """

    sources: Sequence[SourceRow]
    positions: set[int] = field(default_factory=set)
    not_tried: set[int] = field(default_factory=set)
    outage: Refused | None = None

    def add(self, position: int, error: Exception) -> None:
        """Record and log that an agent could not be renewed, without content of its card."""
        if isinstance(error, Refused) and error.rule in _OUTAGES:
            self.outage = error
        self.positions.add(position)
        named = next((one.agent_id for one in self.sources if one.position == position), "")
        what = str(error.findings[0]) if isinstance(error, Refused) else type(error).__name__
        _log.error("the SD-Card for discovery of agent %s cannot be renewed: %s", named, what)

    def skip(self, position: int) -> None:
        """Note that an agent was not tried."""
        self.positions.add(position)
        self.not_tried.add(position)


def _renew_all(
    container: Container,
    keys: KeysInUse,
    subjects: Subjects,
    sources: Sequence[SourceRow],
    statuses: Sequence[StatusRow],
    now: Instant,
    failures: _Failures,
) -> list[RenewalRow]:
    """Return the rows of all agents that can be renewed.

    After two outages in a row, no more are tried.
    """
    failures.positions.clear()
    failures.not_tried.clear()
    outages = 0
    rows: list[RenewalRow] = []
    for source, status in zip(sources, statuses, strict=True):
        if outages > 1:
            failures.skip(source.position)
            continue
        try:
            rows.append(_renew(container, keys, subjects, source, status, now))
            outages = 0
        except (Refused, LookupError, TypeError, ValueError) as error:
            failures.add(source.position, error)
            outages += isinstance(error, Refused) and error.rule in _OUTAGES
    return rows


async def _write(container: Container, rows: Sequence[RenewalRow], failures: _Failures) -> None:
    """Write all rows in one transaction, or each alone if the database refuses.

    Raises:
        StatusTaken, KeyNotInUse: when the rows have to be made again.
    """
    try:
        if rows:
            secret = await container.discovery_secret.current()
            await container.database.change(postings_repository.renew, secret, rows)
        return
    except (StatusTaken, KeyNotInUse):
        raise
    except Exception as error:  # of whatever kind: one row must not take the others with it
        if len(rows) == 1:
            failures.add(rows[0].position, error)
            return
    for number, row in enumerate(rows):
        await _write(container, [row], failures)
        if number and failures.outage is not None and {rows[0].position, rows[1].position} <= failures.positions:
            for other in rows[2:]:
                failures.skip(other.position)
            return


def _renew(
    container: Container, keys: KeysInUse, subjects: Subjects, source: SourceRow, status: StatusRow, now: Instant
) -> RenewalRow:
    """Renew an agent, or remove it from discovery.

    It is removed if the policy forbids it, or a person has to approve it.
    """
    signer = keys.signer(KeyUse.CARDS)
    terms, until, prepared = tuple[str, ...](), None, None
    try:
        card = Card(KNOWN_FORMATS[source.card_format], _parse_card(container, source))
        is_needed = needs_approval(container.approval_for, card)
        if is_needed and not source.is_approved:
            raise Refused(Rule.APPROVAL_PENDING, REQUEST)
        source = replace(source, is_approved=is_needed)
        plan = _plan(container, source, card, now)
        prepared = _prepare(container, signer.public_key, subjects, source, plan, status, now)
        terms = as_texts(terms_of(plan, card.format))
        until = plan.agreement.last_end(issuing_step(container.lifetime)) if plan.agreement else None
    except Refused as refusal:
        _log.warning("agent %s is no longer found in %s: %s", source.agent_id, source.audience.context, refusal)
    return RenewalRow(
        at=int(now),
        subject=container.issuer_url,
        position=source.position,
        agent_id=source.agent_id,
        batch_id=source.batch_id,
        audience=source.audience,
        terms=terms,
        until=until,
        decided_by=decided_by(container, keys),
        kid=signer.public_key.thumbprint,
        issued=None if prepared is None else _issue(container, source, prepared, signer, status, now),
    )


def _parse_card(container: Container, source: SourceRow) -> JsonObject:
    return parse_json_object(source.card.encode(), Where(Part.CARD), container.limits.json_depth)


def _plan(container: Container, source: SourceRow, card: Card, now: Instant) -> DisclosurePlan:
    """Plan the registration by the present policy, without the SPIFFE ID.

    The owner's token is not here to permit it, and a directory need not name workloads (decision 0051).
    """
    context, name = source.audience.context, source.audience.partner
    partner = Partner(name, now, issuing_step(container.lifetime)) if name else None
    plan = plan_disclosure(card, container.policy, context, source.disclose, container.profile, partner=partner)
    return withhold(plan, SPIFFE_ID)


def _prepare(
    container: Container,
    key: PublicKey,
    subjects: Subjects,
    source: SourceRow,
    plan: DisclosurePlan,
    status: StatusRow,
    now: Instant,
) -> PreparedSdCard:
    return prepare_sd_card(
        Issuer(container.issuer_url, key),
        plan,
        agent_id=subjects.id_of(source.agent_id, source.audience),
        holder_key=parse_public_jwk(source.holder_key, _KEY),
        validity=rounded_validity(now, container.lifetime),
        salts=container.salts,
        status=StatusReference(list_uri(container, status.list_id), status.index),
        checks=source.checks,
        limits=container.limits,
    )


def _issue(
    container: Container, source: SourceRow, prepared: PreparedSdCard, signer: Signer, status: StatusRow, now: Instant
) -> DiscoveryCardRow:
    sd_card = prepared.signed_by(signer)
    expires_at = sd_card.validity.expires_at
    ends_early = expires_at < rounded_validity(now, container.lifetime).expires_at
    return DiscoveryCardRow(
        sd_card=str(sd_card),
        card=CardRow(
            digest=hashlib.sha256(sd_card.sd_jwt.issuer_jwt.encode("ascii")).hexdigest(),
            signed=signed_digest(sd_card.sd_jwt.issuer_jwt).hex(),
            context=sd_card.context,
            thumbprint=sd_card.holder_key.thumbprint,
            expires_at=expires_at,
            status=status,
            subject=kept(sd_card.subject),
        ),
        renew_at=expires_at if ends_early else (int(now) + expires_at) // 2,  # with its agreement, so no sooner
        issued_at=sd_card.validity.issued_at,
        claims=sd_card.discloses,
        checks=source.checks,
    )
