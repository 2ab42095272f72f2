"""``Agreement``: the claims that a partner may see, and from when to when. The *federation* context goes by it."""

from dataclasses import dataclass, field

from sdcard.errors import Misuse
from sdcard.instants import Instant, check_instant


@dataclass(frozen=True, slots=True)
class Agreement:
    """What was agreed with one partner.

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

    def overlaps(self, other: "Agreement") -> bool:
        """Whether both are with one partner and hold at one instant."""
        starts = [one.not_before for one in (self, other) if one.not_before is not None]
        latest = max(starts, default=min(self.expires, other.expires) - 1)
        return self.partner == other.partner and latest < min(self.expires, other.expires)


@dataclass(frozen=True, slots=True)
class Partner:
    """For whom an SD-Card of the *federation* context is, and the instant that decides which agreement holds."""

    name: str
    now: Instant

    def __post_init__(self) -> None:
        check_instant(self.now)
