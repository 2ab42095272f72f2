"""Requests for approval of a registration as frozen values.

::

    pending → approved → in force → ended
            → rejected            (each also ends by time, but not an approval in force)
"""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from issuer_service.agents.records import RegistrationRow
from issuer_service.delegation.records import Decider
from sdcard.cards.model import Card, Criterion
from sdcard.issuer import DAY
from sdcard.policy.plan import all_terms, query_terms

OPEN_SECONDS = 30 * DAY
"""How long a request waits for a person, and then for its use."""
MOST_OPEN = 100
"""Requests of one owner that wait for a person."""
EVERY_AGENT = "*"
"""In the setting ``approval_for``, instead of skills."""


class ReviewState(StrEnum):
    """State of a request for approval. A closed set."""

    PENDING = "pending"
    """It waits for a person."""
    REJECTED = "rejected"
    """The same registration is refused until the rejection expires."""
    APPROVED = "approved"
    """The owner can register exactly this."""
    IN_FORCE = "in-force"
    """The agent is registered so. SD-Cards have the code ``approved``."""
    ENDED = "ended"
    """The owner asked for something else, or the agent is registered otherwise."""


class ReviewedContext(NamedTuple):
    """A context as a registration asks for it.

    It has everything in the request that decides what the SD-Cards of the context show.

    Attributes:
        partner: for *federation*; empty without.
        disclose: the groups, claims and paths instead of the context's choice, sorted; None for that choice.
        keys: the thumbprints of the Holder keys that its SD-Cards have, sorted.
    """

    context: str
    partner: str
    disclose: tuple[str, ...] | None
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReviewRow:
    """A request for approval.

    Attributes:
        review_id: the id.
        subject: the owner, who asked.
        agent_id: the agent.
        card_format, card: its card document as JSON text; empty once the approval is in force or has ended.
        contexts: the contexts, sorted, each with what it discloses and its Holder keys.
        state: its state.
        reason: why it was rejected.
        decided_by: who approved or rejected it.
        asked_at, expires_at: Unix seconds; None: it is in force.
    """

    review_id: str
    subject: str
    agent_id: str
    card_format: str
    card: str = field(repr=False)
    contexts: tuple[ReviewedContext, ...]
    state: ReviewState
    reason: str
    decided_by: str
    asked_at: int
    expires_at: int | None


class Registered(NamedTuple):
    """The present registration of an agent: columns of ``agents``.

    ``asked``: None for one of long ago.
    """

    card_format: str
    card: str
    asked: str | None


@dataclass(frozen=True, slots=True)
class ReviewDecision:
    """A person's decision.

    Attributes:
        review_id: the request.
        by: the person.
        state: ``APPROVED`` or ``REJECTED``.
        reason: for a rejection.
        at: Unix seconds.
    """

    review_id: str
    by: Decider
    state: ReviewState
    reason: str
    at: int


class ReviewPending(Exception):
    """A registration waits for a person. Nothing was issued."""

    def __init__(self, review: ReviewRow) -> None:
        super().__init__(review.review_id)
        self.review = review


def needs_approval(approval_for: Collection[str], card: Card) -> bool:
    """Whether a person has to approve this card.

    That is so for every agent, or for one that discovery could find by one of these skills, however they are spelt.
    """
    if not approval_for or EVERY_AGENT in approval_for:
        return bool(approval_for)
    found_by = all_terms(Criterion.SKILLS, card)
    return any(not found_by.isdisjoint(query_terms(Criterion.SKILLS, skill)) for skill in approval_for)


def covers_of(new: RegistrationRow) -> str:
    """Digest of everything that an approval covers.

    It covers the owner, the agent, the whole card with its skills and hosts, and of each context what it discloses and
    its Holder keys.
    """
    covered = [new.subject, new.agent_id, new.card_format, new.content, contexts_asked(new)]
    return hashlib.sha256(json.dumps(covered).encode()).hexdigest()


def contexts_asked(new: RegistrationRow) -> tuple[ReviewedContext, ...]:
    """Return the contexts of a registration: what they disclose, and their keys."""
    asked = json.loads(new.asked).get("disclosure_contexts", ())
    return reviewed_contexts([key.thumbprint for key in new.keys], asked)


def reviewed_contexts(thumbprints: Sequence[str], asked: Sequence[Mapping[str, Any]]) -> tuple[ReviewedContext, ...]:
    """Read the contexts that a registration asks for.

    The result is sorted, because the order in the request means nothing: not of keys, contexts or entries to disclose.
    """
    every = range(len(thumbprints))
    found = [
        ReviewedContext(
            one["context"],
            one.get("partner", ""),
            tuple(sorted(set(one["disclose"]))) if "disclose" in one else None,
            tuple(sorted([thumbprints[place] for place in one.get("keys", every)])),
        )
        for one in asked
    ]
    return tuple(sorted(found, key=lambda one: (one.context, one.partner)))  # asked for once each
