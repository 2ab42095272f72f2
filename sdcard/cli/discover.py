"""``sdcard discover`` and ``sdcard fetch``."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from sdcard.cli.app import EXIT_REFUSED
from sdcard.cli.keys import (
    FetchStatus,
    Networks,
    Refresh,
    StatusUnchecked,
    TrustFile,
    TrustSigner,
    decide_status,
    read_egress_policy,
    read_trust,
)
from sdcard.cli.options import (
    AsJson,
    IssuerName,
    ProfileName,
    RegistryAddress,
    RequireCheck,
    SearchContext,
    Timeout,
    TokenFile,
    connect,
    find_profile,
    parse_now,
    read_token,
    wait_until_ready,
)
from sdcard.cli.output import (
    cell,
    console,
    describe_findings,
    print_json,
    print_result,
    show_instant,
    show_left_out,
    table,
    write_private_file,
)
from sdcard.cli.verify import describe, show_card, show_members
from sdcard.encoding import JsonObject
from sdcard.errors import Finding, Misuse, Part, Refused, Where
from sdcard.io.system import SystemClock
from sdcard.key_binding import Unbound
from sdcard.limits import MOST_RESULTS
from sdcard.rules import Rule
from sdcard.status_list import Unchecked
from sdcard.verifier import Expectations, VerifiedCard, verify_presentation

if TYPE_CHECKING:
    from sdcard.io.card_fetching import FetchedCard
    from sdcard.io.registry_answers import Discovered, FoundAgent


UNBOUND = Unbound("SD-Cards from discovery come from the registry, not from their Holder")
UNCHECKED = Unchecked("a registry gives out no SD-Card that was revoked or suspended by then")

Names: TypeAlias = list[str] | None


def discover(
    registry: RegistryAddress,
    context: SearchContext = "public",
    skill: Annotated[Names, typer.Option(help="The id or name of a skill (repeatable).")] = None,
    tag: Annotated[Names, typer.Option(help="A tag of a skill (repeatable).")] = None,
    capability: Annotated[Names, typer.Option(help="A capability such as streaming (repeatable).")] = None,
    input_mode: Annotated[Names, typer.Option(help="A media type that the agent accepts (repeatable).")] = None,
    output_mode: Annotated[Names, typer.Option(help="A media type that the agent produces (repeatable).")] = None,
    goal: Annotated[Names, typer.Option(help="The id of a goal of AgentCard (repeatable).")] = None,
    domain: Annotated[Names, typer.Option(help="A perception domain of KNO (repeatable).")] = None,
    text: Annotated[str | None, typer.Option(help="Words in the agent's name, description and skills.")] = None,
    catalogue: Annotated[bool, typer.Option("--catalogue", help="List the public catalogue, without a token.")] = False,
    max_results: Annotated[int, typer.Option(min=1, max=MOST_RESULTS, help="The most results on one page.")] = 20,
    cursor: Annotated[str | None, typer.Option(help="The cursor at the end of the previous page.")] = None,
    trust: Annotated[Path | None, typer.Option(help="The trust document; by default the registry's own keys.")] = None,
    trust_signer: TrustSigner = None,
    issuer: IssuerName = None,
    require_check: RequireCheck = None,
    profile: ProfileName = "sd-card",
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Find agents and verify their SD-Cards.

    Exit status 1: at least one SD-Card does not verify. Its agent is not listed.
    """
    from sdcard.io.registry_client import Registry

    accepted = find_profile(profile)
    criteria = {
        "skills": skill,
        "tags": tag,
        "capabilities": dict.fromkeys(capability or (), True),
        "input_modes": input_mode,
        "output_modes": output_mode,
        "goals": goal,
        "domains": domain,
        "text": text,
    }
    query = _no_query(criteria, context) if catalogue else make_query(**criteria)
    client = Registry(registry) if catalogue else connect(registry, token_file)
    issuers = read_trust(trust, trust_signer, SystemClock().now()) if trust else client.issuer(issuer)[0]
    asked = max_results, cursor
    answer = client.catalogue(*asked) if catalogue else client.discover(query, context, *asked)
    expectations = Expectations(
        issuers=issuers,
        profile=accepted,
        key_binding=UNBOUND,
        status=UNCHECKED,
        required_checks=tuple(require_check or ()),
    )
    page = verify_page(answer, expectations)
    if as_json:
        print_json(_document(page, answer, context))
    else:
        _show(page, answer, context)
    if page.left_out:
        show_left_out(page.left_out)
        raise typer.Exit(EXIT_REFUSED)


