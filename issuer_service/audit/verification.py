"""Verification of the audit chain in a database during writes, page by page."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace

from issuer_service.stores.ports import Store
from issuer_service.stores.rows.audit import AuditFound, AuditQuery
from issuer_service.stores.rows.state import StateVerdict
from sdcard.audit.chain import Verdict, Walk
from sdcard.audit.checkpoints import Checkpoint


async def verify_database(store: Store, checkpoints: Sequence[Checkpoint], tell: Callable[[int], None]) -> Verdict:
    """Verify the whole chain, and report the number of each record.

    Records are never changed and a record is never there without its head, so pages need no common transaction: what
    was written since the first ones were read is read too, up to a head that is asked for afterwards.

    Raises:
        Refused: ``store.unavailable``.
    """
    walk = Walk(checkpoints)
    last = await _follow(walk, store, AuditQuery(), tell)
    head = await store.audit_head()
    if head is not None:
        await _follow(walk, store, AuditQuery(after=last, up_to=head.sequence), tell)
    return walk.end_at(head)


async def verify_state(
    store: Store, checkpoints: Sequence[Checkpoint], tell: Callable[[int], None]
) -> tuple[Verdict, StateVerdict]:
    """Verify the whole chain and compare the tables with it, in one snapshot.

    Raises:
        Misuse: when the database was not adopted.
        Refused: ``store.unavailable``.
    """
    walk = Walk(checkpoints)

    def take(found: AuditFound) -> None:
        sequence, record = found
        if record is None:
            walk.take_unreadable()
        else:
            walk.take(record)
        tell(sequence)

    head, state = await store.compare_state(take)
    return walk.end_at(head), state


async def _follow(walk: Walk, store: Store, query: AuditQuery, tell: Callable[[int], None]) -> int | None:
    """The number of the last record."""
    last = query.after
    async for sequence, record in find_records(store, query):
        last = sequence
        if record is None:
            walk.take_unreadable()
        else:
            walk.take(record)
        tell(sequence)
    return last


async def find_records(store: Store, query: AuditQuery) -> AsyncIterator[AuditFound]:
    """All records of a query, whose limit is how many are read at once.

    Raises:
        Refused: ``store.unavailable``.
    """
    while page := await store.audit_records(query):
        for found in page:
            yield found
        query = replace(query, after=page[-1][0])
