"""Pairwise ids: names for an agent in one context or one SD-Card, which only the registry can resolve.

A pairwise id is ``pairwise.`` and a ULID. It has the form of an agent id, so every reader of ``sub`` takes it. No agent
is registered under such an id. The ULID alone is what card formats have in ``agent_id`` or ``id``.
"""

import re

from sdcard.errors import Misuse

PAIRWISE = "pairwise."
"""What every pairwise id begins with, and no agent's own id."""
CODE_BYTES = 16

_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_CODE_LENGTH = 26
_CODE = re.compile(f"[0-7][{_DIGITS}]{{25}}")


def pairwise_id(data: bytes) -> str:
    """Write 16 bytes as a pairwise id.

    Args:
        data: random, or a keyed hash: whoever can compute it can name the agent.

    Raises:
        Misuse: for another number of bytes.
    """
    if len(data) != CODE_BYTES:
        raise Misuse(f"a pairwise id takes {CODE_BYTES} bytes")
    number = int.from_bytes(data, "big")
    return PAIRWISE + "".join(_DIGITS[number >> 5 * place & 31] for place in reversed(range(_CODE_LENGTH)))


def is_pairwise(agent_id: str) -> bool:
    """Whether an id is kept for pairwise ids. Capitals do not matter, since people would take one for the other."""
    return agent_id[: len(PAIRWISE)].lower() == PAIRWISE


def shown_id(agent_id: str) -> str | None:
    """What a card says in place of its own id when its SD-Card has a pairwise id; None: the card's own id stays.

    Raises:
        Misuse: for what begins like a pairwise id and is none.
    """
    if not is_pairwise(agent_id):
        return None
    code = agent_id.removeprefix(PAIRWISE)
    if not _CODE.fullmatch(code):
        raise Misuse(f"an id that begins with {PAIRWISE} is one that `pairwise_id` made")
    return code
