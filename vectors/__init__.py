"""Test vectors for any implementation, and their generator.

The format is in ``docs/vectors.md``.
"""
