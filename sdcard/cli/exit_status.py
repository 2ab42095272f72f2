"""Exit statuses of the ``sdcard`` command; 0 is yes."""

from typing import Final

EXIT_REFUSED: Final = 1
EXIT_MISUSE: Final = 2
EXIT_BUG: Final = 70
