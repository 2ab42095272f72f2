"""The command tree, its help, and the exit status of every outcome."""

import errno
import os
import re
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from sdcard.cli.invocation import check_arguments

EXIT_REFUSED: Final = 1
EXIT_MISUSE: Final = 2
EXIT_BUG: Final = 70

# -- Help -------------------------------------------------------------------------------------------------------------

_MARK = " Example: "
_WIDTH = 76
_WORD = r"""(?:[^\s'"]|'[^']*'|"[^"]*")+"""
_UNIT = re.compile(rf"--?\w\S* (?!-){_WORD}|{_WORD}")
"""An option with its value, or one word."""
_BEFORE = "\b\nExample:\n  "  # the first sign keeps the lines as they are
_BREAK = " \\\n      "


def set_out(command: Any) -> Any:
    """Move the examples of a command to the end, and check its arguments.

    This includes its subcommands.
    """
    for one in getattr(command, "commands", {}).values():
        set_out(one)
    if not hasattr(command, "commands"):
        check_arguments(command)
    text, _, example = " ".join((command.help or "").split()).partition(_MARK)
    command.help, command.short_help = text, first_sentence(text)
    if example:
        command.epilog = _BEFORE + _broken(example)
    elif hasattr(command, "commands"):
        command.epilog = f"For details and an example, run: sdcard {command.name} COMMAND --help"
    return command


def example_of(command: Any) -> str:
    """Return the example of a command on one line; ``set_out`` comes first."""
    return (command.epilog or "").removeprefix(_BEFORE).replace(_BREAK, " ")


def first_sentence(text: str) -> str:
    """Return the first sentence of a help text, for a list of commands."""
    return re.split(r"(?<=[^.]\.) (?=[A-Z1`])", text.partition(_MARK)[0], maxsplit=1)[0]


def _broken(example: str) -> str:
    """Break an example into 80 columns, still one command for a shell."""
    lines = [""]
    for word in _UNIT.findall(example):
        room = _WIDTH if len(lines) == 1 else _WIDTH - 4
        if lines[-1] and len(lines[-1]) + 1 + len(word) + 2 > room:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return _BREAK.join(lines)


# -- Commands of a registry, from entry points ------------------------------------------------------------------------

ENTRY_POINTS: Final = "sdcard.commands"
"""Group of entry points in ``pyproject.toml``: command → module and attribute."""


def load_joined(name: str) -> Any:
    """Load the command, or the group of commands, of this entry point.

    Only entry points of the distribution ``sdcard`` count, so no other installed package adds or replaces a command.

    Raises:
        ModuleNotFoundError: if its package is not installed.
        Misuse: if no installed distribution has this entry point.
    """
    from importlib.metadata import distributions

    from sdcard.errors import Misuse

    ours = next(iter(distributions(name="sdcard", path=_places())), None)
    for found in ours.entry_points.select(group=ENTRY_POINTS, name=name) if ours else ():
        return found.load()
    raise Misuse(f"`{name}` is not installed: install the extra `service` of sdcard")


def _places() -> list[str]:
    """List the folders that may hold our distribution, the most certain first.

    In this order, a folder early on ``sys.path``, such as the working directory, cannot pass for our distribution.
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
    """A command group that gets further commands from the entry point of its name."""

    _is_joined = False
    _own: frozenset[str] = frozenset()

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Find a command of the group, or of the entry point."""
        if cmd_name not in self.commands:
            self._join()
        return super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:
        """List the entry point's commands, then the group's own."""
        self._join()
        return super().list_commands(ctx)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands on files, then those on the registry's database."""
        self._join()
        for title, is_own in (("Commands on files", True), ("Commands on the registry's database", False)):
            with formatter.section(title):
                listed = [(name, one) for name, one in self.commands.items() if (name in self._own) is is_own]
                formatter.write_dl([(name, one.get_short_help_str(_WIDTH)) for name, one in listed])

    def _join(self) -> None:
        if not self._is_joined:
            joined = make_command(load_joined(str(self.name)), str(self.name), self.help)
            self._own = frozenset(self.commands)
            self.commands = {**joined.commands, **self.commands}
            self._is_joined = True


# -- The command tree -------------------------------------------------------------------------------------------------

JOINED = "an entry point"
"""The place of a command that acts on a registry: an entry point of its name."""

