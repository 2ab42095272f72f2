"""A2A card signatures: JWS over a canonical form of the card.

The package defines what is signed, verifies signatures and creates them.
"""
