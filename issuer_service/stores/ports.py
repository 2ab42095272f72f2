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
    KEY_ADDED = "key.added"
    KEYS_ROTATED = "keys.rotated"
    KEY_REMOVED = "key.removed"
    KEYS_RESEALED = "keys.resealed"


class KeyUse(StrEnum):
    """What a key of the registry signs, and nothing else. A closed set; ids are never reused."""

    CARDS = "cards"
    STATUS = "status"
    TOKENS = "tokens"
    AUDIT = "audit"


class KeyState(StrEnum):
    """Where a key of the registry is in its life, which goes one way."""

    NEXT = "next"
    ACTIVE = "active"
    RETIRED = "retired"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class AuditRow:
    """What happened, for the audit record: names and times, never a value of a card.

    Attributes:
        event: what.
        at: Unix seconds.
        subject: who did it; empty for commands on the registry's database.
        agent_id: to which agent; empty where it is about the registry's own keys.
        batch_id: to which Batch; empty where it is none or all.
        disclosed: context, and after a space the partner where an agreement decided → the claims that its SD-Cards can
            show, as paths. Of a change of keys: use → the keys.
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
class RegistryKeyRow:
    """A key of the registry.

    Attributes:
        kid: its thumbprint.
        use: what it signs.
        public_jwk: its public half, as it is published.
        sealed: the private half, or where it is, encrypted; bound to ``kid``, ``use`` and algorithm. Empty: removed.
        state: where it is in its life.
        created_at, activated_at, retired_at: Unix seconds; None: not yet.
        not_before: from when on Verifiers can be expected to know it.
        signs_until: from when on nothing that it signed counts; exclusive. None: never.
    """

    kid: str
    use: KeyUse
    public_jwk: Mapping[str, str]
    sealed: str = field(repr=False)
    state: KeyState
    created_at: int
    not_before: int
    activated_at: int | None = None
    retired_at: int | None = None
    signs_until: int | None = 0


KeyChange = tuple[RegistryKeyRow, RegistryKeyRow]
"""What a key is, and what it shall be."""


class KeyNotInUse(Exception):
    """The key that signed has been retired or removed in the meantime: sign again with the one that took its place."""


class KeysChanged(Exception):
    """Somebody else changed the registry's keys in the meantime, or has this key already: look again."""


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
        kid: the key that signed all of it.
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
    kid: str
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
            KeyNotInUse: when the key that signed is in use no more; nothing is written then.
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

    async def latest_expiry(self) -> int | None:
        """When the last SD-Card there is expires, Unix seconds; None when none was ever issued."""
        ...

    async def read_keys(self) -> tuple[RegistryKeyRow, ...]:
        """The registry's keys, of all uses and states, the oldest first."""
        ...

    async def add_keys(self, added: Sequence[RegistryKeyRow]) -> None:
        """Add keys, all of them or none.

        Raises:
            KeysChanged: when one is there, or another one of its use is active already.
        """
        ...

    async def change_keys(self, event: AuditEvent, at: int, changes: Sequence[KeyChange]) -> None:
        """Change keys, in this order and one transaction. What a key ``signs_until`` only ever grows.

        Raises:
            KeysChanged: when one is not as it was before; nothing is written then.
        """
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

    async def close(self) -> None:
        """Let go of connections."""
        ...
