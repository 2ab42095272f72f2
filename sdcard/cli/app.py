"""The command tree, and the one place where refusals and misuse become exit statuses."""

import sys

import typer

from sdcard.cli import demo, inspect, keys, present, register, serve, token, verify
from sdcard.cli.output import EXIT_MISUSE, EXIT_REFUSED, show_misuse, show_refusal
from sdcard.errors import Misuse, Refused

app = typer.Typer(
    help="Agent Cards with selective disclosure: issue, present and verify SD-Cards (RFC 9901).",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (demo, serve, register, inspect, present, verify):
    app.command(module.__name__.rpartition(".")[2], help=module.HELP)(module.command)
for group in (keys, token):
    app.add_typer(group.app, name=group.__name__.rpartition(".")[2], help=group.HELP)


def run() -> None:
    """Run one command."""
    as_json = "--json" in sys.argv
    try:
        app()
    except Refused as refusal:
        show_refusal(refusal, as_json)
        raise SystemExit(EXIT_REFUSED) from None
    except (Misuse, OSError) as misuse:
        show_misuse(misuse, as_json)
        raise SystemExit(EXIT_MISUSE) from None
