"""Signatures and keys (RFC 7515, 7517, 7518, 7638, 8037, 9964)."""
