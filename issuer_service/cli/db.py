"""Commands ``sdcard db`` and ``sdcard registry``: schema, backup, bulk import."""

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from issuer_service.cli.serve import ConfigFile, DatabaseUrl, make_missing_database, read_settings, run_on_database
from sdcard.cli.options import AsJson, Yes, complete_contexts, confirm
from sdcard.cli.output import check_head, print_result, printable
from sdcard.errors import Finding, Misuse, Part
from sdcard.io.system import SystemClock, SystemSalts

if TYPE_CHECKING:
    from issuer_service.importing import Outcome
    from issuer_service.settings import Settings

app = typer.Typer(no_args_is_help=True)


@app.callback()
def group() -> None:
    """Upgrade, inspect, back up and move the registry's database."""


@app.command("upgrade")
def upgrade_database(database_url: DatabaseUrl = None, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Upgrade the database to this version's schema; create a missing one.

    Example: sdcard db upgrade
    """
    from issuer_service.db.migrations import head, read_revision, upgrade

    url = read_settings(config, database_url=database_url).database_url
    before = read_revision(url)
    upgrade(url)
    print_result(
        as_json,
        {"before": before, "revision": head()},
        f"{before or 'empty'} -> {head()}" if before != head() else f"{head()}: nothing to do",
    )


@app.command("status")
def status(database_url: DatabaseUrl = None, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Show the schema of the database and the schema that this version needs.

    The exit status is 1 when they differ.

    Example: sdcard db status
    """
    from issuer_service.db.migrations import head, read_revision

    found = read_revision(read_settings(config, database_url=database_url).database_url)
    print_result(as_json, {"revision": found, "needed": head()}, f"{found or 'empty'}, this version needs {head()}")
    raise typer.Exit(0 if found == head() else 1)


@app.command("backup")
def backup(
    file: Annotated[Path, typer.Argument(help="The file to create; it must not exist.")],
    database_url: DatabaseUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Copy a SQLite database while it is in use.

    Example: sdcard db backup today.sqlite
    """
    from issuer_service.db.backups import back_up

    size = back_up(read_settings(config, database_url=database_url).database_url, file)
    print_result(
        as_json,
        {"file": str(file), "bytes": size},
        f"{file}: {size} bytes, mode 0600, with whole cards, and the keys: keep what opens those elsewhere",
    )


@app.command("move")
def move_database(
    target: Annotated[str, typer.Argument(help="URL of an empty PostgreSQL database; its password in ~/.pgpass.")],
    database_url: DatabaseUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Move a registry from a SQLite file to PostgreSQL.

    Stop the registry first. The file is not changed. The copy is compared with its audit chain before it is committed.

    Example: sdcard db move postgresql+asyncpg://sdcard@db.example/sdcard
    """
    from issuer_service.db.backups import move

    counts = move(read_settings(config, database_url=database_url).database_url, target)
    print_result(
        as_json,
        {"rows": counts},
        f"{sum(counts.values())} rows of {len(counts)} tables. Set SDCARD_DATABASE_URL; keep the file as a backup.",
    )


@app.command("rename-log")
def rename_log(
    yes: Yes = False, database_url: DatabaseUrl = None, config: ConfigFile = None, as_json: AsJson = False
) -> None:
    """Continue the transparency log under another name, after a restored backup.

    Its witnesses refuse a log that lost leaves. Asks for confirmation.

    Example: sdcard db rename-log --yes
    """
    from issuer_service.transparency.records import origin_of
    from issuer_service.transparency.repository import rename

    settings, now = read_settings(config, database_url=database_url), int(SystemClock().now())
    confirm("New proofs are refused until witnesses and Verifiers have the line of the renamed log.", yes)
    log = run_on_database(lambda database: database.change(rename, now), settings.database_url)
    if log is None:
        raise Misuse("the registry keeps no transparency log")
    origin = origin_of(settings.issuer_url, log)
    told = f"the log is {origin} now; give its line to witnesses and Verifiers: sdcard keys published log"
    print_result(as_json, {"origin": origin}, told)


# -- ``sdcard registry import`` ----------------------------------------------------------------------------------------

registry_app = typer.Typer(no_args_is_help=True)


@registry_app.callback()
def registry_group() -> None:
    """Import many agents into the registry's database."""


@registry_app.command("import")
def import_file(
    file: Annotated[
        str, typer.Argument(metavar="FILE|-", help="JSON lines: agent_id, card, public_key; - is standard input.")
    ],
    subject: Annotated[str, typer.Option(help="The owner of the agents: the subject of a token.")],
    context: Annotated[
        list[str] | None,
        typer.Option(
            autocompletion=complete_contexts, help="A context of their SD-Cards (repeatable); by default only public."
        ),
    ] = None,
    workers: Annotated[
        int, typer.Option(min=1, max=256, help="How many processes sign, besides the one that writes.")
    ] = os.cpu_count() or 1,
    database_url: DatabaseUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Register the agents of a file without proof of their keys.

    You vouch for the file. Agents that are registered already are skipped, so the command can be repeated. Exit status
    1: a line was refused.

    Example: sdcard registry import agents.jsonl --subject team-a --context public --context internal
    """
    settings = read_settings(config, database_url=database_url)
    if file != "-":
        check_head(Path(file), Part.REQUEST)
    with ExitStack() as stack:
        source: BinaryIO = sys.stdin.buffer if file == "-" else stack.enter_context(Path(file).open("rb"))
        size = None if file == "-" else Path(file).stat().st_size
        outcome = _import(source, size, settings, subject, tuple(context or ("public",)), workers)
    print_result(
        as_json,
        {"registered": outcome.registered, "already": outcome.there, "refused": outcome.refused},
        f"{outcome.registered} registered, {outcome.there} already were, {outcome.refused} refused",
    )
    raise typer.Exit(1 if outcome.refused else 0)


def _import(
    source: BinaryIO, size: int | None, settings: "Settings", subject: str, contexts: tuple[str, ...], workers: int
) -> "Outcome":
    from issuer_service.access import check_subject
    from issuer_service.importing import PATIENCE, Importing, Outcome, import_agents
    from issuer_service.keys.opening import prepare_keys
    from sdcard.io.database import open_database

    check_subject(subject)
    make_missing_database(settings.database_url)
    prepare_keys(settings)
    error = Console(stderr=True, highlight=False)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(
        *columns, console=error, disable=not error.is_terminal or error.is_dumb_terminal, transient=True
    ) as progress:
        bar = progress.add_task("bytes", total=size)

        def tell(outcome: Outcome) -> None:
            done = outcome.registered + outcome.there + outcome.refused
            progress.update(bar, completed=outcome.read, description=f"{done} agents")

        def refuse(number: int, findings: Sequence[Finding]) -> None:
            for one in findings:
                said = f"line {number}: {one.rule.value} at {one.where}: {one.hint or one.rule.sentence}"
                progress.console.print(printable(said), markup=False, soft_wrap=True)

        async def run() -> Outcome:
            database = open_database(settings.database_url, PATIENCE)
            try:
                asked = Importing(
                    database, SystemSalts(), SystemClock(), subject, contexts, settings.body_limit, tell, refuse
                )
                return await import_agents(asked, source, settings, workers)
            finally:
                await database.close()

        return asyncio.run(run())
