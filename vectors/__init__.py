"""Vectors that any implementation can use, and what generates them. The format is in ``docs/vectors.md``."""
