"""A source of salts that breaks its contract."""

from sdcard.salts import SALT_BYTES


class BadSalts:
    """Gives ``spare`` bytes too many, or too few; or the same salts again after ``period`` of them."""

    def __init__(self, *, spare: int = 0, period: int = 0) -> None:
        self._spare, self._period, self._next = spare, period, 0

    def draw(self, count: int) -> bytes:
        numbers = range(self._next, self._next + count + 1)
        self._next += count
        salts = ((number % self._period if self._period else number).to_bytes(SALT_BYTES, "big") for number in numbers)
        return b"".join(salts)[: count * SALT_BYTES + self._spare]
