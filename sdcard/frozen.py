"""``frozen``: an immutable mapping that can be pickled and copied."""

import copyreg
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")


def frozen(mapping: Mapping[K, V]) -> MappingProxyType[K, V]:
    """A copy of a mapping that nobody can change. What is in it is not copied."""
    return MappingProxyType(dict(mapping))


def _reduced(mapping: MappingProxyType[K, V]) -> tuple[Callable[[Mapping[K, V]], MappingProxyType[K, V]], Any]:
    return frozen, (dict(mapping),)


copyreg.pickle(MappingProxyType, _reduced)  # the one type in our values that Python itself does not pickle
