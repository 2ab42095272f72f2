"""``Store``: what the registry asks of its memory, and the frozen values that go in and out. No SQL, no HTTP."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from sdcard.errors import Where


class AuditEvent(StrEnum):
    """What can have happened. A closed set; ids are never reused."""

    AGENT_REGISTERED = "agent.registered"


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A bearer token as it is kept: by its digest, never its text.

    Attributes:
        digest: SHA-256 of the text, in hexadecimal.
        subject: who acts.
        scopes: what the token is for.
        limits: kind of limit → what is permitted; a kind that is absent is not limited.
        created_at, expires_at: Unix seconds; the end is exclusive.
    """

    digest: str
    subject: str
    scopes: tuple[str, ...]
    limits: Mapping[str, tuple[str, ...]]
    created_at: int
    expires_at: int


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A Holder key, by its thumbprint; ``where`` is its place in the request, for refusals."""

    thumbprint: str
    where: Where


@dataclass(frozen=True, slots=True)
class CardRow:
    """An issued SD-Card: what identifies it, never its text. ``digest`` is SHA-256 of its Issuer-signed JWT."""

    digest: str
    context: str
    thumbprint: str
    expires_at: int


@dataclass(frozen=True, slots=True)
class RegistrationRow:
    """Everything that one registration writes, all of it or nothing.

    Attributes:
        at: Unix seconds.
        subject: who registers; the owner of a new agent.
        agent_id: the agent.
        card_format, card: the agent's card document, as JSON text; it takes the place of an earlier one.
        keys: Holder keys, which from now on belong to this agent alone.
        batch_id: names what was issued together.
        cards: what was issued.
        disclosed: for the audit record: context, and after a space the partner where an agreement decided → the claims
            that its SD-Cards can show, as paths.
    """

    at: int
    subject: str
    agent_id: str
    card_format: str
    card: str = field(repr=False)
    keys: tuple[KeyRow, ...]
    batch_id: str
    cards: tuple[CardRow, ...]
    disclosed: Mapping[str, tuple[str, ...]]


class Store(Protocol):
    """The registry's memory. Every method may raise ``Refused`` with ``store.unavailable``; then nothing changed."""

    async def add_token(self, token: TokenRow) -> None:
        """Remember a token."""
        ...

    async def find_token(self, digest: str) -> TokenRow | None:
        """The token of this digest."""
        ...

    async def record_registration(self, registration: RegistrationRow) -> None:
        """Write a registration in one transaction, if agent and keys are the subject's and the agent's to have.

        Raises:
            Refused: ``agent.taken``, or ``key.bound-elsewhere`` at each such key.
        """
        ...

    async def ping(self) -> None:
        """Make sure that the memory answers."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
