"""The command tree, and the one place where outcomes become exit statuses: 0 yes, 1 refused, 2 misuse, 70 a bug."""

import errno
import os
import sys
import traceback

import typer
from typer.exceptions import TyperException

from sdcard.cli import (
    agents,
    audit,
    card,
    config,
    db,
    delegations,
    demo,
    discover,
    fetch,
    inspect,
    keys,
    linkability,
    mcp,
    policy,
    present,
    register,
    registry,
    revoke,
    serve,
    token,
    trust,
    vectors,
    verify,
)
from sdcard.cli.output import EXIT_BUG, EXIT_MISUSE, EXIT_REFUSED, show_misuse, show_refusal
from sdcard.errors import Misuse, Refused
from sdcard.rules import Rule

app = typer.Typer(
    help="Agent Cards with selective disclosure: issue, present and verify SD-Cards (RFC 9901).",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (demo, serve, register, discover, fetch, inspect, present, verify, linkability, mcp):
    app.command(module.__name__.rpartition(".")[2], help=module.HELP)(module.command)
for command in (revoke.revoke, revoke.suspend, revoke.reinstate):
    app.command(command.__name__)(command)
for group in (agents, card, policy, keys, trust, token, audit, vectors, config, db, registry):
    app.add_typer(group.app, name=group.__name__.rpartition(".")[2], help=group.HELP)
app.add_typer(delegations.grants, name="grants", help="Say which scopes may be handed to which agent.")
app.add_typer(delegations.approvals, name="approvals", help="Approve or deny what waits for a person.")


_INTERRUPTED = 130
"""What typer makes of Ctrl-C."""


def run() -> int:
    """Run one command; its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    as_json = "--json" in sys.argv[1:]
    try:
        status = _run(as_json)
        if status == _INTERRUPTED:
            show_misuse(Misuse("interrupted"), as_json)
            status = EXIT_MISUSE
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # typer exits when the reader has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return EXIT_MISUSE
    except OSError as error:
        show_misuse(error, as_json=False)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return EXIT_MISUSE
    return status


def _run(as_json: bool) -> int:
    try:
        return app(standalone_mode=False) or 0
    except Refused as refusal:
        show_refusal(refusal, as_json)
        return EXIT_MISUSE if refusal.rule is Rule.STORE_UNAVAILABLE else EXIT_REFUSED
    except ModuleNotFoundError as missing:
        extra = "mcp" if (missing.name or "").partition(".")[0] == "mcp" else "service"
        show_misuse(Misuse(f"this command needs {missing.name}, which the extra `{extra}` of sdcard brings"), as_json)
    except (Misuse, TyperException) as misuse:
        show_misuse(misuse, as_json)
    except OSError as error:
        if error.errno in (errno.EPIPE, errno.ENOSPC):
            raise
        show_misuse(error, as_json)
    except Exception:  # a bug of ours must not look like a refusal
        traceback.print_exc()
        return EXIT_BUG
    return EXIT_MISUSE
