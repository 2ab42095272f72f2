"""Work in calls of functions, in Python and in C, where a test must not measure time."""

import sys
from collections.abc import Callable
from types import FrameType


def steps(action: Callable[[], object]) -> int:
    """Calls that an action makes; resuming a generator counts as one. The same on every machine and under any load."""
    count = 0

    def counting(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counting)
    try:
        action()
    finally:
        sys.setprofile(before)
    return count
