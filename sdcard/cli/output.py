"""Input and output of commands: JSON for programs, text and tables for people.

Card text is hostile. All text of a card or a token goes through ``printable`` before it reaches a terminal.
"""

import errno
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.exceptions import TyperException

from sdcard.advice import ADVICE
from sdcard.encoding import why_not_utf8
from sdcard.errors import Finding, Misuse, Part, Refused, Where
from sdcard.given_text import GivenText, check_given_text, recognize_text
from sdcard.io.system import printable as printable
from sdcard.io.system import show_instant as show_instant
from sdcard.io.system import write_private_file as write_private_file
from sdcard.lenient import decode_token, lenient_document, lenient_token
from sdcard.rules import Rule


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a bar while the block runs; call its value with the work done so far.

    Args:
        total: its amount; None if unknown.
    """
    error = console(stderr=True)
    if not error.is_terminal or error.is_dumb_terminal:
        yield lambda _: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=error, transient=True) as shown:
        task = shown.add_task(what, total=total)
        yield lambda done: shown.update(task, completed=done)


# -- Refusals and misuse ----------------------------------------------------------------------------------------------

MAX_INPUT = 16 * 1024 * 1024
_MOST_HEAD = 1024 * 1024


_TOKEN = re.compile(r"sdcard_[\w-]{20,}")
"""A bearer token of a registry."""
_MOST_PLACES = 5
"""Places of one rule that a refusal lists for a person."""
_UNWRAPPED = 100_000
"""Columns of a pipe or file: a line is never wrapped there."""


def console(stderr: bool = False) -> Console:
    """Return standard output, or standard error; colours follow NO_COLOR and pipes.

    In a pipe or file, no message is wrapped, and a table is as wide as it has to be or as COLUMNS says.
    """
    made = Console(stderr=stderr, highlight=False)
    if made.is_terminal:
        return made
    if stderr or "COLUMNS" not in os.environ:
        made.width = _UNWRAPPED
    return made


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


def describe_refusal(refusal: Refused, most: int | None = None) -> dict[str, Any]:
    """Return a refusal as JSON, with the first ``most`` findings."""
    return {
        "refused": True,
        "rule": refusal.rule.value,
        "where": str(refusal.where),
        "findings": describe_findings(refusal.findings[:most]),
        "advice": ADVICE[refusal.rule],
    }


def show_left_out(findings: Sequence[Finding]) -> None:
    """Report on standard error which members of a set are not used, and why."""
    for finding in findings:
        sys.stderr.write(printable(f"Ignored: {finding}") + "\n")


def show_refusal(refusal: Refused, as_json: bool) -> None:
    """Show the rules that refused, and their places."""
    if as_json:
        print_json(describe_refusal(refusal))
        return
    error = console(stderr=True)
    error.print(Text("Refused", style="bold red"))
    alike: dict[tuple[Rule, str], list[str]] = {}
    for finding in refusal.findings:
        alike.setdefault((finding.rule, finding.hint), []).append(printable(str(finding.where)))
    for (rule, hint), places in alike.items():
        more = [f"and {len(places) - _MOST_PLACES} more"] if len(places) > _MOST_PLACES else []
        error.print(Text.assemble("  ", (rule.value, "bold"), f" at {', '.join([*places[:_MOST_PLACES], *more])}"))
        error.print(Text(f"    {rule.sentence} ({rule.standard})"))
        if hint:
            error.print(Text(f"    {printable(hint)}", style="dim"))
    error.print(Text(ADVICE[refusal.rule], style="dim"))


def show_misuse(misuse: Exception, as_json: bool) -> None:
    """Show why the command cannot run, and what would help."""
    text, helps = _said(misuse)
    if not text:
        sys.stderr.write(helps + "\n")
    elif as_json:
        sys.stdout.write(json.dumps({"misuse": text}) + "\n")  # one line: lines about files may stand above it
    else:
        error = console(stderr=True)
        error.print(Text(f"Error: {text}", style="red"))
        if helps:
            error.print(Text(helps, style="dim"))


def _said(misuse: Exception) -> tuple[str, str]:
    """Return the error and the next step; help alone for a group without command."""
    if isinstance(misuse, TyperException):
        context = getattr(misuse, "ctx", None)
        text = misuse.format_message()
        if context is None:
            return _without_secrets(text), ""
        if text == context.get_help():
            return "", text
        return _without_secrets(text), f"How it is called, with an example: {context.command_path} --help"
    if isinstance(misuse, OSError) and misuse.strerror and misuse.filename is not None:
        return _without_secrets(_of_file(Path(os.fsdecode(misuse.filename)), misuse)), ""
    return _without_secrets(str(misuse)), ""


def _of_file(file: Path, error: OSError) -> str:
    """Name the file that cannot be used, or the folder that is missing."""
    if _is_text(str(file)):
        return (
            "a file is expected, and a text was given: save it in a file and give its name, or `-` and standard input"
        )
    missing = next((one for one in reversed(file.parents) if not one.exists()), None)
    if error.errno == errno.ENOENT and missing is not None:
        return f"{file}: there is no folder {missing}; make it first: mkdir -p {file.parent}"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"{file}: {error.strerror}; `ls -ld {file} {file.parent}` shows who may use it"
    if error.errno == errno.ENOENT:
        return f"{file}: {error.strerror}; {_near(file)}"
    if error.errno == errno.EISDIR:
        return f"{file} is a folder; give the name of a file in it"
    return f"{file}: {error.strerror}"


def _near(file: Path) -> str:
    """Suggest the file of the folder whose name is nearest, or a look into the folder."""
    try:
        with os.scandir(file.parent) as found:
            names = [one.name for one in islice(found, _MOST_COMPARED)]
    except OSError:
        names = []
    near = get_close_matches(file.name, sorted(names), 1, 0.8)
    return f"did you mean {file.with_name(near[0])}?" if near else f"`ls {file.parent}` lists the files that there are"


_MOST_COMPARED = 1_000
"""Names of files that a missing one is compared with."""
_MOST_QUOTED = 200
"""Characters of an argument that a message quotes."""


def _is_text(argument: str) -> bool:
    """Whether an argument is a text, or a secret, where a file name belongs."""
    given = recognize_text(os.fsencode(argument))
    is_document = given not in (None, GivenText.EMPTY, GivenText.ADDRESS)
    return is_document or _TOKEN.fullmatch(argument) is not None or len(argument) > _MOST_QUOTED


def _without_secrets(text: str) -> str:
    """Hide each argument that is a secret, or long, from a message that quotes it."""
    for argument in sys.argv[1:]:
        value = argument.partition("=")[2] if argument.startswith("--") else argument
        if _is_text(value):
            text = text.replace(repr(value)[1:-1], "…").replace(value, "…")
    return printable(text)


def read_bytes(source: str, part: Part) -> bytes:
    """Read a file, or standard input for ``-``.

    ``part`` is its kind. A private key, and any text that is clearly of another kind, is refused.
    """
    if source == "-":
        if sys.stdin is None:
            raise Misuse("standard input is closed")
        data = sys.stdin.buffer.read(MAX_INPUT + 1)
    else:
        with Path(source).open("rb") as file:
            data = file.read(MAX_INPUT + 1)
    if len(data) > MAX_INPUT:
        raise Refused(Rule.LIMIT_BYTES, Where(part))
    check_given_text(data, part, "standard input" if source == "-" else source)
    return data


def check_head(file: Path, part: Part) -> None:
    """Refuse a long file whose beginning is clearly of another kind."""
    with file.open("rb") as opened:
        head = opened.read(_MOST_HEAD)
    if head.strip():
        check_given_text(head, part, str(file))


def read_text(source: str) -> str:
    """Read a short text in a file, such as a token, as ``lenient_token``."""
    data = lenient_document(read_bytes(source, Part.ACCESS_TOKEN))
    if not data.isascii():
        raise Misuse(f"{source} holds other than ASCII text. {why_not_utf8(data)}".rstrip())
    return lenient_token(data.decode("ascii"))


def read_document(source: str, part: Part) -> str:
    """Read a text with the line ends of any system, as ``lenient_document``."""
    data = lenient_document(read_bytes(source, part))
    try:
        return data.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise Refused(Rule.UTF8, Where(part), why_not_utf8(data)) from None


def read_sd_jwt(source: str) -> str:
    """Read an SD-JWT as text, as ``lenient_token``."""
    return decode_token(read_bytes(source, Part.PRESENTATION), Where(Part.PRESENTATION))
