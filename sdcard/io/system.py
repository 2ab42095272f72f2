"""The machine's clock and randomness, and safe display of foreign text."""

import math
import os
import time
import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime

from sdcard.cards.agentcard import shared as identity
from sdcard.errors import Misuse
from sdcard.instants import Clock, Instant
from sdcard.salts import SALT_BYTES

# -- The operating system's clock and random numbers ------------------------------------------------------------------


class SystemClock:
    """The machine's clock."""

    def now(self) -> Instant:
        """The present instant, in Unix seconds."""
        return time.time()


class SystemSalts:
    """The operating system's generator; safe across forks, since nothing is kept."""

    def draw(self, count: int) -> bytes:
        """``count`` fresh salts."""
        return os.urandom(SALT_BYTES * count)


def new_agent_id() -> str:
    """Make a fresh ``agent_id`` for an AgentCard.

    It is a ULID of the machine's clock and generator.
    """
    return identity.new_agent_id(time.time(), os.urandom(identity.RANDOM_BYTES))


MAX_COARSE = 240
"""The coarsest step of a Holder's clock: a minute of the freshness window is left for the answer to arrive."""


@dataclass(frozen=True, slots=True)
class CoarseClock:
    """A clock that shows only every ``step``-th second.

    A Holder's signatures then tell less about when they were made.

    Two Verifiers can link presentations whose ``iat`` are near each other. With a coarse clock a presentation shares
    its ``iat`` with all others of the same step. The step takes its part of the freshness window away from the answer.
    """

    clock: Clock
    step: int = 60

    def __post_init__(self) -> None:
        if type(self.step) is not int or not 1 <= self.step <= MAX_COARSE:
            raise Misuse(f"the step of a coarse clock is 1 to {MAX_COARSE} s")

    def now(self) -> Instant:
        """The last whole step, in Unix seconds."""
        return math.floor(self.clock.now()) // self.step * self.step


# -- Values as people see them, in a terminal or on a page ------------------------------------------------------------
# Card text is hostile everywhere.

_UNSEEN = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
"""Categories of what is not seen, or ends a line."""


def printable(text: str) -> str:
    """Escape control, format and bidirectional characters, and line ends."""
    return "".join(f"\\u{ord(c):04x}" if unicodedata.category(c) in _UNSEEN else c for c in text)


def show_instant(instant: Instant) -> str:
    """Unix seconds → a text for people."""
    try:
        return datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return "in the distant past" if instant < 0 else "in the distant future"
