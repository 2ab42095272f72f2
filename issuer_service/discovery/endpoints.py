"""Discovery: the endpoint, its JSON, the audience and the matches."""

import hashlib
import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from issuer_service.access import Caller, Scope, check_context
from issuer_service.agents.audiences import as_texts, decided_by
from issuer_service.agents.schemas import REQUEST, Given, Section, read_section, without_nulls
from issuer_service.container import Container
from issuer_service.discovery import repository
from issuer_service.discovery.records import (
    START,
    Audience,
    DiscoveryQuery,
    FoundPage,
    FoundRow,
    bounded,
    open_cursor,
    seal_cursor,
)
from issuer_service.discovery.renewal import renew
from issuer_service.request_context import authorize, read_small_json_body
from issuer_service.routes import (
    BEARER,
    JSON_REFUSALS,
    NOT_MODIFIED,
    FastRoute,
    container_of,
    json_body,
    public_response,
    refusals,
)
from sdcard.cards.model import Criterion
from sdcard.encoding import decode_base64url, encode_base64url, encode_json, parse_json_object
from sdcard.errors import Finding, Refused
from sdcard.instants import Instant, Lifetime
from sdcard.io.database import Database
from sdcard.issuer import issuing_step
from sdcard.limits import MOST_RESULTS
from sdcard.paths import Place
from sdcard.policy.context import FEDERATION, PUBLIC, Partner
from sdcard.policy.plan import Term, query_terms
from sdcard.rules import Rule

# -- The shape of a discovery request (SD-Card 4.2, 5.3.1), and of its answer -----------------------------------------

MOST_TERMS = 32
"""Of one query. Each costs a look-up for every agent that has the rarest of them."""
_MOST_ENTRIES, _MOST_ROLES = 16, 64
_MOST_TEXT = _MOST_CURSOR = 256
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
    goals: Given[Texts] = Field(default=None, description="Ids of goals that an AgentCard has subscribed to.")
    domains: Given[Texts] = Field(default=None, description="Slugs of perception domains of a KNO card.")
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
    """Read a discovery request, up to a depth of JSON.

    Raises:
        Refused: ``request.malformed``, with all places; as ``parse_json_object``.
    """
    request = read_section(DiscoveryRequest, parse_json_object(body, REQUEST, depth))
    query = request.query
    terms: set[Term] = set()
    empty: list[Place] = []
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


# -- Discovery requests: the audience, the matches, and the agents' SD-Cards ------------------------------------------

_ATTEMPTS = 5


async def discover(container: Container, caller: Caller, body: bytes) -> bytes:
    """The answer to a request: a ``Discovered`` in JSON.

    Raises:
        Refused: for the request; ``token.limit`` for a context that the token does not name; ``context.unknown``;
            ``cursor.invalid``; ``signer.unavailable`` or ``store.unavailable``, also when SD-Cards that are
            needed cannot be made now.
    """
    now = container.clock.now()
    asked = read_discovery(body, container.limits.json_depth)
    audience = _audience(container, caller, asked.request, now)
    terms, secret = as_texts(asked.terms), await container.discovery_secret.current()
    binding = hashlib.sha256(encode_json([caller.token, audience.context, audience.partner, *terms])).digest()
    cursor = asked.request.cursor
    after = START if cursor is None else open_cursor(cursor, binding, secret, now)
    query = DiscoveryQuery(audience, terms, after, asked.request.max_results, int(now))
    found, more = await _results(container, caller.subject, query, now)
    after_these = None if more is None else seal_cursor(more, binding, secret, now, container.salts)
    return _answer(found, after_these, asked.ignored)


async def _results(
    container: Container, subject: str, query: DiscoveryQuery, now: Instant
) -> tuple[list[tuple[str, str]], int | None]:
    """Return the agents of a page with their SD-Cards, and where to go on."""
    page, database = await _fresh_page(container, subject, query, now)
    found = [(row.agent_id, row.sd_card) for row in page.rows if row.sd_card]
    if len(found) != len(page.rows):  # some are long; the others together never are
        page = bounded(page)
        long = [row.position for row in page.rows if row.sd_card is None]
        async with container.shares.of(subject):
            texts = await repository.read_cards(database, long, query.at)
        read = [(row.agent_id, row.sd_card) if row.sd_card else texts.get(row.position) for row in page.rows]
        found = [(one[0], one[1]) for one in read if one and one[1]]
    return found, page.more


