"""``sdcard grants`` and ``sdcard approvals``: permissions to delegate."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from issuer_service.cli.serve import ConfigFile, DatabaseUrl, read_settings, run_on_database
from sdcard.cli.options import SECONDS_PER_DAY, AsJson, Yes, confirm
from sdcard.cli.output import print_json, print_lines, print_result, printable, show_instant
from sdcard.delegation_chain import MOST_SCOPES, is_agent, is_scope
from sdcard.errors import Misuse
from sdcard.io.system import SystemClock, SystemSalts
from sdcard.oauth import MOST_PARTY

if TYPE_CHECKING:
    from issuer_service.delegation.records import ApprovalRow, ApprovalState, GrantRow
    from sdcard.io.database import Database

_T = TypeVar("_T")
MOST_LISTED = 1_000

By = Annotated[
    str, typer.Option(help="The person who decides: not a party of the exchange, and not an owner of its agents.")
]

grants = typer.Typer(no_args_is_help=True)
approvals = typer.Typer(no_args_is_help=True)


@grants.callback()
def _grants() -> None:
    """Manage the scopes that an agent may receive by delegation."""


@approvals.callback()
def _approvals() -> None:
    """Decide on delegations that need a person's approval."""


@grants.command("add")
def add(
    delegator: Annotated[
        str, typer.Option(help="The party that delegates: an agent as agent:ID, or the subject of a token.")
    ],
    target: Annotated[str, typer.Option(help="The agent that receives the permission, as agent:ID.")],
    scope: Annotated[list[str], typer.Option(help="A scope that may be delegated (repeatable).")],
    sensitive: Annotated[
        list[str] | None, typer.Option(help="One of these scopes, which a person must approve each time (repeatable).")
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=3650, help="Days until the grant expires.")] = 90,
    database_url: DatabaseUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Let one party delegate scopes to an agent.

    Example: sdcard grants add --delegator agent:a --target agent:b --scope read
    """
    from issuer_service.delegation import repository
    from issuer_service.delegation.records import GrantExists, GrantRow

    scopes, now = tuple(sorted(set(scope))), int(SystemClock().now())
    if not 1 <= len(delegator) <= MOST_PARTY or not delegator.isprintable():
        raise Misuse("a delegator is agent: and an agent's id, or the subject of a token")
    agents = (delegator, target) if delegator.startswith("agent:") else (target,)
    if not all(map(is_agent, agents)):
        raise Misuse("an agent is agent: and its id, as in the `sub` of its SD-Card")
    if len(scopes) > MOST_SCOPES or not all(map(is_scope, scopes)):
        raise Misuse("a scope is printable ASCII without space, quote and backslash; a grant has up to 64")
    if not set(sensitive or ()) <= set(scopes):
        raise Misuse("--sensitive names one of the scopes that --scope names")
    asked = GrantRow(
        grant_id=SystemSalts().draw(1).hex(),
        delegator=delegator,
        target=target,
        scopes=scopes,
        sensitive=tuple(sorted(set(sensitive or ()))),
        created_at=now,
        expires_at=now + days * SECONDS_PER_DAY,
    )
    try:
        grant = on_registry(lambda database: database.change(repository.add_grant, asked), database_url, config)
    except GrantExists:
        raise Misuse("there is a grant for these two; remove it first: `sdcard grants list`") from None
    for told in on_registry(lambda database: _without_effect(database, delegator, target), database_url, config):
        typer.echo(printable(told), err=True)
    if as_json:
        print_json(_grant_shown(grant))
    else:
        print_lines(grant.grant_id)
        typer.echo(f"Holds until {show_instant(grant.expires_at)}.", err=True)


async def _without_effect(database: "Database", delegator: str, target: str) -> list[str]:
    """Say which party of a grant is not known: perhaps its name is mistyped."""
    from issuer_service.delegation.repository import is_registered
    from issuer_service.tokens import read_tokens

    told = [
        f"Warning: {party} is no registered agent. The grant has no effect until it is registered."
        for party in (delegator, target)
        if is_agent(party) and not await database.read(is_registered, party.removeprefix("agent:"))
    ]
    if not is_agent(delegator) and delegator not in {one.subject for one in await database.read(read_tokens)}:
        agent = f" The agent is agent:{delegator}." if await database.read(is_registered, delegator) else ""
        told.append(f"Warning: {delegator} is the subject of no token.{agent}")
    return told


@grants.command("list")
def list_grants(database_url: DatabaseUrl = None, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """List the grants. Example: sdcard grants list"""
    from issuer_service.delegation import repository

    rows = on_registry(lambda database: database.read(repository.list_grants), database_url, config)
    if as_json:
        print_json({"grants": [_grant_shown(row) for row in rows]})
    for row in () if as_json else rows:
        marked = " ".join(f"{one}*" if one in row.sensitive else one for one in row.scopes)
        print_lines(f"{row.grant_id}  {row.delegator} -> {row.target}  {marked}  until {show_instant(row.expires_at)}")


@grants.command("remove")
def remove(
    grant_id: Annotated[str, typer.Argument(help="The id of the grant, from `sdcard grants list`.")],
    yes: Yes = False,
    database_url: DatabaseUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Remove a grant; every delegation chain that uses it ends. Example:
    sdcard grants remove c2b1d1a5f0f64d40a1f6a2d1a7f3b9e0"""
    from issuer_service.delegation import repository

    confirm(f"This removes the grant {grant_id}, and ends every chain with it, for ever.", yes)
    now = int(SystemClock().now())
    row = on_registry(lambda database: database.change(repository.remove_grant, grant_id, now), database_url, config)
    if row is None:
        raise Misuse("there is no such grant; `sdcard grants list` shows them")
    print_result(
        as_json,
        {"removed": _grant_shown(row)},
        f"{row.grant_id} is removed, and every chain with it that it was a part of has ended",
    )


