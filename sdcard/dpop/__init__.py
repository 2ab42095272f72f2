"""DPoP (RFC 9449): proof that a client has the key of its access token."""
