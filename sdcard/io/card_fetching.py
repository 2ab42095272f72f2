"""Fetching and verification of an agent's published card (SD-Card 6.1).

The result names what could not be determined.

Needs the ``cli`` extra.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from urllib.parse import urlsplit

from sdcard.agent_proof import EXTENSION, AgentChallenges
from sdcard.cards.agentcard import shared as discovery
from sdcard.cards.detect import KNOWN_FORMATS, parse_card
from sdcard.cards.model import Card, Fact
from sdcard.claim_request import ClaimRequest
from sdcard.encoding import JsonObject, parse_json_object
from sdcard.errors import Finding, Level, Misuse, Part, Refused, Where
from sdcard.http_auth import CHALLENGE_HEADER, encode_challenge
from sdcard.instants import Instant
from sdcard.io.egress_policy import PUBLIC, EgressPolicy, parse_url
from sdcard.io.http import Fetched, NotADocument, fetch_async, run_blocking
from sdcard.io.published_keys import IssuerKeys
from sdcard.key_binding import Answering, Bound, Challenge, RequestTarget, Unbound
from sdcard.limits import DEFAULT_LIMITS
from sdcard.paths import value_at
from sdcard.profile import SD_CARD, Profile
from sdcard.publishing import ALL_PATHS, SD_MEDIA_TYPE
from sdcard.rules import Rule
from sdcard.status_list import CheckedAsync, Status, Unchecked
from sdcard.trust import TrustedIssuers
from sdcard.urls import canonical_origin
from sdcard.verifier import Expectations, VerifiedCard, verify_presentation, verify_presentation_async

MEDIA_TYPES = (SD_MEDIA_TYPE, "application/json", discovery.MEDIA_TYPE)

_UNBOUND = Unbound("asked for, and not answered")
_ANSWER = Where(Part.FETCHED, ("agent_card",))
_CARD = Where(Part.CARD)
_AUTHORITY = re.compile(
    r"[a-z][a-z0-9+.-]*://([a-z0-9._-]+|\[[0-9a-f:.]+\])(?::[0-9]*)?(?=[/?#]|\Z)", re.ASCII | re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class UnprovedCard:
    """A card that anyone can have copied.

    A trusted Issuer signed it. The host that served it did not prove that it is the agent.
    """

    card: VerifiedCard

    def __str__(self) -> str:
        return NOT_PROVED


NOT_PROVED = "issued by a trusted registry; not proved by this host"


@dataclass(frozen=True, slots=True)
class FetchedCard:
    """A fetched card and its address.

    Attributes:
        url: the address that had the card.
        card: a ``VerifiedCard`` that its host proved, an ``UnprovedCard``, or an unsigned ``Card``.
        sd_card: the SD-Card as text, without a KB-JWT; None for an unsigned card.
        findings: warnings, and checks that were not possible: ``fetched.…``, ``status.unavailable``, ``card.…``,
            ``agentcard.…``.
        max_age: seconds for which the response may be cached, if it says so.
    """

    url: str
    card: VerifiedCard | UnprovedCard | Card
    sd_card: str | None = field(repr=False)
    findings: tuple[Finding, ...]
    max_age: int | None = None


def fetch_card(
    url: str,
    issuers: TrustedIssuers | IssuerKeys,
    status: Status,
    now: Instant,
    egress: EgressPolicy = PUBLIC,
    token: str | None = None,
    profile: Profile = SD_CARD,
    *,
    challenges: AgentChallenges | Unbound,
) -> FetchedCard:
    """Fetch and verify a card.

    Args:
        url: the address of the card, of its agent, or of an endpoint. If it has no card, the well-known addresses below
            it are tried, then those of its host.
        issuers: the trusted Issuers; ``IssuerKeys`` are refreshed first.
        status: the decision about status.
        egress: addresses that may be connected to, beside public addresses.
        token: a bearer token for cards with restricted access. It is sent only to the address and below it.
        profile: the requirements for a well-formed SD-Card.
        challenges: makes a challenge for each address, or the decision not to request a proof. Without a proof the card
            is an ``UnprovedCard``.

    Raises:
        Refused: ``agent-proof.missing`` when the card says that its agent answers challenges, and none was answered;
            ``fetch.…``, ``limit.bytes``, ``issuer.metadata-unavailable``, and as ``verify_presentation`` for an
            SD-Card or ``parse_card`` for a plain one.
        Misuse: when the status source must be awaited, or the token is malformed.
    """
    if isinstance(status, CheckedAsync):
        raise Misuse("await fetch_card_async for a status source that is awaited")
    found = run_blocking(_find(url, egress, token, now, challenges))
    if found.response.media_type != SD_MEDIA_TYPE:
        return _plain(found)
    text = _sd_card(found.response)
    trusted = issuers if isinstance(issuers, TrustedIssuers) else issuers.for_presentation(text, now)
    expectations = _expectations(trusted, status, profile, _key_binding(text, found.challenge, challenges))
    return _signed(verify_presentation(text, expectations, now), text, found)


async def fetch_card_async(
    url: str,
    issuers: TrustedIssuers | IssuerKeys,
    status: Status,
    now: Instant,
    egress: EgressPolicy = PUBLIC,
    token: str | None = None,
    profile: Profile = SD_CARD,
    *,
    challenges: AgentChallenges | Unbound,
) -> FetchedCard:
    """Fetch as ``fetch_card``, awaited; and so may be the status."""
    found = await _find(url, egress, token, now, challenges)
    if found.response.media_type != SD_MEDIA_TYPE:
        return _plain(found)
    text = _sd_card(found.response)
    trusted = issuers if isinstance(issuers, TrustedIssuers) else await issuers.for_presentation_async(text, now)
    expectations = _expectations(trusted, status, profile, _key_binding(text, found.challenge, challenges))
    return _signed(await verify_presentation_async(text, expectations, now), text, found)


class _Found(NamedTuple):
    """A fetched document.

    Attributes:
        wrong: findings about the addresses tried before.
        challenge: the challenge that was sent to its address.
    """

    url: str
    response: Fetched
    wrong: tuple[Finding, ...]
    challenge: Challenge | None


def _ask(place: str, now: Instant, challenges: AgentChallenges | Unbound) -> Challenge | None:
    """Make a challenge for a GET of an address. It requests no claims by name."""
    if isinstance(challenges, Unbound):
        return None
    try:
        path = parse_url(place).rest.partition("?")[0]
    except Refused:
        return None  # nothing will be fetched from there
    return challenges.issue(RequestTarget(canonical_origin(place), "GET", path), ClaimRequest(), None, now)


def _key_binding(text: str, challenge: Challenge | None, challenges: AgentChallenges | Unbound) -> Answering | Unbound:
    """Decide: an answer to our challenge, or an SD-Card without a KB-JWT."""
    if isinstance(challenges, Unbound):
        return challenges
    if challenge is None or text.endswith("~"):
        return _UNBOUND
    return Answering(challenge, challenges)


async def _find(
    url: str, egress: EgressPolicy, token: str | None, now: Instant, challenges: AgentChallenges | Unbound
) -> _Found:
    """Find the first address that has a document.

    At most seven addresses of one origin are tried (A2A 8.2). A well-known address with another document is skipped. An
    invalid SD-Card at an address is refused, whatever later addresses have.
    """
    places = _places(url)
    wrong: list[Finding] = []
    for place in places:
        of_agent = token if place.startswith(url.rstrip("/")) else None
        challenge = _ask(place, now, challenges)
        asked = None if challenge is None else {CHALLENGE_HEADER: encode_challenge(challenge, ClaimRequest())}
        most = DEFAULT_LIMITS.presentation_bytes
        try:
            found = await fetch_async(place, egress, MEDIA_TYPES, most, of_agent, extra=asked)
        except Refused as refusal:
            has_none = refusal.rule is Rule.FETCH_ABSENT or isinstance(refusal, NotADocument)
            if refusal.rule is Rule.FETCH_ADDRESS or (place == url and len(places) > 1 and not has_none):
                raise
            if refusal.rule is not Rule.FETCH_ABSENT:
                hint = f"{urlsplit(place).path} is left out: {refusal.findings[0].hint}"
                wrong.append(Finding(refusal.rule, refusal.where, hint, Level.WARNING))
        else:
            return _Found(place, found, tuple(wrong), challenge)
    nowhere = Finding(Rule.FETCH_ABSENT, Where(Part.FETCHED), _advice(url, places))
    raise Refused.because([*(replace(one, level=Level.ERROR) for one in wrong), nowhere])


def _places(url: str) -> tuple[str, ...]:
    """List the addresses to try.

    They are the address itself, the well-known addresses below it, and those of its host.
    """
    if "://" not in url:
        parse_url(url)
    scheme, _, rest = url.partition("://")
    host, _, path = rest.partition("/")
    if "?" in rest or path.startswith(".well-known/") or "/.well-known/" in path:
        return (url,)
    of_host = [f"{scheme}://{host}{well_known}" for well_known in ALL_PATHS]
    below = [url, *(f"{url.rstrip('/')}{well_known}" for well_known in ALL_PATHS)] if path.strip("/") else []
    return (*below, *of_host)


def _advice(url: str, places: tuple[str, ...]) -> str:
    if places == (url,):
        return "Only this address was tried. Without a path and query, the well-known addresses of the host are tried."
    origin = "/".join(url.split("/", 3)[:3])
    tried = ", ".join(place.removeprefix(origin)[:200] for place in places)
    return f"Tried were {tried}. Give the address of the card itself."


def _expectations(
    issuers: TrustedIssuers, status: Status, profile: Profile, key_binding: Answering | Unbound
) -> Expectations:
    return Expectations(issuers=issuers, profile=profile, key_binding=key_binding, status=status)


def _sd_card(found: Fetched) -> str:
    text = parse_json_object(found.data, Where(Part.FETCHED), DEFAULT_LIMITS.json_depth).get("agent_card")
    if not isinstance(text, str):
        raise Refused(Rule.SD_JWT_FORMAT, _ANSWER, "The answer is an object whose `agent_card` is an SD-JWT.")
    return text


def _signed(card: VerifiedCard, text: str, found: _Found) -> FetchedCard:
    is_proved = isinstance(card.key_binding, Bound)
    if not is_proved and found.challenge is not None and _offers_proof(card.members):
        hint = "The card says that its agent answers challenges: this is a copy, or a proxy drops SD-Card-Challenge."
        raise Refused(Rule.AGENT_PROOF_MISSING, Where(Part.PRESENTATION), hint)

    def findings() -> Iterator[Finding]:
        if not is_proved:
            yield Finding(Rule.FETCHED_UNBOUND, _CARD, "Send a challenge where it matters who answers.", Level.NOTE)
        if isinstance(card.status, Unchecked):
            yield Finding(Rule.STATUS_UNAVAILABLE, _CARD, f"It was not looked at: {card.status.reason}.", Level.NOTE)
        yield from _elsewhere(card.members, card.card_format or "", found.url)

    sd_card = text[: text.rindex("~") + 1]
    shown, told = card if is_proved else UnprovedCard(card), (*found.wrong, *findings())
    return FetchedCard(found.url, shown, sd_card, told, found.response.max_age)


def _offers_proof(members: JsonObject) -> bool:
    """Whether an A2A card declares the extension of agents that prove themselves."""
    capabilities = members.get("capabilities")
    extensions = capabilities.get("extensions") if isinstance(capabilities, dict) else None
    return isinstance(extensions, list) and any(
        isinstance(one, dict) and one.get("uri") == EXTENSION for one in extensions
    )


def _plain(found: _Found) -> FetchedCard:
    url, card = found.url, parse_card(found.response.data)

    def findings() -> Iterator[Finding]:
        yield Finding(Rule.FETCHED_UNSIGNED, _CARD, "The server may have made it up.", Level.WARNING)
        yield from _elsewhere(card.document, card.format.name, url)
        if card.format.family == "agentcard":
            yield from discovery.compare_with_source(card, url)
        yield from card.findings

    return FetchedCard(url, card, None, (*found.wrong, *findings()), found.response.max_age)


def _elsewhere(document: JsonObject, card_format: str, url: str) -> Iterator[Finding]:
    """Find endpoints at another host.

    They are no fault by themselves: cards may be published for agents elsewhere.
    """
    if card_format not in KNOWN_FORMATS:
        return
    for path in KNOWN_FORMATS[card_format].facts[Fact.ENDPOINT]:
        for place in path.find(document):
            value = value_at(document, place)
            if isinstance(value, str) and _host(value) != _host(url):
                hint = "The two hosts may belong to different parties."
                yield Finding(Rule.FETCHED_ELSEWHERE, _CARD.within(*place), hint, Level.WARNING)


def _host(url: str) -> str | None:
    """Return the host that every reader of the URL reads.

    None where readers differ, as at a backslash or a user.
    """
    match = _AUTHORITY.match(url)
    return match[1].lower() if match else None
