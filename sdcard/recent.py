"""``Recent``: what was found lately, for those who ask for the same again; so much of it, and kept for speed alone."""

from collections import OrderedDict
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")


class Recent(Generic[T]):
    """So many values by text. Threads share it: each thing done with it is one call, which nothing interrupts."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[str, T] = OrderedDict()
        self.find = self._values.get
        self.forget = self._values.clear

    def keep(self, text: str, value: T) -> None:
        """Remember a value, in place of the one that was remembered longest ago."""
        self._values.pop(text, None)  # with its text, which may be another one of the same characters
        self._values[text] = value
        if len(self._values) > self._most:
            with suppress(KeyError):  # another thread forgot all of it in between
                self._values.popitem(last=False)
