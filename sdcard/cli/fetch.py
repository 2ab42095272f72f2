"""``sdcard fetch``: fetch an agent's card from its well-known address.

The card is verified. The output says what cannot be known of it.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdcard.cli.output import (
    AsJson,
    ProfileName,
    cell,
    console,
    describe_findings,
    find_profile,
    parse_now,
    print_json,
)
from sdcard.cli.register import read_token, write
from sdcard.cli.trust import Networks, Refresh, TrustFile, TrustSigner, read_reach, read_trust
from sdcard.cli.verify import decide_status, describe, show_card, show_members
from sdcard.verifier import VerifiedCard

if TYPE_CHECKING:
    from sdcard.edge.card_fetching import FetchedCard


def command(
    url: Annotated[str, typer.Argument(metavar="URL", help="The address of the card, the agent or its host.")],
    trust: TrustFile,
    trust_signer: TrustSigner = None,
    refresh: Refresh = False,
    status: Annotated[bool, typer.Option("--status", help="Fetch the status list that the SD-Card names.")] = False,
    status_unchecked: Annotated[str | None, typer.Option(metavar="REASON", help="Fetch none, and why.")] = None,
    network: Networks = None,
    token_file: Annotated[Path | None, typer.Option(help="A file with a bearer token for the agent.")] = None,
    out: Annotated[Path | None, typer.Option(help="Keep the SD-Card in this file.")] = None,
    profile: ProfileName = "sd-card",
    as_json: AsJson = False,
) -> int:
    """Fetch a card and verify it."""
    from sdcard.edge.card_fetching import fetch_card
    from sdcard.edge.issuer_keys import IssuerKeys

    now, reach = parse_now(None), read_reach(network)
    listed = read_trust(trust, trust_signer, now)
    issuers = IssuerKeys(listed, reach) if refresh else listed
    found = fetch_card(
        url,
        issuers,
        decide_status(status, status_unchecked, issuers, network),
        now,
        reach,
        read_token(token_file) if token_file else None,
        find_profile(profile),
    )
    if out is not None and found.sd_card is not None:
        write(out, found.sd_card.encode("ascii") + b"\n")
    if as_json:
        print_json(_document(found))
    else:
        _show(found)
    return 0 if isinstance(found.card, VerifiedCard) else 1


def _document(found: "FetchedCard") -> dict[str, Any]:
    card = found.card
    told = (
        describe(card)
        if isinstance(card, VerifiedCard)
        else {"verified": False, "card_format": card.format.name, "members": card.document}
    )
    return {"url": found.url, **told, "findings": describe_findings(found.findings)}


def _show(found: "FetchedCard") -> None:
    out = console()
    if isinstance(found.card, VerifiedCard):
        show_card(found.card)
    else:
        show_members("A plain card: nobody vouches for it", found.card.document)
    out.print(cell(f"From {found.url}"))
    for finding in found.findings:
        out.print(cell(f"{finding.level}: {finding.rule} at {finding.where}: {finding.rule.sentence} {finding.hint}"))
