"""Sources of salts. Randomness is an argument: ``sdcard.io.system`` has a source."""

from collections.abc import Iterable
from typing import Protocol

from sdcard.encoding import cut, encode_alike_base64url
from sdcard.errors import Misuse

SALT_BYTES = 16
"""128 bits, as RFC 9901 9.3 recommends."""


class SaltSource(Protocol):
    """A source of fresh, independent, unpredictable bytes (RFC 9901 9.3, R-32).

    The source of the operating system has ``of_system = True``: then the kernel may draw, from its own generator.
    """

    def draw(self, count: int) -> bytes:
        """Draw ``count`` salts of ``SALT_BYTES`` bytes, concatenated."""


def draw_salts(source: SaltSource, count: int) -> bytes:
    """Draw salts, and check their number.

    Raises:
        Misuse: when the source returns another number of bytes.
    """
    drawn = source.draw(count)
    if len(drawn) != count * SALT_BYTES:
        raise Misuse(f"a salt source gives {SALT_BYTES} bytes for each salt")
    return drawn


class DrawnSalts:
    """A source that first gives again what was drawn from it, in the same calls."""

    def __init__(self, source: SaltSource, drawn: Iterable[bytes]) -> None:
        self._source, self._drawn = source, iter(drawn)

    def draw(self, count: int) -> bytes:
        """``count`` salts."""
        return next(self._drawn, None) or self._source.draw(count)


class SaltPool:
    """A pool that hands out each salt once, as base64url. It serves one SD-Card."""

    _FEW = 16

    def __init__(self, source: SaltSource) -> None:
        self._source = source
        self._waiting: list[str] = []
        self._drawn: set[str] = set()

    def take(self, count: int) -> list[str]:
        """Take salts that were not handed out before (R-17).

        After the first draw, the source is asked for at least 16 salts.

        Raises:
            Misuse: when the source repeats a salt, or returns another number of bytes.
        """
        lacking = count - len(self._waiting)
        if lacking > 0:
            asked, known = max(lacking, self._FEW) if self._drawn else lacking, len(self._drawn)
            fresh = encode_alike_base64url(cut(draw_salts(self._source, asked), SALT_BYTES, SALT_BYTES))
            self._drawn.update(fresh)
            if len(self._drawn) != known + asked:
                raise Misuse("the salt source repeats a salt")
            self._waiting += fresh
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return taken
