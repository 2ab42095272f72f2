"""Commands on a registry's database or process, which join ``sdcard``."""
