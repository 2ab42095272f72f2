"""DPoP (RFC 9449): proof that whoever sends a request has the key that its access token is bound to. Knows no card."""
