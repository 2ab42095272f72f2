"""``sdcard db``: migrate the registry's database, show its state, back it up."""

from pathlib import Path
from typing import Annotated

import typer

from issuer_service.cli.options import ConfigFile, DatabaseUrl, read_settings
from sdcard.cli.options import AsJson
from sdcard.cli.output import print_result

app = typer.Typer(no_args_is_help=True)


@app.callback()
def group() -> None:
    """Upgrade, look at, and back up the registry's database."""


@app.command("upgrade")
def upgrade_database(database_url: DatabaseUrl = None, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Bring the database to this version's schema; one that is missing is made.

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
    file: Annotated[Path, typer.Argument(help="Where to; it must not exist.")],
    database_url: DatabaseUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Copy a SQLite database while it is in use, whole or not at all.

    Example: sdcard db backup today.sqlite
    """
    from issuer_service.db.backups import back_up

    size = back_up(read_settings(config, database_url=database_url).database_url, file)
    print_result(
        as_json,
        {"file": str(file), "bytes": size},
        f"{file}: {size} bytes, mode 0600, with whole cards, and the keys: keep what opens those elsewhere",
    )
