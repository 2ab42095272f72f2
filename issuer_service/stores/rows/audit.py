"""Audit records as they go into the chain and come out of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from issuer_service.stores.rows.state import NOTHING, Written
from sdcard.encoding import JsonObject

AuditFound: TypeAlias = "tuple[int, JsonObject | None]"
"""The number of an audit record, and the record; None when what is stored is no record at all."""


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
        written: the rows that the same transaction wrote and deleted. The record keeps digests of them.
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
    written: Written = NOTHING


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
