"""Texts of `--help`: a command's purpose and an example.

The example is on lines of its own, so that it can be copied.
"""

import re
from typing import Any

_MARK = " Example: "
_WIDTH = 76
_WORD = r"""(?:[^\s'"]|'[^']*'|"[^"]*")+"""
_UNIT = re.compile(rf"--?\w\S* (?!-){_WORD}|{_WORD}")
"""An option with its value, or one word."""
_BEFORE = "\b\nExample:\n  "  # the first sign keeps the lines as they are
_BREAK = " \\\n      "


def set_out(command: Any) -> Any:
    """Move the examples of a command, and of all beneath it, to the end of the help."""
    for one in getattr(command, "commands", {}).values():
        set_out(one)
    text, _, example = " ".join((command.help or "").split()).partition(_MARK)
    command.help, command.short_help = text, first_sentence(text)
    if example:
        command.epilog = _BEFORE + _broken(example)
    elif hasattr(command, "commands"):
        command.epilog = f"With an example: sdcard {command.name} COMMAND --help"
    return command


def example_of(command: Any) -> str:
    """Return the example of a command on one line, or nothing where it has none.

    The command has been through ``set_out``.
    """
    return (command.epilog or "").removeprefix(_BEFORE).replace(_BREAK, " ")


def first_sentence(text: str) -> str:
    """Shorten a help text for a list of commands."""
    return re.split(r"(?<=[^.]\.) (?=[A-Z1`])", text.partition(_MARK)[0], maxsplit=1)[0]


def _broken(example: str) -> str:
    """Within 80 columns, and still one command for a shell."""
    lines = [""]
    for word in _UNIT.findall(example):
        room = _WIDTH if len(lines) == 1 else _WIDTH - 4
        if lines[-1] and len(lines[-1]) + 1 + len(word) + 2 > room:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return _BREAK.join(lines)
