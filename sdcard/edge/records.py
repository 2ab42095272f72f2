"""Memory of nonces for one process: challenges a Verifier issued, and nonces that Holders chose.

Several processes need those of ``sql_records``. Both records here are bounded and refuse when full, since forgetting
early would let a replay through.
"""

import math
import threading
from collections.abc import Hashable

from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.instants import FreshnessWindow, Instant
from sdcard.keybinding.challenge import Challenge, NonceUse, new_challenge
from sdcard.rules import Rule
from sdcard.salts import SaltSource


class _Expiring:
    """A bounded set whose members leave at an instant of their own. Not safe for threads by itself.

    It looks for members to drop only when it is full, and then not again before one of them can have left.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._until: dict[Hashable, Instant] = {}
        self._earliest: Instant = math.inf

    def add(self, member: Hashable, until: Instant, now: Instant) -> bool:
        """False when the member is there already."""
        end = self._until.get(member)
        if end is not None and end >= now:
            return False
        if len(self._until) >= self._capacity and self._earliest < now:
            self._until = {m: end for m, end in self._until.items() if end >= now}
            self._earliest = min(self._until.values(), default=math.inf)
        if len(self._until) >= self._capacity:
            raise Refused(Rule.KB_RECORD, Where(Part.KB_JWT, ("nonce",)), "The record is full.")
        self._until[member] = until
        self._earliest = min(self._earliest, until)
        return True

    def remove(self, member: Hashable, now: Instant) -> bool:
        """False when the member is not there, or its time has passed."""
        until = self._until.pop(member, None)
        return until is not None and until >= now


class MemoryReplayRecord:
    """A ``ReplayRecord`` in this process's memory; safe for threads."""

    def __init__(self, capacity: int = 1_000_000) -> None:
        self._uses, self._lock = _Expiring(capacity), threading.Lock()

    def first_use(self, use: NonceUse, until: Instant, now: Instant) -> bool:
        """Remember the use; True for exactly one caller."""
        with self._lock:
            return self._uses.add(use, until, now)


class MemoryChallengeRecord:
    """Issues challenges for one audience and lets each be answered once; safe for threads."""

    def __init__(self, audience: str, salts: SaltSource, lifetime: int = 300, capacity: int = 1_000_000) -> None:
        self._audience, self._salts, self._lifetime = audience, salts, lifetime
        self._open, self._lock = _Expiring(capacity), threading.Lock()

    def issue(
        self, now: Instant, window: FreshnessWindow | None = None, interaction_id: str | None = None
    ) -> Challenge:
        """A fresh challenge, to be answered within the record's lifetime."""
        challenge = new_challenge(self._audience, self._salts, window, interaction_id)
        with self._lock:
            if not self._open.add(challenge, now + self._lifetime, now):
                raise Misuse("the salt source repeats itself")
        return challenge

    def consume(self, challenge: Challenge, now: Instant) -> bool:
        """Forget the challenge; True for exactly one caller, and only in time."""
        with self._lock:
            return self._open.remove(challenge, now)