@approvals.command("list")
def list_approvals(database_url: DatabaseUrl = None, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """List requests for approval, the oldest first. Example: sdcard approvals list"""
    from issuer_service.delegation.repository import list_waiting

    now = int(SystemClock().now())
    rows = on_registry(
        lambda database: all_pages(
            lambda after: database.read(list_waiting, now, MOST_LISTED, after),
            lambda row: (row.asked_at, row.approval_id),
        ),
        database_url,
        config,
    )
    if as_json:
        print_json({"approvals": [_approval_shown(row) for row in rows]})
    for row in () if as_json else rows:
        chain, scopes = " -> ".join((*row.parties, row.target)), " ".join(row.scopes)
        interaction = f"  in {row.interaction_id}" if row.interaction_id else ""
        asked = f"asked by {row.client}, until {show_instant(row.expires_at)}"
        print_lines(f"{row.approval_id}  {chain}  {scopes}{interaction}  {asked}")


async def all_pages(
    read_page: Callable[[tuple[int, str] | None], Awaitable[Sequence[_T]]], place_of: Callable[[_T], tuple[int, str]]
) -> list[_T]:
    """Return the rows of all pages, so that many requests of one client hide nothing."""
    rows: list[_T] = []
    while True:
        page = await read_page(place_of(rows[-1]) if rows else None)
        rows += page
        if len(page) < MOST_LISTED:
            return rows


@approvals.command("approve")
def approve(
    approval_id: Annotated[str, typer.Argument(help="The id of the request, from `sdcard approvals list`.")],
    by: By,
    database_url: DatabaseUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Approve one token exchange, once.

    Example: sdcard approvals approve 7f1c0d4e --by paul
    """
    from issuer_service.delegation.records import ApprovalState

    _decide(approval_id, by, ApprovalState.APPROVED, database_url, config, as_json)


@approvals.command("deny")
def deny(
    approval_id: Annotated[str, typer.Argument(help="The id of the request, from `sdcard approvals list`.")],
    by: By,
    database_url: DatabaseUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Deny one token exchange. Example: sdcard approvals deny 7f1c0d4e --by paul"""
    from issuer_service.delegation.records import ApprovalState

    _decide(approval_id, by, ApprovalState.DENIED, database_url, config, as_json)


def _decide(
    approval_id: str, by: str, state: "ApprovalState", database_url: str | None, config: Path | None, as_json: bool
) -> None:
    from issuer_service.access import check_subject
    from issuer_service.delegation import repository
    from issuer_service.delegation.records import Decider, DecisionRow

    check_subject(by)
    decision = DecisionRow(approval_id, Decider(by), state, int(SystemClock().now()))
    row = on_registry(lambda database: database.change(repository.decide_approval, decision), database_url, config)
    print_result(as_json, {**_approval_shown(row), "state": state.value}, f"{row.approval_id}: {state}")


def _grant_shown(row: "GrantRow") -> dict[str, Any]:
    return {
        "grant_id": row.grant_id,
        "delegator": row.delegator,
        "target": row.target,
        "scopes": list(row.scopes),
        "sensitive": list(row.sensitive),
        "created_at": row.created_at,
        "expires_at": row.expires_at,
    }


def _approval_shown(row: "ApprovalRow") -> dict[str, Any]:
    return {
        "approval_id": row.approval_id,
        "client": row.client,
        "chain": list(row.parties),
        "target": row.target,
        "scope": " ".join(row.scopes),
        "interaction_id": row.interaction_id,
        "asked_at": row.asked_at,
        "expires_at": row.expires_at,
    }


def on_registry(work: "Callable[[Database], Awaitable[_T]]", database_url: str | None, config: Path | None) -> _T:
    """Run ``work`` on the registry's database."""
    return run_on_database(work, read_settings(config, database_url=database_url).database_url)
