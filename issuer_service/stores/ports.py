"""``Store``: what the registry asks of its memory, and the frozen values that go in and out. No SQL, no HTTP."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeAlias

from issuer_service.stores.delegation_ports import Delegations
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
    AGENT_RENEWED = "agent.renewed"
    AGENT_KEYS_CHANGED = "agent.keys-changed"
    AGENT_DELETED = "agent.deleted"
    KEY_ADDED = "key.added"
    KEYS_ROTATED = "keys.rotated"
    KEY_REMOVED = "key.removed"
    KEYS_RESEALED = "keys.resealed"
    DISCOVERY_ISSUED = "discovery.issued"
    GRANT_ADDED = "grant.added"
    GRANT_REMOVED = "grant.removed"
    DELEGATION_ISSUED = "delegation.issued"
    TOKEN_REVOKED = "token.revoked"
    APPROVAL_ASKED = "approval.asked"
    APPROVAL_GRANTED = "approval.granted"
    APPROVAL_DENIED = "approval.denied"


class Supersedes(StrEnum):
    """What becomes of an agent's earlier SD-Cards when it gets new ones."""

    REVOKE = "revoke"
    RUN_OUT = "run_out"


class Possession(StrEnum):
    """Whether an agent has shown that it holds its keys."""

    PROVEN = "proven"
    NOT_PROVEN = "not-proven"


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
            show, as paths. Of a change of keys: use → the keys. Of a delegation: ``chain``, ``scopes``, ``token``.
        interaction_id: in which interaction, where the caller said so (SDC-13).
        possession: of something issued, whether the agent has shown that it holds the keys.
        supersedes: of something issued, what became of earlier SD-Cards.
    """

    event: AuditEvent
    at: int
    subject: str
    agent_id: str
    batch_id: str = ""
    disclosed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    interaction_id: str | None = None
    possession: Possession | None = None
    supersedes: Supersedes | None = None


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


class AgentChanged(Exception):
    """The agent is not any more what its new SD-Cards were made from: begin again."""


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
class NonceRow:
    """A nonce for a proof of possession, by its digest; ``expires_at``: Unix seconds, exclusive."""

    digest: str
    subject: str
    expires_at: int


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """An answer that is kept so that it can be given again, sealed (decision 0010).

    Attributes:
        digest: of the subject and its Idempotency-Key, in hexadecimal.
        subject: who asked.
        request: SHA-256 of what was asked, in hexadecimal.
        sealed: what only the token that asked can open; None once the agent was deleted.
        expires_at: Unix seconds, exclusive.
        most_bytes: how much may be kept for one subject.
    """

    digest: str
    subject: str
    request: str
    sealed: bytes | None = field(repr=False)
    expires_at: int
    most_bytes: int = 0


@dataclass(frozen=True, slots=True)
class AgentRow:
    """An agent as its owner registered it last.

    Attributes:
        agent_id: the agent.
        card_format, card: its card document, as JSON text.
        asked: the contexts and public keys of its registration, as JSON text; None for one of long ago.
        possession: whether it has shown that it holds these keys.
        batch_id: the Batch that was issued last.
        registered_at, updated_at: Unix seconds.
    """

    agent_id: str
    card_format: str
    card: str = field(repr=False)
    asked: str | None = field(repr=False)
    possession: Possession
    batch_id: str | None
    registered_at: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class AgentListed:
    """An agent in its owner's list. ``expires_at``: of the last SD-Card that has neither expired nor been revoked."""

    agent_id: str
    card_format: str
    registered_at: int
    updated_at: int
    expires_at: int | None


@dataclass(frozen=True, slots=True)
class IssuedRow:
    """How many SD-Cards of a Batch and context have this status, and when the last of them expires."""

    batch_id: str
    issued_at: int
    context: str
    status: int
    cards: int
    expires_at: int


@dataclass(frozen=True, slots=True)
class DeletionRow:
    """An owner's word that an agent is no more. ``at``: Unix seconds."""

    at: int
    subject: str
    agent_id: str


@dataclass(frozen=True, slots=True)
class Audience:
    """Who looks for agents: those of a context, or with ``partner`` that partner alone."""

    context: str
    partner: str


