"""``sdcard agents``, and ``revoke``, ``suspend`` and ``reinstate``."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from sdcard.cli import completion
from sdcard.cli.exit_status import EXIT_REFUSED
from sdcard.cli.output import AsJson, console, print_json, print_lines, show_instant, table
from sdcard.cli.register import Place, Supersedes, check_supersedes, keep, places_of, prove, read_token, write
from sdcard.encoding import JsonObject, encode_json
from sdcard.errors import Misuse
from sdcard.jose.keys import PublicKey

if TYPE_CHECKING:
    from sdcard.io.registry_answers import ListedAgent


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
    from sdcard.io.registry_client import Registry

    answer = Registry(registry, read_token(token_file)).change_status(action, agent, batch_id, context)
    told = {"changed": answer.changed, "public_at": answer.public_at}
    if as_json:
        print_json({"agent_id": agent, "action": action, **told})
    else:
        since = show_instant(answer.public_at)
        print_lines(f"{action} {agent}: {answer.changed} SD-Cards changed", f"status lists show it from {since} on")


# -- ``sdcard agents`` ------------------------------------------------------------------------------------------------

app = typer.Typer(no_args_is_help=True)

KeyFiles: TypeAlias = Annotated[
    list[Path], typer.Option("--key", help="A private JWK of the agent's (repeatable); stays here.")
]
Out: TypeAlias = Annotated[Path, typer.Option("--out", help="A directory for the SD-Cards and trust.json.")]
IssuerName: TypeAlias = Annotated[
    str | None, typer.Option("--issuer", help="Who the registry is, when not its address.")
]


@app.callback()
def group() -> None:
    """List, show, renew and delete agents, and change their keys."""


@app.command("list")
def list_agents(registry: Address, token_file: TokenFile = None, as_json: AsJson = False) -> None:
    """List your agents.

    Example: sdcard agents list --registry https://registry.example
    """
    from sdcard.io.registry_client import Registry

    left_out = list[str]()
    found = list(Registry(registry, read_token(token_file)).agents(left_out.append))
    if as_json:
        print_json({"agents": [asdict(one) for one in found], **({"left_out": left_out} if left_out else {})})
    else:
        _show_list(found)
    if left_out:
        sys.stderr.write(f"Left out, not of the documented shape: {'; '.join(left_out)}\n")
        raise typer.Exit(EXIT_REFUSED)


def _show_list(found: "Sequence[ListedAgent]") -> None:
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


@app.command("show")
def show(agent: Agent, registry: Address, token_file: TokenFile = None) -> None:
    """Show what a registry knows of one of your agents, as JSON.

    SD-Cards themselves are not kept there.

    Example: sdcard agents show georoute --registry https://registry.example
    """
    from sdcard.io.registry_client import Registry

    print_json(Registry(registry, read_token(token_file)).agent(agent))


@app.command("renew")
def renew(
    agent: Agent,
    registry: Address,
    key: KeyFiles,
    out: Out,
    issuer: IssuerName = None,
    supersedes: Supersedes = "run_out",
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Get new SD-Cards for an agent: the same card, contexts and keys. Example:
    sdcard agents renew georoute --registry https://registry.example --key agent.jwk --out cards"""
    from sdcard.io.key_files import load_signer
    from sdcard.io.registry_client import Registry

    keys = [load_signer(file).public_key for file in key]
    check_supersedes(supersedes)
    client = Registry(registry, read_token(token_file))
    issuers, trust = client.issuer(issuer)
    contexts, thumbprints = client.asked(agent)
    if set(thumbprints) != {one.thumbprint for one in keys}:
        raise Misuse("--key gives other keys than the agent's; to bind it to others: sdcard agents change-keys")
    keys.sort(key=lambda one: thumbprints.index(one.thumbprint))
    places = _places(contexts, keys, out)
    write(out / "trust.json", encode_json(trust) + b"\n")
    keep(client.renew(agent, supersedes, contexts, thumbprints), places, issuers, out / "trust.json", as_json)


@app.command("change-keys")
def change_keys(
    agent: Agent,
    registry: Address,
    key: KeyFiles,
    out: Out,
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
    places = _places(contexts, keys, out)
    write(out / "trust.json", encode_json(trust) + b"\n")
    body: JsonObject = {
        "public_keys": [dict(one.to_jwk()) for one in keys],
        "proofs": prove(client, issuers, agent, signers),
        "supersedes": supersedes,
    }
    answer = client.change_keys(agent, body, contexts, [one.thumbprint for one in keys])
    keep(answer, places, issuers, out / "trust.json", as_json)


@app.command("delete")
def delete(agent: Agent, registry: Address, token_file: TokenFile = None, as_json: AsJson = False) -> None:
    """Revoke all SD-Cards of an agent and have the registry forget it.

    Its id and keys stay yours.

    Example: sdcard agents delete georoute --registry https://registry.example
    """
    from sdcard.io.registry_client import Registry

    revoked = Registry(registry, read_token(token_file)).delete(agent)
    if as_json:
        print_json({"agent_id": agent, "deleted": True, "revoked": revoked})
    else:
        print_lines(f"deleted {agent}: {revoked} SD-Cards revoked")


def _places(contexts: Sequence[str], keys: Sequence[PublicKey], out: Path) -> list[Place]:
    """Choose a file for each SD-Card, before the registry issues anything."""
    if len(set(contexts)) < len(contexts):
        raise Misuse("the agent has one context for several partners; ask the registry over HTTP")
    return places_of(contexts, keys, out)
