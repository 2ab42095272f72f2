"""DPoP (RFC 9449): proof that a client has the key that its access token is bound to."""
