"""Bounds on work, and the syntax of interaction ids."""

import re
from dataclasses import dataclass, fields
from typing import TypeGuard

from sdcard.errors import Misuse

# -- Limits on the work for untrusted input ---------------------------------------------------------------------------
# One value, so that every bound stands beside its reason.

DEEPEST = 128
"""Python's own bound on recursion ends the walk at some 250, and its callers need some of that."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper bounds, inclusive.

    All work is linear in what they bound. ``json_depth`` is at most 128.
    """

    presentation_bytes: int = 1_048_576
    """Everything else grows with it. The largest public agent cards have 60 kB and make SD-Cards of 200 kB."""
    card_bytes: int = 262_144
    """The same for a card document that is to be registered."""
    policy_bytes: int = 262_144
    """The same for a disclosure policy."""
    yaml_bytes: int = 65_536
    """The same for one in YAML, whose reader takes about a second for the worst text of this size."""
    json_depth: int = 64
    """Python recurses while it reads JSON, and so do we: far below the interpreter's limit, far above real cards."""
    disclosures: int = 4_096
    """Each costs a hash and a JSON reading."""
    digests: int = 65_536
    """Each costs a look-up and a place in memory; decoys count."""
    status_list_bytes: int = 1_048_576
    """Of a status list once it is inflated: a million statuses of any width."""

    def __post_init__(self) -> None:
        for field in fields(self):
            bound = getattr(self, field.name)
            if type(bound) is not int or bound < 0:
                raise Misuse(f"{field.name} is a whole number from 0 on")
        if self.json_depth > DEEPEST:
            raise Misuse(f"json_depth is at most {DEEPEST}")


DEFAULT_LIMITS = Limits()

MOST_CONTAINERS = 32_768
"""Arrays and objects in one text of JSON: each costs 60 bytes and more, and up to 0.8 µs, for two or three that arrive.

The same for everybody: of real cards those with the most have a few thousand, and an SD-JWT up to 8,192 beside them.
"""
BYTES_PER_CONTAINER = 24
"""Of a longer text than the default limits let in: as many more. One that holds a digest has 52 bytes."""

MOST_CARD_VALUES = 16_384
"""Values in one card: planning costs up to 20 µs for each. Of 100 public cards the largest has 586."""


# -- Interaction ids (SD-Card 5.2.2): one shape in KB-JWTs, headers and tokens ----------------------------------------

MAX_INTERACTION = 128
"""Characters."""
INTERACTION_PATTERN = rf"[!-~]{{1,{MAX_INTERACTION}}}"
"""Visible ASCII characters, and no space."""

_INTERACTION = re.compile(INTERACTION_PATTERN)


def is_interaction_id(value: object) -> TypeGuard[str]:
    """Narrow a value to an interaction id that can be carried and recorded."""
    return isinstance(value, str) and _INTERACTION.fullmatch(value) is not None
