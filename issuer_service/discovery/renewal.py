"""SD-Cards for discovery, made when somebody finds the agent: the first one, and each next one while it still holds.

A registration writes by what its agent is found, and signs nothing for that. Everything here starts from the same
registration again, so by what an agent is found and what its SD-Card shows come from one plan. Several processes may
renew at once: whoever writes first is right, and nobody overwrites what an owner did in between.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress

from issuer_service.discovery.indexing import as_texts, decided_by
from issuer_service.keys.ring import KeysInUse
from issuer_service.registration.schemas import REQUEST
from issuer_service.registration.service import list_uri
from issuer_service.stores.rows.discovery import DiscoveryCardRow, RenewalRow, SourceRow
from issuer_service.stores.rows.keys import KeyNotInUse, KeyUse
from issuer_service.stores.rows.statuses import CardRow, StatusRow, StatusTaken
from issuer_service.wiring import Wiring
from sdcard.cards.card import Card
from sdcard.cards.reading import KNOWN_FORMATS
from sdcard.disclosure.agreement import Partner
from sdcard.disclosure.plan import DisclosurePlan, plan_disclosure
from sdcard.disclosure.terms import terms_of
from sdcard.encoding import JsonObject, parse_json_object
from sdcard.errors import Part, Refused, Where
from sdcard.instants import Instant
from sdcard.issuer import Issuer, PreparedSdCard, prepare_sd_card, rounded_validity
from sdcard.jose.keys import PublicKey, parse_public_jwk
from sdcard.jose.signer import Signer
from sdcard.rules import Rule
from sdcard.status.reference import StatusReference

_ATTEMPTS = 5
_KEY = Where(Part.KEY)


async def renew(wiring: Wiring, positions: Sequence[int], now: Instant) -> None:
    """Make the SD-Cards at these positions anew.

    Raises:
        Refused: ``signer.unavailable`` or ``store.unavailable``.
    """
    sources = await wiring.store.discovery_sources(positions)
    wanted = Counter(source.audience.context for source in sources)
    for _ in range(_ATTEMPTS):
        statuses = await wiring.store.free_statuses(wanted, wiring.salts)
        async with wiring.turns:
            keys = await wiring.keys.current()
            rows = await asyncio.to_thread(_renew_all, wiring, keys, sources, statuses, now)
        try:
            await wiring.store.renew_discovery(rows)
        except StatusTaken:
            continue
        except KeyNotInUse:
            wiring.keys.outdate()
            continue
        for row in rows:
            if row.issued is not None:
                wiring.metrics.count_card(row.audience.context)
        return
    raise Refused(Rule.STORE_UNAVAILABLE, REQUEST)


def _renew_all(
    wiring: Wiring,
    keys: KeysInUse,
    sources: Sequence[SourceRow],
    statuses: Mapping[str, Sequence[StatusRow]],
    now: Instant,
) -> list[RenewalRow]:
    left = {context: iter(rows) for context, rows in statuses.items()}
    return [_renew(wiring, keys, source, next(left[source.audience.context]), now) for source in sources]


def _renew(wiring: Wiring, keys: KeysInUse, source: SourceRow, status: StatusRow, now: Instant) -> RenewalRow:
    """What the policy does not permit any more is not found until the agent registers again."""
    signer = keys.signer(KeyUse.CARDS)
    terms, until, prepared = tuple[str, ...](), None, None
    with suppress(Refused):
        card = Card(KNOWN_FORMATS[source.card_format], _parse_card(wiring, source))
        plan = _plan(wiring, source, card, now)
        prepared = _prepare(wiring, signer.public_key, source, plan, status, now)
        terms = as_texts(terms_of(plan, card.format))
        until = plan.agreement.expires if plan.agreement else None
    return RenewalRow(
        at=int(now),
        subject=wiring.issuer_url,
        position=source.position,
        agent_id=source.agent_id,
        batch_id=source.batch_id,
        audience=source.audience,
        terms=terms,
        until=until,
        decided_by=decided_by(wiring, keys),
        kid=signer.public_key.thumbprint,
        issued=None if prepared is None else _issue(wiring, prepared, signer, status, now),
    )


def _parse_card(wiring: Wiring, source: SourceRow) -> JsonObject:
    return parse_json_object(source.card.encode(), Where(Part.CARD), wiring.limits.json_depth)


def _plan(wiring: Wiring, source: SourceRow, card: Card, now: Instant) -> DisclosurePlan:
    """The plan of the registration, by the policy as it is now."""
    context, name = source.audience.context, source.audience.partner
    partner = Partner(name, now) if name else None
    return plan_disclosure(card, wiring.policy, context, source.disclose, wiring.profile, partner=partner)


def _prepare(
    wiring: Wiring, key: PublicKey, source: SourceRow, plan: DisclosurePlan, status: StatusRow, now: Instant
) -> PreparedSdCard:
    return prepare_sd_card(
        Issuer(wiring.issuer_url, key),
        plan,
        agent_id=source.agent_id,
        holder_key=parse_public_jwk(source.holder_key, _KEY),
        validity=rounded_validity(now, wiring.lifetime),
        salts=wiring.salts,
        status=StatusReference(list_uri(wiring, status.list_id), status.index),
        limits=wiring.limits,
    )


def _issue(
    wiring: Wiring, prepared: PreparedSdCard, signer: Signer, status: StatusRow, now: Instant
) -> DiscoveryCardRow:
    sd_card = prepared.complete(signer.sign(prepared.signing_input))
    expires_at = sd_card.validity.expires_at
    ends_early = expires_at < rounded_validity(now, wiring.lifetime).expires_at
    return DiscoveryCardRow(
        sd_card=str(sd_card),
        card=CardRow(
            digest=hashlib.sha256(sd_card.sd_jwt.issuer_jwt.encode("ascii")).hexdigest(),
            context=sd_card.context,
            thumbprint=sd_card.holder_key.thumbprint,
            expires_at=expires_at,
            status=status,
        ),
        renew_at=expires_at if ends_early else (int(now) + expires_at) // 2,  # with its agreement, so no sooner
        claims=sd_card.discloses,
    )
