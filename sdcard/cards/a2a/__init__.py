"""A2A Agent Cards: one file a generation, and what the generations share."""
