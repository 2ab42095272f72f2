"""Where salts come from. Randomness is an argument; the operating system's generator is in ``edge/system.py``."""

from typing import Protocol

from sdcard.errors import Misuse

SALT_BYTES = 16
"""128 bits, as RFC 9901 9.3 recommends."""


class SaltSource(Protocol):
    """Gives fresh, independent, unpredictable bytes (RFC 9901 9.3, R-32)."""

    def draw(self, count: int) -> bytes:
        """``count`` salts of ``SALT_BYTES`` bytes, one after another."""
        ...


def draw_salts(source: SaltSource, count: int) -> bytes:
    """Ask for salts, and do not work with fewer bytes than were asked for.

    Raises:
        Misuse: when the source gives another number of bytes.
    """
    drawn = source.draw(count)
    if len(drawn) != count * SALT_BYTES:
        raise Misuse(f"a salt source gives {SALT_BYTES} bytes for each salt")
    return drawn


class SaltPool:
    """Hands out single salts and asks the source for many at a time. One pool serves one SD-Card, then is dropped."""

    _FIRST = 16
    _MORE = 64

    def __init__(self, source: SaltSource) -> None:
        self._source = source
        self._waiting: list[bytes] = []
        self._taken: set[bytes] = set()

    def take(self) -> bytes:
        """One salt that nobody else gets (R-17).

        Raises:
            Misuse: when the source gives one for the second time, or another number of bytes.
        """
        if not self._waiting:
            drawn = draw_salts(self._source, self._MORE if self._taken else self._FIRST)
            self._waiting = [drawn[start : start + SALT_BYTES] for start in range(0, len(drawn), SALT_BYTES)][::-1]
        salt = self._waiting.pop()
        if salt in self._taken:
            raise Misuse("the salt source repeats itself")
        self._taken.add(salt)
        return salt
