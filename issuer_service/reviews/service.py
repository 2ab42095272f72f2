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
from issuer_service.reviews.records import ReviewDecision, ReviewedKey, ReviewRow, ReviewState, keys_by_context
from issuer_service.reviews.schemas import ReviewInList, ReviewList, ReviewShown, check_reason, in_list
from sdcard.cards.detect import KNOWN_FORMATS
from sdcard.cards.model import Card
from sdcard.domain_control import find_hosts
from sdcard.encoding import JsonObject, parse_json_object
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
    review, card, asked = found
    document = _parse(review.card)
    registered = None if card is None or asked is None else (_parse(card), _keys(_parse(asked)))
    return ReviewShown(
        **in_list(review).model_dump(),
        hosts=list(find_hosts(Card(KNOWN_FORMATS[review.card_format], document)).names),
        card=document,
        is_registered=card is not None,
        changes=[] if registered is None else [*_changes(review, document, *registered)],
    )


def _parse(text: str) -> JsonObject:
    return parse_json_object(text.encode(), _CARD, DEFAULT_LIMITS.json_depth)


def _keys(asked: Any) -> tuple[ReviewedKey, ...]:
    thumbprints = [parse_public_jwk(one, Where(Part.KEY)).thumbprint for one in asked["public_keys"]]
    return keys_by_context(thumbprints, asked["disclosure_contexts"])


def _changes(review: ReviewRow, document: JsonObject, before: JsonObject, keys: Sequence[ReviewedKey]) -> Iterator[str]:
    """Name what differs from the present registration."""
    for name in sorted({*document, *before}):
        if document.get(name, ...) != before.get(name, ...):
            yield name
    old, new = dict(keys), dict(review.keys)
    if old.keys() != new.keys():
        yield "public_keys"
    if sorted(old.values()) != sorted(new.values()) or any(old[key] != new[key] for key in old.keys() & new.keys()):
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