COMMANDS = {
    "demo": (
        JOINED,
        "Run an example: a registry issues, an agent presents, a Verifier verifies, and six attacks fail. "
        "Example: sdcard demo",
    ),
    "serve": (
        JOINED,
        "Run the registry. Settings come from options, else from SDCARD_… in the environment, else from a TOML file. "
        "A missing database or key file is created. Example: SDCARD_ISSUER=https://registry.example "
        "sdcard serve --port 8080",
    ),
    "register": (
        "agents:register",
        "Register an agent card, and save the SD-Cards in a folder. Waits until the registry is ready. The token comes "
        "from SDCARD_TOKEN or --token-file. Example: sdcard register card.json --registry http://127.0.0.1:8080 "
        "--agent-id georoute --key agent.jwk --context public --context internal --out cards",
    ),
    "wait": (
        "discover:wait",
        "Wait until a registry is ready, for scripts. Exit status 0: ready; 1: it answers, but is not ready in time; "
        "2: nothing listens there. Example: sdcard wait --registry http://127.0.0.1:8080 --timeout 60",
    ),
    "discover": (
        "discover:discover",
        "Find agents at a registry. An agent's SD-Card in the context must meet all criteria. The token comes "
        "from SDCARD_TOKEN or --token-file. Example: sdcard discover --registry http://127.0.0.1:8080 "
        "--text route",
    ),
    "fetch": (
        "discover:fetch",
        "Fetch an agent's card from its address or well-known address, and verify it. The command asks the host for a "
        "proof that it is the agent. Give --status or --status-unchecked. Exit status 0: an SD-Card that its host "
        "proved, or with --unbound one that a trusted registry signed; 1: refused, an SD-Card without the proof, or a "
        "plain card, which is not verified. Example: sdcard fetch https://agent.example --trust trust.json --status",
    ),
    "inspect": (
        "verify:inspect",
        "Decode an SD-Card or presentation. Nothing is verified: no signature, no time, no trust. "
        "Example: sdcard inspect public.sd-card",
    ),
    "present": (
        "verify:present_card",
        "Present an SD-Card: choose its parts, and sign with the agent's key. By default all parts are shown. "
        "Example: sdcard present "
        "public.sd-card --key agent.jwk --trust trust.json --audience https://them.example --nonce "
        "n-0S6_WzA2Mj --path skills.0",
    ),
    "verify": (
        "verify:command",
        "Verify a presentation. Give --audience and --nonce, or --unbound. Give --status or --status-unchecked. Exit "
        "status 0: verified; 1: refused; 2: misuse. --explain shows every rule and its outcome. Example: sdcard "
        "verify shown.txt --trust trust.json --audience https://me.example --nonce n-0S6_WzA2Mj --status",
    ),
    "linkability": (
        "policy:linkability",
        "List the values that link SD-Cards or presentations, and say which are avoidable. Nothing is "
        "verified, and no value is shown. Exit status 0: no avoidable value links them; 1: an avoidable "
        "value links them, or a text was refused; 2: misuse. Example: sdcard linkability cards/public-0.sd-card "
        "cards/public-1.sd-card",
    ),
    "mcp": (
        "mcp:command",
        "Serve tools for a language model over MCP, on standard input and output: check a card, inspect an "
        "SD-Card; with --audience verify presentations; with --registry discover agents. Example: sdcard "
        "mcp --trust trust.json --audience https://me.example --status",
    ),
    "revoke": (
        "agents:revoke",
        "Revoke an agent's SD-Cards permanently. It asks first; scripts need --yes. The token comes from SDCARD_TOKEN "
        "or --token-file. Example: sdcard revoke georoute --registry https://registry.example",
    ),
    "suspend": (
        "agents:suspend",
        "Suspend an agent's SD-Cards until they are reinstated. The token comes from SDCARD_TOKEN or "
        "--token-file. Example: sdcard suspend georoute --registry https://registry.example --context internal",
    ),
    "reinstate": (
        "agents:reinstate",
        "End a suspension; revoked SD-Cards stay revoked. The token comes from SDCARD_TOKEN or --token-file. "
        "Example: sdcard reinstate georoute --registry https://registry.example",
    ),
    "agents": ("agents:app", "Manage agents at a registry. The token comes from SDCARD_TOKEN or --token-file."),
    "card": ("card:app", "Check, convert and sign agent cards; make ids of AgentCards."),
    "policy": ("policy:app", "Check disclosure policies, and show their effect on a card."),
    "keys": ("keys:app", "Make keys in files; manage the registry's own keys, in its database."),
    "trust": ("keys:trust_app", "Sign a list of trusted Issuers, or show one."),
    "log": ("log:app", "Monitor a transparency log, or run a witness of logs."),
    "token": (JOINED, "Make, list and withdraw the registry's access tokens, in its database."),
    "audit": (JOINED, "Verify and export the audit chain in the registry's database; make checkpoints."),
    "vectors": ("vectors:app", "Run the test vectors."),
    "conformance": ("conformance:app", "Test a deployment with attacks, with the permission of its operator."),
    "config": (JOINED, "Show the registry's settings and their sources."),
    "db": (JOINED, "Upgrade, inspect, back up and move the registry's database."),
    "registry": (JOINED, "Import many agents into the registry's database."),
    "grants": (JOINED, "Permit delegations between agents, in the registry's database."),
    "approvals": (JOINED, "Approve or deny delegations that wait for a person, in the registry's database."),
    "reviews": (JOINED, "Approve or reject registrations that wait for a person, in the registry's database."),
}
"""Name → module and attribute, and help. A module is imported when its command is called."""

