"""``sdcard mcp``: an MCP server on standard input and output."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, TextIO

import typer

from sdcard.cli.keys import Networks, StatusUnchecked, TrustSigner, decide_status, read_trust
from sdcard.cli.options import ProfileName, RequireCheck, SearchContext, connect, find_profile
from sdcard.cli.output import read_bytes
from sdcard.errors import Misuse, Part
from sdcard.io.system import SystemClock, SystemSalts


def command(
    trust: Annotated[Path | None, typer.Option(help="The trust document: which Issuers are trusted.")] = None,
    trust_signer: TrustSigner = None,
    audience: Annotated[
        str | None, typer.Option(help="Verify presentations for this Verifier: the expected `aud`.")
    ] = None,
    status: Annotated[bool, typer.Option("--status", help="Fetch the status lists that SD-Cards name.")] = False,
    status_unchecked: StatusUnchecked = None,
    network: Networks = None,
    registry: Annotated[str | None, typer.Option(help="Discover agents; the registry's address.")] = None,
    context: SearchContext = "public",
    token_file: Annotated[Path | None, typer.Option(help="The registry's token; else SDCARD_TOKEN has it.")] = None,
    card: Annotated[str | None, typer.Option(metavar="FILE", help="Give the agent's own card, in this file.")] = None,
    audit: Annotated[
        Path | None, typer.Option(help="A file that gets a line for each call, instead of standard error.")
    ] = None,
    require_check: RequireCheck = None,
    profile: ProfileName = "sd-card",
) -> None:
    """Serve until standard input ends. No tool changes what the options decided."""
    import anyio
    from mcp.server.stdio import stdio_server

    from sdcard.cards.detect import parse_card_file
    from sdcard.cli.mcp_server import make_server
    from sdcard.cli.mcp_tools import OFFLINE_TOOLS, DiscoveryTools, PresentationTools, own_card_tool
    from sdcard.web.mcp import InteractionAudit, write_calls

    tools = list(OFFLINE_TOOLS)
    if card is not None:
        tools.append(own_card_tool(parse_card_file(read_bytes(card, Part.CARD))))
    if (audience is None and registry is None) is not (trust is None):
        raise Misuse("--audience and --registry need --trust, and --trust needs one of them")
    if audience is None and (status or status_unchecked is not None):
        raise Misuse("--status and --status-unchecked are for --audience")
    if trust is None and require_check:
        raise Misuse("--require-check is for --audience and --registry")
    if trust is not None:
        issuers, required = read_trust(trust, trust_signer, SystemClock().now()), tuple(require_check or ())
        if audience is not None:
            decided = decide_status(status, status_unchecked, issuers, network)
            accepted = find_profile(profile)
            clock, salts = SystemClock(), SystemSalts()
            tools += PresentationTools(issuers, audience, decided, accepted, clock, salts, required).tools()
        if registry is not None:
            client = connect(registry, token_file)
            tools += DiscoveryTools(client, context, issuers, find_profile(profile), required).tools()

    async def serve(stream: TextIO) -> None:
        server = make_server(tools, InteractionAudit(write_calls(stream), SystemClock()), version("sdcard"))
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    with _opened(audit) as stream:
        try:
            anyio.run(serve, stream)
        except* BrokenPipeError:
            pass  # the host has left without ending standard input first


@contextmanager
def _opened(audit: Path | None) -> Iterator[TextIO]:
    """Open the audit stream: standard error, or a file that only its owner can read."""
    if audit is None:
        yield sys.stderr
        return
    audit.touch(mode=0o600, exist_ok=True)
    with audit.open("a", encoding="ascii") as stream:
        yield stream
