"""``sdcard revoke``, ``suspend``, ``reinstate``: change an agent's statuses.

The owner of the agent decides about its SD-Cards.
"""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from sdcard.cli import completion
from sdcard.cli.output import AsJson, print_json, print_lines, show_instant
from sdcard.cli.register import read_token

Agent: TypeAlias = Annotated[str, typer.Argument(metavar="AGENT", help="The agent's id at the registry.")]
Address: TypeAlias = Annotated[str, typer.Option("--registry", help="The registry's address.")]
BatchId: TypeAlias = Annotated[str | None, typer.Option("--batch-id", help="Only those of this Batch.")]
ContextName: TypeAlias = Annotated[
    str | None, typer.Option("--context", autocompletion=completion.contexts, help="Only those of this context.")
]
TokenFile: TypeAlias = Annotated[Path | None, typer.Option("--token-file", help="A file with the bearer token.")]


def revoke(
    agent: Agent,
    registry: Address,
    batch_id: BatchId = None,
    context: ContextName = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Revoke an agent's SD-Cards, for ever."""
    _change("revoke", agent, registry, batch_id, context, token_file, as_json)


def suspend(
    agent: Agent,
    registry: Address,
    batch_id: BatchId = None,
    context: ContextName = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Suspend an agent's SD-Cards until they are reinstated."""
    _change("suspend", agent, registry, batch_id, context, token_file, as_json)


def reinstate(
    agent: Agent,
    registry: Address,
    batch_id: BatchId = None,
    context: ContextName = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """End a suspension; what was revoked stays so."""
    _change("reinstate", agent, registry, batch_id, context, token_file, as_json)


def _change(
    action: str,
    agent: str,
    registry: str,
    batch_id: str | None,
    context: str | None,
    token_file: Path | None,
    as_json: bool,
) -> None:
    from sdcard.edge.registry import Registry

    answer = Registry(registry, read_token(token_file)).change_status(action, agent, batch_id, context)
    told = {"changed": answer.changed, "public_at": answer.public_at}
    if as_json:
        print_json({"agent_id": agent, "action": action, **told})
    else:
        since = show_instant(answer.public_at)
        print_lines(f"{action} {agent}: {answer.changed} SD-Cards changed", f"status lists show it from {since} on")
