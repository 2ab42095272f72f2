"""Pairwise ids: names of an agent that only the registry can resolve.

Each is for one context or one SD-Card. A pairwise id is ``pairwise.`` and a ULID, so it has the form of an agent id,
and every reader of ``sub`` accepts it. No agent is registered under such an id. Card formats have the ULID alone in
``agent_id`` or ``id``.
"""

import re

from sdcard.errors import Misuse

PAIRWISE = "pairwise."
"""Prefix of every pairwise id, and of no agent's own id."""
CODE_BYTES = 16

_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_CODE_LENGTH = 26
_CODE = re.compile(f"[0-7][{_DIGITS}]{{25}}")


def pairwise_id(data: bytes) -> str:
    """Encode 16 bytes as a pairwise id.

    Args:
        data: random, or a keyed hash. A party that can compute them can identify the agent.

    Raises:
        Misuse: for another number of bytes.
    """
    if len(data) != CODE_BYTES:
        raise Misuse(f"a pairwise id takes {CODE_BYTES} bytes")
    number = int.from_bytes(data, "big")
    return PAIRWISE + "".join(_DIGITS[number >> 5 * place & 31] for place in reversed(range(_CODE_LENGTH)))


def is_reserved(agent_id: str) -> bool:
    """Whether an id looks like a pairwise id, to people or without regard to case."""
    return agent_id[: len(PAIRWISE)].lower() == PAIRWISE


def code_of(agent_id: str) -> str | None:
    """Return the ULID of a pairwise id; None for other ids."""
    code = agent_id.removeprefix(PAIRWISE)
    return code if code != agent_id and _CODE.fullmatch(code) else None
