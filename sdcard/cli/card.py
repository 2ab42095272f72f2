"""``sdcard card``: what an author does with a card document before issuance.

There is one file for each verb.
"""

import typer

from sdcard.cli import card_check, card_convert, card_sign

app = typer.Typer(no_args_is_help=True)


@app.callback()
def group() -> None:
    """Check, convert and sign agent cards; make ids for them."""


app.command("check", help=card_check.HELP)(card_check.command)
app.command("convert", help=card_convert.HELP)(card_convert.command)
app.command("sign", help=card_sign.HELP)(card_sign.command)


@app.command("new-id", help="Print a fresh agent_id for an AgentCard, a ULID. Example: sdcard card new-id")
def new_id() -> None:
    """Print a fresh ``agent_id``."""
    from sdcard.edge.system import new_agent_id

    typer.echo(new_agent_id())
