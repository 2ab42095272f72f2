"""The native kernel beside Python: switch it off, and compare results."""

from collections.abc import Iterator
from contextlib import contextmanager

from sdcard import acceleration

FUNCTIONS = ("split", "read_jws", "read_sd_jwt", "read_key", "write", "queue")


class Difference(Exception):
    """The kernel and Python do not say the same."""


@contextmanager
def without_kernel() -> Iterator[None]:
    """Let every function decline, as without the package."""
    kept = {name: getattr(acceleration, name) for name in (*FUNCTIONS, "KERNEL")}
    for name in FUNCTIONS:
        setattr(acceleration, name, getattr(acceleration._Declining, name))
    acceleration.KERNEL = None
    try:
        yield
    finally:
        for name, function in kept.items():
            setattr(acceleration, name, function)


def same(kind: str, quick: object, slow: object) -> None:
    """Compare values, and how they are written: ``1``, ``1.0`` and ``True`` differ, and so do ``0.0`` and ``-0.0``."""
    if quick != slow or repr(quick) != repr(slow):
        raise Difference(f"{kind}: the kernel says {quick!r}, Python {slow!r}")
