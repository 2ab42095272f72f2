"""``sdcard register``: an agent's card becomes SD-Cards, kept in a directory."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from sdcard.cards.reading import parse_card
from sdcard.cli.output import AsJson, cell, console, parse_now, print_json, read_bytes, show_instant, table
from sdcard.encoding import encode_json, parse_json_object
from sdcard.errors import Misuse, Part, Where
from sdcard.holder import accept_sd_card
from sdcard.issued import Acceptance
from sdcard.limits import DEFAULT_LIMITS

HELP = (
    "Register an agent card and keep the SD-Cards. The token comes from SDCARD_TOKEN or --token-file. "
    "Example: sdcard register card.json --registry http://127.0.0.1:8080 --agent-id georoute --key agent.jwk "
    "--context public --context internal --out cards"
)


def command(
    card: Annotated[str, typer.Argument(metavar="FILE|-", help="The A2A agent card.")],
    registry: Annotated[str, typer.Option(help="The registry's address.")],
    agent_id: Annotated[str, typer.Option(help="The agent's id at the registry.")],
    key: Annotated[list[Path], typer.Option(help="A private JWK of the agent's (repeatable); stays here.")],
    context: Annotated[list[str], typer.Option(help="CONTEXT, or CONTEXT=ENTRY,ENTRY (repeatable).")],
    out: Annotated[Path, typer.Option(help="A directory for the SD-Cards and trust.json.")],
    token_file: Annotated[Path | None, typer.Option(help="A file with the bearer token.")] = None,
    as_json: AsJson = False,
) -> None:
    """Register an agent card and keep the SD-Cards."""
    from sdcard.edge.key_files import load_signer
    from sdcard.edge.registry import Registry

    token = read_bytes(str(token_file)).decode().strip() if token_file else os.environ.get("SDCARD_TOKEN")
    if not token:
        raise Misuse("a bearer token is needed: set SDCARD_TOKEN, or give --token-file")
    data = read_bytes(card)
    parse_card(data)
    document = parse_json_object(data, Where(Part.CARD), DEFAULT_LIMITS.json_depth)
    signers = [load_signer(file) for file in key]
    body: dict[str, Any] = {
        "agent_id": agent_id,
        **{name: document[name] for name in ("name", "description", "version")},
        "public_keys": [signer.public_key.to_jwk() for signer in signers],
        "disclosure_contexts": [_context(text) for text in context],
        "card": document,
    }
    client = Registry(registry, token)
    answer: dict[str, Any] = client.register(body)
    issuers, trust = client.issuer()
    acceptance, keys = Acceptance(issuers=issuers), {s.public_key.thumbprint: s.public_key for s in signers}
    out.mkdir(parents=True, exist_ok=True)
    files = []
    for number, issued in enumerate(answer["cards"]):
        thumbprint = issued.get("key_thumbprint") or next(iter(keys))
        accept_sd_card(issued["sd_card"], acceptance, keys[thumbprint], parse_now(None))
        suffix = f"-{number % len(signers)}" if len(signers) > 1 else ""
        file = out / f"{issued['context']}{suffix}.sd-card"
        _write(file, issued["sd_card"].encode() + b"\n")
        files.append(str(file))
    _write(out / "trust.json", encode_json(trust) + b"\n")
    if as_json:
        print_json({**answer, "files": files, "trust": str(out / "trust.json")})
    else:
        _show(answer, files, out / "trust.json")


def _context(text: str) -> dict[str, Any]:
    name, equals, entries = text.partition("=")
    return {"context": name, "disclose": entries.split(",")} if equals else {"context": name}


def _write(file: Path, data: bytes) -> None:
    """SD-Cards hold what others may not see: only the owner reads the file."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)


def _show(answer: dict[str, Any], files: list[str], trust: Path) -> None:
    rows = [
        (one["context"], file, show_instant(one["exp"]), str(len(one["discloses"])))
        for one, file in zip(answer["cards"], files, strict=True)
    ]
    out = console()
    out.print(table(f"Registered {answer['sub']}", ("context", "file", "valid until", "claims"), rows))
    out.print(cell(f"Linkable by: {', '.join(answer['linkable_by']) or 'nothing'}. Issuer keys: {trust}"))
    for finding in answer["findings"]:
        out.print(cell(f"{finding['level']}: {finding['rule']} at {finding['where']} {finding['hint']}", "yellow"))
