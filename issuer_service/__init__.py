"""The registry: translates between HTTP and ``sdcard``, and remembers.

A thin shell; every decision is in the core.
"""
