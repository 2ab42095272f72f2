"""The ``sdcard`` command: one file for each noun. Exit status: 0 yes, 1 refused, 2 misuse."""

import sys

EXIT_REFUSED = 1
EXIT_MISUSE = 2
EXIT_BUG = 70


def main() -> None:
    """Run the command line, or say what is missing."""
    try:
        from sdcard.cli.app import run
    except ModuleNotFoundError as missing:
        sys.stderr.write(f"The command line needs {missing.name}, which the extra `cli` of sdcard brings\n")
        raise SystemExit(EXIT_MISUSE) from None
    raise SystemExit(run())
