"""Checkpoints that a running registry makes of its audit chain, and the way along the chain in its database."""