def _no_query(criteria: dict[str, Any], context: str) -> JsonObject:
    if any(criteria.values()) or context != "public":
        raise Misuse("--catalogue lists all agents of public: it takes no criteria and no other context")
    return {}


def make_query(**criteria: Any) -> JsonObject:
    """Build a discovery query. Raises ``Misuse`` without a criterion."""
    query: JsonObject = {name: value for name, value in criteria.items() if value}
    if not query:
        raise Misuse(f"say what to look for: at least one of {', '.join(one.replace('_', ' ') for one in criteria)}")
    return query


@dataclass(frozen=True, slots=True)
class Page:
    """Agents of a page whose SD-Cards verified, and why others are not listed."""

    cards: tuple[tuple["FoundAgent", VerifiedCard], ...]
    left_out: tuple[Finding, ...]


def verify_page(answer: "Discovered", expectations: Expectations) -> Page:
    """Verify every SD-Card of a page; one that fails does not affect the others.

    Raises:
        Refused: for every agent, if the page has agents and none of them verifies.
    """
    cards: list[tuple[FoundAgent, VerifiedCard]] = []
    left_out = [
        Finding(Rule.SD_JWT_FORMAT, Where(Part.REGISTRY, (place,)), "The entry is not of the documented shape.")
        for place in answer.left_out
    ]
    for found in answer.results:
        try:
            cards.append((found, verify_found(found, expectations)))
        except Refused as refusal:
            left_out += [replace(one, hint=_of_agent(found.agent_id, one)) for one in refusal.findings]
    if left_out and not cards:
        raise Refused.because(left_out)
    return Page(tuple(cards), tuple(left_out))


def _of_agent(agent_id: str, finding: Finding) -> str:
    return f"Agent {agent_id}: {finding.hint or finding.rule.sentence}"


def verify_found(found: "FoundAgent", expectations: Expectations) -> VerifiedCard:
    """Verify an SD-Card from the registry. Its subject must be the agent.

    Raises:
        Refused: as ``verify_presentation``; ``claim.value``, at ``issuer-jwt/sub``, for another subject.
    """
    card = verify_presentation(found.sd_card, expectations, SystemClock().now())
    if card.subject != f"agent:{found.agent_id}":
        where = Where(Part.ISSUER_JWT, ("sub",))
        raise Refused(Rule.CLAIM_VALUE, where, "It is the SD-Card of another agent than the registry says.")
    return card


def _document(page: Page, answer: "Discovered", context: str) -> dict[str, Any]:
    return {
        "context": context,
        "results": [
            {
                "agent_id": found.agent_id,
                "name": card.members.get("name"),
                "card_format": card.card_format,
                "expires_at": card.expires_at,
                "members": card.members,
                "sd_card": found.sd_card,
            }
            for found, card in page.cards
        ],
        "left_out": describe_findings(page.left_out),
        "next_cursor": answer.next_cursor,
        "ignored": list(answer.ignored),
    }


def _show(page: Page, answer: "Discovered", context: str) -> None:
    rows = [
        (str(card.members.get("name", "")), found.agent_id, context, show_instant(card.expires_at))
        for found, card in page.cards
    ]
    out = console()
    out.print(table(f"{len(rows)} verified", ("name", "agent", "context", "valid until"), rows))
    if answer.next_cursor:
        out.print(cell(f"There may be more: --cursor {answer.next_cursor}"))


# -- ``sdcard wait`` --------------------------------------------------------------------------------------------------


def wait(registry: RegistryAddress, timeout: Timeout = 60, as_json: AsJson = False) -> None:
    """Wait until a registry is ready."""
    from sdcard.io.registry_client import Registry

    wait_until_ready(Registry(registry), timeout)
    print_result(as_json, {"ready": True, "registry": registry}, f"{registry} is ready")


