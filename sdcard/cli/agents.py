"""``sdcard register`` and ``sdcard agents``."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from sdcard.cards.detect import read_card
from sdcard.cards.documents import read_document
from sdcard.cli.agent_views import show_agent, show_domains
from sdcard.cli.app import EXIT_REFUSED
from sdcard.cli.card_files import card_files, save_cards, save_proofs, write_trust
from sdcard.cli.options import (
    AsJson,
    IssuerName,
    KeyFiles,
    OutDirectory,
    RegistryAddress,
    Supersedes,
    Timeout,
    TokenFile,
    Yes,
    YesRevoke,
    complete_contexts,
    confirm,
    confirm_superseding,
    connect,
    read_agent_id,
    wait_until_ready,
)
from sdcard.cli.output import console, print_json, print_result, printable, read_bytes, show_instant, table
from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Misuse, Part, Refused
from sdcard.io.registry_answers import read_asked
from sdcard.io.system import SystemClock
from sdcard.jose.jws import Signer
from sdcard.jose.keys import PublicKey
from sdcard.policy.context import FEDERATION
from sdcard.possession import prove_possession
from sdcard.rules import Kind
from sdcard.trust import TrustedIssuers

if TYPE_CHECKING:
    from sdcard.io.registry_client import Registry

# -- ``sdcard register``: register an agent's card, and keep the SD-Cards ---------------------------------------------


def register(
    card: Annotated[
        str, typer.Argument(metavar="FILE|-", help="The agent card, in JSON or YAML; - is standard input.")
    ],
    registry: RegistryAddress,
    agent_id: Annotated[str, typer.Option(callback=read_agent_id, help="The agent's id at the registry.")],
    key: Annotated[
        list[str],
        typer.Option(
            metavar="[CONTEXT=]FILE",
            help="A file with a private JWK of the agent, for all contexts or for one; it is not sent (repeatable).",
        ),
    ],
    context: Annotated[
        list[str],
        typer.Option(
            autocompletion=complete_contexts,
            help="A context, or CONTEXT=CLAIM,CLAIM for only these claims (repeatable).",
        ),
    ],
    out: OutDirectory,
    issuer: IssuerName = None,
    partner: Annotated[
        str | None, typer.Option(help="For the context federation: the partner that may see the SD-Card.")
    ] = None,
    supersedes: Supersedes = "run_out",
    yes: YesRevoke = False,
    timeout: Timeout = 60,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Register an agent card and keep the SD-Cards."""
    contexts = [_context(text, partner) for text in context]
    signers = _add_keys(contexts, key)
    keys = [signer.public_key for signer in signers]
    if partner is not None and not any("partner" in one for one in contexts):
        raise Misuse("--partner is for the context federation, which was not asked for")
    body = _body(read_bytes(card, Part.CARD), agent_id, keys, contexts)
    confirm_superseding(supersedes, agent_id, yes)
    asked = read_asked({**body, "key_thumbprints": [one.thumbprint for one in keys]})
    cards = asked.cards(asked.thumbprints)
    files = card_files(cards, keys, out)
    client = connect(registry, token_file)
    wait_until_ready(client, timeout)
    issuers, trust = client.issuer(issuer)
    trust_file = write_trust(out, trust)
    proofs = prove_keys(client, issuers, agent_id, signers)
    answer = client.register({**body, "proofs": proofs, "supersedes": supersedes}, cards)
    save_cards(answer, files, issuers, trust_file, supersedes, as_json)


def prove_keys(
    client: "Registry", issuers: TrustedIssuers, agent_id: str, signers: Sequence[Signer]
) -> list[JsonValue]:
    """Prove possession of each key, with a fresh nonce of the registry."""
    (audience,) = issuers.keys
    nonce, now = client.nonce(), SystemClock().now()
    return [prove_possession(signer, audience, agent_id, nonce, now) for signer in signers]


def _context(text: str, partner: str | None) -> dict[str, Any]:
    name, equals, entries = text.partition("=")
    whom = {"partner": partner} if partner is not None and name == FEDERATION.name else {}
    return {"context": name, **({"disclose": entries.split(",")} if equals else {}), **whom}


def _add_keys(contexts: list[dict[str, Any]], given: Sequence[str]) -> list[Signer]:
    """Name the keys of each context, if they differ, and return all keys."""
    from sdcard.io.key_files import load_signer

    names = [one["context"] for one in contexts]
    of_files: dict[str, list[str | None]] = {}
    for text in given:
        name, equals, file = text.partition("=")
        is_own = bool(equals) and not Path(text).exists()
        if is_own and name not in names:
            raise Misuse(f"--key names the context {printable(name)}, which --context does not")
        of_files.setdefault(file if is_own else text, []).append(name if is_own else None)
    if any(name is not None for owners in of_files.values() for name in owners):
        for one in contexts:
            own = [number for number, owners in enumerate(of_files.values()) if one["context"] in owners]
            one["keys"] = own or [number for number, owners in enumerate(of_files.values()) if None in owners]
            if not one["keys"]:
                context = printable(one["context"])
                raise Misuse(f"no --key is for the context {context}: add --key {context}=FILE")
    return [load_signer(Path(file)) for file in of_files]