def _answer(found: Sequence[tuple[str, str]], cursor: str | None, ignored: Sequence[str]) -> bytes:
    """Write a ``Discovered`` as JSON, without escaping its results.

    An ``AGENT_ID`` has nothing that JSON escapes, nor has base64url between dots and tildes.
    """
    results = ",".join([f'{{"agent_id":"{agent_id}","sd_card":"{text}"}}' for agent_id, text in found])
    end = encode_json({"next_cursor": cursor, "ignored": [*ignored]}).decode()
    return f'{{"results":[{results}],{end[1:]}'.encode("ascii")


def _audience(container: Container, caller: Caller, request: DiscoveryRequest, now: Instant) -> Audience:
    """Return the audience that the token permits.

    A partner with an agreement sees the agents registered for it. The requester's own statement can only restrict this.
    """
    check_context(caller, request.context)
    if request.context not in container.policy.contexts:
        raise Refused(Rule.CONTEXT_UNKNOWN, REQUEST.within("context"))
    claims = request.requester_claims
    claimed = caller.subject if claims is None or claims.organization is None else claims.organization
    if request.context != FEDERATION.name or claimed != caller.subject:
        return Audience(request.context, "")
    partner = Partner(caller.subject, now, issuing_step(container.lifetime))
    agreed = container.policy.agreement(request.context, partner, REQUEST.within("context"))
    return Audience(request.context, agreed.partner if agreed else "")


async def _fresh_page(
    container: Container, subject: str, query: DiscoveryQuery, now: Instant
) -> tuple[FoundPage, Database]:
    """Return a page of valid SD-Cards, and the database that has them.

    A replica answers public queries, unless an SD-Card of the page is due: then the primary does.

    Raises:
        Refused: ``store.behind`` or ``store.unavailable`` of the replica; as ``_renewed_page``.
    """
    if container.replica is not None and query.audience.context == PUBLIC.name:
        replica = await container.replica.current(now, await container.discovery_secret.current())
        page = await _find(container, replica, subject, query)
        if not _due(page, decided_by(container, await container.keys.current()), now):
            return page, replica
    return await _renewed_page(container, subject, query, now), container.database


async def _renewed_page(container: Container, subject: str, query: DiscoveryQuery, now: Instant) -> FoundPage:
    """Renew the SD-Cards of a page that have expired or follow an old policy.

    Search terms may change with them. An agent whose SD-Card cannot be renewed is left out.

    Raises:
        Refused: ``signer.unavailable`` or ``store.unavailable``, when no agent of the page is left.
    """
    page = await _find(container, container.database, subject, query)
    outage = None
    failed: frozenset[int] = frozenset()
    for _ in range(_ATTEMPTS):
        decided = decided_by(container, await container.keys.current())
        if {row.position for row in _due(page, decided, now)} <= failed:
            break
        async with container.renewing:
            page = await _find(container, container.database, subject, query)
            due = [row.position for row in _due(page, decided, now) if row.position not in failed]
            try:
                failed |= await renew(container, due, now)
            except Refused as refusal:
                outage = refusal
                break
        page = await _find(container, container.database, subject, query)
    decided = decided_by(container, await container.keys.current())
    good = tuple(row for row in page.rows if not _is_stale(row, decided, now))
    if page.rows and not good and outage is not None:
        raise outage
    return FoundPage(good, page.more)


async def _find(container: Container, database: Database, subject: str, query: DiscoveryQuery) -> FoundPage:
    async with container.shares.of(subject):
        if not query.terms:
            return await repository.list_public(database, query)
        return await repository.find_agents(database, await container.discovery_secret.current(), query)


def _due(page: FoundPage, decided: str, now: Instant) -> list[FoundRow]:
    return [row for row in page.rows if row.renew_at <= now or _is_stale(row, decided, now)]


