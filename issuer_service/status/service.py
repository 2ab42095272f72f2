"""Publishing status lists, and changing statuses on the word of an agent's owner."""

import asyncio
import gzip
import hashlib
import math
import re
from dataclasses import dataclass

from issuer_service.access import Caller, check_agent
from issuer_service.registration.schemas import REQUEST, read_section
from issuer_service.registration.service import list_uri
from issuer_service.status.schemas import StatusChange, StatusChanged
from issuer_service.stores.rows.audit import AuditEvent
from issuer_service.stores.rows.keys import KeyUse
from issuer_service.stores.rows.statuses import STATUS_CHANGES, StatusChangeRow, StatusListRow
from issuer_service.stores.statuses import LIST_SIZE
from issuer_service.wiring import PublishedList, Wiring
from sdcard.encoding import parse_json_object
from sdcard.errors import Refused
from sdcard.instants import Instant, Lifetime
from sdcard.issuer import AGENT_ID
from sdcard.jose.signer import Signer
from sdcard.rules import Rule
from sdcard.status.reference import StatusValue
from sdcard.status.status_list import pack_statuses
from sdcard.status.token import issue_status_list_token

_LIST_ID = re.compile("[0-9a-f]{32}")
_BITS = 2
_MOST_KEPT = 256
"""Tokens in memory, of up to 45 kB each, and compressed of up to 34 kB."""


@dataclass(frozen=True, slots=True)
class Change:
    """What an owner can do to a status. Revocation is final: nothing leads back from it."""

    event: AuditEvent
    before: tuple[StatusValue, ...]
    after: StatusValue


REVOKE, SUSPEND, REINSTATE = (Change(event, *change) for event, change in STATUS_CHANGES.items())


async def change_statuses(wiring: Wiring, caller: Caller, agent_id: str, change: Change, body: bytes) -> StatusChanged:
    """Change the statuses of SD-Cards that have not expired.

    Raises:
        Refused: for the request; ``token.limit``; ``agent.unknown`` for somebody else's agent too.
    """
    asked = read_section(StatusChange, parse_json_object(body, REQUEST, wiring.limits.json_depth))
    check_agent(caller, agent_id)
    if not re.fullmatch(AGENT_ID, agent_id):
        raise Refused(Rule.AGENT_UNKNOWN, REQUEST.within("agent_id"))
    row = StatusChangeRow(
        at=int(wiring.clock.now()),
        subject=caller.subject,
        agent_id=agent_id,
        event=change.event,
        before=tuple(map(int, change.before)),
        after=int(change.after),
        batch_id=asked.batch_id,
        context=asked.context,
        interaction_id=asked.interaction_id,
    )
    return StatusChanged(agent_id=agent_id, changed=await wiring.store.change_statuses(row))


async def published_list(wiring: Wiring, list_id: str) -> PublishedList:
    """The Status List Token of a list, the same one until a status changes or half of its life is over.

    Raises:
        Refused: ``request.not-found`` when there is no such list; ``signer.unavailable``.
    """
    known = _LIST_ID.fullmatch(list_id)
    kept, version = wiring.status.tokens, await wiring.store.status_list_version(list_id) if known else None
    if version is None:
        raise Refused(Rule.REQUEST_TARGET, REQUEST.within("path"))
    signer, found = (await wiring.keys.current()).signer(KeyUse.STATUS), kept.get(list_id)
    kid = signer.public_key.thumbprint
    if found is not None and found.version == version and _is_current(found, kid, wiring.clock.now()):
        return found
    async with wiring.status.turn:
        now, again = wiring.clock.now(), kept.get(list_id)
        if again is not None and again.version >= version and _is_current(again, kid, now):
            return again
        row = await wiring.store.read_status_list(list_id)
        made = await asyncio.to_thread(_publish, wiring, signer, list_id, row, now)
        wiring.metrics.count_status_list()
        kept[list_id] = made
        kept.move_to_end(list_id)
        while len(kept) > _MOST_KEPT:
            kept.popitem(last=False)
        return made


def _is_current(kept: PublishedList, kid: str, now: Instant) -> bool:
    """Whether a token may be published now. One that was made by a clock that was ahead is made again."""
    return kept.kid == kid and kept.lifetime.covers(now)


def _publish(wiring: Wiring, signer: Signer, list_id: str, row: StatusListRow, now: Instant) -> PublishedList:
    """Sign the list. Its time is rounded down, and says no more of when a status changed than it must."""
    status = wiring.status
    issued_at = math.floor(now) // status.ttl * status.ttl
    token = issue_status_list_token(
        pack_statuses(row.statuses, LIST_SIZE, _BITS),
        list_uri(wiring, list_id),
        signer,
        issued_at,
        status.ttl,
        issued_at + status.ttl + status.lifetime,
    ).encode("ascii")
    etag = f'"{hashlib.sha256(token).hexdigest()}"'
    kid = signer.public_key.thumbprint
    lifetime = Lifetime(issued_at, issued_at + status.lifetime // 2)
    return PublishedList(row.version, kid, lifetime, token, etag, gzip.compress(token, mtime=0))
