"""``sdcard card``: check, convert and sign Agent Cards."""

import errno
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from sdcard.advice import ADVICE
from sdcard.cards.a2a.signatures import NOBODY, CardSigners, prepare_card_signature
from sdcard.cards.agentcard.shared import compare_with_source
from sdcard.cards.converting import TARGETS, convert_card
from sdcard.cards.detect import Examination, examine_card, parse_card_file
from sdcard.cards.documents import read_document
from sdcard.cards.json_schema import SHAPES, card_schema
from sdcard.cards.kno.card import unresolved_domains
from sdcard.cli.app import EXIT_REFUSED
from sdcard.cli.options import AsJson, completing
from sdcard.cli.output import cell, console, describe_findings, print_json, printable, read_bytes, show_left_out
from sdcard.errors import Finding, Level, Misuse, Part, Refused, first_findings
from sdcard.io.key_files import load_card_signers
from sdcard.jose.keys import KeySet

_TARGETS = ", ".join(TARGETS)
_SUFFIXES = (".json", ".kno", ".yaml", ".yml")
_STYLES = {Level.ERROR: "bold red", Level.WARNING: "yellow", Level.NOTE: "dim"}


app = typer.Typer(no_args_is_help=True)


@app.callback()
def group() -> None:
    """Check, convert and sign agent cards; make ids of AgentCards."""


@app.command(
    "check", help="List all mistakes in agent cards. Example: sdcard card check --strict agent-card.json cards/"
)
def card_check(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|DIR|-...", help=f"Cards, or folders with {', '.join(_SUFFIXES)}; - is standard input."
        ),
    ],
    expected: Annotated[
        str | None,
        typer.Option("--format", help="The format to check for: a2a, agentcard, kno, or a version such as a2a/1.0."),
    ] = None,
    signers: Annotated[
        Path | None, typer.Option("--signers", help="A JWKS with the keys that are trusted to sign cards.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--fetched-from",
            help="The URL that the cards came from. The endpoint of an AgentCard must have its scheme.",
        ),
    ] = None,
    domains: Annotated[
        Path | None, typer.Option("--domains", help="The perception domains that KNO cards may name, one a line.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Treat every warning as an error.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object for each file, one on a line.")
    ] = False,
) -> None:
    """Check every file.

    Exit status 0: all valid; 1: some not; 2: misuse, such as a file that cannot be read.
    """
    trusted = _load_signers(signers) if signers else NOBODY
    catalogue = _load_domains(domains) if domains else None
    unreadable: list[str] = []
    checked = invalid = 0
    for file in [file for one in sources for file in _files(one, unreadable)]:
        try:
            examination = _check_domains(_examine(file, trusted, expected, source), catalogue)
        except OSError as error:
            unreadable.append(str(error))
            continue
        if strict:
            examination = examination.strictly()
        checked += 1
        invalid += examination.card is None
        _print_line(file, examination) if as_json else _show(file, examination)
    if checked and not as_json:
        console().print(Text(f"{checked} checked, {invalid} not valid", style="bold"))
    if unreadable:
        raise Misuse("; ".join(unreadable))
    if not checked:
        folders = ", ".join(sources)
        raise Misuse(f"there is no card document in {folders}: files of a folder end in {', '.join(_SUFFIXES)}")
    if invalid:
        raise typer.Exit(EXIT_REFUSED)


def _load_signers(file: Path) -> CardSigners:
    """Load the trusted keys. A refusal is misuse, because the file is not a card."""
    try:
        signers = load_card_signers(file)
    except Refused as refusal:
        raise Misuse(f"--signers: {refusal}") from None
    show_left_out(KeySet.of(signers.keys).left_out)
    return signers


def _load_domains(file: Path) -> frozenset[str]:
    try:
        lines = read_bytes(str(file), Part.REQUEST).decode().splitlines()
    except (UnicodeDecodeError, Refused) as error:
        raise Misuse(f"--domains: {error if isinstance(error, Refused) else 'the file is not UTF-8'}") from None
    return frozenset(filter(None, map(str.strip, lines)))


def _check_domains(examination: Examination, catalogue: frozenset[str] | None) -> Examination:
    """Add an error for each unknown domain of a KNO card (KNO-15)."""
    card = examination.card
    if catalogue is None or card is None or card.format.family != "kno":
        return examination
    unknown = first_findings(unresolved_domains(card.document, catalogue.__contains__))
    return replace(examination, findings=(*unknown, *examination.findings), card=None if unknown else card)


