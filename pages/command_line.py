"""``docs/cli.md``: every command with its arguments and options."""

import re
from collections.abc import Iterator
from typing import Any

import typer

from sdcard.cli.app import app, example_of

_HEAD = """# Command line

<!-- Written by `python -m pages`; a test proves it current. -->

All have `--help` with an example, and those that answer with facts have `--json`, for programs. Exit
status: 0 yes, 1 refused, 2 misuse, 70 a bug of ours.

Colours and progress are for terminals: there are none in pipes, with `TERM=dumb`, and no colours with `NO_COLOR`.

`sdcard --install-completion` sets up completion for the shell it is called from: bash, zsh or fish. To look at the
script first, or for another shell: `_SDCARD_COMPLETE=source_zsh sdcard`. Beside commands, options and files it knows
contexts, profiles, algorithms, formats, and what keys and tokens are for.

| command | what it does |
|---|---|
"""


def command_line_page() -> str:
    """The page."""
    commands = list(leaves(typer.main.get_command(app), "sdcard"))
    text = _HEAD
    for name, command in commands:
        text += f"| [`{name}`](#{name.replace(' ', '-')}) | {_cell(_what(command))} |\n"
    return text + "".join(_section(name, command) for name, command in commands)


def leaves(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The commands beneath one that do something, each with its whole name."""
    if not hasattr(command, "list_commands"):
        yield name, command
        return
    for one in command.list_commands(None):
        yield from leaves(command.get_command(None, one), f"{name} {one}")


def _what(command: Any) -> str:
    return command.help or ""


def _section(name: str, command: Any) -> str:
    text = f"\n## {name}\n\n{_escaped(_what(command))}\n"
    if example := example_of(command):
        text += f"\nExample: `{example}`\n"
    rows = [_row(parameter) for parameter in command.params if not getattr(parameter, "hidden", False)]
    if rows:
        text += "\n| argument or option | what |\n|---|---|\n" + "".join(rows)
    return text


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        shown = f"`{parameter.metavar or parameter.name.upper()}`"
    else:
        shown = ", ".join(f"`{one}`" for one in (*parameter.opts, *parameter.secondary_opts))
        if not parameter.is_flag and parameter.metavar:
            shown += f" `{parameter.metavar}`"
    notes = [_cell(parameter.help or "")]
    if parameter.required:
        notes.append("*Required.*")
    if parameter.multiple:
        notes.append("*Can be repeated.*")
    default = parameter.default
    if isinstance(default, str | int) and not isinstance(default, bool):
        notes.append(f"*By default* `{default}`.")
    if parameter.envvar:
        notes.append(f"*Else from* `{parameter.envvar}`.")
    return f"| {_bars(shown)} | {' '.join(filter(None, notes))} |\n"


def _cell(text: str) -> str:
    return _bars(_escaped(" ".join(text.split())))


def _bars(text: str) -> str:
    return text.replace("|", "\\|")


def _escaped(text: str) -> str:
    """Text that is not in backticks has no tags."""
    return re.sub(r"[<>]", lambda sign: {"<": "&lt;", ">": "&gt;"}[sign.group()], text)
