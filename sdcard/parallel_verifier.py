"""Verification of several presentations at once.

Threads verify the signatures, because ``cryptography`` releases the interpreter meanwhile. Whole verifications in
threads were slower than in one thread, because every signature hands the interpreter over.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, TypeAlias

from sdcard import acceleration
from sdcard.acceptance import is_known
from sdcard.errors import Misuse, Refused
from sdcard.instants import Instant, check_instant
from sdcard.jose.jws import Batch, VerifyingKey
from sdcard.key_binding import check_single_use
from sdcard.sdjwt.model import SdJwtWithKeyBinding, parse_sd_jwt
from sdcard.verification_cache import VerificationCache
from sdcard.verifier import (
    MUST_AWAIT,
    CheckedPresentation,
    Expectations,
    VerifiedCard,
    check_presentation,
    check_status,
    verified_card,
)


class Task(Protocol):
    """Work in a pool, such as a ``concurrent.futures.Future``."""

    def cancel(self) -> bool:
        """Cancel the work; false if it has begun."""

    def result(self) -> object:
        """Wait for the work, and raise its exception."""


class ThreadPool(Protocol):
    """Threads of this process, such as a ``concurrent.futures.ThreadPoolExecutor``."""

    def submit(self, work: Callable[[], None], /) -> Task:
        """Schedule the work in another thread."""


_Signature: TypeAlias = tuple[VerifyingKey, bytes, bytes]


class _PendingCache(VerificationCache):
    """Reads a cache, and holds back new entries until ``commit``."""

    def __init__(self, cache: VerificationCache) -> None:
        super().__init__()
        self._cache = cache
        self._waiting: list[tuple[Hashable, object, int]] = []

    def find(self, key: Hashable) -> Any:
        """Return the entry of the cache."""
        return self._cache.find(key)

    def store(self, key: Hashable, entry: object, size: int) -> None:
        """Hold the entry back."""
        self._waiting.append((key, entry, size))

    def commit(self) -> None:
        """Store the entries."""
        for waiting in self._waiting:
            self._cache.store(*waiting)


class _Attempt:
    """A presentation of a batch, checked before its signatures are verified.

    The first pass treats every signature as valid and notes it, so that threads verify the signatures of all
    presentations together. If a signature is not valid, the presentation is checked again alone. New cache entries wait
    until then.
    """

    def __init__(
        self,
        presentation: str,
        expectations: Expectations,
        now: Instant,
        cache: VerificationCache | None,
        work: "_Work",
    ) -> None:
        self._expectations, self._now, self._work = expectations, now, work
        self._cache, self._pending = cache, None if cache is None else _PendingCache(cache)
        self._noted: list[int] = []
        self._queued, self._number = range(0), None
        self._outcome: CheckedPresentation | Refused | None = None
        self.queue = work.queue
        try:
            self._arrived = parse_sd_jwt(presentation, expectations.limits)
        except Refused as refusal:
            self._outcome = refusal
            return
        sd_jwt = self._arrived.sd_jwt if isinstance(self._arrived, SdJwtWithKeyBinding) else self._arrived
        if self.queue is not None and not is_known(sd_jwt, expectations, cache):
            limits = expectations.limits
            self._number = self.queue.add_sd_jwt(
                sd_jwt.issuer_jwt, sd_jwt.disclosures, limits.json_depth, limits.digests
            )

    def read(self) -> acceleration.SdJwt | None:
        """Return what a thread reads meanwhile."""
        return None if self.queue is None or self._number is None else self.queue.sd_jwt(self._number)

    def signature_is_valid(self, key: VerifyingKey, message: bytes, signature: bytes) -> bool:
        """Note the signature."""
        self._noted.append(self._work.note(key, message, signature))
        return True

    def check(self) -> None:
        """Check everything but the signatures."""
        if self._outcome is None:
            before = 0 if self.queue is None else self.queue.count
            self._outcome = self._check(self._pending, self)
            self._queued = range(before, before if self.queue is None else self.queue.count)

    def _check(self, cache: VerificationCache | None, batch: Batch | None) -> CheckedPresentation | Refused:
        try:
            return check_presentation(self._arrived, self._expectations, self._now, cache, batch)
        except Refused as refusal:
            return refusal

    def settle(self, queued: Sequence[bool], noted: Sequence[bool]) -> None:
        """Keep the outcome if every signature is valid."""
        if not all([queued[number] for number in self._queued]) or not all([noted[one] for one in self._noted]):
            self._outcome = self._check(self._cache, None)
        elif self._pending is not None:
            self._pending.commit()

    def finish(self) -> VerifiedCard | Refused:
        """Check status and single use; return the card or the refusal."""
        if not isinstance(self._outcome, CheckedPresentation):
            assert self._outcome is not None, "it was checked"
            return self._outcome
        expectations, now = self._expectations, self._now
        try:
            check_status(self._outcome, expectations.status, now)
            check_single_use(self._outcome.key_binding, expectations.key_binding, now)
        except Refused as refusal:
            return refusal
        return verified_card(self._outcome, expectations, self._cache)


def verify_many(
    presentations: Sequence[tuple[str, Expectations]],
    now: Instant,
    pool: ThreadPool,
    threads: int,
    cache: VerificationCache | None = None,
) -> list[VerifiedCard | Refused]:
    """Verify several presentations at once, as ``verify_presentation`` does.

    No presentation affects the result of another. Several threads verify signatures; the calling thread does all other
    work. Status sources and records are asked last, in the given order: of two answers to one challenge the first
    counts.

    Args:
        presentations: each with the Verifier's demands.
        pool: provides other threads; its owner shuts it down.
        threads: the number of threads, the calling thread included.
        cache: as for ``verify_presentation``.

    Returns:
    The verified card or the refusal of each presentation, in order.

    Raises:
        Misuse: as ``verify_presentation``, or when ``threads`` is below 1; no source or record was asked then.
        Exception: raised by a status source or record, other than ``Refused``; later presentations are not finished.
    """
    if type(threads) is not int or threads < 1:
        raise Misuse("at least one thread works")
    presentations = tuple(presentations)
    if any(expectations.is_awaited for _, expectations in presentations):
        raise Misuse(MUST_AWAIT)
    check_instant(now)
    work = _Work(pool, min(threads, 2 * len(presentations)))
    try:
        work.begin()
        attempts = [_Attempt(*one, now, cache, work) for one in presentations]
        for attempt in attempts:
            attempt.check()
    finally:
        work.close()
    queued, noted = work.finish()
    for attempt in attempts:
        attempt.settle(queued, noted)
    return [attempt.finish() for attempt in attempts]


class _Work:
    """The work of threads for a batch.

    The kernel works without the interpreter's lock, so its threads start at once, and read SD-JWTs too. Other
    signatures are verified after all are noted, because ``cryptography`` takes the lock for each one.
    """

    def __init__(self, pool: ThreadPool, threads: int) -> None:
        self._pool, self._threads = pool, threads
        self._noted: list[_Signature] = []
        self.queue = acceleration.queue()
        self._helpers: list[Task] = []

    def begin(self) -> None:
        """Start the kernel's threads. They work until ``close``."""
        if self.queue is not None:
            self._helpers += [self._pool.submit(self.queue.work) for _ in range(self._threads - 1)]

    def note(self, key: VerifyingKey, message: bytes, signature: bytes) -> int:
        """Note a signature that the kernel does not verify, and return its number."""
        self._noted.append((key, message, signature))
        return len(self._noted) - 1

    def close(self) -> None:
        """Tell the kernel's threads that nothing is added."""
        if self.queue is not None:
            self.queue.close()

    def finish(self) -> tuple[list[bool], list[bool]]:
        """Return whether each signature is valid: of the queue, and of those noted."""
        queued: list[bool] = []
        if self.queue is not None:
            self.queue.work()
            _join(self._helpers)
            queued = self.queue.valid()
        valid = [False] * len(self._noted)
        waiting = iter(range(len(valid)))

        def work() -> None:
            for number in waiting:
                key, message, signature = self._noted[number]
                valid[number] = key.verifies(message, signature)

        helpers = [self._pool.submit(work) for _ in range(min(self._threads, len(valid)) - 1)]
        work()
        _join(helpers)
        return queued, valid


def _join(helpers: Sequence[Task]) -> None:
    for helper in helpers:
        if not helper.cancel():  # cancelled: it had not begun, and no signature is left
            helper.result()
