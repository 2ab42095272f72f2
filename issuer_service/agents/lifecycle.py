"""Operations on a registered agent.

An agent of another owner, or a deleted one, is unknown.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from issuer_service.access import EXTERNAL, Caller, agent_prefixes, check_agent
from issuer_service.agents import checks, checks_repository, lifecycle_repository
from issuer_service.agents.idempotency import IdempotentRequest, find_earlier_response
from issuer_service.agents.reading import read_request
from issuer_service.agents.records import AgentChanged, AgentRow, DeletionRow, IssuedRow, StoredCheck
from issuer_service.agents.registration import Change, issue, read, terms_of
from issuer_service.agents.schemas import (
    MOST_LISTED,
    REQUEST,
    AgentDeleted,
    AgentDomains,
    AgentInList,
    AgentList,
    AgentShown,
    BatchShown,
    DomainShown,
    IssuedForContext,
    KeyChange,
    Renewal,
    read_section,
)
from issuer_service.audit.records import AuditEvent, Possession
from issuer_service.container import Container
from issuer_service.routes import show_findings
from issuer_service.settings import ProofPolicy
from sdcard.cards import detect as summary
from sdcard.domain_control import FILE_PATH, TXT_LABEL, DomainTerms, HostOutcome, find_hosts
from sdcard.encoding import JsonObject, decode_base64url, encode_base64url, encode_json, parse_json_object
from sdcard.errors import Part, Refused, Where
from sdcard.issuer import AGENT_ID
from sdcard.jose.keys import parse_public_jwk
from sdcard.rules import Rule
from sdcard.status_list import StatusValue

MOST_BATCHES = 100
_ATTEMPTS = 5
_CURSOR = REQUEST.within("query", "cursor")
_LIMIT = REQUEST.within("query", "limit")


async def renew_agent(
    container: Container, caller: Caller, agent_id: str, body: bytes, asked: IdempotentRequest | None = None
) -> bytes:
    """Issue a Batch like the agent's last one, under the present policy.

    The card, contexts and keys stay the same.

    Raises:
        Refused: as ``register_agent``, with places of the request as it would be to register the agent again;
            ``agent.unknown``, ``agent.not-renewable``; ``proof.missing`` when proofs are demanded by now and there was
            none.
    """
    given = parse_json_object(body, REQUEST, container.limits.json_depth)
    read_section(Renewal, given)

    def request(agent: AgentRow) -> JsonObject:
        return {**remembered(container, agent), **given}

    return await _issue_again(container, caller, agent_id, AuditEvent.AGENT_RENEWED, request, asked)


async def change_keys(
    container: Container, caller: Caller, agent_id: str, body: bytes, asked: IdempotentRequest | None = None
) -> bytes:
    """Issue a Batch like the agent's last one, bound to other keys.

    The old keys stay the agent's: no other agent can register them.

    Raises:
        Refused: as ``renew_agent``.
    """

    def read_change() -> tuple[JsonObject, KeyChange]:
        given = parse_json_object(body, REQUEST, container.limits.json_depth)
        return given, read_section(KeyChange, given)

    async with container.turns.of(caller.subject):  # as registrations are read: keys and proofs can be many
        given, change = await asyncio.to_thread(read_change)

    def request(agent: AgentRow) -> JsonObject:
        kept = {name: value for name, value in remembered(container, agent).items() if name != "public_keys"}
        return {**kept, **given, "supersedes": change.supersedes}

    return await _issue_again(container, caller, agent_id, AuditEvent.AGENT_KEYS_CHANGED, request, asked)


async def _issue_again(
    container: Container,
    caller: Caller,
    agent_id: str,
    event: AuditEvent,
    request: Callable[[AgentRow], JsonObject],
    asked: IdempotentRequest | None,
) -> bytes:
    """Issue for the stored agent; retry when it is registered again meanwhile."""
    check_agent(caller, agent_id)
    now = container.clock.now()
    if asked is not None:
        earlier = await find_earlier_response(container.database, asked, now)
        if earlier is not None:
            return earlier
    for _ in range(_ATTEMPTS):
        agent = await find_agent(container, caller, agent_id)
        same_keys = event is AuditEvent.AGENT_RENEWED
        proven = same_keys and agent.possession is Possession.PROVEN
        terms = await terms_of(container, now, ProofPolicy.ACCEPTED if proven else container.proofs)
        again = request(agent)
        registration = await read(container, caller, encode_json(again), partial(read_request, again, terms))
        proven = proven or registration.nonce is not None
        possession = Possession.PROVEN if proven else Possession.NOT_PROVEN
        change = Change(event, possession, agent.batch_id, asked)
        try:
            return await issue(container, caller, registration, change, now)
        except AgentChanged:
            continue
    raise Refused(Rule.STORE_UNAVAILABLE, REQUEST)


async def find_agent(container: Container, caller: Caller, agent_id: str) -> AgentRow:
    """The caller's agent of this id.

    Raises:
        Refused: ``token.limit``; ``agent.unknown``.
    """
    check_agent(caller, agent_id)
    agent = await container.database.read(lifecycle_repository.find_agent, caller.subject, agent_id)
    if agent is None:
        raise Refused(Rule.AGENT_UNKNOWN, REQUEST.within("agent_id"))
    return agent


def remembered(container: Container, agent: AgentRow) -> JsonObject:
    """Rebuild the request that would register the stored agent.

    Raises:
        Refused: ``agent.not-renewable``.
    """
    if agent.asked is None:
        raise Refused(Rule.AGENT_NOT_RENEWABLE, REQUEST.within("agent_id"))
    depth = container.limits.json_depth
    card = parse_json_object(agent.card.encode(), Where(Part.CARD), depth)
    named: JsonObject = {name: card.get(name) or "" for name in ("name", "description", "version")}
    whole: JsonObject = {} if agent.card_format == summary.FORMAT.name else {"card": card}
    return {"agent_id": agent.agent_id, **named, **whole, **parse_json_object(agent.asked.encode(), REQUEST, depth)}


async def list_agents(
    container: Container, caller: Caller, cursor: Sequence[str], limit: Sequence[str], begins: str = ""
) -> AgentList:
    """List a page of the caller's agents that its token permits.

    Args:
        cursor, limit: query parameters.
        begins: prefix of the agents' ids.

    Raises:
        Refused: ``request.malformed``; ``token.limit``.
    """
    count, after = _read_limit(limit), _read_cursor(cursor)
    now = int(container.clock.now())
    prefixes = _narrowed(agent_prefixes(caller), begins)
    rows = await container.database.read(
        lifecycle_repository.list_agents, caller.subject, prefixes, after, count + 1, now
    )
    page = [
        AgentInList(
            agent_id=row.agent_id,
            card_format=row.card_format,
            registered_at=row.registered_at,
            updated_at=row.updated_at,
            expires_at=row.expires_at,
        )
        for row in rows[:count]
    ]
    more = len(rows) > count
    return AgentList(agents=page, next_cursor=encode_base64url(page[-1].agent_id.encode()) if more else None)


def _narrowed(prefixes: Sequence[str] | None, begins: str) -> Sequence[str] | None:
    """Narrow a list of prefixes by one more prefix."""
    if not begins:
        return prefixes
    return [one if one.startswith(begins) else begins for one in prefixes or ("",) if _fits(one, begins)]


def _fits(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


def _read_limit(given: Sequence[str]) -> int:
    if not given:
        return MOST_LISTED // 2
    if len(given) > 1 or not re.fullmatch("[1-9][0-9]{0,2}", given[0]) or int(given[0]) > MOST_LISTED:
        raise Refused(Rule.REQUEST, _LIMIT, f"Send one number from 1 to {MOST_LISTED}.")
    return int(given[0])


def _read_cursor(given: Sequence[str]) -> str:
    """The agent id that the last page ended with."""
    if not given:
        return ""
    hint = "Send the next_cursor of the last page, once and unchanged."
    if len(given) > 1:
        raise Refused(Rule.REQUEST, _CURSOR, hint)
    try:
        after = decode_base64url(given[0], _CURSOR).decode("ascii")
    except (Refused, UnicodeDecodeError):
        raise Refused(Rule.REQUEST, _CURSOR, hint) from None
    if not re.fullmatch(AGENT_ID, after):
        raise Refused(Rule.REQUEST, _CURSOR, hint)
    return after


async def show_agent(container: Container, caller: Caller, agent_id: str) -> AgentShown:
    """Return an agent of the caller with its unexpired SD-Cards.

    Raises:
        Refused: ``token.limit``; ``agent.unknown``.
    """
    agent, now = await find_agent(container, caller, agent_id), int(container.clock.now())
    batches = _batches(await container.database.read(lifecycle_repository.issued_for, agent_id, MOST_BATCHES + 1, now))
    asked: Any = {}
    if agent.asked is not None:
        asked = parse_json_object(agent.asked.encode(), REQUEST, container.limits.json_depth)
    keys = asked.get("public_keys")
    return AgentShown(
        agent_id=agent.agent_id,
        sub=f"agent:{agent.agent_id}",
        card_format=agent.card_format,
        registered_at=agent.registered_at,
        updated_at=agent.updated_at,
        disclosure_contexts=asked.get("disclosure_contexts"),
        key_thumbprints=None if keys is None else [parse_public_jwk(key, Where(Part.KEY)).thumbprint for key in keys],
        possession=agent.possession.value,
        batches=batches[:MOST_BATCHES],
        more_batches=len(batches) > MOST_BATCHES,
        token_expires_at=None if caller.subject.startswith(EXTERNAL) else caller.ends_at,
    )


def _batches(rows: Sequence[IssuedRow]) -> list[BatchShown]:
    """Rows are in the order of Batches, and within one of contexts."""
    return [
        BatchShown(
            batch_id=batch_id,
            issued_at=issued_at,
            contexts=[_context(name, list(same)) for name, same in groupby(batch, key=lambda row: row.context)],
        )
        for (batch_id, issued_at), batch in groupby(rows, key=lambda row: (row.batch_id, row.issued_at))
    ]


def _context(name: str, rows: Sequence[IssuedRow]) -> IssuedForContext:
    counted = {row.status: row.cards for row in rows}
    return IssuedForContext(
        context=name,
        valid=counted.get(StatusValue.VALID, 0),
        suspended=counted.get(StatusValue.SUSPENDED, 0),
        revoked=counted.get(StatusValue.INVALID, 0),
        expires_at=max(row.expires_at for row in rows),
    )


async def show_domains(container: Container, caller: Caller, agent_id: str) -> AgentDomains:
    """Return what an agent's hosts have to publish, and the last result of its checks.

    Raises:
        Refused: ``token.limit``; ``agent.unknown``; ``agent.not-renewable``.
    """
    agent = await find_agent(container, caller, agent_id)
    stored = await container.database.read(checks_repository.find_check, agent_id)
    card, terms = checks.stored_agent(container, caller.subject, agent.card_format, agent.card, agent.asked)
    hosts, outcomes = find_hosts(card), checks.outcomes_of(stored) if stored else {}
    now = container.clock.now()
    unproved = checks.unproved(container, terms, card, stored, now) if container.checks.domains else ()
    last = stored or StoredCheck(0, None, {}, {})
    return AgentDomains(
        agent_id=agent_id,
        checks_domains=container.checks.domains,
        checks_cards=container.checks.cards,
        checked_at=last.checked_at,
        next_check_at=last.due_at if stored else None,
        hosts=[_host_shown(host, terms, outcomes.get(host, HostOutcome(host))) for host in hosts.names],
        findings=show_findings([*unproved, *checks.card_findings(stored)]),
    )


def _host_shown(host: str, terms: DomainTerms, outcome: HostOutcome) -> DomainShown:
    values = terms.values(host)
    return DomainShown(
        host=host,
        file=f"https://{host}{FILE_PATH}",
        txt=f"{TXT_LABEL}.{host}",
        values=[*values],
        proved=set(values) <= set(outcome.proved),
        ways=list(outcome.ways),
    )


async def delete_agent(container: Container, caller: Caller, agent_id: str) -> AgentDeleted:
    """Revoke an agent's SD-Cards and forget it, except for its id and keys.

    No other subject can register that id or those keys.

    Raises:
        Refused: ``token.limit``; ``agent.unknown``.
    """
    check_agent(caller, agent_id)
    now = container.clock.now()
    deletion = DeletionRow(int(now), container.status.public_at(now), caller.subject, agent_id)
    revoked = await container.database.change(lifecycle_repository.delete_agent, deletion)
    public_by = container.status.public_by(deletion.public_at, container.clock.now())
    return AgentDeleted(agent_id=agent_id, revoked=revoked, public_at=public_by)
