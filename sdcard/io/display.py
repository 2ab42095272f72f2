"""Display of foreign text and of instants, in a terminal or on a page.

Every text of a card is untrusted.
"""

import unicodedata
from datetime import UTC, datetime

from sdcard.instants import Instant

_UNSEEN = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
"""Unicode categories of invisible characters and line ends."""


def printable(text: str) -> str:
    """Escape control, format and bidirectional characters, and line ends."""
    return "".join(f"\\u{ord(c):04x}" if unicodedata.category(c) in _UNSEEN else c for c in text)


def show_instant(instant: Instant) -> str:
    """Write an instant for people."""
    try:
        return datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return "in the distant past" if instant < 0 else "in the distant future"
