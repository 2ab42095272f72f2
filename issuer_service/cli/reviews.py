"""``sdcard reviews``: registrations that wait for a person."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from issuer_service.cli.delegations import MOST_LISTED, all_pages, on_registry
from issuer_service.cli.serve import ConfigFile, DatabaseUrl
from sdcard.cli.options import AsJson
from sdcard.cli.output import print_json, print_lines, print_result, show_instant
from sdcard.io.system import SystemClock

if TYPE_CHECKING:
    from issuer_service.reviews.records import ReviewState
    from issuer_service.reviews.schemas import ReviewedContextShown

ReviewId = Annotated[str, typer.Argument(help="The id of the review, from `sdcard reviews list`.")]
By = Annotated[
    str, typer.Option(help="The person who decides: not the owner, and not a party of a grant to or from the agent.")
]

reviews = typer.Typer(no_args_is_help=True)


@reviews.callback()
def _reviews() -> None:
    """Decide on registrations that need a person's approval."""


@reviews.command("list")
def list_reviews(database_url: DatabaseUrl = None, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """List registrations that wait for a person.

    The oldest is first. Example: sdcard reviews list
    """
    from issuer_service.reviews.repository import list_waiting
    from issuer_service.reviews.schemas import in_list

    now = int(SystemClock().now())
    rows = on_registry(
        lambda database: all_pages(
            lambda after: database.read(list_waiting, now, MOST_LISTED, after),
            lambda row: (row.asked_at, row.review_id),
        ),
        database_url,
        config,
    )
    if as_json:
        print_json({"reviews": [in_list(row).model_dump() for row in rows]})
    for row in () if as_json else rows:
        until = "" if row.expires_at is None else f", until {show_instant(row.expires_at)}"
        print_lines(f"{row.review_id}  {row.agent_id}  {row.card_format}  asked by {row.subject}{until}")


@reviews.command("show")
def show(
    review_id: ReviewId, database_url: DatabaseUrl = None, config: ConfigFile = None, as_json: AsJson = False
) -> None:
    """Show what an approval covers: card, hosts, and the claims of each context.

    It also shows the keys, and the changes since the last approval. Example: sdcard reviews show 7f1c0d4e
    """
    from issuer_service.reviews.service import find_waiting

    now = int(SystemClock().now())
    shown = on_registry(lambda database: find_waiting(database, review_id, now), database_url, config)
    if as_json:
        print_json(shown.model_dump())
        return
    changes = ", ".join(shown.changes) or "nothing"
    print_lines(
        f"agent:    {shown.agent_id}, {shown.card_format}, asked by {shown.owner}",
        f"changes:  {changes}" if shown.is_registered else "changes:  everything: the agent is not registered",
        f"hosts:    {', '.join(shown.hosts) or 'none'}",
        *(f"context:  {_described(one)}" for one in shown.contexts),
        "card:",
        *json.dumps(shown.card, ensure_ascii=False, indent=2).split("\n"),
    )


def _described(one: "ReviewedContextShown") -> str:
    partner = "" if one.partner is None else f" ({one.partner})"
    shows = "its default" if one.disclose is None else f"only {json.dumps(one.disclose, ensure_ascii=False)}"
    return f"{one.context}{partner} shows {shows}; keys: {', '.join(one.keys)}"


@reviews.command("approve")
def approve(
    review_id: ReviewId, by: By, database_url: DatabaseUrl = None, config: ConfigFile = None, as_json: AsJson = False
) -> None:
    """Approve exactly this registration.

    Example: sdcard reviews approve 7f1c0d4e --by paul
    """
    from issuer_service.reviews.records import ReviewState

    _decide(review_id, by, ReviewState.APPROVED, "", database_url, config, as_json)


@reviews.command("reject")
def reject(
    review_id: ReviewId,
    by: By,
    reason: Annotated[str, typer.Option(help="Why. The owner reads it.")],
    database_url: DatabaseUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Reject a registration.

    Example: sdcard reviews reject 7f1c0d4e --by paul --reason 'No contract yet.'
    """
    from issuer_service.reviews.records import ReviewState
    from issuer_service.reviews.schemas import check_reason

    _decide(review_id, by, ReviewState.REJECTED, check_reason(reason), database_url, config, as_json)


def _decide(
    review_id: str,
    by: str,
    state: "ReviewState",
    reason: str,
    database_url: str | None,
    config: Path | None,
    as_json: bool,
) -> None:
    from issuer_service.access import check_subject
    from issuer_service.delegation.records import Decider
    from issuer_service.reviews import repository
    from issuer_service.reviews.records import ReviewDecision
    from issuer_service.reviews.schemas import in_list

    check_subject(by)
    decision = ReviewDecision(review_id, Decider(by), state, reason, int(SystemClock().now()))
    row = on_registry(lambda database: database.change(repository.decide, decision), database_url, config)
    print_result(as_json, in_list(row).model_dump(), f"{row.review_id}: {state}")
