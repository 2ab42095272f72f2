"""The operating system's clock and random numbers."""

import os
import time

from sdcard.cards.agentcard import identity
from sdcard.instants import Instant
from sdcard.salts import SALT_BYTES


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
    """A fresh ``agent_id`` for an AgentCard: a ULID of the machine's clock and generator."""
    return identity.new_agent_id(time.time(), os.urandom(identity.RANDOM_BYTES))
