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
from issuer_service.discovery.records import Audience
from sdcard.cards.model import Card, Fact
from sdcard.issuer import DAY
from sdcard.paths import value_at

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


class ReviewedKey(NamedTuple):
    """A Holder key by its thumbprint, and the contexts whose SD-Cards have it."""

    thumbprint: str
    contexts: tuple[Audience, ...]


@dataclass(frozen=True, slots=True)
class ReviewRow:
    """A request for approval.

    Attributes:
        review_id: the id.
        subject: the owner, who asked.
        agent_id: the agent.
        card_format, card: its card document as JSON text; empty once the approval is in force or has ended.
        keys: the Holder keys with their contexts, sorted.
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
    keys: tuple[ReviewedKey, ...]
    state: ReviewState
    reason: str
    decided_by: str
    asked_at: int
    expires_at: int | None


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

    That is so for every agent, or for one with one of these skills.
    """
    if EVERY_AGENT in approval_for:
        return True
    paths = card.format.facts[Fact.SKILL] if approval_for else ()
    return any(value_at(card.document, place) in approval_for for one in paths for place in one.find(card.document))


def covers_of(new: RegistrationRow) -> str:
    """Digest of everything that an approval covers.

    It covers the owner, the agent, the whole card with its skills and hosts, and the Holder keys of each context.
    """
    covered = [new.subject, new.agent_id, new.card_format, new.content, keys_asked(new)]
    return hashlib.sha256(json.dumps(covered).encode()).hexdigest()


def keys_asked(new: RegistrationRow) -> tuple[ReviewedKey, ...]:
    """Return the Holder keys of a registration, with their contexts."""
    return keys_by_context([key.thumbprint for key in new.keys], json.loads(new.asked).get("disclosure_contexts", ()))


def keys_by_context(thumbprints: Sequence[str], contexts: Sequence[Mapping[str, Any]]) -> tuple[ReviewedKey, ...]:
    """Assign keys to contexts as a registration asks.

    The result is sorted, because the order in the request means nothing.
    """
    every = range(len(thumbprints))
    asked = [(Audience(one["context"], one.get("partner", "")), one.get("keys", every)) for one in contexts]
    return tuple(
        sorted(
            ReviewedKey(thumbprint, tuple(sorted(audience for audience, places in asked if place in places)))
            for place, thumbprint in enumerate(thumbprints)
        )
    )
