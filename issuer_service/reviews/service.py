"""Requests for approval of registrations, and decisions about them.

A registration asks: ``agents/registration.py``.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from issuer_service.access import Caller
from issuer_service.agents.schemas import REQUEST
from issuer_service.container import Container
from issuer_service.delegation.schemas import HANDLE
from issuer_service.delegation.service import MOST_LISTED, check_unlimited, cursor_after, decider_of, read_cursor
from issuer_service.reviews import repository
from issuer_service.reviews.records import (
    Registered,
    ReviewDecision,
    ReviewedContext,
    ReviewRow,
    ReviewState,
    reviewed_contexts,
)
from issuer_service.reviews.schemas import ReviewInList, ReviewList, ReviewShown, check_reason, in_list
from sdcard.cards.detect import KNOWN_FORMATS
from sdcard.cards.model import Card
from sdcard.domain_control import find_hosts
from sdcard.encoding import JsonObject, parse_json_object, same_json
from sdcard.errors import Part, Refused, Where
from sdcard.io.database import Database
from sdcard.jose.keys import parse_public_jwk
from sdcard.limits import DEFAULT_LIMITS
from sdcard.rules import Rule

_CARD = Where(Part.CARD)


async def waiting(container: Container, caller: Caller, cursor: Sequence[str]) -> ReviewList:
    """List a page of requests that wait for a person.

    Raises:
        Refused: ``token.limit``, ``request.malformed``, ``store.unavailable``.
    """
    check_unlimited(caller)
    after, now = read_cursor(cursor), int(container.clock.now())
    rows = await container.database.read(repository.list_waiting, now, MOST_LISTED + 1, after)
    page, more = rows[:MOST_LISTED], len(rows) > MOST_LISTED
    last = cursor_after(page[-1].asked_at, page[-1].review_id) if more else None
    return ReviewList(reviews=[in_list(row) for row in page], next_cursor=last)


async def find_waiting(database: Database, review_id: str, now: int) -> ReviewShown:
    """Return a request that waits for a person, with all that it covers.

    Raises:
        Refused: ``approval.decided``, ``store.unavailable``.
    """
    found = None
    if re.fullmatch(HANDLE, review_id):
        found = await database.read(repository.find_waiting, review_id, now)
    if found is None:
        raise Refused(Rule.APPROVAL_DECIDED, REQUEST.within("review_id"))
    review, registered = found
    document = _parse(review.card)
    hosts = find_hosts(Card(KNOWN_FORMATS[review.card_format], document))
    return ReviewShown(
        **in_list(review).model_dump(),
        hosts=[*hosts.names, *hosts.unproved],
        card=document,
        is_registered=registered is not None,
        changes=[] if registered is None else [*_changes(review, document, registered)],
    )


def _parse(text: str) -> JsonObject:
    return parse_json_object(text.encode(), _CARD, DEFAULT_LIMITS.json_depth)


def _contexts(asked: Any) -> tuple[ReviewedContext, ...]:
    thumbprints = [parse_public_jwk(one, Where(Part.KEY)).thumbprint for one in asked["public_keys"]]
    return reviewed_contexts(thumbprints, asked["disclosure_contexts"])


def _by_key(contexts: Sequence[ReviewedContext]) -> dict[str, list[tuple[str, str]]]:
    """Return the names of each key's contexts."""
    found: dict[str, list[tuple[str, str]]] = {}
    for one in contexts:
        for key in one.keys:
            found.setdefault(key, []).append((one.context, one.partner))
    return found


def _changes(review: ReviewRow, document: JsonObject, registered: Registered) -> Iterator[str]:
    """Name what differs from the present registration, or may.

    Keys and contexts may, of a registration of long ago.
    """
    before = _parse(registered.card)
    if review.card_format != registered.card_format:
        yield "card_format"
    for name in sorted({*document, *before}):
        if not same_json(document.get(name, ...), before.get(name, ...)):
            yield name
    contexts = () if registered.asked is None else _contexts(_parse(registered.asked))
    old, new = _by_key(contexts), _by_key(review.contexts)
    if old.keys() != new.keys():
        yield "public_keys"
    moved = sorted(old.values()) != sorted(new.values()) or any(old[key] != new[key] for key in {*old} & {*new})
    if moved or [one[:3] for one in contexts] != [one[:3] for one in review.contexts]:
        yield "disclosure_contexts"


async def decide(
    container: Container, caller: Caller, review_id: str, state: ReviewState, reason: str = ""
) -> ReviewInList:
    """Record the caller's decision about a request.

    Raises:
        Refused: ``token.limit``; ``request.malformed`` for a rejection without a reason; as ``repository.decide``.
    """
    check_unlimited(caller)
    if state is ReviewState.REJECTED:
        check_reason(reason)
    if not re.fullmatch(HANDLE, review_id):
        raise Refused(Rule.APPROVAL_DECIDED, REQUEST.within("review_id"))
    now = int(container.clock.now())
    decision = ReviewDecision(review_id, decider_of(caller), state, reason, now)
    return in_list(await container.database.change(repository.decide, decision))
