"""The ``sdcard`` command: one file for each noun.

Exit status: 0 yes, 1 refused, 2 misuse, 70 a bug.

Commands that act on a registry's database or process are in ``issuer_service/cli``.
"""

import sys


def main() -> None:
    """Run the command line, or say what is missing."""
    try:
        from sdcard.cli.app import run
    except ModuleNotFoundError as missing:
        sys.stderr.write(f"The command line needs {missing.name}: install the extra `cli` of sdcard\n")
        raise SystemExit(2) from None
    raise SystemExit(run())
