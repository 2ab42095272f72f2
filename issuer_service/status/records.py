"""SD-Cards that were issued, and their status entries."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from secrets import token_bytes

from issuer_service.audit.records import AuditEvent
from sdcard.issuer import MAX_LIFETIME
from sdcard.status_list import StatusValue
from sdcard.transparency.proofs import SALT_BYTES

STATUS_CHANGES: Mapping[AuditEvent, tuple[tuple[StatusValue, ...], StatusValue]] = {
    AuditEvent.CARDS_REVOKED: ((StatusValue.VALID, StatusValue.SUSPENDED), StatusValue.INVALID),
    AuditEvent.CARDS_SUSPENDED: ((StatusValue.VALID,), StatusValue.SUSPENDED),
    AuditEvent.CARDS_REINSTATED: ((StatusValue.SUSPENDED,), StatusValue.VALID),
}
"""Event → the statuses that it changes, and the new status. A revocation is irreversible."""


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
    """The identification of an issued SD-Card, without its text.

    ``digest`` is SHA-256 of its Issuer-signed JWT; ``signed``, of the part before the signature. Both are in
    hexadecimal. ``subject``: its pairwise id; None if it has the agent's id. ``salt``: of its leaf in
    the transparency log.
    """

    digest: str
    signed: str
    context: str
    thumbprint: str
    expires_at: int
    status: StatusRow | None = None
    subject: str | None = None
    salt: bytes = field(default_factory=partial(token_bytes, SALT_BYTES), repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class StatusChangeRow:
    """A new status for SD-Cards of one agent.

    Attributes:
        at: Unix seconds. SD-Cards that have expired by then are not changed.
        before: the statuses that change.
        after: the new status.
        public_at: Unix seconds from which status lists show it.
        batch_id, context: limits the change to a Batch or context; None for all.
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


@dataclass(frozen=True, slots=True)
class PublishedList:
    """A Status List Token with its instant and its signing key.

    ``gzipped`` is the same token, compressed once. Each form has its own ETag (RFC 9110 8.8.3.3).
    """

    instant: int
    kid: str
    token: bytes = field(repr=False)
    etag: str
    gzipped: bytes = field(repr=False)

    @property
    def gzip_etag(self) -> str:
        """Names the compressed form."""
        return f'{self.etag[:-1]}-gzip"'