@dataclass(frozen=True, slots=True)
class DiscoveryRow:
    """That an agent can be found by an audience, and what it takes to make its SD-Card for that.

    Attributes:
        audience: who can find it.
        terms: by what, as ``criterion:text``.
        disclose: the registration's own list, if it had one.
        holder_key: the public JWK, of this Batch, that the SD-Card is bound to.
        until: Unix seconds, from which it is found no more; None: no such end.
        decided_by: names what decided the terms, the policy above all. When that changed, they may say too much.
    """

    audience: Audience
    terms: tuple[str, ...] = field(repr=False)
    disclose: tuple[str, ...] | None
    holder_key: Mapping[str, str]
    until: int | None
    decided_by: str


@dataclass(frozen=True, slots=True)
class DiscoveryQuery:
    """A question: which agents have all of these terms.

    Attributes:
        audience: who asks.
        terms: one or more, as ``criterion:text``.
        after: the position that the answer begins behind; ``START`` for the first one.
        limit: how many rows are wanted at most.
        at: Unix seconds.
    """

    audience: Audience
    terms: tuple[str, ...] = field(repr=False)
    after: int
    limit: int
    at: int


START = -1
"""Positions are 63 random bits."""


@dataclass(frozen=True, slots=True)
class FoundRow:
    """An agent that was found, and the SD-Card there is of it: none yet when ``renew_at`` is 0.

    Attributes:
        position: where it stands in the order of its audience.
        agent_id: the agent.
        size: characters of the SD-Card.
        renew_at, expires_at: Unix seconds.
        decided_by: as in ``DiscoveryRow``.
    """

    position: int
    agent_id: str
    size: int
    renew_at: int
    expires_at: int
    decided_by: str


@dataclass(frozen=True, slots=True)
class FoundPage:
    """Rows in the order of their positions. ``more``: where to go on; None when there is nothing behind."""

    rows: tuple[FoundRow, ...]
    more: int | None


@dataclass(frozen=True, slots=True)
class SourceRow:
    """What the SD-Card of an agent for an audience is made from."""

    position: int
    agent_id: str
    batch_id: str
    audience: Audience
    disclose: tuple[str, ...] | None
    holder_key: Mapping[str, str]
    card_format: str
    card: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class DiscoveryCardRow:
    """An SD-Card for discovery. ``claims``: what it can show, for the audit record."""

    sd_card: str = field(repr=False)
    card: CardRow
    renew_at: int
    claims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RenewalRow:
    """An agent's terms and SD-Card for an audience, made anew. ``issued``: None when it must not be found any more.

    Attributes:
        at: Unix seconds.
        subject: who issues.
        position, agent_id, batch_id, audience: as in ``SourceRow``.
        terms, until, decided_by: as in ``DiscoveryRow``.
        kid: the key that signed.
    """

    at: int
    subject: str
    position: int
    agent_id: str
    batch_id: str
    audience: Audience
    terms: tuple[str, ...] = field(repr=False)
    until: int | None
    decided_by: str
    kid: str
    issued: DiscoveryCardRow | None


