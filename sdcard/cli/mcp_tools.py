"""The tools of ``sdcard mcp``, with JSON Schemas of their arguments and results.

A model may be manipulated by what it read. So no argument of a tool chooses an address, a file, a key, a token or an
audience: the operator chose them when starting the server.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

from mcp_types import Tool, ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field

from sdcard.cards.detect import examine_card
from sdcard.cards.model import Card
from sdcard.cli.discover import UNBOUND, UNCHECKED, make_query, verify_page
from sdcard.cli.output import describe_findings
from sdcard.cli.verify import describe_unverified
from sdcard.instants import Clock
from sdcard.io.registry_client import Registry
from sdcard.io.replay_cache import MemoryChallengeRecord
from sdcard.jose.claims import MAX_NONCE_LENGTH
from sdcard.key_binding import Answering, Bound, Challenge
from sdcard.lenient import lenient_token
from sdcard.profile import Profile
from sdcard.salts import SaltSource
from sdcard.status_list import Status, Unchecked
from sdcard.trust import TrustedIssuers
from sdcard.verifier import Expectations, VerifiedCard, verify_presentation

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
    goals: Names = Field(default=[], description="Ids of goals that an AgentCard has subscribed to.")
    domains: Names = Field(default=[], description="Slugs of perception domains of a KNO card.")
    text: str | None = Field(default=None, description="Words in the agent's name, description and skills.")
    max_results: int = Field(default=10, ge=1, le=MOST_FOUND)
    cursor: str | None = Field(default=None, description="next_cursor of the page before.")


class CardFinding(BaseModel):
    """A finding about a card."""

    rule: str
    level: Literal["error", "warning", "note"]
    where: str
    message: str


class CheckedCard(BaseModel):
    """All findings about a card document."""

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
    """A challenge for the agent to sign."""

    nonce: str
    audience: str
    answer_within_seconds: int


class VerifiedPresentation(BaseModel):
    """A partial card, its Issuer, and what could not be determined."""

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
    issuer_checks: list[str] | None = Field(description="What its Issuer checked; null if it does not say.")
    members: dict[str, Any]
    not_known: list[str]


class FoundAgent(BaseModel):
    """An agent whose SD-Card its Issuer confirms. The agent itself proved nothing."""

    agent_id: str
    issuer: str
    card_format: str | None
    expires_at: int | float
    issuer_checks: list[str] | None = Field(description="What its Issuer checked; null if it does not say.")
    members: dict[str, Any]


class DiscoveredAgents(BaseModel):
    """A page of the registry's results."""

    context: str
    results: list[FoundAgent]
    next_cursor: str | None
    ignored: list[str]
    not_known: list[str]


# -- Tools ------------------------------------------------------------------------------------------------------------

MOST_FINDINGS = 50
_LIFETIME = 300
_MOST_ANSWERED = 1_000


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool: its name, its arguments and result, and its function."""

    name: str
    title: str
    description: str
    takes: type[Arguments]
    gives: type[BaseModel]
    answer: Callable[[Any], BaseModel]
    reaches_out: bool

    def describe(self) -> Tool:
        """Describe the tool to a client. Tools change only this server's challenges."""
        return Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=self.takes.model_json_schema(),
            output_schema=self.gives.model_json_schema(),
            annotations=ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=self.reaches_out),
        )


def check_card(asked: Document) -> CheckedCard:
    """Return all findings at once."""
    examination = examine_card(asked.document.encode("utf-8", "surrogatepass"))
    found = describe_findings(examination.findings)
    return CheckedCard(
        valid=examination.card is not None,
        format=examination.kind or None,
        findings=[CardFinding.model_validate(one) for one in found[:MOST_FINDINGS]],
        unlisted=len(found[MOST_FINDINGS:]),
    )


def inspect_sd_card(asked: Token) -> InspectedSdCard:
    """Describe the content without verifying it."""
    return InspectedSdCard.model_validate(describe_unverified(lenient_token(asked.sd_card)))


OFFLINE_TOOLS = (
    OfferedTool(
        "check_card",
        "Check an agent card",
        "Say everything that is wrong with an agent card document (A2A, AgentCard or KNO), with rule and place.",
        Document,
        CheckedCard,
        check_card,
        reaches_out=False,
    ),
    OfferedTool(
        "inspect_sd_card",
        "Look into an SD-Card",
        "Show what an SD-Card or presentation says. NOT VERIFIED: no signature, no time, no trust; never decide by it.",
        Token,
        InspectedSdCard,
        inspect_sd_card,
        reaches_out=False,
    ),
)
"""Tools that need no decision of the operator."""


class OwnCard(BaseModel):
    """The card of the agent that this server belongs to."""

    format: str
    card: dict[str, Any]


def own_card_tool(card: Card) -> OfferedTool:
    """Make the tool that gives the agent's own card (AgentCard draft-00 4)."""
    name, told = "get_agent_card", "Give the card of the agent that this server belongs to, as its operator wrote it."
    own = OwnCard(format=card.format.name, card=card.document)
    return OfferedTool(name, "Get the agent's card", told, Nothing, OwnCard, lambda _: own, reaches_out=False)


