"""A2A card signatures (JWS over a canonical form of the card): what is signed, verifying, creating."""
