"""``sdcard mcp``: an MCP server on standard input and output."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from sdcard.cli import completion
from sdcard.cli.output import ProfileName, find_profile
from sdcard.cli.register import read_token
from sdcard.cli.trust import Networks, TrustSigner, read_trust
from sdcard.cli.verify import decide_status
from sdcard.errors import Misuse
from sdcard.io.system import SystemClock, SystemSalts
from sdcard.status_list import Status
from sdcard.trust import TrustedIssuers

if TYPE_CHECKING:
    from sdcard.cli.mcp_tools import Offer


def command(
    trust: Annotated[Path | None, typer.Option(help="Trust document: whose SD-Cards count.")] = None,
    trust_signer: TrustSigner = None,
    audience: Annotated[str | None, typer.Option(help="Verify presentations; who we are: the expected `aud`.")] = None,
    status: Annotated[bool, typer.Option("--status", help="Fetch the status lists that SD-Cards name.")] = False,
    status_unchecked: Annotated[str | None, typer.Option(metavar="REASON", help="Fetch none, and why.")] = None,
    network: Networks = None,
    registry: Annotated[str | None, typer.Option(help="Discover agents; the registry's address.")] = None,
    context: Annotated[
        str,
        typer.Option(
            autocompletion=completion.contexts, help="What to look in; the token says which contexts it may be."
        ),
    ] = "public",
    token_file: Annotated[
        Path | None, typer.Option(help="The registry's bearer token; else SDCARD_TOKEN has it.")
    ] = None,
    audit: Annotated[Path | None, typer.Option(help="Add a line for each call here, not to standard error.")] = None,
    profile: ProfileName = "sd-card",
) -> None:
    """Serve until standard input ends. No tool changes what the options decided."""
    import anyio
    from mcp.server.stdio import stdio_server

    from sdcard.cli.mcp_server import make_server
    from sdcard.cli.mcp_tools import LOOKING
    from sdcard.web.mcp import InteractionAudit, write_calls

    offers = list(LOOKING)
    if (audience is None and registry is None) is not (trust is None):
        raise Misuse("--audience and --registry want --trust, and --trust wants one of them")
    if audience is None and (status or status_unchecked is not None):
        raise Misuse("--status and --status-unchecked are for --audience")
    if trust is not None:
        issuers = read_trust(trust, trust_signer, SystemClock().now())
        if audience is not None:
            decided = decide_status(status, status_unchecked, issuers, network)
            offers += _for_presentations(issuers, audience, decided, profile)
        if registry is not None:
            offers += _for_a_registry(issuers, registry, context, token_file, profile)

    async def serve(stream: TextIO) -> None:
        server = make_server(offers, InteractionAudit(write_calls(stream), SystemClock()), version("sdcard"))
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    with _opened(audit) as stream:
        try:
            anyio.run(serve, stream)
        except* BrokenPipeError:
            pass  # the host has left without ending standard input first


def _for_presentations(issuers: TrustedIssuers, audience: str, status: Status, profile: str) -> "tuple[Offer, ...]":
    from sdcard.cli.mcp_tools import Verifying

    return Verifying(issuers, audience, status, find_profile(profile), SystemClock(), SystemSalts()).offers()


def _for_a_registry(
    issuers: TrustedIssuers, registry: str, context: str, token_file: Path | None, profile: str
) -> "tuple[Offer, ...]":
    from sdcard.cli.mcp_tools import Discovering
    from sdcard.io.registry_client import Registry

    client = Registry(registry, read_token(token_file))
    return Discovering(client, context, issuers, find_profile(profile)).offers()


@contextmanager
def _opened(audit: Path | None) -> Iterator[TextIO]:
    """Open the audit stream: standard error, or a file that only its owner can read."""
    if audit is None:
        yield sys.stderr
        return
    audit.touch(mode=0o600, exist_ok=True)
    with audit.open("a", encoding="ascii") as stream:
        yield stream
