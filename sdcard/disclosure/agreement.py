"""``Agreement``: the claims that a partner may see, with start and end.

The *federation* context follows it.
"""

from dataclasses import dataclass, field

from sdcard.errors import Misuse
from sdcard.instants import Instant, check_instant

ISSUING_STEP = 7 * 86_400
"""The step, in seconds, on which SD-Cards of the default lifetime begin and end."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """An agreement with one partner.

    Attributes:
        partner: the partner's issuer URL or token subject; compared exactly.
        discloses: groups, claims and paths, read as those of a registration's list for *federation*.
        expires: Unix seconds; from then on the agreement is not in force.
        not_before: Unix seconds; from then on it is.
    """

    partner: str
    discloses: tuple[str, ...] = field(repr=False)
    expires: int
    not_before: int | None = None

    def __post_init__(self) -> None:
        times = (self.expires,) if self.not_before is None else (self.expires, self.not_before)
        if any(type(time) is not int for time in times):
            raise Misuse("an agreement's dates are whole Unix seconds")
        for time in times:
            check_instant(time)

    def is_in_force(self, now: Instant) -> bool:
        """Whether the agreement holds at this instant."""
        return (self.not_before is None or self.not_before <= now) and now < self.expires

    def last_end(self, step: int) -> int:
        """Return the last multiple of ``step`` seconds at which an SD-Card can end.

        It lies within this agreement. An exact end would name the partner to everyone who knows when its agreement
        ends.
        """
        return self.expires // step * step

    def decides(self, partner: "Partner") -> bool:
        """Whether this agreement holds for SD-Cards that are issued now.

        It is in force, and lasts to the end of a step.
        """
        named = self.partner == partner.name
        return named and self.is_in_force(partner.now) and partner.now < self.last_end(partner.step)

    def overlaps(self, other: "Agreement") -> bool:
        """Whether both are with one partner and hold at one instant."""
        starts = [one.not_before for one in (self, other) if one.not_before is not None]
        latest = max(starts, default=min(self.expires, other.expires) - 1)
        return self.partner == other.partner and latest < min(self.expires, other.expires)


@dataclass(frozen=True, slots=True)
class Partner:
    """The partner of an SD-Card of *federation*, and the instant of issuance.

    The instant decides which agreement holds.

    ``step``: all SD-Cards of the Issuer end on multiples of it, in seconds; see ``issuing_step``.
    """

    name: str
    now: Instant
    step: int = ISSUING_STEP

    def __post_init__(self) -> None:
        check_instant(self.now)
        if type(self.step) is not int or self.step < 1:
            raise Misuse("a step is a whole number of seconds, 1 or more")
