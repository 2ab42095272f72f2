"""``sdcard config``: what the settings are, and where each comes from."""

import os
from typing import Annotated

import typer

from issuer_service.cli.options import ConfigFile, warn_of_unknown
from sdcard.cli.output import AsJson, console, print_json, table

app = typer.Typer(no_args_is_help=True)


@app.callback()
def group() -> None:
    """Show the settings of the registry."""


@app.command("show")
def show(
    config: ConfigFile = None,
    changed: Annotated[bool, typer.Option(help="Only what is not as by default.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show every setting, its source, and no secret.

    Example: sdcard config show --config /etc/sdcard/sdcard.toml
    """
    from issuer_service.configuration import Source, read_configuration, shown_value

    configuration = read_configuration(config, os.environ, {})
    rows = {
        name: (shown_value(configuration.settings, name), source)
        for name, source in configuration.sources.items()
        if not (changed and source is Source.DEFAULT)
    }
    if as_json:
        settings = {name: {"value": value, "source": source.value} for name, (value, source) in rows.items()}
        print_json({"settings": settings, "unknown": list(configuration.unknown)})
        return
    console().print(table("", ("setting", "value", "from"), [(n, v, s.value) for n, (v, s) in rows.items()]))
    warn_of_unknown(configuration)
