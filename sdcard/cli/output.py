"""Input and output of commands: JSON for programs, text and tables for people.

Card text is hostile. All text of a card or a token goes through ``printable`` before it reaches a terminal.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.exceptions import TyperException

from sdcard.encoding import why_not_utf8
from sdcard.errors import Finding, Misuse, Part, Refused, Where
from sdcard.io.system import printable as printable
from sdcard.io.system import show_instant as show_instant
from sdcard.io.system import write_private_file as write_private_file
from sdcard.lenient import decode_token, lenient_document, lenient_token
from sdcard.rules import Rule


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a bar while the block runs; call its value with the work done so far.

    Args:
        what: the work.
        total: its amount; None if unknown.
    """
    error = Console(stderr=True, highlight=False)
    if not error.is_terminal or error.is_dumb_terminal:
        yield lambda _: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=error, transient=True) as shown:
        task = shown.add_task(what, total=total)
        yield lambda done: shown.update(task, completed=done)


# -- Refusals and misuse ----------------------------------------------------------------------------------------------

NEXT_STEPS: Final = {
    Rule.SELECTION: "`sdcard inspect` lists the places that the SD-Card has.",
    Rule.CNF_OTHER_KEY: "Give the key that it was registered with; `sdcard agents change-keys` binds others.",
    Rule.KB_MISSING: "`sdcard present` makes a presentation; to read an SD-Card without one, give --unbound REASON.",
    Rule.KB_UNEXPECTED: "This is a presentation: give --audience and --nonce instead of --unbound.",
    Rule.EXPIRED: "`sdcard agents renew` has new SD-Cards made.",
    Rule.ISSUER_UNKNOWN: "`sdcard register` writes a trust document for its registry: trust.json.",
    Rule.ISSUER_KEY_UNKNOWN: "--refresh asks a trusted Issuer for the keys that it has now.",
    Rule.TRUST_MALFORMED: "`sdcard register` writes such a document: trust.json.",
    Rule.TOKEN_MISSING: "Give one in SDCARD_TOKEN or --token-file; `sdcard token create` makes one.",
    Rule.TOKEN_INVALID: "`sdcard token create` makes one, in the folder, or with the settings, of this registry.",
    Rule.TOKEN_SCOPE: "`sdcard token create --scope …` makes one that may.",
    Rule.TOKEN_LIMIT: "`sdcard token create` makes one with other limits.",
    Rule.AGENT_UNKNOWN: "`sdcard agents list` shows those of this token.",
    Rule.APPROVAL_DECIDED: "`sdcard approvals list` shows what waits.",
    Rule.FETCH_ADDRESS: "--network NETWORK names one that is meant, such as 127.0.0.1.",
    Rule.STORE_UNAVAILABLE: "Which database it is, SDCARD_DATABASE_URL or --database-url says.",
}
"""Rule → a sentence with commands and options to try. Other rules say enough, or nothing helps."""


MAX_INPUT = 16 * 1024 * 1024


def console() -> Console:
    """Return standard output; colours follow NO_COLOR and pipes."""
    return Console(highlight=False, soft_wrap=False)


def print_json(document: dict[str, Any]) -> None:
    """Print a JSON object on standard output."""
    sys.stdout.write(json.dumps(document, ensure_ascii=True, indent=2) + "\n")


def print_lines(*lines: str) -> None:
    """Print lines on standard output, without wrapping."""
    sys.stdout.write("".join(f"{printable(line)}\n" for line in lines))


def print_result(as_json: bool, document: dict[str, Any], *lines: str) -> None:
    """Print a JSON object for programs, or lines for people."""
    if as_json:
        print_json(document)
    else:
        print_lines(*lines)


def cell(text: object, style: str = "") -> Text:
    """Make hostile text safe for a table: no markup, no control characters."""
    return Text(printable(str(text)), style=style)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Text | str]]) -> Table:
    """Make a table that fits 80 columns."""
    made = Table(
        title=cell(title) if title else None,
        title_justify="left",
        title_style="bold",
        header_style="dim",
        box=SIMPLE_HEAD,
    )
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in rows:
        made.add_row(*(one if isinstance(one, Text) else cell(one) for one in row))
    return made


