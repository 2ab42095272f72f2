"""Delegation as pure rules (RFC 8693): chains, limits, and delegated tokens."""
