"""SD-JWT (RFC 9901): model, issuance and verification. It knows no card."""