def describe_findings(findings: Sequence[Finding]) -> list[dict[str, str]]:
    """Return findings as JSON."""
    return [
        {"rule": f.rule.value, "level": f.level.value, "where": str(f.where), "message": f.hint or f.rule.sentence}
        for f in findings
    ]


def show_left_out(findings: Sequence[Finding]) -> None:
    """Report on standard error which members of a set are not used, and why."""
    for finding in findings:
        sys.stderr.write(printable(f"Left out: {finding}") + "\n")


def show_refusal(refusal: Refused, as_json: bool) -> None:
    """Show the rules that refused, and their places."""
    if as_json:
        findings = describe_findings(refusal.findings)
        print_json({"refused": True, "rule": refusal.rule.value, "where": str(refusal.where), "findings": findings})
        return
    error = Console(stderr=True, highlight=False)
    error.print(Text("Refused", style="bold red"))
    for finding in refusal.findings:
        error.print(Text.assemble("  ", (finding.rule.value, "bold"), f" at {printable(str(finding.where))}"))
        error.print(Text(f"    {finding.rule.sentence} ({finding.rule.standard})"))
        if finding.hint:
            error.print(Text(f"    {printable(finding.hint)}", style="dim"))
    if refusal.rule in NEXT_STEPS:
        error.print(Text(NEXT_STEPS[refusal.rule], style="dim"))


def show_misuse(misuse: Exception, as_json: bool) -> None:
    """Show why the command cannot run, and what would help."""
    text, helps = _said(misuse)
    if not text:
        sys.stderr.write(helps + "\n")
    elif as_json:
        sys.stdout.write(json.dumps({"misuse": text}) + "\n")  # one line: lines about files may stand above it
    else:
        error = Console(stderr=True, highlight=False)
        error.print(Text(f"Cannot do that: {text}", style="red"))
        if helps:
            error.print(Text(helps, style="dim"))


def _said(misuse: Exception) -> tuple[str, str]:
    """Return the error and the next step; help alone for a group without command."""
    if isinstance(misuse, TyperException):
        context = getattr(misuse, "ctx", None)
        text = misuse.format_message()
        if context is None:
            return printable(text), ""
        if text == context.get_help():
            return "", text
        return printable(text), f"{_swallowed(context)}How it is called, with an example: {context.command_path} --help"
    if isinstance(misuse, OSError) and misuse.strerror and misuse.filename is not None:
        return printable(f"{misuse.filename}: {misuse.strerror}"), ""
    return printable(str(misuse)), ""


def _swallowed(context: Any) -> str:
    """Name an option that took the next one as its value: an empty variable."""
    options = [one for one in context.command.params if one.param_type_name == "option"]
    every = {name for one in options for name in one.opts}
    taking = {name for one in options if not one.is_flag for name in one.opts}
    for name, value in pairwise(sys.argv[1:]):
        if name in taking and value in every:
            return f"{name} got {value} as its value: is a variable empty?\n"
    return ""


def read_bytes(source: str, part: Part = Part.PRESENTATION) -> bytes:
    """Read a file, or standard input for ``-``. ``part`` names it in a refusal."""
    if source == "-":
        if sys.stdin is None:
            raise Misuse("standard input is closed")
        data = sys.stdin.buffer.read(MAX_INPUT + 1)
    else:
        with Path(source).open("rb") as file:
            data = file.read(MAX_INPUT + 1)
    if len(data) > MAX_INPUT:
        raise Refused(Rule.LIMIT_BYTES, Where(part))
    return data


def read_text(source: str) -> str:
    """Read a short text in a file, such as a token, as ``lenient_token``."""
    data = lenient_document(read_bytes(source))
    if not data.isascii():
        raise Misuse(f"{source} holds other than ASCII text. {why_not_utf8(data)}".rstrip())
    return lenient_token(data.decode("ascii"))


def read_sd_jwt(source: str) -> str:
    """Read an SD-JWT as text, as ``lenient_token``."""
    return decode_token(read_bytes(source), Where(Part.PRESENTATION))
