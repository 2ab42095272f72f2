"""Disclosure policies: the parts of a card that each audience may see.

Imports no JWT code.
"""
