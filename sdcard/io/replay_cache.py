"""Records of used nonces in memory, for one process.

One record is for challenges of a Verifier, the other for nonces that Holders chose. Several processes need
``sdcard.io.sql_replay_cache``. A record is bounded, and refuses when it is full: evicting entries early would permit a
replay. A challenge takes a place only when its answer passed every other check.
"""

import hashlib
import heapq
import logging
import os
import threading

from sdcard.encoding import encode_json
from sdcard.errors import Part, Refused, Where
from sdcard.instants import FreshnessWindow, Instant
from sdcard.key_binding import Challenge, NonceUse, RequestTarget
from sdcard.nonces import ChallengeMaker, NoncePurpose, new_key
from sdcard.rules import Rule
from sdcard.salts import SaltSource

_FORGOTTEN_AT_ONCE = 4
"""An addition evicts more than it adds, so expired entries do not accumulate; and few, so it never takes long."""
_ENDS_KEPT = 4_096
"""Ends are usually whole seconds, and those of one moment are within ten minutes."""
_log = logging.getLogger(__name__)


class _UsedNonces:
    """A bounded set of digests, ordered by expiry. It is not thread-safe.

    Expired entries stay while there is room, because a clock that is ahead makes every entry look expired.
    ``_forgotten`` has the ends of the last evicted digests; a use with the same end is not a first use.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity, self._plenty = capacity, capacity // 8
        self._until: dict[bytes, Instant] = {}
        self._ends: list[tuple[Instant, bytes]] = []
        self._forgotten: dict[Instant, None] = {}

    def add(self, digest: bytes, until: Instant, now: Instant) -> bool:
        """Add a digest until an instant, inclusive; return false if it is present.

        Raises:
            Refused: ``kb.record-unavailable`` when the record is full.
        """
        end = self._until.get(digest)
        if (end is not None and end >= now) or until in self._forgotten:
            return False
        self._forget_expired(now)
        if len(self._until) >= self._capacity and digest not in self._until:
            raise Refused(Rule.KB_RECORD, Where(Part.KB_JWT, ("nonce",)), "The record is full.")
        self._until[digest] = until
        heapq.heappush(self._ends, (until, digest))
        return True

    def _forget_expired(self, now: Instant) -> None:
        for _ in range(_FORGOTTEN_AT_ONCE):
            if len(self._ends) <= self._plenty or self._ends[0][0] >= now:
                return
            until, digest = heapq.heappop(self._ends)
            if self._until.get(digest) == until:  # else it was used again since
                del self._until[digest]
            self._forgotten[until] = None
            if len(self._forgotten) > _ENDS_KEPT:
                del self._forgotten[next(iter(self._forgotten))]

    def __len__(self) -> int:
        return len(self._until)


class MemoryReplayRecord:
    """A ``ReplayRecord`` in memory. It is thread-safe."""

    def __init__(self, capacity: int = 1_000_000) -> None:
        self._used, self._lock = _UsedNonces(capacity), threading.Lock()

    def first_use(self, use: NonceUse, until: Instant, now: Instant) -> bool:
        """Store the use; true for exactly one caller."""
        digest = digest_of_use(use)
        with self._lock:
            return self._used.add(digest, until, now)


class MemoryChallengeRecord:
    """Makes challenges for one audience; each can be answered once. It is thread-safe.

    Its key is drawn with it and never leaves it. Challenges of other processes, or from before a restart, are unknown.

    Args:
        salts: randomness, for the key and for each challenge.
        lifetime: seconds in which a challenge is valid.
        capacity: the most answered challenges; a full record refuses every answer.
    """

    def __init__(
        self,
        audience: str,
        salts: SaltSource,
        lifetime: int = 300,
        capacity: int = 1_000_000,
        purpose: NoncePurpose = NoncePurpose.PRESENTATION,
    ) -> None:
        self._maker, self._salts = ChallengeMaker(audience, lifetime, purpose), salts
        self._capacity, self._own = capacity, _OfProcess(salts, capacity)

    def issue(
        self,
        now: Instant,
        window: FreshnessWindow | None = None,
        interaction_id: str | None = None,
        target: RequestTarget | None = None,
    ) -> Challenge:
        """Make a challenge. Nothing is stored."""
        return self._maker.make(self._current().key, self._salts, now, window, interaction_id, target)

    def check(self, challenge: Challenge, now: Instant) -> None:
        """Refuse a challenge that is too old, or that this record did not make so.

        Raises:
            Refused: as ``ChallengeMaker.check``.
        """
        self._maker.check(self._current().key, challenge, now)

    def consume(self, challenge: Challenge, now: Instant) -> bool:
        """Mark the challenge as answered; true for exactly one caller.

        False for a challenge that ``check`` refuses.

        Raises:
            Refused: ``kb.record-unavailable`` when the record is full.
        """
        own = self._current()
        try:
            until = self._maker.check(own.key, challenge, now)
        except Refused:
            return False
        digest = digest_of_nonce(challenge.nonce)
        with own.lock:
            return own.used.add(digest, until, now)

    def _current(self) -> "_OfProcess":
        """Return the state of this process.

        A forked process makes its own: with its parent's key, both would accept an answer once.
        """
        if self._own.process != os.getpid():
            self._own = _OfProcess(self._salts, self._capacity)
            warn_about_workers()
        return self._own


class _OfProcess:
    """The state of a challenge record in one process."""

    def __init__(self, salts: SaltSource, capacity: int) -> None:
        self.process, self.key = os.getpid(), new_key(salts)
        self.used, self.lock = _UsedNonces(capacity), threading.Lock()


def warn_about_workers() -> None:
    """Log that workers do not know the challenges of one another."""
    _log.warning(
        "several workers serve this app, and each keeps its challenges in memory: a worker refuses the challenges of "
        "the others (kb.other-request). Give all workers one record: challenges='sqlite:///challenges.sqlite', or a "
        "PostgreSQL URL"
    )


def digest_of_use(use: NonceUse) -> bytes:
    """Digest a use for storage. JSON makes the encoding of fields unambiguous."""
    return hashlib.sha256(encode_json([use.part.value, use.holder, use.audience, use.nonce])).digest()


def digest_of_nonce(nonce: str) -> bytes:
    """Digest a nonce of this record for storage."""
    return hashlib.sha256(nonce.encode()).digest()
