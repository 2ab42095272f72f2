"""``docs/cli.md``: every command with its arguments and options."""

import re
from collections.abc import Iterator
from typing import Any

import typer

from sdcard.cli.app import SECTIONS, app, example_of

_HEAD = """# Command line

<!-- Written by `python -m pages`; a test proves it current. -->

Every command has `--help` with an example. Commands that return data have `--json`. Exit status: 0 success, 1 refused,
2 misuse, 70 a bug. `python -m sdcard` is the same command.

- A refusal or error says what is wrong, where, and what to do. `sdcard verify --explain` shows every rule with its
  outcome, the presented value and the expected value.
- Commands that destroy something ask for confirmation on a terminal. Without a terminal, they need `--yes`.
- `-` means standard input if the argument is `FILE|-`. For every other file it is refused.
- Indices begin with 0, as in `skills.0`.
- Output in a pipe or file has no colours, no progress and no wrapped messages. `NO_COLOR` and `TERM=dumb` are followed.

## Client profile

`SDCARD_REGISTRY` is the default of `--registry`, and `SDCARD_TOKEN` contains the token. `SDCARD_TOKEN_KEY` names the
key file of a [bound token](bound-tokens.md). The *client profile*, a TOML file, has more defaults. It is the file that
`SDCARD_CLIENT` names, or `sdcard/client.toml` in `XDG_CONFIG_HOME` or `~/.config`. Options override the environment,
and the environment overrides the file. Other users must not be able to write the file. Paths in it are relative to its
folder. Decisions, such as `--status` and `--unbound`, cannot be in it. `sdcard mcp` does not read it.

```toml
registry = "https://registry.example"
token_file = "token"
key = "agent.jwk"
out = "cards"
trust = "cards/trust.json"
```

It can also have `issuer` and `trust_signer`.

## Completion

`sdcard --install-completion` sets up completion for the shell that calls it: bash, zsh or fish. To see the script
first, or for another shell: `_SDCARD_COMPLETE=source_zsh sdcard`. It completes commands, options and files, and also
contexts, profiles, algorithms, formats, key uses and token scopes.

## Commands
"""


def command_line_page() -> str:
    """The page."""
    commands = list(leaves(typer.main.get_command(app), "sdcard"))
    text = _HEAD
    for title, names in SECTIONS.items():
        text += f"\n**{title}**\n\n| command | what it does |\n|---|---|\n"
        listed = [one for name in names for one in commands if one[0].split()[1] == name]
        for name, command in listed:
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
