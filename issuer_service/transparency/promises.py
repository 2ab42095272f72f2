"""The promise in the answer to a registration: by when the log has its SD-Cards."""

from collections.abc import Iterable
from typing import NamedTuple

from issuer_service.container import Container
from issuer_service.status.records import CardRow
from issuer_service.transparency import repository
from issuer_service.transparency.records import origin_of
from issuer_service.transparency.terms import LONGEST_SECONDS
from sdcard.instants import Instant
from sdcard.jose.jws import Signer
from sdcard.transparency.promises import issue_log_promise
from sdcard.transparency.proofs import entry_of_signed

_SPARE = 2
"""Intervals: for leaves of transactions that are not committed yet, and for witnesses that miss one checkpoint."""


class LogDue(NamedTuple):
    """The number of the log, and when its checkpoint has a leaf of now: Unix seconds."""

    log: int
    by: int


async def find_due(container: Container, cards: int, now: Instant) -> LogDue | None:
    """Find by when the log has the leaves of a Batch.

    None without a log that has witnesses. The leaves that wait come first, in batches of one size at fixed intervals.
    """
    terms = container.log
    if terms is None or terms.policy.quorum is None:
        return None
    growth = await container.database.read(repository.read_growth)
    if growth is None:
        return None
    batches = (growth.waiting + cards + 1) // terms.batch + _SPARE
    next_batch = (int(now) // terms.seconds + 1) * terms.seconds
    return LogDue(growth.log, next_batch + batches * terms.seconds + int(LONGEST_SECONDS))


def sign_promise(issuer: str, due: LogDue, cards: Iterable[CardRow], signer: Signer, at: int) -> str:
    """Promise that the log has the SD-Cards of a Batch in time."""
    entries = {card.digest: entry_of_signed(card.salt, bytes.fromhex(card.signed)) for card in cards}
    return issue_log_promise(issuer, origin_of(issuer, due.log), entries, signer, at, due.by)
