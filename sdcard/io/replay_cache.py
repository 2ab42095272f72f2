"""Records of used nonces for one process.

The nonces are of challenges that a Verifier made, or were chosen by Holders.

Several processes need those of ``sql_records``. A record is bounded and refuses when it is full, since forgetting early
would let a replay through. A challenge takes a place only when its answer has passed every other check.
"""

import hashlib
import heapq
import threading

from sdcard.encoding import encode_json
from sdcard.errors import Part, Refused, Where
from sdcard.instants import FreshnessWindow, Instant
from sdcard.key_binding import Challenge, NonceUse, RequestTarget
from sdcard.nonces import ChallengeMaker, NoncePurpose, new_key
from sdcard.rules import Rule
from sdcard.salts import SaltSource

_FORGOTTEN_AT_ONCE = 4
"""An addition forgets more than it adds, so what has expired does not pile up; and few, so none takes long."""
_ENDS_KEPT = 4_096
"""Ends are whole seconds as a rule, and those of one moment lie within ten minutes."""


class _UsedNonces:
    """A bounded set of digests in the order in which they expire.

    It is not safe for threads by itself.

    Nothing is forgotten while there is plenty of room, since a clock that runs ahead makes everything look expired.
    ``_forgotten`` has the ends of the digests that were forgotten last; a use with the same end is not a first one.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity, self._plenty = capacity, capacity // 8
        self._until: dict[bytes, Instant] = {}
        self._ends: list[tuple[Instant, bytes]] = []
        self._forgotten: dict[Instant, None] = {}

    def add(self, digest: bytes, until: Instant, now: Instant) -> bool:
        """Remember a digest until an instant, inclusive; False when it is there already.

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
    """A ``ReplayRecord`` in this process's memory; safe for threads."""

    def __init__(self, capacity: int = 1_000_000) -> None:
        self._used, self._lock = _UsedNonces(capacity), threading.Lock()

    def first_use(self, use: NonceUse, until: Instant, now: Instant) -> bool:
        """Remember the use; True for exactly one caller."""
        digest = digest_of_use(use)
        with self._lock:
            return self._used.add(digest, until, now)


class MemoryChallengeRecord:
    """Makes challenges for one audience and lets each be answered once.

    It is safe for threads.

    The key is drawn with the record and never leaves it: a challenge of another process, or of this one before it
    was started again, is not recognized.

    Args:
        audience: who asks.
        salts: randomness, for the key and for each challenge.
        lifetime: seconds in which a challenge is answered.
        capacity: how many answered challenges are remembered; beyond it every answer is refused.
        purpose: what the challenges are for.
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
        self._key = new_key(salts)
        self._used, self._lock = _UsedNonces(capacity), threading.Lock()

    def issue(
        self,
        now: Instant,
        window: FreshnessWindow | None = None,
        interaction_id: str | None = None,
        target: RequestTarget | None = None,
    ) -> Challenge:
        """Make a challenge, to be answered within the record's lifetime.

        Nothing is stored.
        """
        return self._maker.make(self._key, self._salts, now, window, interaction_id, target)

    def check(self, challenge: Challenge, now: Instant) -> None:
        """Refuse a challenge that is too old or not made for these terms.

        This record must have made it.

        Raises:
            Refused: as ``ChallengeMaker.check``.
        """
        self._maker.check(self._key, challenge, now)

    def consume(self, challenge: Challenge, now: Instant) -> bool:
        """Mark the challenge as answered; return True for exactly one caller.

        The challenge is one that ``check`` lets pass.

        Raises:
            Refused: ``kb.record-unavailable`` when the record is full.
        """
        try:
            until = self._maker.check(self._key, challenge, now)
        except Refused:
            return False
        digest = digest_of_nonce(challenge.nonce)
        with self._lock:
            return self._used.add(digest, until, now)


def digest_of_use(use: NonceUse) -> bytes:
    """Give what a record remembers of a use: a digest of JSON.

    With JSON, no two lists of fields run into one another.
    """
    return hashlib.sha256(encode_json([use.part.value, use.holder, use.audience, use.nonce])).digest()


def digest_of_nonce(nonce: str) -> bytes:
    """Give what a record remembers of a nonce that it made itself."""
    return hashlib.sha256(nonce.encode()).digest()
