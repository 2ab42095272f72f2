"""Frozen values of the registry's store.

No SQL, no HTTP.
"""
