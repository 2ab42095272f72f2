"""``sdcard card sign``: a signature in the form of A2A 1.0, added to a card."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from sdcard.cards.a2a.signatures.creation import prepare_card_signature
from sdcard.cards.documents import read_document
from sdcard.cards.reading import parse_card_file
from sdcard.cli.output import AsJson, describe_findings, print_json, printable, read_bytes

HELP = (
    "Sign an agent card, so that readers can tell who made it. "
    "Example: sdcard card sign agent-card.json --key signer.jwk > signed.json"
)


def command(
    card: Annotated[str, typer.Argument(metavar="FILE|-", help="The A2A 1.0 card; - is standard input.")],
    key: Annotated[Path, typer.Option(help="The private JWK that signs; its kid is the key's thumbprint.")],
    jku: Annotated[str | None, typer.Option(help="Where its public half is published, an https URL.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print the card with one signature more.

    Earlier ones stay; what readers should know goes to standard error.
    """
    from sdcard.edge.key_files import load_signer

    data = read_bytes(card)
    card_format = parse_card_file(data).format
    document = read_document(data).document
    signer = load_signer(key)
    prepared = prepare_card_signature(document, card_format, signer.public_key, jku)
    signed = prepared.complete(signer.sign(prepared.signing_input))
    if as_json:
        print_json({"card": signed, "findings": describe_findings(prepared.findings)})
        return
    for finding in prepared.findings:
        sys.stderr.write(printable(f"{finding.level}: {finding}") + "\n")
    print_json(signed)
