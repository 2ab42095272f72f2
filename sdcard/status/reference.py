"""The ``status`` claim, and the Verifier's decision to check it.

Token Status List 6 and 8.3.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol, TypeAlias

from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.instants import Instant
from sdcard.rules import Rule

_WHERE = Where(Part.ISSUER_JWT, ("status",))


class StatusValue(IntEnum):
    """Statuses of an SD-Card (Token Status List 7.1); no other number is one."""

    VALID = 0
    INVALID = 1
    SUSPENDED = 2


@dataclass(frozen=True, slots=True)
class StatusReference:
    """Reference to the status list entry of an SD-Card.

    Raises:
        Misuse: when no list has this address or this entry.
    """

    uri: str
    index: int

    def __post_init__(self) -> None:
        if not self.uri or self.index < 0:
            raise Misuse("a status has the address of its list, and an index from 0 on")

    def to_claim(self) -> JsonObject:
        """The value of the ``status`` claim."""
        return {"status_list": {"idx": self.index, "uri": self.uri}}


class StatusSource(Protocol):
    """Knows the statuses of Referenced Tokens.

    Asked only when nothing else speaks against the SD-Card (TSL-10).
    """

    def status(self, reference: StatusReference, issuer: str, now: Instant) -> int:
        """The value of the entry at this instant.

        Args:
            reference: of the SD-Card.
            issuer: who issued the SD-Card: nobody else's status list speaks for it.
            now: the present instant.

        Raises:
            Refused: ``status.unavailable`` when it cannot be known.
        """
        ...


class AsyncStatusSource(Protocol):
    """A ``StatusSource`` that is awaited."""

    async def status(self, reference: StatusReference, issuer: str, now: Instant) -> int:
        """Look up as ``StatusSource.status``."""
        ...


@dataclass(frozen=True, slots=True)
class Checked:
    """Ask ``source`` for the status, where the SD-Card has one; no answer refuses."""

    source: StatusSource


@dataclass(frozen=True, slots=True)
class CheckedAsync:
    """``Checked`` with an awaited source: for ``verify_presentation_async`` alone."""

    source: AsyncStatusSource


@dataclass(frozen=True, slots=True)
class Unchecked:
    """The status is not looked at; ``reason`` says why, in the result."""

    reason: str

    def __post_init__(self) -> None:
        if not isinstance(self.reason, str) or not self.reason.strip():
            raise Misuse("say why the status is not checked")


Status: TypeAlias = Checked | CheckedAsync | Unchecked


@dataclass(frozen=True, slots=True)
class _NoSource:
    """Placeholder in a result for the Verifier's status source. It answers nothing."""

    def status(self, reference: StatusReference, issuer: str, now: Instant) -> int:
        raise Refused(Rule.STATUS_UNAVAILABLE, _WHERE, "A result keeps no status source; ask your own.")


@dataclass(frozen=True, slots=True)
class _NoAsyncSource:
    async def status(self, reference: StatusReference, issuer: str, now: Instant) -> int:
        return _NoSource().status(reference, issuer, now)


def without_source(status: Status) -> Status:
    """Describe the decision in a result.

    A source is no value that can be compared, or sent to another process.
    """
    match status:
        case Checked():
            return Checked(_NoSource())
        case CheckedAsync():
            return CheckedAsync(_NoAsyncSource())
    return status


def parse_status(value: JsonValue) -> StatusReference:
    """``status`` claim → reference (TSL-9).

    Raises:
        Refused: ``status.malformed``; a mechanism other than a status list cannot be checked.
    """
    match value:
        case {"status_list": {"uri": str(uri), "idx": int(index)}} if uri and index >= 0 and type(index) is int:
            return StatusReference(uri, index)
    raise Refused(Rule.STATUS_MALFORMED, _WHERE)


def check_status_value(value: object) -> None:
    """Refuse every answer except VALID (TSL-13, TSL-14).

    Raises:
        Refused: ``status.revoked``, ``status.suspended`` or ``status.unavailable``.
    """
    if value == StatusValue.INVALID:
        raise Refused(Rule.STATUS_REVOKED, _WHERE)
    if value == StatusValue.SUSPENDED:
        raise Refused(Rule.STATUS_SUSPENDED, _WHERE)
    if value != StatusValue.VALID or isinstance(value, bool) or not isinstance(value, int):
        raise Refused(Rule.STATUS_UNAVAILABLE, _WHERE, "The status has a value without a known meaning.")
