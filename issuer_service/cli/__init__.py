"""Commands that act on a registry's database or process. Entry points add them to ``sdcard``."""