@dataclass(frozen=True, slots=True)
class PresentationTools:
    """The tools that verify presentations.

    The server makes every challenge itself, with a key in its own memory, so each is answered once, and none after a
    restart. A replay cache of nonces that Holders chose could not guarantee this: each host of a model starts its own
    server.
    """

    issuers: TrustedIssuers
    audience: str
    status: Status
    profile: Profile
    clock: Clock
    salts: SaltSource
    required_checks: tuple[str, ...] = ()
    _issued: MemoryChallengeRecord = field(init=False, repr=False)

    def __post_init__(self) -> None:
        record = MemoryChallengeRecord(self.audience, self.salts, _LIFETIME, _MOST_ANSWERED)
        object.__setattr__(self, "_issued", record)

    def tools(self) -> tuple[OfferedTool, ...]:
        """Return the tools that verify."""
        make = OfferedTool(
            "new_challenge",
            "Make a challenge",
            "Make a nonce for the agent that shall present its card: it signs the nonce and the audience, once, soon.",
            Nothing,
            NewChallenge,
            self.challenge,
            reaches_out=False,
        )
        verify = OfferedTool(
            "verify_presentation",
            "Verify a presentation",
            "Verify an agent's answer to a challenge of new_challenge: signatures, trust, time, key binding. A "
            "challenge is good for one verified answer. The result says what could not be known; it grants nothing.",
            Answer,
            VerifiedPresentation,
            self.verify,
            reaches_out=True,
        )
        return make, verify

    def challenge(self, _: Nothing) -> NewChallenge:
        """Make a nonce for one answer."""
        challenge = self._issued.issue(self.clock.now())
        return NewChallenge(nonce=challenge.nonce, audience=self.audience, answer_within_seconds=_LIFETIME)

    def verify(self, asked: Answer) -> VerifiedPresentation:
        """Verify an answer to a challenge."""
        challenge, now = Challenge(asked.nonce, self.audience), self.clock.now()
        self._issued.check(challenge, now)
        expectations = Expectations(
            issuers=self.issuers,
            profile=self.profile,
            key_binding=Answering(challenge, self._issued),
            status=self.status,
            required_checks=self.required_checks,
        )
        card = verify_presentation(lenient_token(asked.presentation), expectations, now)
        assert isinstance(card.key_binding, Bound), "an answer to a challenge is bound"
        return VerifiedPresentation(
            verified=True,
            issuer=card.issuer,
            subject=card.subject,
            card_format=card.card_format,
            issued_at=card.issued_at,
            expires_at=card.expires_at,
            holder_key=card.holder_key.thumbprint,
            audience=card.key_binding.audience,
            interaction_id=card.key_binding.interaction_id,
            status="not checked" if isinstance(card.status, Unchecked) else "checked",
            issuer_checks=_checks(card),
            members=card.members,
            not_known=_left_open(card),
        )


def _checks(card: VerifiedCard) -> list[str] | None:
    return None if card.issuer_checks is None else [*card.issuer_checks]


def _left_open(card: VerifiedCard) -> list[str]:
    left = []
    if isinstance(card.status, Unchecked):
        left.append(f"whether the SD-Card was revoked or suspended: {card.status.reason}")
    if card.hidden:
        left.append(f"what is behind {card.hidden} digests: decoys, or members that were not shown")
    if card.missing:
        left.append("the whole card: members that its format requires are not shown")
    return left


@dataclass(frozen=True, slots=True)
class DiscoveryTools:
    """The tool that finds agents at a registry, for trusted Issuers."""

    registry: Registry
    context: str
    issuers: TrustedIssuers
    profile: Profile
    required_checks: tuple[str, ...] = ()

    def tools(self) -> tuple[OfferedTool, ...]:
        """Return the tool that finds agents."""
        discover = OfferedTool(
            "discover_agents",
            "Find agents",
            "Find agents at the operator's registry that meet all criteria; at least one. Every card is verified.",
            Criteria,
            DiscoveredAgents,
            self.discover,
            reaches_out=True,
        )
        return (discover,)

    def discover(self, asked: Criteria) -> DiscoveredAgents:
        """Query the registry, and verify every SD-Card."""
        criteria = asked.model_dump(exclude={"max_results", "cursor"})
        query = make_query(**{**criteria, "capabilities": dict.fromkeys(asked.capabilities, True)})
        answer = self.registry.discover(query, self.context, asked.max_results, asked.cursor)
        expectations = Expectations(
            issuers=self.issuers,
            profile=self.profile,
            key_binding=UNBOUND,
            status=UNCHECKED,
            required_checks=self.required_checks,
        )
        page = verify_page(answer, expectations)
        return DiscoveredAgents(
            context=self.context,
            results=[
                FoundAgent(
                    agent_id=found.agent_id,
                    issuer=card.issuer,
                    card_format=card.card_format,
                    expires_at=card.expires_at,
                    issuer_checks=_checks(card),
                    members=card.members,
                )
                for found, card in page.cards
            ],
            next_cursor=answer.next_cursor,
            ignored=list(answer.ignored),
            not_known=[
                f"whether the sender is the agent: {UNBOUND.reason}",
                f"whether an SD-Card was revoked since: {UNCHECKED.reason}",
                *(f"an agent that is not listed: {one}" for one in page.left_out),
            ],
        )
