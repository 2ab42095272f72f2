"""Time as an argument: instants are Unix seconds (NumericDate, RFC 7519 2); nothing in the core reads a clock."""

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from sdcard.errors import Misuse, Refused, Where
from sdcard.rules import Rule

Instant: TypeAlias = int | float
"""Seconds since 1970-01-01T00:00:00Z, without leap seconds; a fraction is allowed."""

_FAR = 2**53
MAX_PAST = 300
MAX_FUTURE = 60
MAX_SKEW = 60


class Clock(Protocol):
    """Says what time it is."""

    def now(self) -> Instant:
        """The present instant, in Unix seconds."""
        ...


def check_instant(value: object) -> Instant:
    """Give back an instant that a caller passed in, or raise ``Misuse``: a bool, NaN or text is no instant."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_FAR < value < _FAR:
        raise Misuse("an instant is a number of Unix seconds")
    return value


def parse_numeric_date(value: object, where: Where) -> Instant:
    """Read a NumericDate claim. A fraction is allowed; bool, text and null are not (RFC 7519 2).

    Raises:
        Refused: ``claim.type``.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Refused(Rule.CLAIM_TYPE, where, "A NumericDate is a JSON number.")
    return value


@dataclass(frozen=True, slots=True)
class FreshnessWindow:
    """How far, in seconds, the ``iat`` of a KB-JWT may lie in the past and in the future; both ends inclusive.

    SD-Card 7.1 sets the past bound. Both may be narrowed, never widened.
    """

    past: int = MAX_PAST
    future: int = MAX_FUTURE

    def __post_init__(self) -> None:
        if type(self.past) is not int or type(self.future) is not int:
            raise Misuse("a freshness window is in whole seconds")
        if not 0 <= self.past <= MAX_PAST or not 0 <= self.future <= MAX_FUTURE:
            raise Misuse(f"a freshness window reaches at most {MAX_PAST} s back and {MAX_FUTURE} s ahead")
