"""``sdcard token``: bearer tokens for the registry."""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from sdcard.cli.output import AsJson, print_json, print_lines, show_instant
from sdcard.cli.serve import ConfigFile, read_settings
from sdcard.errors import Misuse

if TYPE_CHECKING:
    from issuer_service.access import Limit, Scope

HELP = "Make bearer tokens for the registry."
DAY = 86_400

app = typer.Typer(no_args_is_help=True)


@app.callback()
def group() -> None:
    """Make bearer tokens for the registry."""


@app.command("create")
def create(
    subject: Annotated[str, typer.Option(help="Who acts with it; owns what is registered with it.")],
    scope: Annotated[
        list[str] | None, typer.Option(help="What it is for (repeatable); all about agents by default.")
    ] = None,
    agent_id_prefix: Annotated[list[str] | None, typer.Option(help="Only such agent ids (repeatable).")] = None,
    provider_name: Annotated[list[str] | None, typer.Option(help="Only such providers (repeatable).")] = None,
    endpoint_host: Annotated[list[str] | None, typer.Option(help="Only endpoints there (repeatable).")] = None,
    skill_id: Annotated[list[str] | None, typer.Option(help="Only such skills (repeatable).")] = None,
    context: Annotated[
        list[str] | None, typer.Option(help="Look for agents there (repeatable); public alone by default.")
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=3650, help="How long it holds.")] = 90,
    database_url: Annotated[str | None, typer.Option(help="As for `sdcard serve`.")] = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Make a bearer token; it is shown once. Example: sdcard token create --subject team-a --days 30"""
    from issuer_service.access import Limit

    limits = {
        Limit.AGENT_ID_PREFIXES: agent_id_prefix,
        Limit.PROVIDER_NAMES: provider_name,
        Limit.ENDPOINT_HOSTS: endpoint_host,
        Limit.SKILL_IDS: skill_id,
        Limit.CONTEXTS: context,
    }
    given = {limit: values for limit, values in limits.items() if values}
    url = read_settings(config, database_url=database_url).database_url
    text, expires_at = _create(
        url, subject, _scopes(scope or ["agents:register", "agents:manage", "agents:discover"]), given, days
    )
    if as_json:
        print_json({"token": text, "subject": subject, "expires_at": expires_at})
    else:
        print_lines(text)
        typer.echo(f"Shown once. Holds until {show_instant(expires_at)}.", err=True)


def _scopes(texts: list[str]) -> "list[Scope]":
    from issuer_service.access import Scope

    unknown = [text for text in texts if text not in Scope._value2member_map_]
    if unknown:
        raise Misuse("known scopes: " + ", ".join(Scope))
    return [Scope(text) for text in texts]


def _create(
    url: str, subject: str, scopes: "list[Scope]", limits: "dict[Limit, list[str]]", days: int
) -> tuple[str, int]:
    from issuer_service.access import create_token
    from issuer_service.stores.migrations import upgrade
    from issuer_service.stores.sql import open_store
    from sdcard.edge.system import SystemClock, SystemSalts

    now = SystemClock().now()
    expires_at = int(now) + days * DAY

    async def write() -> str:
        store = open_store(url)
        try:
            return await create_token(store, subject, scopes, limits, expires_at, now, SystemSalts())
        finally:
            await store.close()

    upgrade(url)
    return asyncio.run(write()), expires_at
