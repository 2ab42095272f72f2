"""``Delegations``: the store that delegation needs, and its frozen values."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from issuer_service.stores.rows.agents import GivenNonce
from sdcard.rules import Rule


class ApprovalState(StrEnum):
    """State of an approval."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    USED = "used"


class GrantExists(Exception):
    """There is a grant for this delegator and target: remove it first."""


@dataclass(frozen=True, slots=True)
class GrantRow:
    """A grant of the operator: what a delegator may delegate to a target.

    Attributes:
        grant_id: names it.
        delegator: ``agent:`` and an agent's id, or the subject of a token.
        target: ``agent:`` and an agent's id.
        scopes: what may be handed on.
        sensitive: those of them for which a person has to approve each time.
        created_at, expires_at: Unix seconds; the end is exclusive.
    """

    grant_id: str
    delegator: str
    target: str
    scopes: tuple[str, ...]
    sensitive: tuple[str, ...]
    created_at: int
    expires_at: int


@dataclass(frozen=True, slots=True)
class LinkRow:
    """A link of a chain: one exchange, and the token that came out of it.

    Attributes:
        token_id: its ``jti``.
        parents: those of the links before it, the first one first.
        root: with what the chain began: ``opaque:`` or ``jwt:`` and the digest of an access token; empty: an SD-Card.
        actor: who handed on.
        target: to which agent, with ``agent:``.
        grant_id: the grant that permits it.
        proof: digest of the SD-Card that an agent showed for it; empty when none was shown.
        client: the subject that asked.
        issued_at, expires_at: Unix seconds.
    """

    token_id: str
    parents: tuple[str, ...]
    root: str
    actor: str
    target: str
    grant_id: str
    proof: str
    client: str
    issued_at: int
    expires_at: int


@dataclass(frozen=True, slots=True)
class ApprovalRow:
    """A request for a person's approval of an exchange.

    Attributes:
        approval_id: names it; the client repeats its request with it.
        client: the subject that asked.
        parties: the chain: the subject, then those who act, in order.
        target: the agent that the token would be for.
        scopes: what it would be for, sorted.
        interaction_id: the interaction, if any.
        state: where it is in its life.
        asked_at, expires_at: Unix seconds; approved and used before the end, or never.
        decided_by: who approved or denied it.
        owners: the owners of the agents of the exchange when it was asked for, sorted.
    """

    approval_id: str
    client: str
    parties: tuple[str, ...]
    target: str
    scopes: tuple[str, ...]
    interaction_id: str | None
    state: ApprovalState
    asked_at: int
    expires_at: int
    decided_by: str = ""
    owners: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExchangeRow:
    """Everything that one exchange writes, all of it or nothing.

    Attributes:
        at: Unix seconds.
        link: what is issued.
        parties, scopes, interaction_id: of the chain, for the audit record.
        nonce: the nonce that an SD-Card was shown with; used up with the exchange.
        proof: digest of the DPoP proof of the request, and until when to remember it; used up with it.
        approval: what has to be approved: the answer to it is used up with it.
    """

    at: int
    link: LinkRow
    parties: tuple[str, ...]
    scopes: tuple[str, ...]
    interaction_id: str | None
    nonce: GivenNonce | None
    proof: tuple[str, int] | None
    approval: ApprovalRow | None


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """A person's decision.

    ``subject``: the person; ``state``: ``APPROVED`` or ``DENIED``; ``at``: Unix seconds.
    """

    approval_id: str
    subject: str
    state: ApprovalState
    at: int


@dataclass(frozen=True, slots=True)
class RevocationRow:
    """The revocation of a token.

    Attributes:
        at: Unix seconds.
        client: the subject that asks.
        kind: what token: ``delegated``, ``opaque`` or ``jwt``.
        token: its ``jti``, or its digest.
        expires_at: from when on nobody needs to remember it.
    """

    at: int
    client: str
    kind: str
    token: str = field(repr=False)
    expires_at: int


class Delegations(Protocol):
    """Grants, delegated tokens and approvals.

    Every method may raise ``Refused`` with ``store.unavailable``.
    """

    async def add_grant(self, grant: GrantRow) -> GrantRow:
        """Add a grant.

        Raises:
            GrantExists: when there is one for its delegator and target.
        """
        ...

    async def remove_grant(self, grant_id: str, at: int) -> GrantRow | None:
        """Remove a grant, and with it every chain that it is a part of.

        None when there was no such grant.
        """
        ...

    async def list_grants(self) -> tuple[GrantRow, ...]:
        """All grants, by delegator and target."""
        ...

    async def find_grant(self, delegator: str, target: str, at: int) -> GrantRow | None:
        """The grant for these two that has not ended."""
        ...

    async def find_own_name(self, party: str) -> str:
        """Resolve an agent's pairwise name to its id.

        Any other party is returned unchanged.
        """
        ...

    async def find_links(self, token_id: str) -> tuple[LinkRow, ...]:
        """Return the chain of a delegated token, its first link first.

        It is empty when a link is unknown.
        """
        ...

    async def find_end(self, links: Sequence[LinkRow], at: int) -> tuple[Rule, int] | None:
        """Explain why a chain is no longer valid, with the number of its link.

        None: it is valid.
        """
        ...

    async def ask_approval(self, exchange: ExchangeRow) -> ApprovalRow:
        """Request an approval; a repeated request returns the open one.

        Raises:
            Refused: as ``record_exchange``; ``rate.exceeded`` when the client has asked for too many.
        """
        ...

    async def record_exchange(self, exchange: ExchangeRow) -> None:
        """Write an exchange in one transaction, if the whole chain counts.

        Raises:
            Refused: ``proof.nonce``; ``dpop.replayed``; ``status.…`` or ``delegation.…`` for the link that does not
                count; ``approval.…``.
        """
        ...

    async def list_approvals(
        self, at: int, count: int, after: tuple[int, str] | None = None, client: str | None = None
    ) -> tuple[ApprovalRow, ...]:
        """Give approvals that wait for a decision, the oldest first.

        Args:
            at: the present instant.
            count: how many at most.
            after: instant and name of the approval that the last page ended with.
            client: whose; None: of every client.
        """
        ...

    async def find_waiting(self, approval_id: str, at: int) -> ApprovalRow | None:
        """Give the approval of this name, if it waits for a decision."""
        ...

    async def decide(self, decision: DecisionRow) -> ApprovalRow:
        """Approve or deny.

        Raises:
            Refused: ``approval.decided`` when none of this name waits; ``approval.self`` when a party of the exchange
                would approve: the client, the delegator, an actor, the target, or an owner of one of these agents.
        """
        ...

    async def revoke(self, revocation: RevocationRow) -> bool:
        """Revoke a token, if it is the client's to revoke; whether anything changed."""
        ...
