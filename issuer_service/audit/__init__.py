"""Checkpoints of a running registry's audit chain, and its verification."""
