"""``sdcard agents``, and ``revoke``, ``suspend`` and ``reinstate``."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from sdcard.cli.app import EXIT_REFUSED
from sdcard.cli.options import (
    AsJson,
    IssuerName,
    KeyFiles,
    OutDirectory,
    RegistryAddress,
    Supersedes,
    TokenFile,
    complete_contexts,
    read_token,
)
from sdcard.cli.output import console, print_json, print_result, show_instant, table
from sdcard.cli.register import CardFile, card_files, check_supersedes, prove_keys, save_cards, write_trust
from sdcard.encoding import JsonObject
from sdcard.errors import Misuse
from sdcard.jose.keys import PublicKey

AgentId: TypeAlias = Annotated[str, typer.Argument(metavar="AGENT", help="The agent's id at the registry.")]
BatchId: TypeAlias = Annotated[str | None, typer.Option("--batch-id", help="Only those of this Batch.")]
OnlyContext: TypeAlias = Annotated[
    str | None, typer.Option("--context", autocompletion=complete_contexts, help="Only those of this context.")
]


def _status_change(action: str) -> Callable[..., None]:
    """Make a command that changes the status of an agent's SD-Cards."""

    def command(
        agent: AgentId,
        registry: RegistryAddress,
        batch_id: BatchId = None,
        context: OnlyContext = None,
        token_file: TokenFile = None,
        as_json: AsJson = False,
    ) -> None:
        from sdcard.io.registry_client import Registry

        answer = Registry(registry, read_token(token_file)).change_status(action, agent, batch_id, context)
        print_result(
            as_json,
            {"agent_id": agent, "action": action, "changed": answer.changed, "public_at": answer.public_at},
            f"{action} {agent}: {answer.changed} SD-Cards changed",
            f"status lists show it from {show_instant(answer.public_at)} on",
        )

    return command


revoke, suspend, reinstate = map(_status_change, ("revoke", "suspend", "reinstate"))

# -- ``sdcard agents`` ------------------------------------------------------------------------------------------------

app = typer.Typer(no_args_is_help=True)


@app.callback()
def group() -> None:
    """List, show, renew and delete agents, and change their keys."""


@app.command("list")
def list_agents(registry: RegistryAddress, token_file: TokenFile = None, as_json: AsJson = False) -> None:
    """List your agents.

    Example: sdcard agents list --registry https://registry.example
    """
    from sdcard.io.registry_client import Registry

    left_out = list[str]()
    found = list(Registry(registry, read_token(token_file)).agents(left_out.append))
    if as_json:
        print_json({"agents": [asdict(one) for one in found], **({"left_out": left_out} if left_out else {})})
    else:
        rows = [
            (
                one.agent_id,
                one.card_format,
                show_instant(one.updated_at),
                "no good SD-Card" if one.expires_at is None else show_instant(one.expires_at),
            )
            for one in found
        ]
        console().print(table("Agents", ("agent", "card", "last issued", "valid until"), rows))
    if left_out:
        sys.stderr.write(f"Left out, not of the documented shape: {'; '.join(left_out)}\n")
        raise typer.Exit(EXIT_REFUSED)


@app.command("show")
def show(agent: AgentId, registry: RegistryAddress, token_file: TokenFile = None) -> None:
    """Show what a registry knows of one of your agents, as JSON.

    SD-Cards themselves are not kept there.

    Example: sdcard agents show georoute --registry https://registry.example
    """
    from sdcard.io.registry_client import Registry

    print_json(Registry(registry, read_token(token_file)).agent(agent))


@app.command("renew")
def renew(
    agent: AgentId,
    registry: RegistryAddress,
    key: KeyFiles,
    out: OutDirectory,
    issuer: IssuerName = None,
    supersedes: Supersedes = "run_out",
    if_expiring: Annotated[
        bool, typer.Option("--if-expiring", help="Do nothing while more than half of their lifetime is left.")
    ] = False,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Get new SD-Cards for an agent: the same card, contexts and keys. Example:
    sdcard agents renew georoute --registry https://registry.example --key agent.jwk --out cards"""
    from sdcard.io.agent import is_folder_due
    from sdcard.io.key_files import load_signer
    from sdcard.io.registry_client import Registry
    from sdcard.io.system import SystemClock

    keys = [load_signer(file).public_key for file in key]
    check_supersedes(supersedes)
    if if_expiring and not is_folder_due(out, keys, SystemClock()):
        told = f"not renewed: the SD-Cards in {out} have more than half of their lifetime left"
        print_result(as_json, {"agent_id": agent, "renewed": False}, told)
        return
    client = Registry(registry, read_token(token_file))
    issuers, trust = client.issuer(issuer)
    contexts, thumbprints = client.asked(agent)
    if set(thumbprints) != {one.thumbprint for one in keys}:
        raise Misuse("--key gives other keys than the agent's; to bind it to others: sdcard agents change-keys")
    keys.sort(key=lambda one: thumbprints.index(one.thumbprint))
    files = _card_files(contexts, keys, out)
    trust_file = write_trust(out, trust)
    save_cards(client.renew(agent, supersedes, contexts, thumbprints), files, issuers, trust_file, as_json)


@app.command("change-keys")
def change_keys(
    agent: AgentId,
    registry: RegistryAddress,
    key: KeyFiles,
    out: OutDirectory,
    issuer: IssuerName = None,
    supersedes: Supersedes = "revoke",
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Bind an agent's SD-Cards to other keys; by default the earlier ones are revoked.

    Example: sdcard agents change-keys georoute --registry https://registry.example --key new.jwk --out cards
    """
    from sdcard.io.key_files import load_signer
    from sdcard.io.registry_client import Registry

    signers = [load_signer(file) for file in key]
    keys = [signer.public_key for signer in signers]
    check_supersedes(supersedes)
    client = Registry(registry, read_token(token_file))
    issuers, trust = client.issuer(issuer)
    contexts, _ = client.asked(agent)
    files = _card_files(contexts, keys, out)
    trust_file = write_trust(out, trust)
    body: JsonObject = {
        "public_keys": [dict(one.to_jwk()) for one in keys],
        "proofs": prove_keys(client, issuers, agent, signers),
        "supersedes": supersedes,
    }
    answer = client.change_keys(agent, body, contexts, [one.thumbprint for one in keys])
    save_cards(answer, files, issuers, trust_file, as_json)


@app.command("delete")
def delete(agent: AgentId, registry: RegistryAddress, token_file: TokenFile = None, as_json: AsJson = False) -> None:
    """Revoke all SD-Cards of an agent and have the registry forget it.

    Its id and keys stay yours.

    Example: sdcard agents delete georoute --registry https://registry.example
    """
    from sdcard.io.registry_client import Registry

    revoked = Registry(registry, read_token(token_file)).delete(agent)
    document = {"agent_id": agent, "deleted": True, "revoked": revoked}
    print_result(as_json, document, f"deleted {agent}: {revoked} SD-Cards revoked")


def _card_files(contexts: Sequence[str], keys: Sequence[PublicKey], out: Path) -> list[CardFile]:
    """Choose a file for each SD-Card, before the registry issues anything."""
    if len(set(contexts)) < len(contexts):
        raise Misuse("the agent has one context for several partners; ask the registry over HTTP")
    return card_files(contexts, keys, out)
