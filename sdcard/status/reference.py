"""The ``status`` claim of an SD-Card, and the Verifier's choice to check it or not (Token Status List 6 and 8.3)."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol, TypeAlias

from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.instants import Instant
from sdcard.rules import Rule

_WHERE = Where(Part.ISSUER_JWT, ("status",))


class StatusValue(IntEnum):
    """Statuses that an SD-Card can have (Token Status List 7.1); any other number is none of them."""

    VALID = 0
    INVALID = 1
    SUSPENDED = 2


@dataclass(frozen=True, slots=True)
class StatusReference:
    """Which entry of which list speaks for an SD-Card."""

    uri: str
    index: int

    def to_claim(self) -> JsonObject:
        """The value of the ``status`` claim."""
        return {"status_list": {"idx": self.index, "uri": self.uri}}


class StatusSource(Protocol):
    """Knows the statuses of Referenced Tokens. Asked only when nothing else speaks against the SD-Card (TSL-10)."""

    def status(self, reference: StatusReference, now: Instant) -> int:
        """The value of the entry at this instant.

        Raises:
            Refused: ``status.unavailable`` when it cannot be known.
        """
        ...


@dataclass(frozen=True, slots=True)
class Checked:
    """The status, where the SD-Card has one, is asked from ``source``; no answer refuses."""

    source: StatusSource


@dataclass(frozen=True, slots=True)
class Unchecked:
    """The status is not looked at; ``reason`` says why, in the result."""

    reason: str

    def __post_init__(self) -> None:
        if not isinstance(self.reason, str) or not self.reason.strip():
            raise Misuse("say why the status is not checked")


Status: TypeAlias = Checked | Unchecked


def parse_status(value: JsonValue) -> StatusReference:
    """``status`` claim → reference (TSL-9).

    Raises:
        Refused: ``status.malformed``; a mechanism other than a status list cannot be checked.
    """
    match value:
        case {"status_list": {"uri": str(uri), "idx": int(index)}} if uri and index >= 0 and type(index) is int:
            return StatusReference(uri, index)
    raise Refused(Rule.STATUS_MALFORMED, _WHERE)


def check_status(claims: JsonObject, status: Status, now: Instant) -> None:
    """Refuse a revoked or suspended SD-Card, and one whose status cannot be known (VC-15, TSL-13, TSL-14).

    An SD-Card without a ``status`` claim has none: its Issuer gave it a lifetime only.

    Args:
        claims: the Processed SD-JWT Payload.
        status: the Verifier's decision.
        now: the present instant.

    Raises:
        Refused: ``status.malformed``, ``status.revoked``, ``status.suspended`` or ``status.unavailable``.
    """
    if isinstance(status, Unchecked) or "status" not in claims:
        return
    value = status.source.status(parse_status(claims["status"]), now)
    if value == StatusValue.INVALID:
        raise Refused(Rule.STATUS_REVOKED, _WHERE)
    if value == StatusValue.SUSPENDED:
        raise Refused(Rule.STATUS_SUSPENDED, _WHERE)
    if value != StatusValue.VALID or isinstance(value, bool) or not isinstance(value, int):
        raise Refused(Rule.STATUS_UNAVAILABLE, _WHERE, "The status has a value without a known meaning.")
