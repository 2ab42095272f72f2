"""Delegation (RFC 8693): a narrower token for the next agent, and the person who approves it."""
