"""``sdcard card``: what an author does with a card document before anybody issues anything. One file a verb."""

import typer

from sdcard.cli import card_check

HELP = "Check an agent card."
app = typer.Typer(no_args_is_help=True)


@app.callback()
def group() -> None:
    """Check an agent card."""


app.command("check", help=card_check.HELP)(card_check.command)
