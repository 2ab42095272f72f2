"""OAuth 2.0 as a resource server needs it: JWT access tokens (RFC 9068).

Knows no card, and no registry.
"""
