"""A card document in, a ``Card`` out. Knows no JWT."""
