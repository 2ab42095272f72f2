"""Schedule of fetching published keys again.

It is soon enough for a rotation, and seldom enough for their server.
"""

from dataclasses import dataclass

from sdcard.instants import Instant, Lifetime

FRESH_SECONDS = 600
"""For which keys are used without asking again: so long does a key live that was withdrawn."""
USABLE_SECONDS = 3_600
"""For which they are used while nobody answers."""
PAUSE_SECONDS = 60
"""Between two attempts after one that failed, and after one that did not find the key that it was for."""


@dataclass(slots=True)
class Schedule:
    """Last outcome of a fetch, in Unix seconds.

    Untrusted senders name keys, so unknown keys are rarely fetched.

    Attributes:
        fetched: when the keys were last had.
        failed: when they could last not be had, if that is the newest there is to say.
        missed: when they were had and the key that was looked for was not among them.
    """

    fetched: Instant | None = None
    failed: Instant | None = None
    missed: Instant | None = None

    def is_due(self, known: bool, now: Instant) -> bool:
        """Whether to ask, for the sake of a key that is known or not."""
        if _within(self.failed, PAUSE_SECONDS, now):
            return False
        return not _within(self.fetched, FRESH_SECONDS, now) or not (known or _within(self.missed, PAUSE_SECONDS, now))

    def is_usable(self, now: Instant) -> bool:
        """Whether what was had last may still be used."""
        return _within(self.fetched, USABLE_SECONDS, now)

    def succeeded(self, found: bool, now: Instant) -> None:
        """The keys were had; ``found``: with the one that was looked for."""
        self.fetched, self.failed, self.missed = now, None, self.missed if found else now

    def fell_through(self, now: Instant) -> None:
        """The keys could not be had."""
        self.failed = now


def _within(since: Instant | None, seconds: int, now: Instant) -> bool:
    return since is not None and Lifetime(since, since + seconds).covers(now)
