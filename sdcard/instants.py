"""Instants as arguments: Unix seconds (NumericDate, RFC 7519 2).

The core never reads a clock.
"""

import calendar
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeGuard

from sdcard.errors import Misuse, Refused, Where
from sdcard.rules import Rule

Instant: TypeAlias = int | float
"""Seconds since 1970-01-01T00:00:00Z, without leap seconds; a fraction is allowed."""

MAX_INSTANT = 253_402_300_799
"""The last second of the year 9999, the latest that RFC 3339 can express. The first instant is 0."""
_END = MAX_INSTANT + 1
MAX_PAST = 300
MAX_FUTURE = 60
MAX_SKEW = 60


class Clock(Protocol):
    """A source of the present instant."""

    def now(self) -> Instant:
        """The present instant, in Unix seconds."""
        ...


def is_instant(value: object) -> TypeGuard[Instant]:
    """Narrow a value to a number of Unix seconds in the years 1970 to 9999."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < _END


def check_instant(value: object) -> Instant:
    """Return an instant that a caller passed.

    Raises:
        Misuse: for another value, such as a bool or NaN.
    """
    if type(value) is float and 0 <= value < _END:
        return value
    if not is_instant(value):
        raise Misuse("an instant is a number of Unix seconds, from 1970 to 9999")
    return value


def parse_numeric_date(value: object, where: Where) -> Instant:
    """Parse a NumericDate of a signed document or trust list (RFC 7519 2).

    A fraction is allowed. The years are 1970 to 9999: databases, calendars and doubles represent every second of them.

    Raises:
        Refused: ``claim.type``; ``claim.value`` for other years.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Refused(Rule.CLAIM_TYPE, where, "A NumericDate is a JSON number.")
    if not is_instant(value):
        raise Refused(Rule.CLAIM_VALUE, where, "A NumericDate is within the years 1970 to 9999.")
    return value


def read_numeric_date(claims: Mapping[str, object], name: str, where: Where) -> Instant:
    """Read a claim as ``parse_numeric_date``.

    Raises:
        Refused: ``claim.type`` or ``claim.value``, at ``where/name``.
    """
    value = claims.get(name)
    return value if type(value) is int and 0 <= value < _END else parse_numeric_date(value, where.within(name))


_RFC_3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(\.[0-9]+)?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)


def parse_rfc3339(text: str) -> Instant | None:
    """Parse ``2026-01-31T12:00:00Z`` to Unix seconds; None for other texts.

    An offset is required. Leap seconds are not accepted.
    """
    match = _RFC_3339.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction, sign, *offset = match.groups()[6:]
    hours, minutes = (int(part or 0) for part in offset)
    if not (year and 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1]):
        return None
    if max(hour, hours) > 23 or max(minute, second, minutes) > 59:
        return None
    east = (-1 if sign == "-" else 1) * (3600 * hours + 60 * minutes)
    whole = calendar.timegm((year, month, day, hour, minute, second)) - east
    return whole + float(fraction) if fraction else whole


@dataclass(frozen=True, slots=True)
class Lifetime:
    """Lifetime of a cached value, with an exclusive end.

    It has a begin too, because the clock may have been ahead: a value from the future is not used now.
    """

    made_at: Instant
    ends_at: Instant

    def covers(self, now: Instant, skew: int | float = 0) -> bool:
        """Whether the value may be used; ``made_at`` may be ``skew`` seconds ahead."""
        return self.made_at <= now + skew and now < self.ends_at


@dataclass(frozen=True, slots=True)
class FreshnessWindow:
    """Permitted age of ``iat`` of a KB-JWT in seconds, past and future, inclusive.

    SD-Card 7.1 sets the past bound. Both may be smaller than the default, never larger.
    """

    past: int = MAX_PAST
    future: int = MAX_FUTURE

    def __post_init__(self) -> None:
        if type(self.past) is not int or type(self.future) is not int:
            raise Misuse("a freshness window is in whole seconds")
        if not 0 <= self.past <= MAX_PAST or not 0 <= self.future <= MAX_FUTURE:
            raise Misuse(f"a freshness window reaches at most {MAX_PAST} s back and {MAX_FUTURE} s ahead")
