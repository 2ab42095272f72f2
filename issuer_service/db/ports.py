"""``Store``: what the registry asks of its memory. No SQL, no HTTP."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from issuer_service.agents.records import (
    AgentListed,
    AgentRow,
    AnswerRow,
    DeletionRow,
    IssuedRow,
    RegisteredRow,
    RegistrationRow,
    SessionRow,
    TokenRow,
)
from issuer_service.audit.records import AuditEvent, AuditFound, AuditQuery, StateVerdict
from issuer_service.delegation.records import Delegations
from issuer_service.discovery.records import DiscoveryQuery, FoundPage, RenewalRow, SourceRow
from issuer_service.keys.repository import KeyChange, RegistryKeyRow
from issuer_service.status.records import StatusChangeRow, StatusRow
from sdcard.audit_chain import Head
from sdcard.instants import Instant
from sdcard.salts import SaltSource

T = TypeVar("T")


class Nonces(Protocol):
    """The key of nonces, and, in transactions of other parts, those that were used."""

    async def key(self, salts: SaltSource) -> bytes:
        """Give the key that nonces are made with now.

        Raises:
            Refused: ``store.unavailable``.
        """
        ...

    async def recognize(self, check: Callable[[bytes], T], salts: SaltSource, now: Instant) -> tuple[bytes, T]:
        """Return the key that passes a check, and its result.

        Another process may have drawn a new key.

        Raises:
            Refused: what ``check`` raises; ``store.unavailable``.
        """
        ...


class Store(Protocol):
    """The registry's memory.

    Every method may raise ``Refused`` with ``store.unavailable``; then nothing changed.
    """

    @property
    def nonces(self) -> Nonces:
        """The part about nonces for proofs to the registry."""
        ...

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

    async def delete_token(self, digest: str, at: int) -> None:
        """Forget a token, if it is there.

        From the commit on it opens nothing, in no process.
        """
        ...

    async def add_session(self, session: SessionRow, at: int) -> None:
        """Remember a session of the console.

        Of one token's the oldest are forgotten when there are many.
        """
        ...

    async def find_session(self, digest: str, at: int) -> SessionRow | None:
        """The session of this digest, unless it has ended."""
        ...

    async def end_session(self, digest: str, at: int) -> None:
        """Forget a session, if it is there."""
        ...

    async def record_registration(self, registration: RegistrationRow) -> AnswerRow | None:
        """Write a registration in one transaction.

        The agent must be the subject's to register, and the keys the agent's.

        Of those who ask with one Idempotency-Key, one registers, and the others are given the answer that is kept:
        then nothing is written.

        Raises:
            Refused: ``agent.taken``, or ``key.bound-elsewhere`` at each such key; ``proof.nonce``; ``limit.bytes`` when
                there is no room for the answer.
            StatusTaken: when another process has taken a status entry; nothing is written then.
            KeyNotInUse: when the key that signed is in use no more; nothing is written then.
            AgentChanged: when ``made_from`` is not the agent's last Batch; nothing is written then.
            KeyNotInUse: when the key that signed is in use no more; nothing is written then.
        """
        ...

    async def record_registrations(self, registrations: Sequence[RegistrationRow]) -> int:
        """Write many registrations in one transaction; return how many were written.

        Agents that are registered already are left out.

        None of them has a proof, an answer to keep, or earlier SD-Cards to revoke.

        Raises:
            Refused, StatusTaken, KeyNotInUse: as ``record_registration``, for any of them; nothing is written then.
        """
        ...

    async def registered(self, agent_ids: Sequence[str]) -> Mapping[str, RegisteredRow]:
        """Return the registrations of these agents, except of unknown and deleted ones."""
        ...

    async def find_answer(self, digest: str, at: int) -> AnswerRow | None:
        """The answer that is kept for this subject and Idempotency-Key."""
        ...

    async def find_agent(self, subject: str, agent_id: str) -> AgentRow | None:
        """The subject's agent of this id, unless it was deleted."""
        ...

    async def list_agents(
        self, subject: str, prefixes: Sequence[str] | None, after: str, count: int, at: int
    ) -> tuple[AgentListed, ...]:
        """List the subject's agents after an id, in the order of their ids.

        At most so many are listed. They have one of these prefixes, or any.
        """
        ...

    async def issued_for(self, agent_id: str, most_batches: int, at: int) -> tuple[IssuedRow, ...]:
        """Return the unexpired part of an agent's newest Batches, newest first."""
        ...

    async def delete_agent(self, deletion: DeletionRow) -> int:
        """Revoke an agent's SD-Cards and forget all but its id and keys.

        It is one transaction. Return how many were revoked.

        Raises:
            Refused: ``agent.unknown`` when the subject has no such agent.
        """
        ...

    async def free_statuses(self, count: int, salts: SaltSource, at: int) -> tuple[StatusRow, ...]:
        """Draw random entries that no SD-Card has now, of all open lists alike (TSL-19).

        None is taken yet.

        Where a list is missing or half full, another one is opened.
        """
        ...

    async def change_statuses(self, change: StatusChangeRow) -> int:
        """Change statuses in one transaction; how many SD-Cards changed.

        Raises:
            Refused: ``agent.unknown`` when the subject has no such agent.
        """
        ...

    async def has_status_list(self, list_id: str, at: int) -> bool:
        """Whether a list exists that is open or has an SD-Card valid after ``at``."""
        ...

    async def read_status_list(self, list_id: str, instant: int, latest: int) -> Mapping[int, int]:
        """Return a list from an instant on: index → status, of entries that are not VALID.

        A change that says that it becomes public after ``latest`` is public at once, and for ever.
        """
        ...

    async def drop_expired_list(self, at: int) -> bool:
        """Drop a closed list whose entries all expired long ago.

        Return whether there was one.
        """
        ...

    async def latest_expiry(self) -> int | None:
        """Return when the registry's last SD-Card expires, Unix seconds.

        None when no SD-Card was ever issued.
        """
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
        """Change keys, in this order and one transaction.

        What a key ``signs_until`` only ever grows.

        Raises:
            KeysChanged: when one is not as it was before; nothing is written then.
        """
        ...

    async def audit_head(self) -> Head | None:
        """Return the head of the audit chain.

        None when it is missing, which only tampering explains.
        """
        ...

    async def compare_state(self, take: Callable[[AuditFound], None]) -> tuple[Head | None, StateVerdict]:
        """Compare the tables with what the audit chain says of them, in one snapshot.

        Args:
            take: called with each record of the chain, in order.

        Returns: the head of the chain in the same snapshot, and what differs.

        Raises:
            Misuse: when the database was not adopted.
        """
        ...

    async def audit_records(self, query: AuditQuery) -> Sequence[AuditFound]:
        """Read audit records in the order of their numbers, without checks."""
        ...

    async def discovery_secret(self) -> bytes:
        """32 random bytes that all processes of the registry share, and nobody else knows."""
        ...

    async def find_agents(self, query: DiscoveryQuery) -> FoundPage:
        """Find the agents that have all the terms and are valid, at bounded cost.

        Suspended and revoked agents are left out. A page may end early and say where to go on.
        """
        ...

    async def read_discovery_cards(self, positions: Sequence[int], at: int) -> Mapping[int, tuple[str, str]]:
        """Read the valid SD-Cards at these positions, each after its agent's id."""
        ...

    async def discovery_sources(self, positions: Sequence[int]) -> Sequence[SourceRow]:
        """Return the sources of the SD-Cards at these positions, except of deleted ones."""
        ...

    async def renew_discovery(self, renewals: Sequence[RenewalRow]) -> None:
        """Write these entries in one transaction.

        Agents that registered again, or were suspended or revoked, are left out.

        Raises:
            StatusTaken: as ``record_registration``.
        """
        ...

    async def check_commit(self) -> None:
        """Make sure that a transaction can be committed now.

        Nothing changes, and no audit record is made.

        Raises:
            Refused: ``store.unavailable``.
        """
        ...

    async def revision(self) -> str | None:
        """Return the schema's revision; None for an unknown schema."""
        ...

    def connections_in_use(self) -> int:
        """Count the connections in use."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
