"""``sdcard keys``: the registry's own keys, in its database."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from issuer_service.cli.serve import (
    ConfigFile,
    DatabaseUrl,
    key_uses,
    make_missing_database,
    read_settings,
    run_on_database,
)
from sdcard.cli.keys import AlgorithmName, find_algorithm
from sdcard.cli.options import AsJson, Yes, confirm
from sdcard.cli.output import print_json, print_lines, print_result, show_instant
from sdcard.errors import Misuse
from sdcard.io.system import SystemClock
from sdcard.jose.algorithms import SignatureAlgorithm

if TYPE_CHECKING:
    from issuer_service.keys.repository import KeyUse, RegistryKeyRow
    from issuer_service.keys.ring import Vault
    from issuer_service.settings import Settings
    from sdcard.io.database import Database
    from sdcard.jose.keys import PublicKey

_T = TypeVar("_T")

Use = Annotated[
    str, typer.Argument(autocompletion=key_uses, help="What the key signs: cards, status, tokens, audit or log.")
]


app = typer.Typer(no_args_is_help=True)


@app.callback()
def group() -> None:
    """List, add, rotate and remove the registry's own keys."""


@app.command("list")
def list_keys(database_url: DatabaseUrl = None, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """List the registry's keys: use, state, and until when signatures count.

    Example: sdcard keys list
    """
    from issuer_service.keys.repository import KeyState, read_keys
    from issuer_service.keys.ring import is_published

    now = SystemClock().now()
    shown: list[dict[str, Any]] = []
    settings = read_settings(config, database_url=database_url)
    for row in _on_database(lambda database: database.read(read_keys), settings):
        until = row.signs_until if row.state is KeyState.RETIRED else None
        shown.append(
            {
                "kid": row.kid,
                "use": row.use.value,
                "algorithm": row.public_jwk["alg"],
                "state": row.state.value,
                "published": is_published(row, now),
                "created_at": row.created_at,
                "not_before": row.not_before,
                "activated_at": row.activated_at,
                "retired_at": row.retired_at,
                "counts_until": until,
            }
        )
    if as_json:
        print_json({"keys": shown})
    for one in [] if as_json else shown:
        until = one["counts_until"]
        end = "" if until is None else f", counts until {show_instant(until)}"
        hidden = "" if one["published"] else ", not published"
        waits = f", rotate from {show_instant(one['not_before'])} on" if one["state"] == KeyState.NEXT else ""
        print_lines(f"{one['kid']}  {one['use']}  {one['algorithm']}  {one['state']}{waits}{end}{hidden}")


@app.command("published")
def published(use: Use, database_url: DatabaseUrl = None, config: ConfigFile = None) -> None:
    """Print the public keys of one use as a JWKS; for `log`, lines of a log policy.

    Example: sdcard keys published audit > audit.jwks
    """
    from issuer_service.keys.ring import KeyRing
    from issuer_service.transparency.records import LOG, log_line
    from issuer_service.transparency.repository import read_tree
    from sdcard.io.key_files import public_jwks

    chosen, settings = _use(use), read_settings(config, database_url=database_url)

    async def work(database: "Database", vault: "Vault") -> tuple[tuple["PublicKey", ...], int]:
        tree = await database.read(read_tree)
        keys = (await KeyRing(database, vault, SystemClock()).current()).published[chosen]
        return keys, tree.log if tree else LOG

    keys, log = _on_vault(work, settings)
    if chosen == "log":
        print_lines(*(log_line(settings.issuer_url, key, log) for key in keys))
    else:
        print_json(public_jwks(*keys))


@app.command("add")
def add(
    use: Use,
    algorithm: AlgorithmName = "ES256",
    in_token: Annotated[
        bool, typer.Option("--in-token", help="Make the key in the PKCS#11 token; ES256 only.")
    ] = False,
    database_url: DatabaseUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Add and publish the next key; without an active key it signs at once.

    Example: sdcard keys add cards
    """
    from issuer_service.keys.service import add_key, add_token_key

    chosen, asked = _use(use), find_algorithm(algorithm)
    if in_token and asked is not SignatureAlgorithm.ES256:
        raise Misuse("a key in a PKCS#11 token is an ES256 key")

    async def work(database: "Database", vault: "Vault") -> tuple["RegistryKeyRow", object]:
        now = SystemClock().now()
        if in_token:
            row = await add_token_key(database, vault, chosen, now)
        else:
            row = await add_key(database, vault, chosen, asked, now)
        return row, vault.content(row).get("pkcs11")

    settings = read_settings(config, database_url=database_url)
    make_missing_database(settings.database_url)
    row, place = _on_vault(work, settings)
    if as_json:
        shown = {"kid": row.kid, "use": row.use.value, "state": row.state.value, "not_before": row.not_before}
        print_json({**shown, "in_token": place})
    else:
        waits = "" if row.activated_at else f"; rotate from {show_instant(row.not_before)} on"
        where = f"; token and CKA_ID: {place}" if place else ""
        print_lines(f"{row.kid}: {row.state}, signs {row.use}{waits}{where}")


@app.command("import")
def import_(
    use: Use,
    file: Annotated[Path, typer.Argument(help="A private JWK, or a JWKS of public keys that no longer sign.")],
    database_url: DatabaseUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Import keys from a file. Example: sdcard keys import cards issuer.jwk"""
    from issuer_service.keys.service import import_private_key, import_public_key
    from sdcard.io.key_files import is_key_set, load_private_jwk, load_public_keys

    chosen, now = _use(use), SystemClock().now()
    public = load_public_keys(file) if is_key_set(file) else ()
    private = None if is_key_set(file) else load_private_jwk(file)

    async def work(database: "Database", vault: "Vault") -> list["RegistryKeyRow"]:
        if private is not None:
            return [await import_private_key(database, vault, chosen, private, now)]
        return [await import_public_key(database, vault, chosen, key, now) for key in public]

    settings = read_settings(config, database_url=database_url)
    make_missing_database(settings.database_url)
    rows = _on_vault(work, settings)
    print_result(
        as_json,
        {"keys": [{"kid": row.kid, "use": row.use.value, "state": row.state.value} for row in rows]},
        *(f"{row.kid}: {row.state}, signs {row.use}" for row in rows),
    )


@app.command("rotate")
def rotate(
    use: Use,
    at_once: Annotated[bool, typer.Option("--at-once", help="Do not wait until Verifiers know the next key.")] = False,
    database_url: DatabaseUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Activate the next key. The former active key stays published.

    Example: sdcard keys rotate cards
    """
    from issuer_service.keys import service

    chosen, settings = _use(use), read_settings(config, database_url=database_url)
    now = SystemClock().now()
    retired, active = _on_vault(
        lambda database, vault: service.rotate(database, vault, chosen, now, at_once=at_once), settings
    )
    print_result(
        as_json, {"use": use, "retired": retired, "active": active}, f"{active} signs {use} now; {retired} is retired"
    )


@app.command("reseal")
def reseal(
    old_key_file: Annotated[Path, typer.Option(help="The file with the old key-encryption key.")],
    database_url: DatabaseUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Encrypt all keys with the key-encryption key that the settings name.

    The new key-encryption key is created if it is missing.

    Example: sdcard keys reseal --old-key-file old.key
    """
    from issuer_service.keys.opening import new_key_encryption_key
    from issuer_service.keys.ring import load_key_encryption_key
    from issuer_service.keys.service import reseal as seal_anew

    settings = read_settings(config, database_url=database_url)
    old, new = load_key_encryption_key(old_key_file), new_key_encryption_key(settings)

    count = _on_database(lambda database: seal_anew(database, old, new, SystemClock().now()), settings)
    print_result(
        as_json,
        {"resealed": count},
        f"{count} keys are sealed anew; restart every process with the new key-encryption key",
    )


# One thumbprint in 64 begins with `-`, and is no option; without short options it is read as what it is.
_KID_FIRST = {"ignore_unknown_options": True, "help_option_names": ["--help"]}


@app.command("remove", context_settings=_KID_FIRST)
def remove(
    kid: Annotated[str, typer.Argument(help="The key's `kid`, from `sdcard keys list`.")],
    yes: Yes = False,
    database_url: DatabaseUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Remove a compromised key at once. Its signatures become invalid.

    Lists the consequences, and asks for confirmation.

    Example: sdcard keys remove 0fXxVtIjNtAJvaeM9Nf4n9ZDHoQCj-3zIkSPj5SlIeI --yes
    """
    from issuer_service.keys import service
    from issuer_service.keys.repository import read_keys

    settings, now = read_settings(config, database_url=database_url), SystemClock().now()
    row = service.find_key(_on_database(lambda database: database.read(read_keys), settings), kid)
    breaks = service.what_breaks(row, now)
    confirm(breaks, yes)
    _on_vault(lambda database, vault: service.remove(database, vault, kid, now), settings)
    print_result(as_json, {"removed": kid, "breaks": breaks}, f"{kid} is removed. {breaks}")


def _on_database(work: "Callable[[Database], Awaitable[_T]]", settings: "Settings") -> _T:
    """Run ``work`` on the registry's database."""
    from issuer_service.keys.repository import KeysChanged

    try:
        return run_on_database(work, settings.database_url)
    except KeysChanged:
        raise Misuse("another process has just changed the keys; look at `sdcard keys list`, and try again") from None


def _on_vault(work: "Callable[[Database, Vault], Awaitable[_T]]", settings: "Settings") -> _T:
    """Run ``work`` on the registry's database and the vault that opens its keys."""
    from issuer_service.keys.opening import open_vault

    async def run(database: "Database") -> _T:
        return await work(database, await open_vault(settings, database))

    return _on_database(run, settings)


def _use(text: str) -> "KeyUse":
    from issuer_service.keys.repository import KeyUse

    if text not in KeyUse._value2member_map_:
        raise Misuse("a key signs one of: " + ", ".join(KeyUse))
    return KeyUse(text)
