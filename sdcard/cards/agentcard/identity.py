"""``agent_id``: a ULID, made of an instant and randomness that the caller brings.

AgentCard draft-00 2.1 and 8.2 (AEV-2, AEV-3).
"""

import re

from sdcard.cards.agentcard.values import Spelling, Taste
from sdcard.errors import Level, Misuse, foreign_code
from sdcard.instants import Instant, check_instant

RANDOM_BYTES = 10
_TIME_BYTES = 6

AGENT_ID = Spelling(
    re.compile("[0-9A-HJKMNP-TV-Z]{26}"),
    "Write a ULID: 26 digits and capital letters, without I, L, O and U.",
    (Taste(re.compile("[0-7].*"), "Make a real ULID: one that begins so is larger than 128 bits.", Level.WARNING),),
)
"""Its time is not compared with any clock: it says when the id was made, and a card is no less true for it."""


def new_agent_id(now: Instant, randomness: bytes) -> str:
    """A fresh ``agent_id``.

    Args:
        now: the present instant.
        randomness: 10 bytes from a cryptographically secure generator, used for nothing else. Ids that anyone can
            predict can be taken before their agent registers them.

    Raises:
        Misuse: for another number of bytes, or what is no instant. A ULID holds every instant.
    """
    milliseconds = int(check_instant(now) * 1000)
    if len(randomness) != RANDOM_BYTES:
        raise Misuse(f"an agent id takes {RANDOM_BYTES} random bytes")
    from ulid import ULID  # here, since few who read cards make ids

    with foreign_code(Misuse, "the library for ULIDs fails"):
        return str(ULID.from_bytes(milliseconds.to_bytes(_TIME_BYTES, "big") + randomness))