@dataclass(frozen=True, slots=True)
class RegistrationRow:
    """Everything that one registration writes, all of it or nothing.

    Attributes:
        at: Unix seconds.
        subject: who registers; the owner of a new agent.
        agent_id: the agent.
        card_format, card: the agent's card document, as JSON text; it takes the place of an earlier one.
        card_version, content: the version that the card says, and a digest of what is in it: a card that takes the
            place of another one has another version.
        keys: Holder keys, which from now on belong to this agent alone.
        batch_id: names what was issued together.
        kid: the key that signed all of it.
        cards: what was issued.
        disclosed, interaction_id: for the audit record; see ``AuditRow``.
        event: what is recorded: a registration, a renewal, a change of keys.
        asked: the contexts and public keys, as JSON text, for renewals.
        possession: whether the agent has shown that it holds these keys.
        nonce: digest of the nonce of the proofs that came with it; it is used up.
        supersedes: what becomes of the agent's earlier SD-Cards.
        made_from: the Batch that must still be the agent's last one; None: whatever it is.
        answer: what is kept for whoever asks again with the same Idempotency-Key.
        discovery: where the agent is found from now on, and nowhere else.
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
    card_version: str = ""
    content: str = ""
    interaction_id: str | None = None
    event: AuditEvent = AuditEvent.AGENT_REGISTERED
    asked: str = field(default="{}", repr=False)
    possession: Possession = Possession.NOT_PROVEN
    nonce: str | None = None
    supersedes: Supersedes = Supersedes.RUN_OUT
    made_from: str | None = None
    answer: AnswerRow | None = None
    discovery: tuple[DiscoveryRow, ...] = ()


class Store(Protocol):
    """The registry's memory. Every method may raise ``Refused`` with ``store.unavailable``; then nothing changed."""

    @property
    def delegations(self) -> Delegations:
        """The part about grants, delegated tokens and approvals."""
        ...

    async def add_token(self, token: TokenRow) -> None:
        """Remember a token."""
        ...

    async def find_token(self, digest: str) -> TokenRow | None:
        """The token of this digest."""
        ...

    async def read_tokens(self) -> tuple[TokenRow, ...]:
        """All tokens, in the order in which they were made; those that have expired too."""
        ...

    async def delete_token(self, digest: str) -> None:
        """Forget a token, if it is there. From the commit on it opens nothing, in no process."""
        ...

    async def record_registration(self, registration: RegistrationRow) -> AnswerRow | None:
        """Write a registration in one transaction, if agent and keys are the subject's and the agent's to have.

        Of those who ask with one Idempotency-Key, one registers, and the others are given the answer that is kept:
        then nothing is written.

        Raises:
            Refused: ``agent.taken``, or ``key.bound-elsewhere`` at each such key; ``proof.nonce``; ``limit.bytes`` when
                there is no room for the answer.
            StatusTaken: when a status entry is somebody else's by now; nothing is written then.
            KeyNotInUse: when the key that signed is in use no more; nothing is written then.
            AgentChanged: when ``made_from`` is not the agent's last Batch; nothing is written then.
            KeyNotInUse: when the key that signed is in use no more; nothing is written then.
        """
        ...

    async def find_answer(self, digest: str, at: int) -> AnswerRow | None:
        """The answer that is kept for this subject and Idempotency-Key."""
        ...

    async def add_nonce(self, nonce: NonceRow, at: int) -> None:
        """Remember a nonce. Of one subject's the oldest are forgotten when there are many."""
        ...

    async def find_agent(self, subject: str, agent_id: str) -> AgentRow | None:
        """The subject's agent of this id, unless it was deleted."""
        ...

    async def list_agents(
        self, subject: str, prefixes: Sequence[str] | None, after: str, count: int, at: int
    ) -> tuple[AgentListed, ...]:
        """Up to so many of the subject's agents, in the order of their ids, after one; of these prefixes, or all."""
        ...

    async def issued_for(self, agent_id: str, most_batches: int, at: int) -> tuple[IssuedRow, ...]:
        """What of an agent's newest Batches has not expired, newest first."""
        ...

    async def delete_agent(self, deletion: DeletionRow) -> int:
        """Revoke an agent's SD-Cards and forget all but its id and keys, in one transaction; how many were revoked.

        Raises:
            Refused: ``agent.unknown`` when the subject has no such agent.
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

    async def discovery_secret(self) -> bytes:
        """32 random bytes that all processes of the registry share, and nobody else knows."""
        ...

    async def find_agents(self, query: DiscoveryQuery) -> FoundPage:
        """The agents that have all the terms and that nobody suspended or revoked, at bounded cost: a page may end
        early and say where to go on.
        """
        ...

    async def read_discovery_cards(self, positions: Sequence[int], at: int) -> Mapping[int, str]:
        """The SD-Cards at these positions that are good at this moment."""
        ...

    async def discovery_sources(self, positions: Sequence[int]) -> Sequence[SourceRow]:
        """What the SD-Cards at these positions are made from; those that are gone are left out."""
        ...

    async def renew_discovery(self, renewals: Sequence[RenewalRow]) -> None:
        """Write these in one transaction. Left out are agents that registered again, or were suspended or revoked.

        Raises:
            StatusTaken: as ``record_registration``.
        """
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