def _body(data: bytes, agent_id: str, keys: Sequence[PublicKey], contexts: Sequence[dict[str, Any]]) -> JsonObject:
    """Build the request. The document is sent as written, with its signatures."""
    document = read_document(data).document
    read_card(document)
    if not all(text.isprintable() for text in (agent_id, *(one["context"] for one in contexts))):
        raise Misuse("--agent-id and --context are printable")
    return {
        "agent_id": agent_id,
        **{name: document.get(name) or "" for name in ("name", "description", "version")},
        "public_keys": [dict(key.to_jwk()) for key in keys],
        "disclosure_contexts": list(contexts),
        "card": document,
    }


# -- ``sdcard agents``, and ``revoke``, ``suspend`` and ``reinstate`` -------------------------------------------------

AgentId: TypeAlias = Annotated[
    str, typer.Argument(metavar="AGENT", callback=read_agent_id, help="The agent's id at the registry.")
]
BatchId: TypeAlias = Annotated[str | None, typer.Option("--batch-id", help="Only the SD-Cards of this Batch.")]
OnlyContext: TypeAlias = Annotated[
    str | None, typer.Option("--context", autocompletion=complete_contexts, help="Only the SD-Cards of this context.")
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
        answer = connect(registry, token_file).change_status(action, agent, batch_id, context)
        print_result(
            as_json,
            {"agent_id": agent, "action": action, "changed": answer.changed, "public_at": answer.public_at},
            f"{action} {agent}: {answer.changed} SD-Cards changed",
            f"status lists show it from {show_instant(answer.public_at)} on",
        )

    return command


suspend, reinstate, _revoke = map(_status_change, ("suspend", "reinstate", "revoke"))


def revoke(
    agent: AgentId,
    registry: RegistryAddress,
    batch_id: BatchId = None,
    context: OnlyContext = None,
    yes: Yes = False,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Revoke SD-Cards."""
    of = "".join(f" of this {what}" for what, given in (("Batch", batch_id), ("context", context)) if given)
    confirm(f"This revokes the SD-Cards of {agent}{of} for ever; `sdcard suspend` can be undone.", yes)
    _revoke(agent, registry, batch_id, context, token_file, as_json)


app = typer.Typer(no_args_is_help=True)


@app.callback()
def group() -> None:
    """List, show, renew and delete agents, and change their keys."""


@app.command("list")
def list_agents(registry: RegistryAddress, token_file: TokenFile = None, as_json: AsJson = False) -> None:
    """List your agents.

    Example: sdcard agents list --registry https://registry.example
    """
    left_out: list[str] = []
    found = list(connect(registry, token_file).agents(left_out.append))
    if as_json:
        print_json({"agents": [asdict(one) for one in found], **({"left_out": left_out} if left_out else {})})
    else:
        ends = [show_instant(one.expires_at) if one.expires_at else "no good SD-Card" for one in found]
        rows = [
            (one.agent_id, one.card_format, show_instant(one.updated_at), end)
            for one, end in zip(found, ends, strict=True)
        ]
        console().print(table("Agents", ("agent", "card", "last issued", "valid until"), rows))
    if left_out:
        sys.stderr.write(f"Left out, not of the documented shape: {'; '.join(left_out)}\n")
        raise typer.Exit(EXIT_REFUSED)


@app.command("show")
def show(agent: AgentId, registry: RegistryAddress, token_file: TokenFile = None, as_json: AsJson = False) -> None:
    """Show what a registry knows about one of your agents.

    It does not keep the SD-Cards themselves.

    Example: sdcard agents show georoute --registry https://registry.example
    """
    known = connect(registry, token_file).agent(agent)
    if as_json:
        print_json(known)
    else:
        show_agent(known)


@app.command("domains")
def domains(agent: AgentId, registry: RegistryAddress, token_file: TokenFile = None, as_json: AsJson = False) -> None:
    """Show the values to publish at the hosts of an agent, and the last check.

    Example: sdcard agents domains georoute --registry https://registry.example
    """
    known = connect(registry, token_file).domains(agent)
    if as_json:
        print_json(known)
    else:
        show_domains(known)


@app.command("log-proofs")
def log_proofs(agent: AgentId, registry: RegistryAddress, out: OutDirectory, token_file: TokenFile = None) -> None:
    """Save proofs that SD-Cards are in the registry's log, beside the SD-Cards.

    It also saves what `sdcard log monitor --cards` needs to recognize the log's entries about the agent. Exit status
    1: a proof is missing, because witnesses have not yet signed that part of the log.

    Example: sdcard agents log-proofs georoute --registry https://registry.example --out cards
    """
    save_proofs(connect(registry, token_file).log_proofs(agent), out)


@app.command("renew")
def renew(
    agent: AgentId,
    registry: RegistryAddress,
    key: KeyFiles,
    out: OutDirectory,
    issuer: IssuerName = None,
    supersedes: Supersedes = "run_out",
    yes: YesRevoke = False,
    if_expiring: Annotated[
        bool,
        typer.Option(
            "--if-expiring",
            help="Renew only if less than half of the lifetime is left, or the registry removed the key that signed; "
            "else only test the token.",
        ),
    ] = False,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Get new SD-Cards for an agent: the same card, contexts and keys. Example:
    sdcard agents renew georoute --registry https://registry.example --key agent.jwk --out cards"""
    from sdcard.io.agent import CardFolder, is_folder_due
    from sdcard.io.key_files import load_signer

    keys = [load_signer(file).public_key for file in key]
    is_due = not if_expiring or is_folder_due(out, keys, SystemClock())
    client = connect(registry, token_file)
    if not is_due:
        _test_token(client, agent)
        folders = [CardFolder(out, one, SystemClock(), client, agent, issuer) for one in keys]
        is_due = any(folder.are_withdrawn(folder.load()) for folder in folders)
    confirm_superseding(supersedes, agent, yes or not is_due)
    if not is_due:
        told = f"not renewed: the SD-Cards in {out} have more than half of their lifetime left"
        print_result(as_json, {"agent_id": agent, "renewed": False}, told)
        return
    issuers, trust = client.issuer(issuer)
    asked = client.asked(agent)
    if set(asked.thumbprints) != {one.thumbprint for one in keys}:
        raise Misuse("--key gives other keys than the agent's; to bind it to others: sdcard agents change-keys")
    cards = asked.cards(asked.thumbprints)
    files = card_files(cards, keys, out)
    trust_file = write_trust(out, trust)
    answer = client.renew(agent, supersedes, cards)
    save_cards(answer, files, issuers, trust_file, supersedes, as_json)


def _test_token(client: "Registry", agent: str) -> None:
    """Test the token, so that its end shows long before the SD-Cards expire.

    A registry that cannot be asked now is asked by a later run.
    """
    try:
        client.asked(agent)
    except (Misuse, Refused) as fault:
        if isinstance(fault, Refused) and fault.rule.kind not in (Kind.UNAVAILABLE, Kind.RATE_LIMITED):
            raise
        sys.stderr.write(printable(f"The token was not tested: {fault}") + "\n")


@app.command("change-keys")
def change_keys(
    agent: AgentId,
    registry: RegistryAddress,
    key: KeyFiles,
    out: OutDirectory,
    issuer: IssuerName = None,
    supersedes: Supersedes = "revoke",
    yes: YesRevoke = False,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Get new SD-Cards for other keys; by default the earlier SD-Cards are revoked.

    Example: sdcard agents change-keys georoute --registry https://registry.example --key new.jwk --out cards
    """
    from sdcard.io.key_files import load_signer

    signers = [load_signer(file) for file in key]
    keys = [signer.public_key for signer in signers]
    confirm_superseding(supersedes, agent, yes)
    client = connect(registry, token_file)
    issuers, trust = client.issuer(issuer)
    cards = client.asked(agent).cards([one.thumbprint for one in keys])
    files = card_files(cards, keys, out)
    trust_file = write_trust(out, trust)
    body: JsonObject = {
        "public_keys": [dict(one.to_jwk()) for one in keys],
        "proofs": prove_keys(client, issuers, agent, signers),
        "supersedes": supersedes,
    }
    answer = client.change_keys(agent, body, cards)
    save_cards(answer, files, issuers, trust_file, supersedes, as_json)


@app.command("delete")
def delete(
    agent: AgentId, registry: RegistryAddress, yes: Yes = False, token_file: TokenFile = None, as_json: AsJson = False
) -> None:
    """Revoke all SD-Cards of an agent and have the registry forget it.

    Its id and keys stay yours.

    Example: sdcard agents delete georoute --registry https://registry.example
    """
    confirm(f"This revokes all SD-Cards of {agent} for ever, and the registry deletes its card.", yes)
    revoked = connect(registry, token_file).delete(agent)
    document = {"agent_id": agent, "deleted": True, "revoked": revoked}
    print_result(as_json, document, f"deleted {agent}: {revoked} SD-Cards revoked")
