"""SD-Cards that were issued, and their status entries."""

from collections.abc import Mapping
from dataclasses import dataclass

from issuer_service.audit.records import AuditEvent
from sdcard.issuer import MAX_LIFETIME
from sdcard.status_list import StatusValue

STATUS_CHANGES: Mapping[AuditEvent, tuple[tuple[StatusValue, ...], StatusValue]] = {
    AuditEvent.CARDS_REVOKED: ((StatusValue.VALID, StatusValue.SUSPENDED), StatusValue.INVALID),
    AuditEvent.CARDS_SUSPENDED: ((StatusValue.VALID,), StatusValue.SUSPENDED),
    AuditEvent.CARDS_REINSTATED: ((StatusValue.SUSPENDED,), StatusValue.VALID),
}
"""What an owner can do to statuses: those that change, and what they become. Nothing leads back from a revocation."""


EXPIRED_LATELY = MAX_LIFETIME
"""Seconds: a change of statuses covers SD-Cards that expired up to so long ago, since the clock may be ahead."""


@dataclass(frozen=True, slots=True)
class StatusRow:
    """An entry of a status list."""

    list_id: str
    index: int


class StatusTaken(Exception):
    """A chosen status entry was taken, or its list is gone: choose again."""


@dataclass(frozen=True, slots=True)
class CardRow:
    """An issued SD-Card: what identifies it, never its text.

    ``digest`` is SHA-256 of its Issuer-signed JWT. ``subject``: its pairwise id; None: it has the agent's own id.
    """

    digest: str
    context: str
    thumbprint: str
    expires_at: int
    status: StatusRow | None = None
    subject: str | None = None


@dataclass(frozen=True, slots=True)
class StatusChangeRow:
    """A new status for SD-Cards of one agent.

    Attributes:
        at: Unix seconds; SD-Cards that have expired by then keep what they have.
        subject: who asks.
        agent_id: the agent.
        event: what is recorded.
        before: the statuses that change; others stay.
        after: what they become.
        public_at: Unix seconds from which status lists show it.
        batch_id, context: only those of this Batch or context; None: of all.
        interaction_id: for the audit record.
    """

    at: int
    subject: str
    agent_id: str
    event: AuditEvent
    before: tuple[int, ...]
    after: int
    public_at: int
    batch_id: str | None
    context: str | None
    interaction_id: str | None = None
