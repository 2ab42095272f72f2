"""Requests and responses about agents."""

from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError
from pydantic_core import PydanticCustomError

from issuer_service.routes import FindingShown
from sdcard.domain_control import Way
from sdcard.errors import Finding, Part, Refused, Where
from sdcard.issuer import AGENT_ID
from sdcard.pairwise import PAIRWISE, is_reserved
from sdcard.possession import MAX_PROOF_LENGTH
from sdcard.profile import INTERACTION_PATTERN, MAX_INTERACTION
from sdcard.rules import Rule

# -- The shape of a registration request (SD-Card 3.3.1), and of its answer -------------------------------------------
# A request is read in sections, so that what is wrong with one hides nothing that is wrong with another.

REQUEST = Where(Part.REQUEST)

MOST_KEYS, MOST_CONTEXTS, MOST_ENTRIES = 64, 16, 64
MOST_ENTRY = MOST_PARTNER = 256
"""Reading an unknown entry costs a search for the nearest known name."""
_MOST_NAME = 64
"""A member with a longer name is not named in a place."""
S = TypeVar("S", bound="Section")
T = TypeVar("T")


def _given(value: object) -> object:
    """Leaving a member out says that there is none; null says nothing."""
    if value is None:
        raise PydanticCustomError("null", "null")
    return value


def _own(agent_id: str) -> str:
    """Check an id for registration: no pairwise id.

    With a pairwise id an agent would pass for another agent.
    """
    if is_reserved(agent_id):
        raise PydanticCustomError("string_pattern_mismatch", "pairwise")
    return agent_id


def _object_or_text(card: object) -> object:
    """Check the type here, since a union adds a finding for each of its types."""
    if not isinstance(card, dict | str):
        raise PydanticCustomError("dict_type", "an object or a string")
    return card


Given: TypeAlias = Annotated[T | None, BeforeValidator(_given)]
AgentId: TypeAlias = Annotated[str, StringConstraints(pattern=f"^{AGENT_ID}$"), AfterValidator(_own)]
Entry: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=MOST_ENTRY)]
InteractionId: TypeAlias = Annotated[
    str, StringConstraints(min_length=1, max_length=MAX_INTERACTION, pattern=f"^{INTERACTION_PATTERN}$")
]
Stored: TypeAlias = Annotated[str, StringConstraints(max_length=256, pattern=r"^[^\x00]*$")]
"""A text that is compared with stored texts. It has no NUL, because PostgreSQL stores none."""
Partner: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=MOST_PARTNER)]
Jwk: TypeAlias = dict[str, Any]
Jwks: TypeAlias = Annotated[list[Jwk], Field(min_length=1, max_length=MOST_KEYS)]
ProofTexts: TypeAlias = Annotated[
    list[Annotated[str, StringConstraints(max_length=MAX_PROOF_LENGTH)]], Field(min_length=1, max_length=MOST_KEYS)
]
Entries: TypeAlias = Annotated[list[Entry], Field(max_length=MOST_ENTRIES)]


def without_nulls(schema: dict[str, Any]) -> None:
    """State in the JSON Schema that null is no value of an optional member."""
    for member in schema.get("properties", {}).values():
        if member.get("default", ...) is None:
            del member["default"]
            member |= member.pop("anyOf")[0]


def with_one_kind_of_key(schema: dict[str, Any]) -> None:
    """Require one of the two members in the JSON Schema too."""
    without_nulls(schema)
    schema["oneOf"] = [{"required": ["public_key"]}, {"required": ["public_keys"]}]


class Section(BaseModel):
    """Part of a request."""

    model_config = ConfigDict(
        strict=True, frozen=True, extra="ignore", hide_input_in_errors=True, json_schema_extra=without_nulls
    )


class Identity(Section):
    """The agent to register."""

    agent_id: AgentId = Field(description=f"Becomes `sub`, after `agent:`. It does not begin with `{PAIRWISE}`.")
    name: str
    description: str
    version: str


