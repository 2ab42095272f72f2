"""The shape of a request to change statuses, and of its answer."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from issuer_service.agents.schemas import Given, Interaction, Stored, without_nulls
from sdcard.status_list import MEDIA_TYPE


class StatusChange(Interaction):
    """Selection of the agent's SD-Cards.

    With neither member, all that have not expired.
    """

    model_config = ConfigDict(extra="forbid", json_schema_extra=without_nulls)

    batch_id: Given[Stored] = Field(default=None, description="Only those of this Batch.")
    context: Given[Stored] = Field(default=None, description="Only those of this context.")


class StatusChanged(BaseModel):
    """Number of SD-Cards whose status changed.

    It is 0 when they had the status before, or when there are none.
    """

    agent_id: str
    changed: int
    public_at: int = Field(
        description="Unix seconds from which status lists show it. The registry itself goes by it at once. A Verifier "
        "may keep an older list for its `ttl` after that."
    )


STATUS_LIST: dict[str, Any] = {MEDIA_TYPE: {"schema": {"type": "string"}}}
