"""The machine's clock and random numbers."""

import time

from sdcard.io.system import SystemClock, SystemSalts


def test_the_clock_tells_unix_seconds() -> None:
    before = time.time()
    assert before <= SystemClock().now() <= time.time()


def test_salts_are_long_enough_and_never_the_same() -> None:
    drawn = SystemSalts().draw(1_000)
    assert len(drawn) == 16_000
    assert len({drawn[start : start + 16] for start in range(0, 16_000, 16)}) == 1_000
    assert SystemSalts().draw(2) != SystemSalts().draw(2)
