"""Background checks of agents: domain control and published cards.

- An issuance schedules a check, and reads the result of the last one. No request waits for a look-up.
- A check is repeated when the published card expires from caches, at least every ``seconds``, so also before a renewal.
  A host that proves too little is asked again after a minute, then at growing intervals.
- The last check decides. What it did not prove loses its code at the next issuance. So does everything if a check is
  overdue by ``seconds``.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from issuer_service.agents import checks_repository as repository
from issuer_service.agents.reading import Registration
from issuer_service.agents.records import CheckResult, ClaimedCheck, StoredCheck
from issuer_service.agents.schemas import REQUEST
from issuer_service.container import Container
from issuer_service.keys.repository import KeyUse
from issuer_service.settings import SubjectPer
from sdcard.cards.detect import KNOWN_FORMATS
from sdcard.cards.model import Card, Fact
from sdcard.domain_control import (
    DomainTerms,
    HostOutcome,
    Published,
    Way,
    changed_members,
    check_control,
    check_host,
    find_hosts,
)
from sdcard.encoding import JsonObject, JsonValue, parse_json_object
from sdcard.errors import Finding, Level, Part, Refused, Where, first_findings
from sdcard.instants import MAX_FUTURE, Instant, Lifetime
from sdcard.io.card_fetching import UnprovedCard, fetch_card_async
from sdcard.issuer import DAY
from sdcard.jose.keys import parse_public_jwk
from sdcard.key_binding import Unbound
from sdcard.paths import value_at
from sdcard.rules import Rule
from sdcard.status_list import Unchecked
from sdcard.trust import TrustedIssuers
from sdcard.urls import endpoint_host, is_domain_name

_log = logging.getLogger(__name__)

_AT_ONCE = 16
"""Agents that a process claims together."""
_LOOKUPS_AT_ONCE = 32
_RUN_SECONDS = 20.0
"""After so long, a run claims no more agents; the next run does."""
_LABEL_LENGTH = 12
"""Of a random DNS label: 48 bits, and short enough for the longest host."""
_MOST_NAME, _MOST_HINT = 64, 300
"""Characters of findings that are stored."""
_RULES = {rule.value: rule for rule in Rule}
_CARD = Where(Part.CARD)
_UNCHECKED = Unchecked("the registry itself knows the status")
_UNBOUND = Unbound("the registry compares contents, and does not ask who answers")


# -- What an issuance reads -------------------------------------------------------------------------------------------


async def find_unproved(
    container: Container, owner: str, registration: Registration, now: Instant
) -> tuple[Finding, ...]:
    """Say why the owner does not control every host of the card.

    Returns:
        Warnings for the owner, by the last check; none if every host is proved.
    """
    stored = await container.database.read(repository.find_check, registration.agent_id)
    thumbprints = tuple([holder.key.thumbprint for holder in registration.keys])
    return unproved(container, DomainTerms(container.issuer_url, owner, thumbprints), registration.card, stored, now)


async def find_proved(container: Container, agent_ids: Sequence[str], now: Instant) -> frozenset[str]:
    """Return those of these agents whose hosts are all proved, as they are registered."""
    if not container.checks.domains:
        return frozenset()
    found = await container.database.read(repository.find_checked, agent_ids)

    def proved() -> Iterator[str]:
        for agent, stored in found:
            with contextlib.suppress(Refused, LookupError, TypeError, ValueError):  # what renews it says why
                card, terms = stored_agent(container, agent.subject, agent.card_format, agent.card, agent.asked)
                if not unproved(container, terms, card, stored, now):
                    yield agent.agent_id

    return await asyncio.to_thread(lambda: frozenset(proved()))


def unproved(
    container: Container, terms: DomainTerms, card: Card, stored: StoredCheck | None, now: Instant
) -> tuple[Finding, ...]:
    """Decide as ``find_unproved``, from a stored result."""
    end = -1 if stored is None else stored.due_at + container.checks.seconds + 1
    is_recent = stored and stored.checked_at is not None and Lifetime(stored.checked_at, end).covers(now, MAX_FUTURE)
    outcomes = outcomes_of(stored) if stored and is_recent else {}
    return check_control(find_hosts(card), terms, outcomes)


def card_findings(stored: StoredCheck | None) -> tuple[Finding, ...]:
    """Return the last findings about the published card."""
    shown: Any = stored.outcome.get("card", ()) if stored else ()
    return tuple(map(_finding, shown))


def outcomes_of(stored: StoredCheck) -> dict[str, HostOutcome]:
    """Return the last result of each host."""
    shown: Any = stored.outcome.get("hosts", ())
    proved: Any = stored.proved
    return {
        one["host"]: HostOutcome(
            one["host"],
            tuple(proved.get(one["host"], ())),
            tuple(map(Way, one["ways"])),
            tuple(map(_finding, one["findings"])),
        )
        for one in shown
    }


def _as_warnings(findings: Iterable[Finding]) -> Iterator[Finding]:
    return (replace(one, level=Level.WARNING) for one in findings)


def _stored_finding(finding: Finding) -> JsonObject:
    where = finding.where
    return {
        "rule": finding.rule.value,
        "part": where.part.value,
        "path": [one if isinstance(one, int) else one[:_MOST_NAME] for one in where.path],
        "hint": finding.hint[:_MOST_HINT],
    }


def _finding(stored: Any) -> Finding:
    where = Where(Part(stored["part"]), tuple(stored["path"]))
    return Finding(_RULES[stored["rule"]], where, stored["hint"], Level.WARNING)


# -- The background job -----------------------------------------------------------------------------------------------

_Find: TypeAlias = Callable[[str], Awaitable[Published]]


async def check_agents(container: Container) -> int:
    """Check the agents that are due, for a bounded time. Return how many were checked.

    In one run a host is asked once, however many agents name it.

    Raises:
        Refused: ``store.unavailable``.
    """
    loop, database, checked = asyncio.get_running_loop(), container.database, 0
    ends_at = loop.time() + _RUN_SECONDS
    find = _asking_once(container)
    while loop.time() < ends_at and await database.read(repository.is_due, int(container.clock.now())):
        at = int(container.clock.now())
        claimed = await database.change(repository.claim, at, _AT_ONCE)
        container.metrics.claim_checks(at, [one.due_at for one in claimed])
        checked += sum(await asyncio.gather(*(_check(container, one, find) for one in claimed)))
    return checked


def _asking_once(container: Container) -> _Find:
    """Make the look-up of a run: each host once, and a bounded number at a time."""
    turns, asked = asyncio.Semaphore(_LOOKUPS_AT_ONCE), dict[str, asyncio.Task[Published]]()

    async def ask(host: str) -> Published:
        async with turns:
            return await container.checks.lookups.find(host, container.salts.draw(1).hex()[:_LABEL_LENGTH])

    async def find(host: str) -> Published:
        if host not in asked:
            asked[host] = asyncio.create_task(ask(host))
        return await asked[host]

    return find


async def _check(container: Container, claimed: ClaimedCheck, find: _Find) -> bool:
    """Check an agent, and write the result.

    A failure is logged, and the claim expires.
    """
    try:
        result = await _result(container, claimed, find)
        is_written = await container.database.change(repository.finish, result)
    except Exception as error:  # of whatever kind: one agent must not keep the others from being checked
        what = str(error.rule) if isinstance(error, Refused) else type(error).__name__
        _log.error("agent %s cannot be checked: %s", claimed.agent.agent_id, what)
        container.metrics.count_check("failed")
        return False
    container.metrics.count_check(("unproved" if result.failures else "good") if is_written else "expired")
    return is_written


async def _result(container: Container, claimed: ClaimedCheck, find: _Find) -> CheckResult:
    checks, now = container.checks, container.clock.now()
    agent = claimed.agent
    card, terms = stored_agent(container, agent.subject, agent.card_format, agent.card, agent.asked)
    hosts = find_hosts(card)
    names = [*hosts.names] if checks.domains else []
    published = await asyncio.gather(*map(find, names))
    found = [check_host(terms, host, one) for host, one in zip(names, published, strict=True)]
    differences, max_age = await compare_card(container, card, now) if checks.cards else ((), None)
    is_good = not checks.domains or not check_control(hosts, terms, {one.host: one for one in found})
    failures = 0 if is_good else claimed.failures + 1
    longest = max(checks.seconds, min(max_age or 0, DAY))
    wait = longest if is_good else min(longest, repository.SOON * 2 ** min(claimed.failures, 20))
    at = int(container.clock.now())
    shown: list[JsonValue] = [
        {"host": one.host, "ways": [*one.ways], "findings": [_stored_finding(finding) for finding in one.findings]}
        for one in found
    ]
    return CheckResult(
        claimed=claimed,
        subject=container.issuer_url,
        at=at,
        due_at=at + wait,
        failures=failures,
        outcome={"hosts": shown, "card": [_stored_finding(one) for one in differences]},
        proved={one.host: [*one.proved] for one in found if one.proved},
    )


def stored_agent(
    container: Container, owner: str, card_format: str, card: str, asked: str | None
) -> tuple[Card, DomainTerms]:
    """Read the card of a stored agent, and the terms of its proofs.

    Raises:
        Refused: ``agent.not-renewable`` when its keys are not known.
    """
    if asked is None:
        raise Refused(Rule.AGENT_NOT_RENEWABLE, REQUEST.within("agent_id"))
    keys: Any = _parse(container, asked, REQUEST)["public_keys"]
    thumbprints = tuple([parse_public_jwk(one, Where(Part.KEY)).thumbprint for one in keys])
    document = _parse(container, card, _CARD)
    return Card(KNOWN_FORMATS[card_format], document), DomainTerms(container.issuer_url, owner, thumbprints)


def _parse(container: Container, text: str, where: Where) -> JsonObject:
    return parse_json_object(text.encode(), where, container.limits.json_depth)


# -- The published card of an agent (AgentCard draft-00, section 4) ---------------------------------------------------


async def compare_card(container: Container, card: Card, now: Instant) -> tuple[tuple[Finding, ...], int | None]:
    """Fetch a published card, and compare it with the registered one.

    It is at the well-known addresses of the host of the first endpoint.
    Another agent's card there is no difference, and so is none at all.

    Returns:
        Warnings for the owner, and for how many seconds the response may be cached, if it says so.
    """
    endpoints = _endpoints(card, card.document)
    host = next((host for one in endpoints if (host := endpoint_host(one)) and is_domain_name(host)), None)
    if host is None:
        return (), None
    lookups, keys = container.checks.lookups, await container.keys.current()
    issuers = TrustedIssuers.of(container.issuer_url, *keys.published[KeyUse.CARDS])
    port = "" if lookups.https_port == 443 else f":{lookups.https_port}"
    try:
        async with asyncio.timeout(2 * lookups.egress.seconds):
            found = await fetch_card_async(
                f"https://{host}{port}", issuers, _UNCHECKED, now, lookups.egress, None, container.profile,
                challenges=_UNBOUND,
            )  # fmt: skip
    except Refused as refusal:
        is_absent = all(one.rule is Rule.FETCH_ABSENT for one in refusal.findings)
        return (() if is_absent else tuple(first_findings(_as_warnings(refusal.findings)))), None
    except TimeoutError:
        return (Finding(Rule.FETCH_FAILED, Where(Part.FETCHED), "It took too long.", Level.WARNING),), None
    published = found.card.card if isinstance(found.card, UnprovedCard) else found.card
    members = published.document if isinstance(published, Card) else published.members
    if members.get("name") != card.document.get("name") and not endpoints & _endpoints(card, members):
        return (), None
    own_names = set(card.format.names_agent) if container.subject_per is not SubjectPer.AGENT else set[str]()
    shown = {name: value for name, value in members.items() if name not in own_names}
    changed = changed_members(card.document, shown)
    hint = f"It is published at {host}."
    differing = (Finding(Rule.CARD_PUBLISHED, _CARD.within(name), hint, Level.WARNING) for name in changed)
    return tuple(first_findings(differing)), found.max_age


def _endpoints(card: Card, members: Mapping[str, JsonValue]) -> set[str]:
    """Return the endpoints that a card has, or another one of the same format."""
    document = dict(members)
    paths = card.format.facts[Fact.ENDPOINT]
    values = (value_at(document, place) for one in paths for place in one.find(document))
    return {value for value in values if isinstance(value, str)}
