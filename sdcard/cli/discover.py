"""``sdcard discover``: find agents at a registry, and verify what it gives of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from sdcard.cli import completion
from sdcard.cli.output import (
    AsJson,
    ProfileName,
    cell,
    console,
    find_profile,
    print_json,
    show_instant,
    table,
)
from sdcard.cli.register import read_token
from sdcard.cli.trust import TrustSigner, read_trust
from sdcard.edge.system import SystemClock
from sdcard.encoding import JsonObject
from sdcard.errors import Misuse
from sdcard.keybinding.challenge import Unbound
from sdcard.status.reference import Unchecked
from sdcard.verifier import Expectations, VerifiedCard, verify_presentation

if TYPE_CHECKING:
    from sdcard.edge.registry import Discovered, FoundAgent

UNBOUND = Unbound("SD-Cards from discovery come from the registry, not from their Holder")
UNCHECKED = Unchecked("a registry gives out no SD-Card that was revoked or suspended by then")

Names: TypeAlias = list[str] | None


def command(
    registry: Annotated[str, typer.Option(help="The registry's address.")],
    context: Annotated[
        str,
        typer.Option(
            autocompletion=completion.contexts, help="What to look in; the token says which contexts it may be."
        ),
    ] = "public",
    skill: Annotated[Names, typer.Option(help="The id or name of a skill (repeatable).")] = None,
    tag: Annotated[Names, typer.Option(help="A tag of a skill (repeatable).")] = None,
    capability: Annotated[Names, typer.Option(help="Such as streaming (repeatable).")] = None,
    input_mode: Annotated[Names, typer.Option(help="A media type that it takes (repeatable).")] = None,
    output_mode: Annotated[Names, typer.Option(help="A media type that it gives (repeatable).")] = None,
    text: Annotated[str | None, typer.Option(help="Words of its name, description and skills.")] = None,
    max_results: Annotated[int, typer.Option(min=1, max=100, help="On one page.")] = 20,
    cursor: Annotated[str | None, typer.Option(help="Where the page before ended.")] = None,
    trust: Annotated[Path | None, typer.Option(help="Trust document; without it, the keys the registry shows.")] = None,
    trust_signer: TrustSigner = None,
    issuer: Annotated[str | None, typer.Option(help="Who the registry is, when not its address.")] = None,
    profile: ProfileName = "sd-card",
    token_file: Annotated[Path | None, typer.Option(help="A file with the bearer token.")] = None,
    as_json: AsJson = False,
) -> None:
    """Find agents and verify their SD-Cards."""
    from sdcard.edge.registry import Registry

    accepted = find_profile(profile)
    query = make_query(skill, tag, capability, input_mode, output_mode, text)
    client = Registry(registry, read_token(token_file))
    issuers = read_trust(trust, trust_signer, SystemClock().now()) if trust else client.issuer(issuer)[0]
    answer = client.discover(query, context, max_results, cursor)
    expectations = Expectations(issuers=issuers, profile=accepted, key_binding=UNBOUND, status=UNCHECKED)
    cards = [verify_found(found, expectations) for found in answer.results]
    if as_json:
        print_json(_document(answer, cards, context))
    else:
        _show(answer, cards, context)


def make_query(
    skills: Names, tags: Names, capabilities: Names, takes: Names, gives: Names, text: str | None
) -> JsonObject:
    """Criteria → query, as the registry takes it. Raises Misuse where nothing is asked for."""
    asked: dict[str, Any] = {
        "skills": skills,
        "tags": tags,
        "capabilities": dict.fromkeys(capabilities or (), True),
        "input_modes": takes,
        "output_modes": gives,
        "text": text,
    }
    query: JsonObject = {name: value for name, value in asked.items() if value}
    if not query:
        raise Misuse("say what to look for: a skill, tag, capability, input mode, output mode or text")
    return query


def verify_found(found: "FoundAgent", expectations: Expectations) -> VerifiedCard:
    """An SD-Card that its Issuer stands behind, and that is of the agent that the registry says.

    Raises:
        Refused: as ``verify_presentation``.
        Misuse: when it is another agent's.
    """
    card = verify_presentation(found.sd_card, expectations, SystemClock().now())
    if card.subject != f"agent:{found.agent_id}":
        raise Misuse("the registry's answer has an SD-Card of another agent than it says")
    return card


def _document(answer: "Discovered", cards: Sequence[VerifiedCard], context: str) -> dict[str, Any]:
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
            for found, card in zip(answer.results, cards, strict=True)
        ],
        "next_cursor": answer.next_cursor,
        "ignored": list(answer.ignored),
    }


def _show(answer: "Discovered", cards: Sequence[VerifiedCard], context: str) -> None:
    rows = [
        (str(card.members.get("name", "")), found.agent_id, context, show_instant(card.expires_at))
        for found, card in zip(answer.results, cards, strict=True)
    ]
    out = console()
    out.print(table(f"{len(rows)} verified", ("name", "agent", "context", "valid until"), rows))
    if answer.next_cursor:
        out.print(cell(f"There may be more: --cursor {answer.next_cursor}"))
