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
    """A grant of the operator: scopes that a delegator may delegate to a target.

    Attributes:
        delegator: ``agent:`` and an agent's id, or the subject of a token.
        target: ``agent:`` and an agent's id.
        scopes: the scopes that may be delegated.
        sensitive: the scopes that a person must approve each time.
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
    """A link of a chain: one exchange and its token.

    Attributes:
        token_id: the token's ``jti``.
        parents: the ``jti`` values of earlier links, the first one first.
        root: the start of the chain: ``opaque:`` or ``jwt:`` and the digest of an access token; empty for an SD-Card.
        actor: the party that delegated.
        target: the agent that received the token, with ``agent:``.
        proof: digest of the SD-Card that the actor presented; empty if none.
        client: the subject of the request.
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
        approval_id: the id, with which the client repeats its request.
        client: the subject of the request.
        parties: the chain: the subject, then the actors, in order.
        target: the agent that would receive the token.
        scopes: the scopes of the token, sorted.
        state: waiting, approved, denied or used.
        asked_at, expires_at: Unix seconds. An approval can be used only before it expires.
        decided_by: the subject that approved or denied it.
        owners: the owners of the agents of the exchange at the time of the request, sorted.
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
        parties, scopes, interaction_id: of the chain, for the audit record.
        nonce: the nonce of the presented SD-Card, which is consumed.
        proof: digest of the request's DPoP proof, and the end of its single use.
        approval: the approval that the exchange needs, which is consumed.
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
class Decider:
    """The person of a decision.

    ``token``: the digest of the person's token, and its end in Unix seconds; None for a command on the database.
    """

    subject: str
    token: tuple[str, int] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """A person's decision.

    ``by``: the person; ``state``: ``APPROVED`` or ``DENIED``; ``at``: Unix seconds.
    """

    approval_id: str
    by: Decider
    state: ApprovalState
    at: int


@dataclass(frozen=True, slots=True)
class RevocationRow:
    """The revocation of a token.

    Attributes:
        at: Unix seconds.
        client: the subject of the request.
        kind: the kind of token: ``delegated``, ``opaque`` or ``jwt``.
        token: its ``jti``, or its digest.
        expires_at: Unix seconds, from which the row is not needed.
    """

    at: int
    client: str
    kind: str
    token: str = field(repr=False)
    expires_at: int
