"""``Store``: what the registry asks of its memory, and the frozen values that go in and out. No SQL, no HTTP."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeAlias

from sdcard.audit.records import Head
from sdcard.encoding import JsonObject
from sdcard.errors import Where
from sdcard.salts import SaltSource

AuditFound: TypeAlias = "tuple[int, JsonObject | None]"
"""The number of an audit record, and the record; None when what is stored is no record at all."""


class AuditEvent(StrEnum):
    """What can have happened. A closed set; ids are never reused."""

    AGENT_REGISTERED = "agent.registered"
    CARDS_REVOKED = "cards.revoked"
    CARDS_SUSPENDED = "cards.suspended"
    CARDS_REINSTATED = "cards.reinstated"


@dataclass(frozen=True, slots=True)
class AuditRow:
    """What happened, for the audit record: names and times, never a value of a card.

    Attributes:
        event: what.
        at: Unix seconds.
        subject: who did it.
        agent_id: to which agent.
        batch_id: to which Batch; empty where it is none or all.
        disclosed: context, and after a space the partner where an agreement decided → the claims that its SD-Cards can
            show, as paths.
        interaction_id: in which interaction, where the caller said so (SDC-13).
    """

    event: AuditEvent
    at: int
    subject: str
    agent_id: str
    batch_id: str = ""
    disclosed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    interaction_id: str | None = None


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """Which audit records: those behind a number, at most so many, in order.

    Attributes:
        after, up_to: only with a number larger than the one, and no larger than the other; None for all.
        agent_id: only of this agent.
        interaction_id: only of this interaction.
        since: only at this time or later, in Unix seconds.
        limit: how many at most.
    """

    after: int | None = None
    up_to: int | None = None
    agent_id: str | None = None
    interaction_id: str | None = None
    since: int | None = None
    limit: int = 100


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A bearer token as it is kept: by its digest, never its text.

    Attributes:
        digest: SHA-256 of the text, in hexadecimal.
        subject: who acts.
        scopes: what the token is for.
        limits: kind of limit → what is permitted; a kind that is absent is not limited.
        created_at, expires_at: Unix seconds; the end is exclusive.
    """

    digest: str
    subject: str
    scopes: tuple[str, ...]
    limits: Mapping[str, tuple[str, ...]]
    created_at: int
    expires_at: int


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A Holder key, by its thumbprint; ``where`` is its place in the request, for refusals."""

    thumbprint: str
    where: Where


@dataclass(frozen=True, slots=True)
class StatusRow:
    """An entry of a status list. ``is_new``: the list is not written yet."""

    list_id: str
    index: int
    is_new: bool


class StatusTaken(Exception):
    """Somebody else was given one of these status entries, or opened a list, in the meantime: choose again."""


@dataclass(frozen=True, slots=True)
class CardRow:
    """An issued SD-Card: what identifies it, never its text. ``digest`` is SHA-256 of its Issuer-signed JWT."""

    digest: str
    context: str
    thumbprint: str
    expires_at: int
    status: StatusRow | None = None


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
        batch_id, context: only those of this Batch or context; None: of all.
        interaction_id: for the audit record.
    """

    at: int
    subject: str
    agent_id: str
    event: AuditEvent
    before: tuple[int, ...]
    after: int
    batch_id: str | None
    context: str | None
    interaction_id: str | None = None


@dataclass(frozen=True, slots=True)
class StatusListRow:
    """A status list. ``version`` changes whenever a status does; ``statuses`` are those that are not VALID."""

    version: int
    statuses: Mapping[int, int] = field(repr=False)


@dataclass(frozen=True, slots=True)
class RegistrationRow:
    """Everything that one registration writes, all of it or nothing.

    Attributes:
        at: Unix seconds.
        subject: who registers; the owner of a new agent.
        agent_id: the agent.
        card_format, card: the agent's card document, as JSON text; it takes the place of an earlier one.
        keys: Holder keys, which from now on belong to this agent alone.
        batch_id: names what was issued together.
        cards: what was issued.
        disclosed, interaction_id: for the audit record; see ``AuditRow``.
    """

    at: int
    subject: str
    agent_id: str
    card_format: str
    card: str = field(repr=False)
    keys: tuple[KeyRow, ...]
    batch_id: str
    cards: tuple[CardRow, ...]
    disclosed: Mapping[str, tuple[str, ...]]
    interaction_id: str | None = None


class Store(Protocol):
    """The registry's memory. Every method may raise ``Refused`` with ``store.unavailable``; then nothing changed."""

    async def add_token(self, token: TokenRow) -> None:
        """Remember a token."""
        ...

    async def find_token(self, digest: str) -> TokenRow | None:
        """The token of this digest."""
        ...

    async def record_registration(self, registration: RegistrationRow) -> None:
        """Write a registration in one transaction, if agent and keys are the subject's and the agent's to have.

        Raises:
            Refused: ``agent.taken``, or ``key.bound-elsewhere`` at each such key.
            StatusTaken: when a status entry is somebody else's by now; nothing is written then.
        """
        ...

    async def free_statuses(self, wanted: Mapping[str, int], salts: SaltSource) -> Mapping[str, tuple[StatusRow, ...]]:
        """For each context so many random entries that nobody has now (TSL-19). Nothing is written."""
        ...

    async def change_statuses(self, change: StatusChangeRow) -> int:
        """Change statuses in one transaction; how many SD-Cards changed.

        Raises:
            Refused: ``agent.unknown`` when the subject has no such agent.
        """
        ...

    async def status_list_version(self, list_id: str) -> int | None:
        """The version of a status list; None when there is no such list."""
        ...

    async def read_status_list(self, list_id: str) -> StatusListRow:
        """The statuses of a list, which exists, and a version no newer than they are."""
        ...

    async def audit_head(self) -> Head | None:
        """The head of the audit chain; None when it is missing, which only tampering explains."""
        ...

    async def audit_records(self, query: AuditQuery) -> Sequence[AuditFound]:
        """Audit records in the order of their numbers, as they are found: nothing about them is checked."""
        ...

    async def ping(self) -> None:
        """Make sure that the memory answers."""
        ...

    async def revision(self) -> str | None:
        """Which schema the memory has; None for none of ours."""
        ...

    def connections_in_use(self) -> int:
        """How many connections work at this moment."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
