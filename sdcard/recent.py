"""``Recent``: what was found lately, for those who ask again; bounded in bytes, and kept for speed alone."""

from collections import OrderedDict
from contextlib import suppress
from operator import itemgetter
from typing import Generic, TypeVar

T = TypeVar("T")
_size = itemgetter(1)


class Recent(Generic[T]):
    """So many values by text, and so many bytes of all together.

    Threads share it: each thing done with it is one call, which nothing interrupts.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._values: OrderedDict[str, tuple[T, int]] = OrderedDict()
        self.forget = self._values.clear

    def find(self, text: str) -> T | None:
        """The value of a text, if it is kept."""
        found = self._values.get(text)
        return found and found[0]

    def keep(self, text: str, value: T, size: int) -> None:
        """Remember a value of so many bytes, with its text; those remembered longest ago make room for it."""
        self._values.pop(text, None)  # with its text, which may be another one of the same characters
        if size > self._most_bytes:
            return
        self._values[text] = value, size
        while len(self._values) > self._most or sum(map(_size, self._values.values())) > self._most_bytes:
            with suppress(KeyError):  # another thread forgot all of it in between
                self._values.popitem(last=False)
