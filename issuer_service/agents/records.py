"""Agents and registrations as frozen values."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from issuer_service.audit.records import AuditEvent, Possession, Supersedes
from issuer_service.discovery.records import DiscoveryRow
from issuer_service.status.records import CardRow
from sdcard.encoding import JsonObject
from sdcard.errors import Where
from sdcard.issuer_checks import IssuerCheck

KEPT_SECONDS = 86_400
"""How long a response is stored for retries."""


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A Holder key, by its thumbprint.

    ``where`` is its place in the request, for refusals.
    """

    thumbprint: str
    where: Where


class AgentChanged(Exception):
    """The agent changed after its new SD-Cards were made: retry."""


@dataclass(frozen=True, slots=True)
class IssuedNonce:
    """A nonce that the caller was given, for the transaction to use up.

    Attributes:
        expires_at: Unix seconds; it is remembered for as long.
        key: the key that it was recognized by.
        where: its place in the request, for refusals.
    """

    text: str = field(repr=False)
    expires_at: int
    key: bytes = field(repr=False)
    where: Where


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A stored response for retries, encrypted (decision 0010).

    Attributes:
        digest: of the subject and its Idempotency-Key, in hexadecimal.
        request: SHA-256 of the request, in hexadecimal.
        sealed: the response, which only the token of the request can decrypt; None once the agent was deleted.
        expires_at: Unix seconds, exclusive.
        most_bytes: maximum stored for one subject.
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
class RegisteredRow:
    """Owner and last registration of an agent, as in ``RegistrationRow``."""

    subject: str
    content: str | None
    asked: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class AgentListed:
    """An agent in its owner's list.

    ``expires_at``: of the last SD-Card that has neither expired nor been revoked.
    """

    agent_id: str
    card_format: str
    registered_at: int
    updated_at: int
    expires_at: int | None


@dataclass(frozen=True, slots=True)
class IssuedRow:
    """Count of a Batch's SD-Cards in a context by status, and the last expiry."""

    batch_id: str
    issued_at: int
    context: str
    status: int
    cards: int
    expires_at: int


@dataclass(frozen=True, slots=True)
class DeletionRow:
    """An owner's deletion of an agent.

    ``at``, and when status lists show it: Unix seconds.
    """

    at: int
    public_at: int
    subject: str
    agent_id: str


@dataclass(frozen=True, slots=True)
class RegistrationRow:
    """Everything that one registration writes, all of it or nothing.

    Attributes:
        at: Unix seconds.
        public_at: Unix seconds from which status lists show that earlier SD-Cards are revoked; 0 if none are.
        subject: the caller's subject; it owns a new agent.
        card_format, card: the agent's card as JSON text, which replaces an earlier one.
        card_version, content: the card's version and the digest of its content. Changed content needs a new version.
        keys: Holder keys, which now belong to this agent alone.
        kid: the key that signed the Batch.
        cards: the issued SD-Cards.
        disclosed, interaction_id: for the audit record; see ``AuditRow``.
        event: the audit event: a registration, a renewal or a change of keys.
        asked: the contexts and public keys, as JSON text, for renewals.
        possession: whether the agent proved possession of these keys.
        nonce: the nonce of the proofs, which is consumed.
        supersedes: what happens to the agent's earlier SD-Cards.
        checks: the codes in ``issuer_checks`` of the SD-Cards.
        made_from: the Batch that must still be the agent's last; None for any.
        answer: the response that a retry with the same Idempotency-Key receives.
        discovery: the agent's discovery entries, which replace all earlier ones.
        is_checked: whether the registry checks agents, so that a check is scheduled.
    """

    at: int
    public_at: int
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
    nonce: IssuedNonce | None = None
    supersedes: Supersedes = Supersedes.RUN_OUT
    checks: tuple[IssuerCheck, ...] = ()
    made_from: str | None = None
    answer: StoredResponse | None = None
    discovery: tuple[DiscoveryRow, ...] = ()
    is_checked: bool = False


@dataclass(frozen=True, slots=True)
class CheckedAgent:
    """An agent as its owner registered it, for checks. The columns of ``agents``."""

    agent_id: str
    subject: str
    card_format: str
    card: str = field(repr=False)
    asked: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class ClaimedCheck:
    """An agent that this process checks.

    Attributes:
        due_at: when the check was due.
        failures: how many checks in a row proved less than everything.
        until: the end of the claim.
    """

    agent: CheckedAgent
    due_at: int
    failures: int
    until: int


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check.

    Attributes:
        subject: the subject of the audit record.
        at, due_at: when it ended, and when the next check is due.
        failures: as in ``ClaimedCheck``.
        outcome: the ways and findings of each host, and the findings about the published card.
        proved: host → the values that it proved.
    """

    claimed: ClaimedCheck
    subject: str
    at: int
    due_at: int
    failures: int
    outcome: JsonObject = field(repr=False)
    proved: JsonObject = field(repr=False)

    @property
    def agent_id(self) -> str:
        """The agent that was checked."""
        return self.claimed.agent.agent_id


@dataclass(frozen=True, slots=True)
class StoredCheck:
    """The last result of an agent's checks, as in ``CheckResult``.

    ``checked_at``: None before the first check.
    """

    due_at: int
    checked_at: int | None
    outcome: JsonObject = field(repr=False)
    proved: JsonObject = field(repr=False)
