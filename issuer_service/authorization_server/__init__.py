"""JWT access tokens of an external authorization server, such as an identity provider (RFC 9068)."""
