"""Commands that join the tree by entry points.

They act on a registry and are in ``issuer_service/cli``.

Only the entry points of the distribution ``sdcard`` are read, so no other installed package adds or replaces a command.
A command is loaded when it is named; the list of commands loads none.
"""

import sys
from pathlib import Path
from typing import Any, Final

import typer
import typer.main
from typer.core import TyperGroup

from sdcard.cli.help import set_out

ENTRY_POINTS: Final = "sdcard.commands"
"""The group of entry points in ``pyproject.toml``: command → module and attribute."""


def load_joined(name: str) -> Any:
    """Load the command, or the group of commands, of this entry point.

    Raises:
        ModuleNotFoundError: without the package that has it.
        Misuse: when no installed distribution names such an entry point.
    """
    from importlib.metadata import distributions

    from sdcard.errors import Misuse

    ours = next(iter(distributions(name="sdcard", path=_places())), None)
    for found in ours.entry_points.select(group=ENTRY_POINTS, name=name) if ours else ():
        return found.load()
    raise Misuse(f"`{name}` is not installed: pip install 'sdcard[service]'")


def _places() -> list[str]:
    """List the possible folders of our distribution.

    They are: beside this package, where packages are installed, then anywhere else.

    In that order, a folder early on ``sys.path``, such as the working directory, cannot pass for our distribution.
    """
    import sysconfig

    return [str(Path(__file__).parents[2]), sysconfig.get_path("purelib"), *sys.path]


def make_command(found: Any, name: str, text: str | None) -> Any:
    """Build a command from a function, or a group of commands from a ``typer.Typer``."""
    one = typer.Typer(callback=lambda: None, rich_markup_mode=None)  # with a callback, one command is a group of one
    if isinstance(found, typer.Typer):
        one.add_typer(found, name=name, help=text)
    else:
        one.command(name, help=text)(found)
    return set_out(typer.main.get_group(one).commands[name])


class JoinedGroup(TyperGroup):
    """A group of commands to which the entry point of its name adds others.

    Its own commands are found without that entry point.
    """

    _is_joined = False

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Find a command of the group, or of the entry point."""
        if cmd_name not in self.commands:
            self._join()
        return super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:
        """List the entry point's commands, and the group's own."""
        self._join()
        return super().list_commands(ctx)

    def _join(self) -> None:
        if not self._is_joined:
            joined = make_command(load_joined(str(self.name)), str(self.name), self.help)
            self.commands = {**joined.commands, **self.commands}
            self._is_joined = True