# -- ``sdcard fetch`` -------------------------------------------------------------------------------------------------


def fetch(
    url: Annotated[str, typer.Argument(metavar="URL", help="The address of the card, the agent or its host.")],
    trust: TrustFile,
    trust_signer: TrustSigner = None,
    refresh: Refresh = False,
    status: FetchStatus = False,
    status_unchecked: StatusUnchecked = None,
    network: Networks = None,
    token_file: Annotated[Path | None, typer.Option(help="A file with a bearer token that the agent accepts.")] = None,
    out: Annotated[Path | None, typer.Option(help="Save the SD-Card in this file.")] = None,
    challenge: Annotated[
        bool, typer.Option("--challenge", help="Demand the proof: refuse a card that its host does not prove.")
    ] = False,
    audience: Annotated[
        str, typer.Option(help="The client's name: the value of `aud` in the agent's proof.")
    ] = "urn:sd-card:fetch",
    unbound: Annotated[
        str | None, typer.Option(metavar="REASON", help="Do not ask for a proof, for this reason.")
    ] = None,
    profile: ProfileName = "sd-card",
    as_json: AsJson = False,
) -> int:
    """Fetch a card and verify it."""
    from sdcard.agent_proof import AgentChallenges
    from sdcard.io.card_fetching import UnprovedCard, fetch_card
    from sdcard.io.published_keys import IssuerKeys
    from sdcard.io.replay_cache import MemoryChallengeRecord
    from sdcard.io.system import SystemSalts
    from sdcard.key_binding import Unbound
    from sdcard.nonces import NoncePurpose

    if challenge and unbound is not None:
        raise Misuse("--challenge demands a proof, and --unbound asks for none: give one of them")
    record = MemoryChallengeRecord(audience, SystemSalts(), purpose=NoncePurpose.CALLED_AGENT)

    now, egress = parse_now(None), read_egress_policy(network)
    listed = read_trust(trust, trust_signer, now)
    issuers = IssuerKeys(listed, egress) if refresh else listed
    found = fetch_card(
        url,
        issuers,
        decide_status(status, status_unchecked, issuers, network),
        now,
        egress,
        read_token(token_file) if token_file else None,
        find_profile(profile),
        challenges=AgentChallenges(record) if unbound is None else Unbound(unbound),
    )
    if challenge and isinstance(found.card, UnprovedCard):
        raise Refused(Rule.AGENT_PROOF_MISSING, Where(Part.PRESENTATION), "The host answered without a proof.")
    if out is not None and found.sd_card is not None:
        write_private_file(out, found.sd_card.encode("ascii") + b"\n")
    if as_json:
        print_json(_fetch_document(found))
    else:
        _fetch_show(found)
    accepted = VerifiedCard | UnprovedCard if unbound is not None else VerifiedCard
    return 0 if isinstance(found.card, accepted) else 1


def _fetch_document(found: "FetchedCard") -> dict[str, Any]:
    from sdcard.cards.model import Card

    card = found.card
    told: dict[str, Any]
    if isinstance(card, VerifiedCard):
        told = {**describe(card), "proof": "proved by this host"}
    elif isinstance(card, Card):
        told = {"verified": False, "card_format": card.format.name, "members": card.document}
    else:
        told = {**describe(card.card), "verified": False, "proof": str(card)}
    return {"url": found.url, **told, "findings": describe_findings(found.findings)}


def _fetch_show(found: "FetchedCard") -> None:
    from sdcard.cards.model import Card

    out = console()
    if isinstance(found.card, VerifiedCard):
        show_card(found.card, "Verified, and proved by this host")
    elif not isinstance(found.card, Card):
        show_card(found.card.card, str(found.card).capitalize())
    else:
        show_members("A plain card: nobody signed it", found.card.document)
    out.print(cell(f"From {found.url}"))
    for finding in found.findings:
        out.print(cell(f"{finding.level}: {finding.rule} at {finding.where}: {finding.rule.sentence} {finding.hint}"))
