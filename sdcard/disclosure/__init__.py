"""Disclosure policies: which audience may see which part of a card. Imports no JWT code."""