class HolderKeys(Section):
    """Keys to bind the SD-Cards to."""

    public_key: Given[Jwk] = Field(default=None, description="A public JWK; or `public_keys`.")
    public_keys: Given[Jwks] = Field(
        default=None, description="Several; a context gets an SD-Card for each, or for those in its `keys`."
    )


class ContextRequested(Section):
    """A context to issue SD-Cards for."""

    model_config = ConfigDict(extra="forbid")

    context: str = Field(description="The name of a disclosure context, such as `public`.")
    disclose: Given[Entries] = Field(default=None, description="Groups, claims or paths, instead of the default.")
    partner: Given[Partner] = Field(
        default=None,
        description="For `federation` alone: whom it is for, by issuer URL or token subject. It shows what the "
        "agreement lists, or without one in force what `public` shows.",
    )
    keys: Given[Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1, max_length=MOST_KEYS)]] = Field(
        default=None,
        description="Positions in `public_keys`, from 0, of the keys for this context alone; by default all.",
    )


class Contexts(Section):
    """Audience of the SD-Cards."""

    disclosure_contexts: list[ContextRequested] = Field(min_length=1, max_length=MOST_CONTEXTS)


class Interaction(Section):
    """Interaction of the request."""

    interaction_id: Given[InteractionId] = Field(
        default=None, description="Of A2A or whatever the caller counts by; for the audit record alone."
    )


class CardGiven(Section):
    """Disclosures of the SD-Cards."""

    card: Given[Annotated[dict[str, Any] | str, BeforeValidator(_object_or_text)]] = Field(
        default=None,
        description="A complete agent card. Its name, description and version are those of the request. An AgentCard "
        "may also be a JSON string that contains it (AgentCard draft-00 3).",
    )


class Proofs(Section):
    """Proof of possession of the registered keys."""

    proofs: Given[ProofTexts] = Field(
        default=None,
        description="Proofs of possession, one for each key in the order of the keys, all over one nonce of "
        "`POST /nonces`: JWTs of `typ` `sd-card-possession+jwt` with `aud` (the Issuer), `sub`, `iat` and `nonce`.",
    )


class Superseding(Section):
    """Treatment of the agent's earlier SD-Cards."""

    supersedes: Literal["revoke", "run_out"] = Field(
        default="run_out",
        description="`revoke`: all earlier ones are revoked as these are issued; `run_out`: they hold until they "
        "expire.",
    )


