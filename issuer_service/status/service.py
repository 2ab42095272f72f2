"""Status changes, and Status List Tokens signed at each publication."""

import asyncio
import gzip
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from issuer_service.access import Caller, check_agent
from issuer_service.agents import lifecycle_repository
from issuer_service.agents.registration import list_uri
from issuer_service.agents.schemas import REQUEST, Given, Interaction, Stored, read_section, without_nulls
from issuer_service.audit.records import AuditEvent
from issuer_service.container import Container
from issuer_service.keys.repository import KeyUse
from issuer_service.status import repository
from issuer_service.status.records import STATUS_CHANGES, PublishedList, StatusChangeRow
from issuer_service.status.repository import LIST_SIZE
from sdcard.encoding import parse_json_object
from sdcard.errors import Refused
from sdcard.instants import MAX_SKEW
from sdcard.issuer import AGENT_ID
from sdcard.jose.jws import Signer
from sdcard.rules import Rule
from sdcard.status_list import StatusValue, issue_status_list_token, pack_statuses

_LIST_ID = re.compile("[0-9a-f]{32}")
_BITS = 2
_MOST_KEPT = 256
"""Tokens in memory, of up to 45 kB each, and compressed of up to 34 kB."""


class StatusChange(Interaction):
    """Selection of the agent's SD-Cards.

    With neither member, all that have not expired.
    """

    model_config = ConfigDict(extra="forbid", json_schema_extra=without_nulls)

    batch_id: Given[Stored] = Field(default=None, description="Only those of this Batch.")
    context: Given[Stored] = Field(default=None, description="Only those of this context.")


class StatusChanged(BaseModel):
    """Number of SD-Cards whose status changed.

    It is 0 when all had the status before, or when the agent has none. A Batch or context without SD-Cards is refused.
    """

    agent_id: str
    changed: int
    public_at: int = Field(
        description="Unix seconds from which status lists show it. The registry itself goes by it at once. A Verifier "
        "may keep an older list for its `ttl` after that."
    )


@dataclass(frozen=True, slots=True)
class Change:
    """Status changes of an owner. Revocation is final: nothing leads back from it."""

    event: AuditEvent
    before: tuple[StatusValue, ...]
    after: StatusValue


REVOKE, SUSPEND, REINSTATE = (Change(event, *change) for event, change in STATUS_CHANGES.items())


async def change_statuses(
    container: Container, caller: Caller, agent_id: str, change: Change, body: bytes
) -> StatusChanged:
    """Change the statuses of SD-Cards that have not expired.

    Raises:
        Refused: for the request; ``token.limit``; ``agent.unknown`` for another owner's agent too;
            ``agent.no-such-cards``.
    """
    asked = read_section(StatusChange, parse_json_object(body, REQUEST, container.limits.json_depth))
    check_agent(caller, agent_id)
    if not re.fullmatch(AGENT_ID, agent_id):
        raise Refused(Rule.AGENT_UNKNOWN, REQUEST.within("agent_id"))
    now, status = container.clock.now(), container.status
    row = StatusChangeRow(
        at=int(now),
        subject=caller.subject,
        agent_id=agent_id,
        event=change.event,
        before=tuple(map(int, change.before)),
        after=int(change.after),
        public_at=status.public_at(now),
        batch_id=asked.batch_id,
        context=asked.context,
        interaction_id=asked.interaction_id,
    )
    changed = await container.database.change(lifecycle_repository.change_statuses, row)
    public_by = status.public_by(row.public_at, container.clock.now())
    return StatusChanged(agent_id=agent_id, changed=changed, public_at=public_by)


async def published_list(container: Container, list_id: str) -> PublishedList:
    """Return the Status List Token of a list, the same until the next instant.

    All lists are signed anew at each instant, so that a token does not reveal whether its list changed.

    Raises:
        Refused: ``request.not-found`` when the list does not exist, or all its SD-Cards have expired;
            ``signer.unavailable``.
    """
    needed_at = int(container.clock.now()) - MAX_SKEW
    if not _LIST_ID.fullmatch(list_id) or not await repository.has_status_list(container.database, list_id, needed_at):
        raise Refused(Rule.REQUEST_TARGET, REQUEST.within("path"))
    signer, kept = (await container.keys.current()).signer(KeyUse.STATUS), container.status.tokens
    kid = signer.public_key.thumbprint
    async with container.status.turn:
        instant, found = container.status.instant(container.clock.now()), kept.get(list_id)
        if found is not None and (found.instant, found.kid) == (instant, kid):
            return found
        latest = container.status.public_at(container.clock.now() + MAX_SKEW)
        statuses = await repository.read_status_list(container.database, list_id, instant, latest)
        made = await asyncio.to_thread(_publish, container, signer, list_id, statuses, instant)
        container.metrics.count_status_list()
        kept[list_id] = made
        kept.move_to_end(list_id)
        while len(kept) > _MOST_KEPT:
            kept.popitem(last=False)
        return made


def _publish(
    container: Container, signer: Signer, list_id: str, statuses: Mapping[int, int], instant: int
) -> PublishedList:
    """Sign the list as of an instant."""
    status = container.status
    token = issue_status_list_token(
        pack_statuses(statuses, LIST_SIZE, _BITS),
        list_uri(container, list_id),
        signer,
        instant,
        status.ttl,
        instant + status.ttl + status.lifetime,
    ).encode("ascii")
    etag = f'"{hashlib.sha256(token).hexdigest()}"'
    kid = signer.public_key.thumbprint
    return PublishedList(instant, kid, token, etag, gzip.compress(token, mtime=0))