SECTIONS = {
    "Start": ("demo",),
    "Agents: register and manage them at a registry, over HTTP": (
        *("register", "agents", "revoke", "suspend", "reinstate", "wait"),
    ),
    "Agents: SD-Cards and cards in files": ("present", "inspect", "linkability", "card"),
    "Verifiers and clients": ("verify", "fetch", "discover", "trust", "log", "mcp"),
    "Registry: its process and its database on this machine": (
        *("serve", "config", "token", "keys", "audit", "db", "registry", "grants", "approvals", "reviews", "policy"),
    ),
    "Implementers": ("vectors", "conformance"),
}
"""Title in the help → its commands."""


class _Commands(TyperGroup):
    """The command table as a group of commands."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands: dict[str, Any] = dict.fromkeys(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in COMMANDS and self.commands[cmd_name] is None:
            self.commands[cmd_name] = _made(cmd_name)
        return self.commands.get(cmd_name)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Complete names and first sentences without importing a command."""
        for name, (_, text) in COMMANDS.items():
            self.commands[name] = TyperCommand(name, callback=None, help=first_sentence(text))
        return super().shell_complete(ctx, incomplete)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, first_sentence(COMMANDS[name][1])) for name in names])


def _made(name: str) -> Any:
    place, text = COMMANDS[name]
    if place == JOINED:
        return make_command(load_joined(name), name, text)
    module, _, attribute = place.partition(":")
    return make_command(getattr(import_module(f"sdcard.cli.{module}"), attribute), name, text)


def _show_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        from sdcard.acceleration import KERNEL

        typer.echo(f"sdcard {version('sdcard')}\nnative kernel: {KERNEL or 'not in use'}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Accept the options before every command."""


app = typer.Typer(
    cls=_Commands,
    callback=_root,
    help="Agent Cards with selective disclosure: issue, present and verify SD-Cards (RFC 9901).",
    epilog="For details and an example, run: sdcard COMMAND --help. To avoid repeated options, set SDCARD_REGISTRY, or "
    "write ~/.config/sdcard/client.toml (SDCARD_CLIENT names another file).",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich takes three times as long to import as all else that this list needs
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)


_INTERRUPTED = 130
"""Exit status of typer for Ctrl-C."""


def run() -> int:
    """Run one command, and return its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    as_json = "--json" in sys.argv[1:]
    try:
        status = _run(as_json)
        if status == _INTERRUPTED:
            status = _misused(InterruptedError("interrupted"), as_json)
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as end:  # typer exits when the reader has left, and after completing
        if isinstance(end, SystemExit) and end.code == 0:
            return 0
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return EXIT_MISUSE
    except OSError as error:
        reason = f"the output cannot be written: {error.strerror}; make room, or write it elsewhere"
        status = _misused(OSError(reason), as_json=False)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return status


def _run(as_json: bool) -> int:
    try:
        return app(standalone_mode=False, prog_name="sdcard") or 0
    except OSError as error:
        if error.errno in (errno.EPIPE, errno.ENOSPC):
            raise
        return _misused(error, as_json)
    except Exception as error:  # what is no outcome is a bug of ours, and must not look like a refusal
        return _outcome(error, as_json)


def _outcome(error: Exception, as_json: bool) -> int:
    """Describe an exception, and return its exit status."""
    from sdcard.cli.output import show_refusal
    from sdcard.errors import Misuse, Refused
    from sdcard.rules import Rule

    if isinstance(error, Refused):
        show_refusal(error, as_json)
        return EXIT_MISUSE if error.rule is Rule.STORE_UNAVAILABLE else EXIT_REFUSED
    if isinstance(error, ModuleNotFoundError):
        extra = "mcp" if (error.name or "").partition(".")[0] == "mcp" else "service"
        return _misused(Misuse(f"it needs {error.name}: install the extra `{extra}` of sdcard"), as_json)
    if isinstance(error, Misuse | TyperException):
        return _misused(error, as_json)
    traceback.print_exception(error)
    return EXIT_BUG


def _misused(misuse: Exception, as_json: bool) -> int:
    from sdcard.cli.output import show_misuse

    show_misuse(misuse, as_json)
    return EXIT_MISUSE
