"""The shapes of requests about an agent that is registered, and of their answers."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from issuer_service.registration.schemas import (
    HolderKeys,
    Interaction,
    Proofs,
    Superseding,
    with_one_kind_of_key,
    without_nulls,
)

MOST_LISTED = 100


class Renewal(Interaction, Superseding):
    """New SD-Cards like the agent's last ones, under the present policy.

    The card, contexts and keys stay the same.
    """

    model_config = ConfigDict(extra="forbid", json_schema_extra=without_nulls)


class KeyChange(Interaction, Proofs, HolderKeys):
    """New SD-Cards as the agent's last ones, bound to other keys."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=with_one_kind_of_key)

    supersedes: Literal["revoke", "run_out"] = Field(
        default="revoke",
        description="`revoke`: all earlier SD-Cards are revoked as these are issued, since a replaced key may "
        "have been lost; `run_out`: they hold until they expire.",
    )


class AgentInList(BaseModel):
    """An agent of the caller's."""

    agent_id: str
    card_format: str
    registered_at: int
    updated_at: int
    expires_at: int | None = Field(
        description="When the last of its SD-Cards expires that is not revoked; null when there is none."
    )


class AgentList(BaseModel):
    """Agents of the caller's, in the order of their ids."""

    agents: list[AgentInList]
    next_cursor: str | None = Field(description="For the next page; null on the last one.")


class IssuedForContext(BaseModel):
    """The SD-Cards of one Batch and context that have not expired, by status."""

    context: str
    valid: int
    suspended: int
    revoked: int
    expires_at: int


class BatchShown(BaseModel):
    """The remaining SD-Cards of a Batch."""

    batch_id: str
    issued_at: int
    contexts: list[IssuedForContext]


class AgentShown(BaseModel):
    """An agent as its owner sees it. SD-Cards themselves are not kept."""

    agent_id: str
    sub: str = Field(description="The agent's own name here, as grants call it. SD-Cards may have another `sub`.")
    card_format: str
    registered_at: int
    updated_at: int
    disclosure_contexts: list[Mapping[str, Any]] | None = Field(
        description="What was asked for last, and is again by a renewal; null when that is not known."
    )
    key_thumbprints: list[str] | None = Field(description="Of the present Holder keys; null when they are not known.")
    possession: Literal["proven", "not-proven"] = Field(description="Whether these keys were proven to be the agent's.")
    batches: list[BatchShown] = Field(description="Batches that have not expired, the newest first.")
    more_batches: bool = Field(description="Whether there are older ones that have not expired either.")


class AgentDeleted(BaseModel):
    """Deletion of an agent, and how many SD-Cards were revoked with it."""

    agent_id: str
    revoked: int
    public_at: int = Field(
        description="Unix seconds from which status lists show it. A Verifier may keep an older list for its `ttl` "
        "after that."
    )
