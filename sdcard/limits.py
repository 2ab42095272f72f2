"""Bounds on the work for untrusted input."""

from dataclasses import dataclass, fields

from sdcard.errors import Misuse

DEEPEST = 128
"""Python's recursion limit stops the walk at about 250 levels, and its callers need some of these."""

MOST_RESULTS = 100
"""Agents on a page of discovery."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper bounds, inclusive. All work is linear in them."""

    presentation_bytes: int = 1_048_576
    """The largest public agent cards have 60 kB and make SD-Cards of 200 kB."""
    card_bytes: int = 262_144
    """Of a card document that is to be registered."""
    policy_bytes: int = 262_144
    """Of a disclosure policy."""
    yaml_bytes: int = 65_536
    """Of a policy in YAML. The worst text of this size takes the parser about a second."""
    json_depth: int = 64
    """Python recurses while it parses JSON. Real cards are far less deep."""
    disclosures: int = 4_096
    """Each costs a hash and a JSON parse."""
    digests: int = 65_536
    """Each costs a look-up and memory, decoys included."""
    status_list_bytes: int = 1_048_576
    """Of an inflated status list: a million statuses of one byte."""

    def __post_init__(self) -> None:
        for field in fields(self):
            bound = getattr(self, field.name)
            if type(bound) is not int or bound < 0:
                raise Misuse(f"{field.name} is a whole number from 0 on")
        if self.json_depth > DEEPEST:
            raise Misuse(f"json_depth is at most {DEEPEST}")


DEFAULT_LIMITS = Limits()

MOST_CONTAINERS = 32_768
"""Arrays and objects in one JSON text. Each costs at least 60 bytes and up to 0.8 µs, for two or three bytes of input.

Real cards have at most a few thousand, and an SD-JWT up to 8,192 more.
"""
BYTES_PER_CONTAINER = 24
"""A text above the default limits may have one container for so many bytes. A container with a digest has 52 bytes."""

MOST_CARD_VALUES = 16_384
"""Values in one card. Planning costs up to 20 µs for each. The largest of 100 public cards has 586."""
