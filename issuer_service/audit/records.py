"""Audit events as values, and the rows that each transaction writes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from sdcard.encoding import JsonObject
from sdcard.errors import Finding

# -- Changes of a transaction to the tables, for its audit record -----------------------------------------------------

Row: TypeAlias = Mapping[str, object]
"""The columns of a row."""


FOUND = ""
"""Not the name of a status list: the rows of ``discovery_cards`` by their positions, since they have a status too."""
NEVER = 2**62
"""When they expire."""


class StatusRun(NamedTuple):
    """Status entries of one list for one Batch and context, and their status.

    ``expires_at``: Unix seconds, exclusive. Changes of statuses do not affect entries that expired long ago.
    """

    context: str
    list_id: str
    batch_id: str
    expires_at: int
    status: int
    indices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """Rows that one transaction wrote.

    Attributes:
        rows: table → the rows that it inserted or updated, as they are now.
        gone: table → the names of the rows that it deleted.
        keys: when → the thumbprints of the Holder keys that were bound to the record's agent then.
        runs: the status entries that were given to SD-Cards of the record's agent.
        public_at: Unix seconds from which status lists show the statuses that it changed.
        adopts: whether the state begins with this record. Records before it say nothing about the tables.
    """

    rows: Mapping[str, Sequence[Row]] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    gone: Mapping[str, Sequence[str]] = field(default_factory=lambda: MappingProxyType({}))
    keys: Mapping[int, Sequence[str]] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    runs: Sequence[StatusRun] = ()
    public_at: int | None = None
    adopts: bool = False


NOTHING = WrittenRows()


@dataclass(frozen=True, slots=True)
class StateVerdict:
    """Result of comparing the tables with the audit chain.

    Attributes:
        rows: how many rows were compared.
        adopted: the record that the state begins with; 0: the first one of the chain.
        findings: the first differences; places are table, name of the row and column.
        unlisted: how many more there are.
    """

    rows: int
    adopted: int
    findings: tuple[Finding, ...]
    unlisted: int


# -- Audit records as they go into the chain and come out of it -------------------------------------------------------

AuditFound: TypeAlias = "tuple[int, JsonObject | None]"
"""The number of an audit record, and the record; None when the stored bytes are not a record."""


class AuditEvent(StrEnum):
    """Kinds of audit events. A closed set; ids are never reused."""

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
    DISCOVERY_WITHDRAWN = "discovery.withdrawn"
    TOKEN_ADDED = "token.added"
    SESSION_OPENED = "session.opened"
    SESSION_ENDED = "session.ended"
    STATE_ADOPTED = "state.adopted"
    LISTS_OPENED = "status-lists.opened"
    LIST_DROPPED = "status-list.dropped"
    ROWS_DELETED = "rows.deleted"
    DOMAINS_CHECKED = "domains.checked"
    LOG_BEGUN = "log.begun"
    LOG_RENAMED = "log.renamed"
    REVIEW_ASKED = "review.asked"
    REVIEW_APPROVED = "review.approved"
    REVIEW_REJECTED = "review.rejected"


class Supersedes(StrEnum):
    """Treatment of an agent's earlier SD-Cards when it gets new ones."""

    REVOKE = "revoke"
    RUN_OUT = "run_out"


class Possession(StrEnum):
    """Result of an agent's proof of possession."""

    PROVEN = "proven"
    NOT_PROVEN = "not-proven"


@dataclass(frozen=True, slots=True)
class AuditRow:
    """An event of the audit record: names and times, never a value of a card.

    Attributes:
        event: the kind of event.
        at: Unix seconds.
        subject: the subject that caused it; empty for commands on the registry's database.
        agent_id: the agent; empty for the registry's own keys.
        batch_id: the Batch; empty for none or all.
        disclosed: the context, and after a space the partner of the agreement → the claims that its SD-Cards can show,
            as paths. For a change of keys: use → the keys. For a delegation: ``chain``, ``scopes``, ``token``.
        interaction_id: the interaction that the caller named (SDC-13).
        possession: for issuance, whether the agent proved possession of the keys.
        supersedes: for issuance, what happened to earlier SD-Cards.
        checks: for issuance, the codes in ``issuer_checks`` of the SD-Cards, sorted, with spaces between them.
        written: the rows that the transaction wrote and deleted. The record contains their digests.
        signed: for issuance, the SD-Cards: digest and ``signed_digest``, in hexadecimal, and the salt of its leaf in
            the log.
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
    checks: str | None = None
    written: WrittenRows = NOTHING
    signed: Sequence[tuple[str, str, bytes]] = ()


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """A range of audit records: from a number on, at most so many, in order.

    Attributes:
        after, up_to: only with a number larger than the one, and no larger than the other; None for all.
        agent_id: only of this agent, by its own id or a pairwise one.
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
