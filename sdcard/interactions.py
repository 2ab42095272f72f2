"""Interaction ids (SD-Card 5.2.2): one shape in KB-JWTs, headers and tokens."""

import re
from typing import TypeGuard

MAX_INTERACTION = 128
"""Characters."""
INTERACTION_PATTERN = rf"[!-~]{{1,{MAX_INTERACTION}}}"
"""Visible ASCII characters, and no space."""

_INTERACTION = re.compile(INTERACTION_PATTERN)


def is_interaction_id(value: object) -> TypeGuard[str]:
    """Narrow a value to an interaction id that can be carried and recorded."""
    return isinstance(value, str) and _INTERACTION.fullmatch(value) is not None
