"""The audit chain of a registry: records, the way along them, checkpoints.

Anybody can verify an export with it.
"""
