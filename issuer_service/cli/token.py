"""``sdcard token``: access tokens for the registry."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from issuer_service.cli.serve import (
    ConfigFile,
    DatabaseUrl,
    make_missing_database,
    name_database,
    read_settings,
    run_on_database,
    scopes,
)
from sdcard.cli.options import SECONDS_PER_DAY, AsJson, Yes, complete_contexts, confirm
from sdcard.cli.output import console, print_json, print_lines, print_result, printable, show_instant, table
from sdcard.errors import Misuse, Part, Where
from sdcard.instants import MAX_SKEW, Instant, Lifetime
from sdcard.io.system import SystemClock, SystemSalts
from sdcard.paths import did_you_mean

if TYPE_CHECKING:
    from issuer_service.access import Scope


SpiffeIds: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(help="A SPIFFE ID that cards may have; with a slash at its end, all ids beneath it (repeatable)."),
]
app = typer.Typer(no_args_is_help=True)


@app.callback()
def group() -> None:
    """Make, list and withdraw access tokens for the registry."""


@app.command("create")
def create(
    subject: Annotated[str, typer.Option(help="The owner of the agents that are registered with this token.")],
    scope: Annotated[
        list[str] | None,
        typer.Option(autocompletion=scopes, help="A scope (repeatable); by default all that begin with agents:."),
    ] = None,
    agent_id_prefix: Annotated[
        list[str] | None, typer.Option(help="Only agent ids that begin with this text (repeatable).")
    ] = None,
    provider_name: Annotated[list[str] | None, typer.Option(help="Only cards of this provider (repeatable).")] = None,
    endpoint_host: Annotated[
        list[str] | None, typer.Option(help="Only cards with endpoints at this host (repeatable).")
    ] = None,
    skill_id: Annotated[list[str] | None, typer.Option(help="Only cards with skills of this id (repeatable).")] = None,
    spiffe_id: SpiffeIds = None,
    context: Annotated[
        list[str] | None,
        typer.Option(
            autocompletion=complete_contexts, help="A context that may be searched (repeatable); by default public."
        ),
    ] = None,
    bind: Annotated[
        Path | None, typer.Option(help="A key file, or its JWKS: the token works only with proofs of this key.")
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=3650, help="Days until the token expires.")] = 90,
    database_url: DatabaseUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Make a token, and print it once. Without --bind, it is a bearer token.

    Example: sdcard token create --subject team-a --days 30
    """
    from issuer_service.access import Limit, create_token
    from issuer_service.db.state import NAME_LENGTH
    from issuer_service.tokens import digest_of

    limits = {
        Limit.AGENT_ID_PREFIXES: agent_id_prefix,
        Limit.PROVIDER_NAMES: provider_name,
        Limit.ENDPOINT_HOSTS: endpoint_host,
        Limit.SKILL_IDS: skill_id,
        Limit.CONTEXTS: context,
        Limit.SPIFFE_IDS: spiffe_id,
        Limit.KEY: None if bind is None else [_thumbprint(bind)],
    }
    given = {limit: values for limit, values in limits.items() if values}
    now, chosen = SystemClock().now(), _scopes(scope or ["agents:register", "agents:manage", "agents:discover"])
    expires_at = int(now) + days * SECONDS_PER_DAY
    url = read_settings(config, database_url=database_url).database_url
    make_missing_database(url)
    salts = SystemSalts()
    text = run_on_database(lambda one: create_token(one, subject, chosen, given, expires_at, now, salts), url)
    name = digest_of(text)[:NAME_LENGTH]
    if as_json:
        print_json({"token": text, "name": name, "subject": subject, "expires_at": expires_at})
    else:
        print_lines(text)
        told = f"Shown once. Its name is {name}. It expires at {show_instant(expires_at)}."
        typer.echo(printable(f"{told} It is for the registry at {name_database(url)}."), err=True)


@app.command("list")
def list_tokens(database_url: DatabaseUrl = None, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """List the registry's tokens: name, subject, scopes and end.

    A name is no secret: it is for `sdcard token withdraw`.

    Example: sdcard token list
    """
    from issuer_service.tokens import read_tokens, token_name

    url = read_settings(config, database_url=database_url).database_url
    tokens = run_on_database(lambda database: database.read(read_tokens), url)
    if as_json:
        described = [
            {
                "name": token_name(one),
                "subject": one.subject,
                "scopes": list(one.scopes),
                "limits": {kind: list(values) for kind, values in one.limits.items()},
                "created_at": one.created_at,
                "expires_at": one.expires_at,
            }
            for one in tokens
        ]
        print_json({"tokens": described})
        return
    now = SystemClock().now()
    rows = [
        (
            token_name(one),
            one.subject,
            " ".join(one.scopes) + "".join(f", {word}" for word in _marks(one.limits)),
            _until(one.created_at, one.expires_at, now),
        )
        for one in tokens
    ]
    console().print(table("Tokens", ("name", "subject", "for", "valid until"), rows))


def _marks(limits: Mapping[str, object]) -> Iterator[str]:
    """Say whether a token is limited, and whether it is bound to a key."""
    if limits.keys() - {"key_thumbprints"}:
        yield "limited"
    if "key_thumbprints" in limits:
        yield "bound"


def _until(made_at: int, ends_at: int, now: Instant) -> str:
    if Lifetime(made_at, ends_at).covers(now, MAX_SKEW):
        return show_instant(ends_at)
    return "expired" if now >= ends_at else "made in the future: see Clocks in the operations guide"


@app.command("withdraw")
def withdraw(
    name: Annotated[str, typer.Argument(help="The token's name, from `sdcard token list`.")],
    yes: Yes = False,
    database_url: DatabaseUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Withdraw a token. It is refused from now on; its earlier changes remain.

    Example: sdcard token withdraw 5f0c1d9a3b7e2486
    """
    from issuer_service.tokens import withdraw_token

    confirm(f"This withdraws the token {name} for ever.", yes)
    url = read_settings(config, database_url=database_url).database_url
    token = run_on_database(lambda database: withdraw_token(database, name, SystemClock().now()), url)
    print_result(
        as_json, {"withdrawn": name, "subject": token.subject}, f"{name}, a token of {token.subject}, is withdrawn"
    )


def _thumbprint(file: Path) -> str:
    """Return the thumbprint of the one key in a file: a private JWK, or a JWKS."""
    from sdcard.io.key_files import is_key_set, load_public_keys, load_signer
    from sdcard.jose.keys import PUBLISHED_KEYS, check_not_published

    keys = load_public_keys(file) if is_key_set(file) else (load_signer(file).public_key,)
    if len(keys) != 1:
        raise Misuse("--bind names a file with one key")
    check_not_published(keys[0], PUBLISHED_KEYS, Where(Part.KEY))
    return keys[0].thumbprint


def _scopes(texts: list[str]) -> "list[Scope]":
    from issuer_service.access import Scope

    unknown = [text for text in texts if text not in Scope._value2member_map_]
    if unknown:
        near = did_you_mean(unknown[0], Scope)
        raise Misuse(f"there is no scope {printable(unknown[0])}. {near} Known scopes: {', '.join(Scope)}")
    return [Scope(text) for text in texts]