def _is_stale(row: FoundRow, decided: str, now: Instant) -> bool:
    """Whether the SD-Card may no longer be served.

    It is not valid now, or its policy, setting or keys were replaced.
    """
    return row.decided_by != decided or not Lifetime(row.issued_at, row.expires_at).covers(now)


# -- ``POST /agents/discover`` (SD-Card 4.2, 5.3.1) -------------------------------------------------------------------

router = APIRouter(tags=["discovery"], route_class=FastRoute)


@router.post(
    "/agents/discover",
    response_model=Discovered,
    summary="Find agents by what a context shows of them",
    responses=JSON_REFUSALS,
    openapi_extra={**json_body(DiscoveryRequest), "security": [{BEARER.scheme_name: []}]},
)
async def discover_agents(request: Request) -> Response:
    """Find agents by the claims that a context shows of them.

    The token says which contexts the caller may search.
    """
    container = container_of(request)
    caller = await authorize(request, container, Scope.AGENTS_DISCOVER)
    body = await read_small_json_body(request, container.bounds)
    answer = await discover(container, caller, body)
    return Response(answer, HTTPStatus.OK, {"Cache-Control": "no-store"}, "application/json")


# -- ``GET /catalogue``: what everybody may know (SD-Card 2.1, step 3) ------------------------------------------------

MAX_AGE = "60"
"""Seconds for which a page may be cached, and a revoked agent may still be in it."""
_CURSOR = REQUEST.within("query", "cursor")
_POSITION_BYTES = 8
_PARAMETERS = {
    "limit": {"type": "integer", "minimum": 1, "maximum": MOST_RESULTS, "default": 20},
    "cursor": {"type": "string", "description": "`next_cursor` of the page before."},
}
_LISTING = [{"name": name, "in": "query", "required": False, "schema": schema} for name, schema in _PARAMETERS.items()]


@router.get(
    "/catalogue",
    response_model=Discovered,
    summary="All agents as *public* shows them, where the operator permits it",
    responses={
        **NOT_MODIFIED,
        **refusals(HTTPStatus.NOT_FOUND, HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.SERVICE_UNAVAILABLE),
    },
    openapi_extra={"parameters": _LISTING},
)
async def catalogue(request: Request) -> Response:
    """List agents that registered for *public*, in pages, to callers without a token.

    Agents that are suspended, revoked or deleted, or whose own SD-Cards have expired, are not listed.
    """
    container = container_of(request)
    if not container.catalogue or PUBLIC.name not in container.policy.contexts:
        raise Refused(Rule.REQUEST_TARGET, REQUEST.within("path"))
    limit, after = _read_listing(request.query_params.multi_items())
    now = container.clock.now()
    query = DiscoveryQuery(Audience(PUBLIC.name, ""), (), after, limit, int(now))
    found, more = await _results(container, "", query, now)
    cursor = None if more is None else encode_base64url(more.to_bytes(_POSITION_BYTES, "big"))
    return public_response(request, _answer(found, cursor, ()), "application/json", MAX_AGE)


def _read_listing(given: Sequence[tuple[str, str]]) -> tuple[int, int]:
    """Read the limit and the position of a page.

    A cursor is a position of the public order, which its reader may know: so all caches can share a page.
    """
    values = dict(given)
    if len(values) < len(given) or values.keys() - {"limit", "cursor"}:
        raise Refused(Rule.REQUEST, REQUEST.within("query"), "There are the parameters limit and cursor, each once.")
    limit = values.get("limit", "20")
    if not re.fullmatch("[1-9][0-9]{0,2}", limit) or int(limit) > MOST_RESULTS:
        raise Refused(Rule.REQUEST, REQUEST.within("query", "limit"), f"Send a number from 1 to {MOST_RESULTS}.")
    if "cursor" not in values:
        return int(limit), START
    try:
        position = decode_base64url(values["cursor"], _CURSOR)
    except Refused:
        position = b""
    if len(position) != _POSITION_BYTES or position[0] > 0x7F:
        raise Refused(Rule.CURSOR, _CURSOR, "Begin again without one.")
    return int(limit), int.from_bytes(position, "big")
