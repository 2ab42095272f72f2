"""``docs/session.svg``: a terminal session for the README.

It is what the commands really print; the sizes of the demo's SD-Cards are a few bytes more or less each time.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = ("sdcard card check examples/georoute.json", "sdcard demo")
_WIDTH = 80
_PORT = re.compile(r"(http://127\.0\.0\.1:)\d+")
_OUTSIDE = re.compile(r"@font-face \{.*?\}\s*|<!--.*?-->\s*", re.DOTALL)
"""Fonts that would be fetched, and who made the picture."""


def session_picture() -> str:
    """Draw the session.

    The port of the demo's registry differs each time, and is shown as 8080.
    """
    with open(os.devnull, "w") as nowhere:
        console = Console(record=True, width=_WIDTH, file=nowhere, force_terminal=True, color_system="standard")
        for number, command in enumerate(COMMANDS):
            console.print(Text.assemble("\n" if number else "", ("$ ", "dim"), (command, "bold")))
            console.print(Text.from_ansi(_printed(command)))
        picture = console.export_svg(title="sdcard", unique_id="session")
    return "".join(f"{line.rstrip()}\n" for line in _OUTSIDE.sub("", picture).splitlines())


def without_sizes(picture: str) -> str:
    """Remove the parts that differ between recordings."""
    return "".join(
        re.sub(r">\d+(?=[&<])", ">", line) if "size&#160;in&#160;bytes" in line else line
        for line in picture.splitlines(keepends=True)
    )


def _printed(command: str) -> str:
    """Record a command's output on a terminal of 80 columns."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SDCARD_", "NO_COLOR"))}
    ran = subprocess.run(
        [sys.executable, "-c", "from sdcard.cli import main; main()", *command.split()[1:]],
        env={**kept, "COLUMNS": str(_WIDTH), "FORCE_COLOR": "1", "TERM": "xterm", "PYTHONPATH": str(ROOT),
             "PYTHONUTF8": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )  # fmt: skip
    return _PORT.sub(r"\g<1>8080", ran.stdout).strip("\n")
