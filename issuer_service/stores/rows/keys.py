"""The registry's own keys in its memory."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class KeyUse(StrEnum):
    """Exclusive use of a key of the registry. A closed set; ids are never reused."""

    CARDS = "cards"
    STATUS = "status"
    TOKENS = "tokens"
    AUDIT = "audit"


class KeyState(StrEnum):
    """State of a key of the registry, which changes in one direction."""

    NEXT = "next"
    ACTIVE = "active"
    RETIRED = "retired"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class RegistryKeyRow:
    """A key of the registry.

    Attributes:
        kid: its thumbprint.
        use: what it signs.
        public_jwk: its public half, as it is published.
        sealed: the private half, or where it is, encrypted; bound to ``kid``, ``use`` and algorithm. Empty: removed.
        state: where it is in its life.
        created_at, activated_at, retired_at: Unix seconds; None: not yet.
        not_before: from when on Verifiers can be expected to know it.
        signs_until: from when on nothing that it signed counts; exclusive. None: never.
    """

    kid: str
    use: KeyUse
    public_jwk: Mapping[str, str]
    sealed: str = field(repr=False)
    state: KeyState
    created_at: int
    not_before: int
    activated_at: int | None = None
    retired_at: int | None = None
    signs_until: int | None = 0


KeyChange = tuple[RegistryKeyRow, RegistryKeyRow]
"""What a key is, and what it shall be."""


class KeyNotInUse(Exception):
    """The signing key has been retired or removed meanwhile: sign again.

    Use the key that took its place.
    """


class KeysChanged(Exception):
    """Another process changed the registry's keys, or has this key: retry."""
