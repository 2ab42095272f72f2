"""The machine: its clock, randomness, private files and display of text."""

import math
import multiprocessing
import os
import re
import sys
import tempfile
import time
import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sdcard.cards.agentcard import shared as identity
from sdcard.errors import Misuse
from sdcard.instants import Clock, Instant
from sdcard.salts import SALT_BYTES

# -- The machine's clock and randomness -------------------------------------------------------------------------------


class SystemClock:
    """The machine's clock."""

    def now(self) -> Instant:
        """The present instant, in Unix seconds."""
        return time.time()


class SystemSalts:
    """The operating system's generator; safe across forks, because it has no state."""

    of_system = True

    def draw(self, count: int) -> bytes:
        """Draw ``count`` fresh salts."""
        return os.urandom(SALT_BYTES * count)


def new_agent_id() -> str:
    """Make an ``agent_id`` for an AgentCard: a ULID."""
    return identity.new_agent_id(time.time(), os.urandom(identity.RANDOM_BYTES))


MAX_COARSE = 240
"""The largest step of a Holder's clock: it leaves a minute of the freshness window for the answer to arrive."""


@dataclass(frozen=True, slots=True)
class CoarseClock:
    """A clock that shows only every ``step``-th second.

    Two Verifiers can link presentations whose ``iat`` are near each other. With a coarse clock, all presentations of
    one step have the same ``iat``. The step shortens the time for the answer to arrive.
    """

    clock: Clock
    step: int = 60

    def __post_init__(self) -> None:
        if type(self.step) is not int or not 1 <= self.step <= MAX_COARSE:
            raise Misuse(f"the step of a coarse clock is 1 to {MAX_COARSE} s")

    def now(self) -> Instant:
        """The last whole step, in Unix seconds."""
        return math.floor(self.clock.now()) // self.step * self.step


# -- Files for their owner alone, written whole or not at all ---------------------------------------------------------


def write_private_file(file: Path, data: bytes) -> None:
    """Write a whole file or none, readable by its owner alone."""
    try:
        descriptor, unfinished = tempfile.mkstemp(dir=file.parent, prefix=".")
    except OSError as error:
        error.filename = str(file)
        raise
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
        Path(unfinished).replace(file)
    except BaseException:  # also an interrupt: half a file must not stay
        Path(unfinished).unlink(missing_ok=True)
        raise


# -- Display of foreign text and of instants, in a terminal or on a page ----------------------------------------------
# Every text of a card is untrusted.

_UNSEEN = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
"""Unicode categories of invisible characters and line ends."""


def printable(text: str) -> str:
    """Escape control, format and bidirectional characters, and line ends."""
    return "".join(f"\\u{ord(c):04x}" if unicodedata.category(c) in _UNSEEN else c for c in text)


def show_instant(instant: Instant) -> str:
    """Write an instant for people."""
    try:
        return datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return "in the distant past" if instant < 0 else "in the distant future"


# -- Workers ----------------------------------------------------------------------------------------------------------

_WORKERS = re.compile(r"(?:^|[\s\x00])(?:--workers|-w)[=\s\x00]?([0-9]+)(?=[\s\x00]|$)")
"""How uvicorn, gunicorn, hypercorn, granian and ``fastapi run`` are told how many workers they start."""
_DIGITS = re.compile(rb"[0-9]+")


def sees_other_workers() -> bool:
    """Whether this process seems to be one of several workers of a server.

    Its command, its environment and its siblings say so. A worker that starts first sees no siblings yet.
    """
    said = "\x00".join([*sys.argv[1:], os.environ.get("GUNICORN_CMD_ARGS", "")])
    counts = [*_WORKERS.findall(said), os.environ.get("WEB_CONCURRENCY", "")]
    return any(count.isdecimal() and int(count) > 1 for count in counts) or _has_sibling_workers()


def _has_sibling_workers() -> bool:
    """Whether the server that started this process started others like it.

    It is known on Linux only; elsewhere the answer is no.
    """
    try:
        parent, own = os.getppid(), _command(os.getpid())
        is_worker = multiprocessing.parent_process() is not None or _command(parent) == own
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text("ascii").split()
        return is_worker and sum(_command(int(child)) == own for child in children) > 1
    except OSError:
        return False


def _command(process: int) -> bytes:
    """The command line of a process; the numbers in it differ between workers."""
    return _DIGITS.sub(b"", Path(f"/proc/{process}/cmdline").read_bytes())
