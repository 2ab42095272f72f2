"""Linkability: the values that SD-Cards share, and which of them are avoidable."""
