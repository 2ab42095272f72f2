"""Answers about requests for approval, and the body of a rejection."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from issuer_service.agents.schemas import REQUEST, Section
from issuer_service.reviews.records import ReviewedContext, ReviewRow
from sdcard.errors import Refused
from sdcard.rules import Rule

MOST_REASON = 512


class Rejection(Section):
    """A rejection with its reason, which the owner reads."""

    model_config = ConfigDict(extra="forbid")

    reason: str = Field(min_length=1, max_length=MOST_REASON, description="Printable, on one line.")


class ReviewedContextShown(BaseModel):
    """A disclosure context of a registration."""

    context: str
    partner: str | None = Field(description="For `federation` alone.")
    disclose: list[str] | None = Field(
        description="Groups, claims or paths that it shows instead of the context's default, sorted; null for the "
        "default."
    )
    keys: list[str] = Field(
        description="The Holder keys that its SD-Cards are bound to, by their thumbprints (RFC 7638, SHA-256)."
    )


class ReviewInList(BaseModel):
    """A request for approval of a registration."""

    review_id: str
    owner: str = Field(description="The subject that asked.")
    agent_id: str
    card_format: str
    contexts: list[ReviewedContextShown] = Field(
        description="The contexts, each with what it discloses and its Holder keys."
    )
    state: str = Field(description="`pending`, `approved` or `rejected`.")
    reason: str = Field(description="Why it was rejected; else empty.")
    asked_at: int
    expires_at: int | None


class ReviewShown(ReviewInList):
    """A request for approval, with all that the approval covers."""

    hosts: list[str] = Field(description="Of the endpoints and the provider of the card; URLs without a host whole.")
    card: dict[str, Any]
    is_registered: bool = Field(description="Whether the agent is registered already, and would change.")
    changes: list[str] = Field(
        description="What differs from the present registration, in value or in type: `card_format`, members of the "
        "card, `public_keys`, and `disclosure_contexts` if a context has other keys or discloses something else."
    )


class ReviewList(BaseModel):
    """Requests that wait for a person, the oldest first."""

    reviews: list[ReviewInList]
    next_cursor: str | None = Field(description="For the next page; null on the last one.")


class WaitingForApproval(BaseModel):
    """The answer to a registration that waits for a person.

    Nothing is issued. Send the request again after the approval.
    """

    review_id: str
    agent_id: str
    state: str = Field(description="`pending`.")
    asked_at: int
    expires_at: int | None


def in_list(row: ReviewRow) -> ReviewInList:
    """Describe a request without its card."""
    return ReviewInList(
        review_id=row.review_id,
        owner=row.subject,
        agent_id=row.agent_id,
        card_format=row.card_format,
        contexts=[_context_shown(one) for one in row.contexts],
        state=row.state.value,
        reason=row.reason,
        asked_at=row.asked_at,
        expires_at=row.expires_at,
    )


def _context_shown(one: ReviewedContext) -> ReviewedContextShown:
    return ReviewedContextShown(
        context=one.context,
        partner=one.partner or None,
        disclose=None if one.disclose is None else list(one.disclose),
        keys=list(one.keys),
    )


def waiting_answer(row: ReviewRow) -> WaitingForApproval:
    """Describe a pending request for its owner."""
    return WaitingForApproval(
        review_id=row.review_id,
        agent_id=row.agent_id,
        state=row.state.value,
        asked_at=row.asked_at,
        expires_at=row.expires_at,
    )


def check_reason(reason: str) -> str:
    """Require a reason that people can read, on one line.

    Raises:
        Refused: ``request.malformed``.
    """
    if not 1 <= len(reason) <= MOST_REASON or not reason.strip() or not reason.isprintable():
        hint = f"Give a reason of 1 to {MOST_REASON} printable characters."
        raise Refused(Rule.REQUEST, REQUEST.within("reason"), hint)
    return reason
