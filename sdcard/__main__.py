"""``python -m sdcard``: the command line."""

from sdcard.cli import main

main()
