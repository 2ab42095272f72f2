"""Commands that act on a registry's database or process.

Entry points join them to the command ``sdcard``.
"""