def _files(source: str, unreadable: list[str]) -> Iterator[str]:
    """List the source, or each card file in a directory, except hidden files."""
    if source == "-" or not Path(source).is_dir():
        if source != "-" and not Path(source).exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        yield source
        return
    for folder, inner, names in os.walk(source, onerror=lambda error: unreadable.append(str(error))):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        cards = (name for name in sorted(names) if name.lower().endswith(_SUFFIXES) and not name.startswith("."))
        files = (Path(folder, name) for name in cards)
        yield from (str(file) for file in files if file.is_file() or not file.exists())


def _examine(file: str, signers: CardSigners, expected: str | None, source: str | None) -> Examination:
    try:
        data = read_bytes(file, Part.CARD)
    except Refused as refusal:
        return Examination("", refusal.findings, None)
    examination = examine_card(data, signers=signers, expected=expected)
    card = examination.card
    if source is None or card is None or card.format.family != "agentcard":
        return examination
    return replace(examination, findings=(*compare_with_source(card, source), *examination.findings))


def _print_line(source: str, examination: Examination) -> None:
    card_format, _, version = examination.kind.partition("/")
    line = {
        "file": source,
        "format": card_format or None,
        "version": version or None,
        "valid": examination.card is not None,
        "findings": describe_findings(examination.findings),
    }
    sys.stdout.write(json.dumps(line) + "\n")


def _show(source: str, examination: Examination) -> None:
    out = console()
    verdict = ("valid", "bold green") if examination.card else ("not valid", "bold red")
    kind = examination.kind or "no agent card"
    out.print(Text.assemble(cell(source, "bold"), ": ", verdict, f", {printable(kind)}"))
    for finding in examination.findings:
        out.print(_finding(finding))
    if not examination.kind and examination.findings:
        out.print(Text(ADVICE[examination.findings[0].rule], style="dim"))


def _finding(finding: Finding) -> Text:
    place = printable(str(finding.where))
    level = (f"{finding.level.value:>9} ", _STYLES[finding.level])
    said = f" {printable(finding.hint or finding.rule.sentence)} "
    return Text.assemble(level, (place, "bold"), said, (finding.rule.value, "dim"))


# -- ``sdcard card convert`` ------------------------------------------------------------------------------------------


@app.command(
    "convert",
    help="Convert an agent card to another format; list losses on standard error. "
    "Example: sdcard card convert agent-card.json --to a2a/1.0 --out converted.json",
)
def card_convert(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="The card; - is standard input.")],
    target: Annotated[
        str, typer.Option("--to", metavar="FORMAT", autocompletion=completing(TARGETS), help=f"One of {_TARGETS}.")
    ],
    out: Annotated[Path | None, typer.Option(help="Write the document here instead of printing it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Convert one card.

    Exit status 0: converted, even with losses; 1: not a card, or refused; 2: misuse.
    """
    conversion = convert_card(parse_card_file(read_bytes(file, Part.CARD)), target)
    text = json.dumps(conversion.document, ensure_ascii=True, indent=2) + "\n"
    if out is not None:
        out.write_text(text, encoding="ascii")
    if as_json:
        print_json({"document": conversion.document, "lost": describe_findings(conversion.lost)})
        return
    sys.stderr.write("".join(f"{finding.level}: {printable(str(finding))}\n" for finding in conversion.lost))
    if out is None:
        sys.stdout.write(text)


# -- ``sdcard card sign`` ---------------------------------------------------------------------------------------------


@app.command(
    "sign",
    help="Sign an agent card, so that readers can tell who made it. "
    "Example: sdcard card sign agent-card.json --key signer.jwk > signed.json",
)
def card_sign(
    card: Annotated[str, typer.Argument(metavar="FILE|-", help="The A2A 1.0 card; - is standard input.")],
    key: Annotated[Path, typer.Option(help="The private JWK that signs; its kid is the key's thumbprint.")],
    jku: Annotated[str | None, typer.Option(help="The https URL where the public key is published.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print the card with one signature added; findings go to standard error."""
    from sdcard.io.key_files import load_signer

    data = read_bytes(card, Part.CARD)
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


@app.command("new-id", help="Print a fresh agent_id for an AgentCard, a ULID. Example: sdcard card new-id")
def new_id() -> None:
    """Print a fresh ``agent_id``."""
    from sdcard.io.system import new_agent_id

    typer.echo(new_agent_id())


@app.command(
    "schema", help="Print the JSON Schema of a card format. Example: sdcard card schema a2a/1.0 > a2a.schema.json"
)
def schema(
    name: Annotated[
        str, typer.Argument(metavar="FORMAT", autocompletion=completing(SHAPES), help=f"One of {', '.join(SHAPES)}.")
    ],
) -> None:
    """Print the JSON Schema of a card format."""
    print_json(card_schema(name))