class RegistrationRequest(Interaction, Superseding, Proofs, CardGiven, Contexts, HolderKeys, Identity):
    """A request to register an agent; exactly one of `public_key` and `public_keys`."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=with_one_kind_of_key)


def read_section(section: type[S], document: Mapping[str, Any]) -> S:
    """Read a section of the request.

    Raises:
        Refused: ``request.malformed`` or ``agent-id.malformed``, at every place that is wrong.
    """
    try:
        return section.model_validate(document)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False, include_input=False)
        raise Refused.because([_finding(e["type"], e["loc"]) for e in errors]) from None


def check_no_others(document: Mapping[str, Any]) -> None:
    """Refuse unknown members of the request.

    A misspelt member would silently mean nothing.

    Raises:
        Refused: ``request.malformed``, at each of them.
    """
    unknown = [name for name in document if name not in RegistrationRequest.model_fields]
    if unknown:
        raise Refused.because([_finding("extra_forbidden", (name,)) for name in unknown])


_AGENT_ID_HINT = (
    "Use 1 to 128 letters, digits, `.`, `_` and `-`; the first is a letter or digit. It does not begin with "
    f"`{PAIRWISE}`."
)
_HINTS = {
    "missing": "The member is required.",
    "null": "Leave the member out instead of sending null.",
    "extra_forbidden": "There is no such member.",
    "string_type": "A string is expected.",
    "string_too_short": "The string is too short.",
    "string_too_long": "The string is too long.",
    "string_pattern_mismatch": "A character that cannot be part of it is there.",
    "literal_error": "The value is not one of those that are documented.",
    "list_type": "An array is expected.",
    "dict_type": "An object is expected.",
    "model_type": "An object is expected.",
    "int_type": "A whole number is expected.",
    "greater_than_equal": "The number is too small.",
    "less_than_equal": "The number is too large.",
    "too_short": "The array has too few elements.",
    "too_long": "The array has too many elements.",
}


def _finding(kind: str, place: Iterable[str | int]) -> Finding:
    """Return the kind and the place of an error.

    pydantic's own sentences may quote the request, so they are not used.
    """
    path = tuple(takewhile(lambda segment: len(str(segment)) <= _MOST_NAME, place))
    if (kind, path) == ("string_pattern_mismatch", ("agent_id",)):
        return Finding(Rule.AGENT_ID, REQUEST.within(*path), _AGENT_ID_HINT)
    return Finding(Rule.REQUEST, REQUEST.within(*path), _HINTS.get(kind, ""))


class AgreementShown(BaseModel):
    """The agreement that decided what an SD-Card can show, and does not contain."""

    partner: str
    expires: int = Field(description="Unix seconds. The SD-Card ends no later.")


class StatusShown(BaseModel):
    """Status list entry of an SD-Card."""

    uri: str
    idx: int


class CardIssued(BaseModel):
    """An SD-Card of a Batch."""

    context: str
    agreement: AgreementShown | None = Field(description="Null where none decided.")
    sub: str = Field(description="What the SD-Card calls the agent. The setting `subject_per` decides.")
    key_thumbprint: str = Field(description="RFC 7638, SHA-256, of the key that it is bound to.")
    sd_card: str = Field(description="The SD-JWT with all Disclosures: for the agent alone.")
    discloses: list[str] = Field(description="The claims that it can show, as paths; `*` stands for every element.")
    exp: int
    status: StatusShown = Field(description="Which status list entry speaks for it.")


class Registered(BaseModel):
    """The issued Batch. SD-Cards are in the order of contexts, and within one of keys."""

    agent_id: str
    sub: str = Field(description="The agent's own name here, as grants call it. SD-Cards may have another `sub`.")
    batch_id: str
    linkable_by: list[str] = Field(description="Claims that link two of these SD-Cards to one agent.")
    cards: list[CardIssued]
    log_promise: str | None = Field(description="A JWT: by when the transparency log has them. Null without one.")
    findings: list[FindingShown] = Field(description="What a careful author would still mend.")


# -- The shapes of requests about an agent that is registered, and of their answers -----------------------------------

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
    token_expires_at: int | None = Field(
        description="When the bearer token of this request ends; null for an access token of an authorization server."
    )


class DomainShown(BaseModel):
    """A host of an agent's card."""

    host: str
    file: str = Field(description="Where the host may publish the values, one a line; or")
    txt: str = Field(description="where TXT records may have them, one each.")
    values: list[str] = Field(description="One for each Holder key. They are for this registry, owner and host alone.")
    proved: bool = Field(description="Whether the last check found all of them.")
    ways: list[Way] = Field(description="Where it found some.")


class AgentDomains(BaseModel):
    """The hosts of an agent's card, and the result of the last check."""

    agent_id: str
    checks_domains: bool = Field(description="Whether this registry checks control of hosts.")
    checks_cards: bool = Field(description="Whether it compares published cards with registered ones.")
    checked_at: int | None = Field(description="Null before the first check.")
    next_check_at: int | None = Field(description="Null if no check is scheduled: an issuance schedules the first.")
    hosts: list[DomainShown]
    findings: list[FindingShown] = Field(
        description="Why new SD-Cards would lack the code `domain`, and how the published card differs."
    )


class AgentDeleted(BaseModel):
    """Deletion of an agent, and how many SD-Cards were revoked with it."""

    agent_id: str
    revoked: int
    public_at: int = Field(
        description="Unix seconds from which status lists show it. A Verifier may keep an older list for its `ttl` "
        "after that."
    )
