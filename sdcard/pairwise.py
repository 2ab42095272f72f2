"""Pairwise ids: names for an agent that only the registry can resolve.

Each is for one context or one SD-Card.

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
        data: random, or a keyed hash. Nobody else may be able to compute them: they would name the agent.

    Raises:
        Misuse: for another number of bytes.
    """
    if len(data) != CODE_BYTES:
        raise Misuse(f"a pairwise id takes {CODE_BYTES} bytes")
    number = int.from_bytes(data, "big")
    return PAIRWISE + "".join(_DIGITS[number >> 5 * place & 31] for place in reversed(range(_CODE_LENGTH)))


def is_reserved(agent_id: str) -> bool:
    """Whether an id is reserved, because it could be taken for a pairwise one.

    People, or a reader that ignores capitals, could do so.
    """
    return agent_id[: len(PAIRWISE)].lower() == PAIRWISE


def code_of(agent_id: str) -> str | None:
    """The ULID in a pairwise id; None for any other id."""
    code = agent_id.removeprefix(PAIRWISE)
    return code if code != agent_id and _CODE.fullmatch(code) else None
