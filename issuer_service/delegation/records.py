"""Grants, approvals and chains as frozen values."""

from dataclasses import dataclass, field
from enum import StrEnum

from issuer_service.agents.records import IssuedNonce


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
    nonce: IssuedNonce | None
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
        expires_at: the instant from which the row is not needed.
    """

    at: int
    client: str
    kind: str
    token: str = field(repr=False)
    expires_at: int
