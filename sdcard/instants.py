"""Instants as arguments: Unix seconds (NumericDate, RFC 7519 2).

The core never reads a clock.
"""

import calendar
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
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


# -- Refreshes of fetched keys -----------------------------------------------------------------------------------------

FRESH_SECONDS = 600
"""Fetched keys are used for at most so long without a refresh; a withdrawn key lives no longer."""
USABLE_SECONDS = 3_600
"""Keys are used for so long while refreshes fail."""
PAUSE_SECONDS = 60
"""Between two refreshes after a failure, or after a refresh without the wanted key; and at least between all others."""

_SECONDS = re.compile("[0-9]{1,9}", re.ASCII)
_MAX_AGE = re.compile('max-age="?([0-9]{1,9})"?', re.ASCII)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Times of past refreshes of a key set, in Unix seconds; None for none.

    Senders choose the ``kid``, so unknown keys cause few refreshes.

    Attributes:
        fetched: the last successful refresh.
        failed: the last refresh, if it failed.
        missed: the last successful refresh without the wanted key.
        fresh: seconds after which fetched keys are old.
    """

    fetched: Instant | None = None
    failed: Instant | None = None
    missed: Instant | None = None
    fresh: int = FRESH_SECONDS

    def is_due(self, known: bool, now: Instant) -> bool:
        """Whether to refresh, for a key that is known or not."""
        if _within(self.failed, PAUSE_SECONDS, now):
            return False
        return not _within(self.fetched, self.fresh, now) or not (known or _within(self.missed, PAUSE_SECONDS, now))

    def is_usable(self, now: Instant) -> bool:
        """Whether the last fetched keys may still be used."""
        return _within(self.fetched, USABLE_SECONDS, now)

    def after_success(self, found: bool, now: Instant, max_age: int | None = None) -> "Schedule":
        """Return the schedule after a successful refresh.

        Args:
            found: whether the wanted key was in it.
            max_age: how long the sender says that it is fresh.
        """
        fresh = FRESH_SECONDS if max_age is None else min(max(max_age, PAUSE_SECONDS), FRESH_SECONDS)
        return Schedule(now, None, self.missed if found else now, fresh)

    def after_failure(self, now: Instant) -> "Schedule":
        """Return the schedule after a failed refresh."""
        return replace(self, failed=now)


def parse_max_age(cache_control: str, age: str = "") -> int | None:
    """Return for how many more seconds a response is fresh (RFC 9111 4.2).

    None if it does not say.

    Args:
        cache_control: the header ``Cache-Control``. A response that is not to be cached is fresh for no time.
        age: the header ``Age`` of a shared cache.
    """
    directives = [one.strip().lower() for one in cache_control.split(",")]
    if not {"no-store", "no-cache"}.isdisjoint(directives):
        return 0
    found = [match[1] for one in directives if (match := _MAX_AGE.fullmatch(one))]
    passed = int(age) if _SECONDS.fullmatch(age) else 0
    return max(0, min(map(int, found)) - passed) if found else None


def _within(since: Instant | None, seconds: int, now: Instant) -> bool:
    return since is not None and Lifetime(since, since + seconds).covers(now)
