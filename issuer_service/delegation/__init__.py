"""Delegation (RFC 8693): narrower tokens for the next agent, and approvals."""
