"""Arguments and results of the tools of ``sdcard mcp``, as JSON Schemas.

A model's host reads them.
"""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from sdcard.jose.claims import MAX_NONCE_LENGTH

MOST_FOUND = 20
"""Agents on one page."""


class Arguments(BaseModel):
    """Arguments of a tool: these members and no others, each of exactly this type."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Document(Arguments):
    """Arguments of ``check_card``."""

    document: str = Field(description="The card document as text: JSON, or YAML.")


class Token(Arguments):
    """Arguments of ``inspect_sd_card``."""

    sd_card: str = Field(description="An SD-Card or presentation: an SD-JWT, compact or in a JSON form.")


class Nothing(Arguments):
    """Arguments of ``new_challenge``."""


class Answer(Arguments):
    """Arguments of ``verify_presentation``."""

    presentation: str = Field(description="What the agent sent: an SD-JWT with key binding (SD-JWT+KB).")
    nonce: str = Field(
        min_length=1, max_length=MAX_NONCE_LENGTH, description="Of new_challenge: the one that the agent was given."
    )


Names: TypeAlias = Annotated[list[str], Field(max_length=20)]


class Criteria(Arguments):
    """Criteria of ``discover_agents``: all must be met."""

    skills: Names = Field(default=[], description="Ids or names of skills.")
    tags: Names = Field(default=[], description="Tags of skills.")
    capabilities: Names = Field(default=[], description="Such as streaming.")
    input_modes: Names = Field(default=[], description="Media types that it takes.")
    output_modes: Names = Field(default=[], description="Media types that it gives.")
    text: str | None = Field(default=None, description="Words of its name, description and skills.")
    max_results: int = Field(default=10, ge=1, le=MOST_FOUND)
    cursor: str | None = Field(default=None, description="next_cursor of the page before.")


class CardFinding(BaseModel):
    """A finding about a card."""

    rule: str
    level: Literal["error", "warning", "note"]
    where: str
    message: str


class CheckedCard(BaseModel):
    """Everything there is to say about a card document."""

    valid: bool
    format: str | None
    findings: list[CardFinding]
    unlisted: int = Field(description="How many more findings there are.")


class InspectedSdCard(BaseModel):
    """Content of an SD-Card or presentation. Nothing is verified."""

    verified: Literal[False]
    kind: str
    issuer_header: dict[str, Any]
    issuer_payload: dict[str, Any]
    disclosures: list[dict[str, Any]]
    hidden: int
    claims: dict[str, Any]
    key_binding: dict[str, Any] | None


class NewChallenge(BaseModel):
    """The challenge for the agent to sign."""

    nonce: str
    audience: str
    answer_within_seconds: int


class VerifiedPresentation(BaseModel):
    """A partial card, who stands behind it, and what could not be known."""

    verified: Literal[True]
    issuer: str
    subject: str
    card_format: str | None
    issued_at: int | float
    expires_at: int | float
    holder_key: str
    audience: str
    interaction_id: str | None
    status: Literal["checked", "not checked"]
    members: dict[str, Any]
    not_known: list[str]


class FoundAgent(BaseModel):
    """An agent whose SD-Card its Issuer confirms; nobody proved to be the agent."""

    agent_id: str
    issuer: str
    card_format: str | None
    expires_at: int | float
    members: dict[str, Any]


class DiscoveredAgents(BaseModel):
    """A page of the registry's results."""

    context: str
    results: list[FoundAgent]
    next_cursor: str | None
    ignored: list[str]
    not_known: list[str]
