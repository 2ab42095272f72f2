"""The registry's own keys: sealed in the database, rotated with overlap, perhaps in a PKCS#11 token."""
