"""Delegation as pure rules (RFC 8693): who acts for whom, what may be handed on, and what a delegated token says."""
