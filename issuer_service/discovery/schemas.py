"""Discovery requests and responses."""

from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from issuer_service.agents.schemas import REQUEST, Given, Section, read_section, without_nulls
from sdcard.cards.model import Criterion
from sdcard.encoding import parse_json_object
from sdcard.errors import Finding, Refused
from sdcard.limits import MOST_RESULTS
from sdcard.paths import Place
from sdcard.policy.plan import Term, query_terms
from sdcard.rules import Rule

# -- The shape of a discovery request (SD-Card 4.2, 5.3.1), and of its answer -----------------------------------------

MOST_TERMS = 32
"""Of one query. Each costs a look-up for every agent that has the rarest of them."""
_MOST_ENTRIES = 16
_MOST_TEXT = 256
_MOST_ROLES = 64
_MOST_CURSOR = 256
_CRITERIA = tuple(Criterion)
_IGNORED = ("availability",)
"""In the draft's example (4.2), with no member of any card behind it (T-10)."""

_QUERY = REQUEST.within("query")

Text: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=_MOST_TEXT)]
Texts: TypeAlias = Annotated[list[Text], Field(min_length=1, max_length=_MOST_ENTRIES)]
Flags: TypeAlias = Annotated[dict[Text, Literal[True]], Field(min_length=1, max_length=_MOST_ENTRIES)]


class Query(Section):
    """Criteria that an agent must meet, all of them.

    At least one is required beside `availability`.
    """

    model_config = ConfigDict(extra="forbid", json_schema_extra=without_nulls)

    skills: Given[Texts] = Field(default=None, description="Ids or names of skills.")
    tags: Given[Texts] = Field(default=None, description="Tags of skills.")
    capabilities: Given[Flags] = Field(
        default=None, description="Names of capabilities, each `true`: what is not shown is not known to be missing."
    )
    input_modes: Given[Texts] = Field(default=None, description="Media types that the agent or a skill takes.")
    output_modes: Given[Texts] = Field(default=None, description="Media types that the agent or a skill gives.")
    text: Given[Text] = Field(default=None, description="Words of its name, description and skills.")
    availability: Given[Any] = Field(default=None, description="Ignored, and listed so: cards do not have it.")


class RequesterClaims(Section):
    """Claims of the requester about itself. They permit nothing."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=without_nulls)

    organization: Given[Text] = Field(
        default=None, description="In `federation`: only the token's own subject is shown what was agreed with it."
    )
    roles: Given[Annotated[list[Text], Field(max_length=_MOST_ROLES)]] = Field(default=None)


class DiscoveryRequest(Section):
    """A query over the cards that an audience may see."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=without_nulls)

    query: Query
    context: Text = Field(description="The token says which: its limit `contexts`, without which `public` alone.")
    max_results: int = Field(default=20, ge=1, le=MOST_RESULTS)
    cursor: Given[Annotated[str, StringConstraints(min_length=1, max_length=_MOST_CURSOR)]] = Field(
        default=None, description="`next_cursor` of the answer before, for the same query, context and token."
    )
    requester_claims: Given[RequesterClaims] = Field(default=None)


class Found(BaseModel):
    """An agent, as the audience may see it."""

    agent_id: str = Field(description="The agent's id as its SD-Card has it, which may be a pairwise one.")
    sd_card: str = Field(description="An SD-JWT with all Disclosures and no KB-JWT, issued for discovery.")


class Discovered(BaseModel):
    """A page of results, in random order. There is no total."""

    results: list[Found]
    next_cursor: str | None = Field(description="Where to go on; null at the end. What follows may be empty.")
    ignored: list[str] = Field(description="Criteria of the query that changed nothing.")


class ParsedDiscovery(NamedTuple):
    """A request that can be answered.

    ``terms``: each once, in one order whatever the order of the request.
    """

    request: DiscoveryRequest
    terms: tuple[Term, ...]
    ignored: tuple[str, ...]


def read_discovery(body: bytes, depth: int) -> ParsedDiscovery:
    """Read a request, whose JSON nests no deeper than this.

    Raises:
        Refused: ``request.malformed``, at every place that is wrong; as ``parse_json_object``.
    """
    request = read_section(DiscoveryRequest, parse_json_object(body, REQUEST, depth))
    query, terms, empty = request.query, set[Term](), list[Place]()
    named = query.model_fields_set
    for criterion in [one for one in _CRITERIA if one in named]:
        for text, place in _texts(criterion, getattr(query, criterion)):
            these = query_terms(criterion, text)
            terms.update(these)
            if not these:
                empty.append(place)
    if empty:
        hint = "There is nothing to look for in it."
        raise Refused.because([Finding(Rule.REQUEST, _QUERY.within(*place), hint) for place in empty])
    if not terms:
        raise Refused(Rule.REQUEST, _QUERY, f"Give at least one criterion: {', '.join(Criterion)}.")
    if len(terms) > MOST_TERMS:
        raise Refused(Rule.REQUEST, _QUERY, f"Look for at most {MOST_TERMS} things at once; each word is one.")
    ignored = tuple([name for name in _IGNORED if name in named])
    return ParsedDiscovery(request, tuple(sorted(terms)), ignored)


def _texts(criterion: Criterion, given: str | list[str] | dict[str, bool]) -> list[tuple[str, Place]]:
    """Each text, and where in the query it is."""
    if isinstance(given, str):
        return [(given, (criterion,))]
    if isinstance(given, dict):
        return [(name, (criterion,)) for name in given]  # a name may be long, so it is not shown in a place
    return [(text, (criterion, number)) for number, text in enumerate(given)]
