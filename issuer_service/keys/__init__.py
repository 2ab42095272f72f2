"""The registry's own keys: sealed in the database and rotated with overlap.

They may be in a PKCS#11 token.
"""
