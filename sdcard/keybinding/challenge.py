"""Challenges of a Verifier, and its decision about key binding.

The decision is made before a presentation is read.

RFC 9901 7.3 step 1 and 9.5 (R-81): a type says which, so the decision cannot be left out.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from typing import Protocol, TypeAlias

from sdcard.encoding import encode_base64url
from sdcard.errors import Misuse, Part
from sdcard.instants import FreshnessWindow, Instant
from sdcard.jose.claims import MAX_NONCE_LENGTH
from sdcard.salts import SaltSource, draw_salts


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """The HTTP request that a challenge belongs to.

    Attributes:
        origin: the Verifier's own, as it is configured; never taken from a header.
        method: as the request has it.
        path: as the request has it, without the query.
    """

    origin: str
    method: str
    path: str


@dataclass(frozen=True, slots=True)
class Challenge:
    """A challenge to sign.

    Attributes:
        nonce: 1 to 256 characters, never used before.
        audience: the Verifier, compared exactly.
        window: how old the answer may be.
        interaction_id: the interaction that the answer belongs to, when there is one (SD-Card 5.2.2).
        target: the request that the answer comes with; only its Verifier knows, and needs, it.
    """

    nonce: str
    audience: str
    window: FreshnessWindow = field(default_factory=FreshnessWindow)
    interaction_id: str | None = None
    target: RequestTarget | None = None

    def __post_init__(self) -> None:
        _check_text("a nonce", self.nonce)
        if len(self.nonce) > MAX_NONCE_LENGTH:
            raise Misuse(f"a nonce has 1 to {MAX_NONCE_LENGTH} characters")
        _check_terms(self.audience, self.window, self.interaction_id)


def new_challenge(
    audience: str,
    salts: SaltSource,
    window: FreshnessWindow | None = None,
    interaction_id: str | None = None,
) -> Challenge:
    """Make a challenge with a fresh 128-bit nonce, for a Verifier or a Holder."""
    return Challenge(encode_base64url(draw_salts(salts, 1)), audience, window or FreshnessWindow(), interaction_id)


class ChallengeRecord(Protocol):
    """Recognizes the challenges of a Verifier, and remembers the answered ones."""

    def consume(self, challenge: Challenge, now: Instant) -> bool:
        """Mark the challenge as answered.

        True for exactly one caller, however many ask at once.

        Raises:
            Refused: ``kb.record-unavailable`` when the record cannot be reached.
        """
        ...


class AsyncChallengeRecord(Protocol):
    """A ``ChallengeRecord`` that is awaited."""

    async def consume(self, challenge: Challenge, now: Instant) -> bool:
        """Consume as ``ChallengeRecord.consume``."""
        ...


@dataclass(frozen=True, slots=True)
class NonceUse:
    """A use of a nonce that the Holder chose.

    Not the bytes: an ECDSA signature has two valid texts.

    Attributes:
        holder: thumbprint of the key that signed it.
        audience: whom it is for; of a DPoP proof the target URL.
        nonce: of a DPoP proof its ``jti``.
        part: what carried it. Nonces of different kinds never meet.
    """

    holder: str
    audience: str
    nonce: str
    part: Part = Part.KB_JWT


class ReplayRecord(Protocol):
    """Remembers nonces that Holders chose, while their answers could be fresh."""

    def first_use(self, use: NonceUse, until: Instant, now: Instant) -> bool:
        """Remember the use until ``until``, inclusive.

        True for exactly one caller, however many ask at once.

        Raises:
            Refused: ``kb.record-unavailable`` when the record is full or cannot be reached.
        """
        ...


class AsyncReplayRecord(Protocol):
    """A ``ReplayRecord`` that is awaited."""

    async def first_use(self, use: NonceUse, until: Instant, now: Instant) -> bool:
        """Record as ``ReplayRecord.first_use``."""
        ...


def is_awaited(method: Callable[..., object]) -> bool:
    """Whether a record is awaited: its method is written with ``async def``."""
    return iscoroutinefunction(method)


@dataclass(frozen=True, slots=True)
class Answering:
    """The Holder must answer this Challenge of the Verifier.

    ``issued`` lets it be answered once.
    """

    challenge: Challenge
    issued: ChallengeRecord | AsyncChallengeRecord

    @property
    def audience(self) -> str:
        """Return the expected audience."""
        return self.challenge.audience

    @property
    def window(self) -> FreshnessWindow:
        """Return the permitted age."""
        return self.challenge.window

    @property
    def interaction_id(self) -> str | None:
        """The interaction that the answer must belong to."""
        return self.challenge.interaction_id


@dataclass(frozen=True, slots=True)
class Unsolicited:
    """The Holder chose the nonce.

    ``seen`` remembers it for as long as the answer could stay fresh.

    A Verifier that also answers challenges does so under another audience: under the same one, an answer that another
    party overheard would count as unsolicited once.
    """

    audience: str
    seen: ReplayRecord | AsyncReplayRecord
    window: FreshnessWindow = field(default_factory=FreshnessWindow)
    interaction_id: str | None = None

    def __post_init__(self) -> None:
        _check_terms(self.audience, self.window, self.interaction_id)


@dataclass(frozen=True, slots=True)
class Unbound:
    """No KB-JWT is expected; one that arrives is refused (7.3 leaves this open).

    ``reason`` is in the result.
    """

    reason: str

    def __post_init__(self) -> None:
        _check_text("the reason why no key binding is expected", self.reason)


KeyBinding: TypeAlias = Answering | Unsolicited | Unbound


def has_awaited_record(key_binding: KeyBinding) -> bool:
    """Whether the decision's record is to be awaited."""
    match key_binding:
        case Answering():
            return is_awaited(key_binding.issued.consume)
        case Unsolicited():
            return is_awaited(key_binding.seen.first_use)
        case Unbound():
            return False


class ConsumedByCaller:
    """A ``ChallengeRecord`` for a caller that ensures single use, such as a person."""

    def consume(self, challenge: Challenge, now: Instant) -> bool:
        """Always true."""
        return True


def _check_terms(audience: object, window: object, interaction_id: object) -> None:
    _check_text("an audience", audience)
    if not isinstance(window, FreshnessWindow):
        raise Misuse("a window is a FreshnessWindow")
    if interaction_id is not None:
        _check_text("an interaction id", interaction_id)


def _check_text(what: str, value: object) -> None:
    """A text that can be written as JSON and is not blank."""
    if not isinstance(value, str) or not value.strip() or any("\ud800" <= c <= "\udfff" for c in value):
        raise Misuse(f"{what} is a text that is not blank")
